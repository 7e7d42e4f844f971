// A cell that has stopped may be far from where the page stands: after Run All it stands at the
// last cell. So a run that stopped for a person says so over the page, until its panel was seen; and
// so does one whose kernel is gone while it was at work.

const LOOKED_MS = 1000; // between two looks at whether it has to
const SETTLED_MS = 800; // after a stop, until its panel has found its place
const GOES_ON = "Run all cells: it goes on from what is on record, and asks about what may have happened.";
const notices = new Map(); // one a panel, whatever number of views it has

class Notice {
  constructor(model) {
    this.model = model;
    this.views = new Map(); // the head of a view -> what brings the page there
    this.visible = new Set();
    this.closed = false; // the last view was: of a notebook that was closed nothing is said
    this.seen = new Set([0]); // the stops whose panel was seen, or whose notice was put away
    this.stop = this.at = 0;
    this.text = make("span");
    this.show = button("Show", "dnb-notice-show", () => this.go());
    const close = button("×", "dnb-notice-close", () => this.done());
    close.setAttribute("aria-label", "close");
    this.root = make("div", "dnb-notice", this.text, this.show, close);
    this.root.setAttribute("role", "alert");
    this.watching = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries)
        this.visible[isIntersecting ? "add" : "delete"](target);
    });
    this.timer = setInterval(() => this.look(), LOOKED_MS);
    notices.set(model.get("stopped").panel, this);
  }

  // Give the one of a view, whose model is another object than the one that was here first.
  static of(model) {
    return notices.get(model.get("stopped").panel);
  }

  add(head, go) {
    this.views.set(head, go);
    this.closed = false;
    this.watching.observe(head);
  }

  remove(head) {
    this.views.delete(head);
    this.closed = !this.views.size;
    this.visible.delete(head);
    this.watching.unobserve(head);
  }

  look() {
    const heads = [...this.views.keys()];
    const gone = heads.length > 0 && heads.every(isCutOff);
    if (!gone) this.seen.delete("gone");
    const stop = gone ? "gone" : this.model.get("stopped").count;
    if (this.stop !== stop) [this.stop, this.at] = [stop, performance.now()];
    const says = gone ? this.cutOff() : this.asked();
    if (this.closed || !says || this.seen.has(stop)) return this.root.remove();
    if (this.visible.size) return this.done();
    if (performance.now() - this.at < SETTLED_MS) return undefined;
    const { notebook } = this.model.get("stopped");
    put(this.text, `run ${this.model.get("header").run}${notebook ? ` in ${notebook}` : ""} ${says}`);
    this.show.hidden = !heads.some((head) => head.offsetParent);
    if (!this.root.isConnected) document.body.append(this.root);
    return undefined;
  }

  // What a run asks that stopped for a person; "" if it does not.
  asked() {
    const { asks = [] } = this.model.get("header");
    return asks.length ? `has stopped: ${asks[0][1]}${asks.length > 1 ? ", and more" : ""}` : "";
  }

  // What was under way in a kernel that is gone; "" if nothing was: it may have been ended on purpose.
  cutOff() {
    const { current } = this.model.get("header");
    return current ? `has lost its kernel while ${current.id} was under way. ${GOES_ON}` : "";
  }

  go() {
    const here = [...this.views].filter(([head]) => head.offsetParent);
    here.at(-1)?.[1]();
    this.done();
  }

  done() {
    this.seen.add(this.stop);
    this.root.remove();
  }

  close() {
    clearInterval(this.timer);
    this.watching.disconnect();
    notices.delete(this.model.get("stopped").panel);
    this.root.remove();
  }
}
