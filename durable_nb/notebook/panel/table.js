// The resume panel's table. Everything that is shown is set as text, by textContent or by `make`
// of dom.js: names, inputs, errors and results of a run are never markup.

const STALE_MS = 8000; // the kernel gives a sign of life every 2 s
const STILL_MS = 600; // a double click must not hit what has come under the pointer meanwhile
const WORDS = ["completed", "incomplete", "unknown"];
const ENDED_BY = { approval: "a person", wait_for: "a signal" }; // what a timer waits for comes
const NUMBERS = new Set(["attempt", "duration"]);
const COLUMNS = "outcome operation effect attempt source started duration note".split(" ");

class View {
  constructor(model, root) {
    this.model = model;
    this.filter = "all";
    this.chosen = null;
    this.picked = false; // by a person; else it moves on to what is open
    this.detailKey = "";
    this.lastSign = performance.now();
    this.headerAt = performance.now();
    this.stale = false;
    this.still = null; // a timer, while what was just drawn takes no clicks

    this.head = make("div", "dnb-head");
    this.bar = make("div", "dnb-bar");
    this.notes = make("div", "dnb-notes");
    this.loss = make("div", "dnb-loss");
    this.loss.hidden = true;
    this.loss.dataset.lmSuppressShortcuts = "true";
    this.staleLine = make("div", "dnb-stale-line", STALE);
    this.staleLine.setAttribute("role", "alert");
    this.staleLine.hidden = true;
    this.messageLine = make("div", "dnb-message");
    this.messageLine.setAttribute("role", "status");
    this.filters = make("div", "dnb-filters");
    this.body = make("tbody");
    const heads = COLUMNS.map((name) =>
      make("th", NUMBERS.has(name) ? "dnb-number" : "", name === "note" ? "" : name),
    );
    const table = make("table", "dnb-table", make("thead", "", make("tr", "", ...heads)), this.body);
    this.frame = make("div", "dnb-frame", table);
    this.detail = make("div", "dnb-detail");
    this.root = make(
      "div", "dnb-panel", this.head, this.bar, this.notes, this.loss, this.filters, this.frame,
      this.staleLine, this.messageLine, this.detail,
    );
    // JupyterLab's one-letter shortcuts must not fire while somebody types here
    this.frame.dataset.lmSuppressShortcuts = "true";
    this.detail.dataset.lmSuppressShortcuts = "true";
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
      const guarded = this.guard(act);
      this.model.on(`change:${name}`, guarded);
      return () => this.model.off(`change:${name}`, guarded);
    };
    const offs = [
      on("header", () => (this.sign(), (this.headerAt = performance.now()), this.drawHead())),
      on("rows", () => (this.sign(), this.drawRows())),
      on("message", () => (this.sign(), this.drawMessage())),
      on("beat", () => this.sign()),
      on("answer", () => (this.sign(), this.take(this.model.get("answer")))),
      on("queued", () => this.drawQueued()),
    ];
    const timer = setInterval(this.guard(() => this.tick()), 1000);
    this.guard(() => (this.drawHead(), this.drawRows(), this.drawMessage()))();
    return () => {
      clearInterval(timer);
      clearTimeout(this.still);
      offs.forEach((off) => off());
    };
  }

  // -- the kernel ---------------------------------------------------------------------------

  sign() {
    this.lastSign = performance.now();
    if (this.stale) this.setStale(false);
  }

  tick() {
    const silent = performance.now() - this.lastSign > STALE_MS;
    if (silent && !this.stale) this.setStale(true);
    this.drawElapsed();
  }

  setStale(stale) {
    this.stale = stale;
    this.root.classList.toggle("dnb-is-stale", stale);
    this.staleLine.hidden = !stale;
    this.drawQueued();
  }

  ask(action, op, more = {}) {
    const request = mint();
    asked.add(request);
    const queued = { ...this.model.get("queued"), [request]: { action, op } };
    this.model.set("queued", queued); // for the views of this page only; it is never saved
    this.model.send({ request, action, op, ...more });
    return request;
  }

  take(answer) {
    const { [answer.request]: mine, ...rest } = this.model.get("queued");
    if (mine) this.model.set("queued", rest);
    if (answer.op !== this.chosen) return;
    if (answer.history) this.drawHistory(answer.history);
    if (answer.cascade && answer.request === this.cascadeRequest) this.drawCascade(answer.cascade);
  }

  waiting(op) {
    const passive = new Set(["history", "dependants"]);
    return Object.values(this.model.get("queued")).find(
      (one) => one.op === op && !passive.has(one.action),
    );
  }

  // -- above the table ------------------------------------------------------------------------

  drawHead() {
    const header = this.model.get("header");
    const counts = header.counts ?? {};
    this.elapsed = make("span", "dnb-elapsed");
    this.head.replaceChildren(
      make("span", "dnb-run", `run ${header.run}`),
      make("span", `dnb-status dnb-status-${header.status}`, header.status),
      ...(header.spending ? [make("span", "dnb-spending", header.spending)] : []),
      this.elapsed,
    );
    this.bar.replaceChildren(
      ...WORDS.filter((word) => counts[word]).map((word) => {
        const part = make("span", `dnb-part dnb-${word}`, `${counts[word]} ${word}`);
        part.style.flexGrow = counts[word];
        return part;
      }),
    );
    this.notes.replaceChildren(...(header.notes ?? []).map((note) => make("div", "", note)));
    this.drawLoss(header.loss ?? "");
    this.drawFilters(counts);
    this.drawElapsed();
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

  drawElapsed() {
    const header = this.model.get("header");
    if (this.stale || !this.elapsed) return;
    const since = header.ticking ? (performance.now() - this.headerAt) / 1000 : 0;
    this.elapsed.textContent = `${span((header.elapsed_s ?? 0) + since)} since it began`;
  }

  drawFilters(counts) {
    const all = WORDS.reduce((sum, word) => sum + (counts[word] ?? 0), 0);
    const one = (word, count) => {
      const made = button(`${word} ${count}`, "dnb-filter", () => {
        this.filter = word;
        this.drawFilters(counts);
        this.drawRows();
      });
      made.setAttribute("aria-pressed", String(this.filter === word));
      return made;
    };
    this.filters.replaceChildren(one("all", all), ...WORDS.map((w) => one(w, counts[w] ?? 0)));
  }

  drawMessage() {
    const message = this.model.get("message");
    if (message.request && !asked.has(message.request)) return; // another tab's
    if (message.text) this.say(message.text, message.ok);
    else this.messageLine.textContent = "";
  }

  say(text, ok) {
    this.messageLine.textContent = `${ok ? "✔" : "✘"} ${text}`;
    this.messageLine.classList.toggle("dnb-failed", !ok);
  }

  // -- the table ------------------------------------------------------------------------------

  drawRows() {
    const rows = this.model.get("rows");
    const isOpen = (row) =>
      row.id && (row.outcome === "unknown" || row.changes.length || ENDED_BY[row.waits]);
    const now = rows.find((row) => row.id && row.id === this.chosen);
    if (!now || !(this.picked || isOpen(now))) {
      this.chosen = (rows.find(isOpen) ?? now)?.id ?? null;
      this.picked = false;
    }
    const shown = rows.filter((row) => this.filter === "all" || row.outcome === this.filter);
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
    if (!shown.length) {
      const none = make("td", "dnb-none", rows.length ? "none of these" : "nothing has begun yet");
      this.body.append(make("tr", "", Object.assign(none, { colSpan: COLUMNS.length })));
    }
    this.drawDetail();
  }

  row(row) {
    const name = make("td", "dnb-name", row.label);
    name.style.paddingLeft = `${0.6 + 1.3 * row.depth}em`;
    const started = make("td", "dnb-time", clock(row.started));
    started.title = moment(row.started);
    const note = row.id && this.waiting(row.id) ? "queued" : row.note;
    const cells = [
      make("td", "", outcome(row)), name, make("td", "", row.effect),
      make("td", "dnb-number", row.attempt || ""), make("td", "", row.source), started,
      make("td", "dnb-number", row.duration), make("td", "dnb-note", note),
    ];
    const made = make("tr", "dnb-row", ...cells);
    if (!row.id) return made;
    made.dataset.op = row.id;
    made.tabIndex = 0;
    made.setAttribute("aria-selected", String(row.id === this.chosen));
    const choose = this.guard(() => this.choose(row.id));
    made.addEventListener("click", choose);
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose();
      }
    });
    return made;
  }

  choose(op) {
    this.chosen = op;
    this.picked = true;
    for (const tr of this.body.children)
      if (tr.dataset.op) tr.setAttribute("aria-selected", String(tr.dataset.op === op));
    this.drawDetail();
    this.rest(0); // it is the person's own choice, so that nothing has to be waited for
  }

  // Let what was drawn take clicks only after so many milliseconds.
  rest(wait) {
    clearTimeout(this.still);
    this.still = wait ? setTimeout(() => this.rest(0), wait) : null;
    this.drawQueued();
  }

  // -- the chosen operation ---------------------------------------------------------------------

  drawDetail() {
    const row = this.model.get("rows").find((one) => one.id && one.id === this.chosen);
    const key = row ? JSON.stringify([row.id, row.seq, row.actions, row.live, row.source]) : "";
    if (key === this.detailKey) return; // somebody may be typing in it
    const historyOpen = Boolean(this.history?.open);
    const wait = this.detailKey ? STILL_MS : 0; // nothing was under the pointer before
    this.detailKey = key;
    this.history = this.cascade = this.cascadeRequest = null;
    this.detail.replaceChildren();
    if (!row) return;
    const facts = make("dl", "dnb-facts");
    const fact = (name, ...shown) => {
      if (shown.filter(Boolean).length) facts.append(make("dt", "", name), make("dd", "", ...shown));
    };
    row.inputs.forEach(([name, text]) => fact(`input ${name}`, text));
    fact("result", row.result);
    fact("error", row.error);
    fact("changed", row.changes.join("; "));
    fact("idempotency key", row.idempotency_key);
    fact("intended", moment(row.started));
    fact("ended", moment(row.ended));
    fact("spent", row.spent);
    fact("time", row.outside);
    this.history = make("details", "dnb-history", make("summary", "", "history of records"));
    this.history.addEventListener("toggle", this.guard(() => this.openHistory(row)));
    this.detail.append(
      make("div", "dnb-title", outcome(row), make("code", "", row.id)),
      facts, this.actions(row), this.history,
    );
    this.history.open = historyOpen;
    this.rest(wait);
  }

  openHistory(row) {
    if (!this.history?.open || this.history.children.length > 1) return;
    this.history.append(make("div", "dnb-waiting", "asking the kernel"));
    this.ask("history", row.id);
  }

  drawHistory(records) {
    if (!this.history) return;
    this.history.replaceChildren(this.history.firstChild, recordTable(records));
  }

  // -- actions --------------------------------------------------------------------------------

  actions(row) {
    const may = (name) => row.actions.includes(name);
    const box = make("fieldset", "dnb-actions");
    const act = (action, more) =>
      this.guard(() => {
        if (this.stale || this.waiting(row.id)) return; // one click, one verdict
        this.ask(action, row.id, { seq: row.seq, ...more() });
      });
    if (may("confirm") || may("deny") || may("check")) box.append(this.verdicts(row, may, act));
    if (ENDED_BY[row.waits]) box.append(this.waits(row, may, act));
    const line = make("div", "dnb-buttons");
    if (may("keep")) line.append(button("Keep the record", "dnb-keep", act("keep", () => ({}))));
    if (may("rerun")) line.append(button("Do it again", "dnb-rerun", act("rerun", () => ({}))));
    if (may("invalidate")) {
      line.append(
        button("Invalidate…", "dnb-ask", this.guard(() => {
          this.cascade.replaceChildren(make("div", "dnb-waiting", "asking what depends on it"));
          this.cascadeRequest = this.ask("dependants", row.id);
        })),
      );
      this.cascade = make("div", "dnb-cascade");
      this.invalidate = act("invalidate", () => ({
        reason: this.cascade.querySelector(".dnb-reason")?.value ?? "",
        effect: this.cascade.querySelector("input[type=radio]:checked")?.value ?? "",
      }));
    }
    if (line.children.length) box.append(line);
    if (this.cascade) box.append(this.cascade);
    this.queuedLine = make("div", "dnb-queued", "queued: the kernel answers when its cell lets it");
    return make("div", "dnb-doing", box, this.queuedLine);
  }

  // Confirm, deny and check. Where nothing is in doubt, confirming is the exception: it is folded.
  verdicts(row, may, act) {
    const result = make("textarea", "dnb-result");
    result.rows = 2;
    const evidence = make("input", "dnb-evidence");
    const proof = () => ({ evidence: evidence.value });
    const told = () => ({ result: result.value, ...proof() });
    const hint = 'JSON or a Python literal, such as {"id": "re_1"}';
    const line = make("div", "dnb-buttons");
    const add = (action, text, more) =>
      may(action) && line.append(button(text, `dnb-${action}`, act(action, more)));
    add("confirm", "Confirm: it happened", told);
    add("deny", "Deny: it did not happen", proof);
    add("check", "Check now", () => ({}));
    const fields = [field("Evidence", evidence, "how do you know?"), line];
    if (may("confirm")) fields.unshift(field("Result", result, hint));
    if (row.outcome === "unknown") return make("div", "", ...fields);
    const summary = make("summary", "", "nothing to settle: run its cell again (or did it happen?)");
    return make("details", "dnb-folded", summary, ...fields);
  }

  // Approve, reject, or send what it waits for.
  waits(row, may, act) {
    const given = make("input", `dnb-${row.waits === "approval" ? "reason" : "value"}`);
    const line = make("div", "dnb-buttons");
    const add = (action, text, name) => {
      if (!may(action)) return;
      line.append(button(text, `dnb-${action}`, act(action, () => ({ [name]: given.value }))));
    };
    add("approve", "Approve", "reason");
    add("reject", "Reject", "reason");
    add("signal", "Send the signal", "value");
    const hint = 'JSON or a Python literal, such as {"id": "re_1"}';
    const input = may("signal")
      ? field("Value", given, hint)
      : field("Reason", given, "why? It is needed to reject");
    return make("div", "", input, line);
  }

  drawCascade(cascade) {
    if (!this.cascade) return;
    const list = (title, ids) =>
      make("div", "dnb-list", make("b", "", title), " ", ids.length ? ids.join(", ") : "nothing");
    const parts = [
      list("invalidated with it:", cascade.below),
      list("began later, checked when reached:", cascade.later),
    ];
    if (cascade.happened.length) {
      const name = mint();
      const choice = (value, text) => {
        const radio = Object.assign(make("input"), { type: "radio", name, value });
        return make("label", "dnb-choice", radio, text);
      };
      parts.push(
        list("its effect happened:", cascade.happened),
        choice("stands", "stands: it stays, and doing it again adds another"),
        choice("compensated", "compensated: it was undone"),
      );
    }
    const reason = make("input", "dnb-reason");
    parts.push(
      field("Reason", reason, "why does it no longer count?"),
      make(
        "div", "dnb-buttons", button("Invalidate", "dnb-invalidate", this.invalidate),
        button("Cancel", "dnb-cancel", () => this.cascade.replaceChildren()),
      ),
    );
    this.cascade.replaceChildren(...parts);
  }

  drawQueued() {
    const waiting = this.chosen && this.waiting(this.chosen);
    const box = this.detail.querySelector(".dnb-actions");
    if (box) box.disabled = Boolean(waiting || this.still) || this.stale;
    if (this.queuedLine) this.queuedLine.hidden = !waiting || this.stale;
    const rows = new Map(this.model.get("rows").map((row) => [row.id, row]));
    for (const tr of this.body.children) {
      const row = tr.dataset.op && rows.get(tr.dataset.op);
      if (row) tr.lastChild.textContent = this.waiting(row.id) ? "queued" : row.note;
    }
  }
}

export default {
  render({ model, el }) {
    return new View(model, el).start();
  },
};
