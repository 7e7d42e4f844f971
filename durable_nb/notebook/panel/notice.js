// A cell that has stopped may be far from where the page stands: after Run All it stands at the
// last cell. So a run that stopped for a person says so over the page, until its panel was seen.

const LOOKED_MS = 1000; // between two looks at whether it has to
const SETTLED_MS = 800; // after a stop, until its panel has found its place
const notices = new Map(); // one a panel, whatever number of views it has

class Notice {
  constructor(model) {
    this.model = model;
    this.views = new Map(); // the head of a view -> what brings the page there
    this.visible = new Set();
    this.closed = false; // the last view was: of a notebook that was closed nothing is said
    this.seen = 0; // the last stop whose panel was seen, or whose notice was put away
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
    const { count, notebook } = this.model.get("stopped");
    const { run, asks = [] } = this.model.get("header");
    if (this.stop !== count) [this.stop, this.at] = [count, performance.now()];
    const heads = [...this.views.keys()];
    const gone = this.closed || (heads.length > 0 && heads.every(isCutOff));
    if (count <= this.seen || !asks.length || gone) return this.root.remove();
    if (this.visible.size) return this.done();
    if (performance.now() - this.at < SETTLED_MS) return undefined;
    const more = asks.length > 1 ? ", and more" : "";
    put(this.text, `run ${run}${notebook ? ` in ${notebook}` : ""} has stopped: ${asks[0][1]}${more}`);
    this.show.hidden = !heads.some((head) => head.offsetParent);
    if (!this.root.isConnected) document.body.append(this.root);
    return undefined;
  }

  go() {
    const here = [...this.views].filter(([head]) => head.offsetParent);
    here.at(-1)?.[1]();
    this.done();
  }

  done() {
    this.seen = this.stop;
    this.root.remove();
  }

  close() {
    clearInterval(this.timer);
    this.watching.disconnect();
    notices.delete(this.model.get("stopped").panel);
    this.root.remove();
  }
}
