// The resume panel. Everything that is shown is set as text, by textContent or by `make` of dom.js:
// names, inputs, errors and results of a run are never markup.

const STALE_MS = 8000; // the kernel gives a sign of life every 2 s
const STILL_MS = 600; // a double click must not hit what has come under the pointer meanwhile
const ANEW = "Then `run.panel()` or `%durable panel` shows this as it is.";
const PASSIVE = new Set(["history", "dependants", "detail", "why"]); // these change nothing

class View {
  constructor(model, root) {
    this.model = model;
    this.store = new Store();
    this.sent = new Map(); // what was asked, and when it is asked again
    this.told = new Map(); // details that were asked for
    this.asking = null; // the operation whose detail is on its way
    this.chosen = null;
    this.picked = false; // by a person; else it moves on to what is open
    this.lastSign = this.headerAt = performance.now();
    this.stale = this.gone = false;
    this.pauseAt = -Infinity; // when its button last came to mean the opposite
    this.still = null; // a timer, while what was just drawn takes no clicks

    this.grid = new Grid(this);
    this.detail = new Detail(this);
    this.header = new Header(this);
    this.loss = make("div", "dnb-loss");
    this.loss.hidden = true;
    this.staleLine = make("div", "dnb-stale-line");
    this.staleLine.setAttribute("role", "alert");
    this.staleLine.hidden = true;
    this.messageLine = make("div", "dnb-message");
    this.messageLine.setAttribute("role", "status");
    this.root = make(
      "div", "dnb-panel", this.staleLine, ...this.header.parts, this.loss, this.filters(),
      this.grid.frame, this.messageLine, this.detail.box,
    );
    this.above = new Above(this.root);
    this.root.setAttribute("role", "region");
    quiet(this.root);
    this.root.addEventListener("keydown", this.guard((event) => this.shortcut(event)));
    root.append(this.root);
  }

  // What goes wrong in here is shown in the panel, and goes no further.
  guard(act) {
    return (...given) => {
      try {
        return act.apply(this, given);
      } catch (problem) {
        this.say(`the panel's display failed (${problem})`, false);
        return undefined;
      }
    };
  }

  start() {
    const on = (name, act) => {
      const guarded = this.guard(() => (this.sign(), act()));
      this.model.on(`change:${name}`, guarded);
      return () => this.model.off(`change:${name}`, guarded);
    };
    const offs = [
      on("rows", () => this.takeRows()),
      on("patch", () => this.takePatch()),
      on("details", () => this.drawDetail()),
      on("header", () => ((this.headerAt = performance.now()), this.drawHeader())),
      on("message", () => this.drawMessage()),
      on("beat", () => {}),
      on("answer", () => this.take(this.model.get("answer"))),
    ];
    const queued = this.guard(() => this.drawQueued());
    this.model.on("change:queued", queued);
    const timer = setInterval(this.guard(() => this.tick()), 1000);
    Notice.of(this.model)?.add(this.header.head, this.guard(() => this.comeHere()));
    this.guard(() => (this.drawHeader(), this.takeRows(), this.takePatch(), this.drawMessage()))();
    requestAnimationFrame(this.guard(() => this.above.look()));
    return () => {
      clearInterval(timer);
      clearTimeout(this.still);
      Notice.of(this.model)?.remove(this.header.head);
      this.grid.close();
      this.above.close();
      this.model.off("change:queued", queued);
      offs.forEach((off) => off());
    };
  }

  // -- the kernel ---------------------------------------------------------------------------

  sign() {
    this.lastSign = performance.now();
    if (this.stale) this.setStale(false);
  }

  // What stands where an answer is to come.
  get pending() {
    return make("div", "dnb-waiting", this.gone ? "the kernel is gone: there is nobody to ask" : "asking the kernel");
  }

  tick() {
    const gone = isCutOff(this.root);
    const silent = performance.now() - this.lastSign > STALE_MS;
    if ((gone || silent) && (!this.stale || gone !== this.gone)) this.setStale(true, gone);
    this.above.look();
    this.sendAgain();
    if (!this.stale) this.header.tick((performance.now() - this.headerAt) / 1000);
  }

  setStale(stale, gone = false) {
    [this.stale, this.gone] = [stale, gone];
    this.root.classList.toggle("dnb-is-stale", stale);
    const live = this.store.rows.filter((row) => row.live).map((row) => row.id);
    const cut = `Under way then, and perhaps done: ${live.slice(0, 5).join(", ")}${live.length > 5 ? ", ..." : ""}.`;
    put(this.staleLine, stale ? [gone ? GONE : SILENT, ...(live.length ? [cut] : []), AGAIN, ANEW].join(" ") : "");
    this.above.unfold(stale);
    this.drawHeader();
    this.drawQueued();
  }

  ask(action, op, more = {}) {
    const request = mint();
    if (this.gone) return request; // there is nobody to ask
    asked.add(request);
    const queued = { ...this.model.get("queued"), [request]: { action, op } };
    this.model.set("queued", queued); // for the views of this page only; it is never saved
    const message = { request, action, op, ...more };
    this.sent.set(request, { message, ...again() });
    this.model.send(message);
    return request;
  }

  // A message may get lost, as in a page that is just being loaded. The kernel answers each request
  // once, however often it comes.
  sendAgain() {
    for (const [request, sent] of this.sent) {
      if (!(request in this.model.get("queued"))) this.sent.delete(request);
      else if (!this.stale && isDue(sent)) this.model.send(sent.message);
    }
  }

  take(answer) {
    const { [answer.request]: mine, ...rest } = this.model.get("queued");
    if (mine) this.model.set("queued", rest);
    if (answer.detail) {
      this.told.set(answer.op, answer.detail);
      if (this.asking === answer.op) this.asking = null;
      this.drawDetail();
    }
    if (answer.op !== this.chosen) return;
    this.detail.take(answer);
    if (!mine || answer.ok !== false || !asked.has(answer.request)) return;
    this.detail.refuse(mine.action, answer.fields);
    this.messageLine.scrollIntoView({ block: "nearest" });
  }

  waiting(op) {
    return Object.values(this.model.get("queued")).find(
      (one) => one.op === op && !PASSIVE.has(one.action),
    );
  }

  isHere() {
    return Boolean(this.model.get("header").here);
  }

  noteOf(row) {
    return row.op && this.waiting(row.op) ? "queued" : row.note;
  }

  // -- what it shows --------------------------------------------------------------------------

  takeRows() {
    if (!this.store.reset(this.model.get("rows"))) return;
    this.told.clear();
    this.asking = null;
    this.drawRows();
  }

  takePatch() {
    const changed = this.store.patch(this.model.get("patch"));
    if (changed === null) this.model.send({ request: mint(), action: "whole", op: "" });
    if (!changed?.size) return;
    for (const op of changed) this.told.delete(op);
    if (changed.has(this.asking)) this.asking = null;
    this.drawRows();
  }

  drawRows() {
    const now = this.store.byId.get(this.chosen);
    if (!now || !(this.picked || isOpen(now))) {
      this.chosen = (this.store.rows.find(isOpen) ?? now)?.op ?? null;
      this.picked = false;
    }
    this.grid.fill(this.store.rows);
    this.drawCount();
    this.drawDetail();
  }

  drawHeader() {
    const header = this.model.get("header");
    this.header.draw(header);
    this.root.setAttribute("aria-label", `run ${header.run}`);
    this.grid.table.setAttribute("aria-label", `operations of run ${header.run}`);
    const checkable = JSON.stringify(header.checkable);
    if (this.checkable !== checkable) this.told.clear(); // other actions may be allowed
    this.checkable = checkable;
    this.drawLoss(header.loss ?? "");
    this.drawFilters(header.counts ?? {});
    this.drawQueued();
  }

  // Records of the run are lost: a person says how what was done outside is known.
  drawLoss(loss) {
    if (this.loss.dataset.shown === loss) return; // somebody may be typing in it
    this.loss.dataset.shown = loss;
    this.loss.hidden = !loss;
    this.loss.replaceChildren();
    if (!loss) return;
    const reason = make("input", "dnb-reason");
    const accept = this.guard(() => {
      if (this.stale || this.waiting("")) return;
      this.ask("accept", "", { reason: reason.value });
    });
    this.loss.append(
      make("div", "", loss), field("Reason", reason, "how do you know what was done outside?"),
      make("div", "dnb-buttons", button("Accept the loss", "dnb-accept", accept)),
    );
  }

  // -- filters ----------------------------------------------------------------------------------

  filters() {
    const apply = (this.apply = this.guard(() => {
      this.grid.filter(this.word, this.search.value);
      this.drawCount();
    }));
    this.word = "all";
    this.words = new Map(["all", ...WORDS].map((word) => [word, button("", "dnb-filter", () => {
      this.word = word;
      apply();
      this.drawFilters(this.model.get("header").counts ?? {});
    })]));
    this.search = Object.assign(make("input", "dnb-search"), { type: "search", spellcheck: false });
    this.search.placeholder = "filter by text ( / )";
    this.search.setAttribute("aria-label", "filter by a part of name, effect or note");
    this.search.addEventListener("input", apply);
    this.search.addEventListener("keydown", this.guard((event) => {
      if (event.key === "Escape") (this.search.value = ""), apply();
      else if (event.key === "ArrowDown" || event.key === "Enter") this.grid.table.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    }));
    this.count = make("span", "dnb-count");
    this.count.setAttribute("role", "status");
    const made = make("div", "dnb-filters", ...this.words.values(), this.search, this.count);
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", "which operations are listed");
    return made;
  }

  drawFilters(counts) {
    const all = WORDS.reduce((sum, word) => sum + (counts[word] ?? 0), 0);
    for (const [word, made] of this.words) {
      const count = word === "all" ? all : counts[word] ?? 0;
      put(made, `${word} ${count.toLocaleString("en")}`);
      made.setAttribute("aria-pressed", String(this.word === word));
    }
  }

  drawCount() {
    const [some, all] = [this.grid.list.length, this.store.rows.length];
    put(this.count, some === all ? "" : `${some.toLocaleString("en")} of ${all.toLocaleString("en")}`);
  }

  shortcut(event) {
    const typing = event.target.matches("input, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.search.focus();
    this.search.select();
  }

  // -- messages ---------------------------------------------------------------------------------

  drawMessage() {
    const message = this.model.get("message");
    if (message.request && !asked.has(message.request)) return; // another tab's
    if (message.ok !== false) this.bringHome();
    if (message.text) {
      this.say(message.text, message.ok);
      if (message.request) this.messageLine.scrollIntoView({ block: "nearest" });
    } else this.messageLine.textContent = "";
  }

  // What was said stands above the operation again, not at its buttons.
  bringHome() {
    if (this.grid.frame.nextSibling !== this.messageLine) this.grid.frame.after(this.messageLine);
  }

  say(text, ok) {
    this.messageLine.textContent = `${ok ? "✔" : "✘"} ${text}`;
    this.messageLine.classList.toggle("dnb-failed", !ok);
  }

  // -- the chosen operation ---------------------------------------------------------------------

  // Choose an operation; with the keyboard, go on in what is shown of it.
  choose(op, byKey = false) {
    this.chosen = op;
    this.picked = true;
    this.own = op; // a person's own choice, so that nothing has to be waited for
    this.grid.draw();
    this.drawDetail();
    this.rest(0);
    if (byKey) this.detail.box.focus({ preventScroll: true });
  }

  // Choose an operation, and bring its row into view, whatever the filters are.
  reveal(op, whole = false) {
    if (!this.grid.reveal(op)) {
      this.search.value = "";
      this.word = "all";
      this.apply();
      this.drawFilters(this.model.get("header").counts ?? {});
      this.grid.reveal(op);
    }
    this.choose(op, whole);
    if (whole) this.detail.box.scrollIntoView({ block: "nearest" });
  }

  // Bring the page here, and whoever uses the keyboard to what waits for them.
  comeHere() {
    const come = () => this.root.scrollIntoView({ block: "start" });
    come();
    requestAnimationFrame(come); // what was not laid out before has its height now
    this.detail.box.focus({ preventScroll: true });
  }

  drawDetail() {
    const row = this.store.byId.get(this.chosen);
    const known = row && (this.model.get("details")[row.id] ?? this.told.get(row.id));
    if (row && !known && this.asking !== row.id) {
      this.asking = row.id;
      this.ask("detail", row.id);
    }
    if (row && !known && this.detail.id === row.id) return; // as it was, until the answer is there
    const first = !this.detail.key; // nothing was under the pointer before
    const expected = first || this.own === row?.id;
    if (known) this.own = null;
    if (!this.detail.draw(row, known)) return;
    this.detail.id = row?.id;
    this.rest(expected ? 0 : STILL_MS);
  }

  // Let what was drawn take clicks only after so many milliseconds.
  rest(wait) {
    clearTimeout(this.still);
    this.still = wait ? setTimeout(() => this.rest(0), wait) : null;
    this.drawQueued();
  }

  drawQueued() {
    this.header.hold(Boolean(this.waiting("")), this.stale);
    this.detail.hold(this.chosen && this.waiting(this.chosen), this.still, this.stale);
    this.grid.draw();
  }
}

export default {
  initialize({ model }) {
    const notice = new Notice(model);
    return () => notice.close();
  },
  render({ model, el }) {
    return new View(model, el).start();
  },
};
