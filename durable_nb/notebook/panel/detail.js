// The chosen operation: what is known of it, why it is so, and what can be done about it.

const FORKED =
  "A new run: what came before this operation is on record in it and is not done again; this one " +
  "and what follows are done anew. Nothing of this run changes, and the new one does nothing " +
  "outside until that is granted in it.";
const CONFIRMED = "Confirmed, it is not done again: the run goes on with this result.";
// By whether the step was handed the idempotency key, as far as that is known: where to look, what
// the key is worth there (`null`: nothing, so it is not shown), and what comes of a denial.
const KEYED = new Map([
  [true, {
    look: "Look where it would be, for its idempotency key or for these inputs.",
    key: "handed to the step",
    denied: "Denied, it is done again, under the same idempotency key.",
  }],
  [false, {
    look: "Look where it would be, for these inputs. Its idempotency key is not there: the step does not take it.",
    key: null,
    denied: "Denied, it is done again.",
  }],
  [null, {
    look: "Look where it would be, for these inputs, or for the idempotency key if its code sends that.",
    key: "",
    denied: "Denied, it is done again, under the same idempotency key if its code sends that.",
  }],
]);
const HINT = 'JSON or a Python literal, such as {"id": "x-1"}; null for nothing';
// What a form lacks -> where it is written; and the buttons that are not called as their action.
const FIELDS = {
  result: ".dnb-result", evidence: ".dnb-evidence", reason: ".dnb-reason", value: ".dnb-value",
  name: ".dnb-new-name",
};
const BUTTONS = { fork: ".dnb-fork-do" };

const keyed = (detail) => KEYED.get(detail.keyed ?? null);

function keyOf(detail) {
  const worth = detail.effect === "none" ? "" : keyed(detail).key;
  return worth === null ? "" : [detail.idempotency_key, worth].filter(Boolean).join(", ");
}

class Detail {
  // `view` talks to the kernel, and knows what waits for an answer.
  constructor(view) {
    this.view = view;
    this.key = "";
    this.box = make("section", "dnb-detail");
    this.box.tabIndex = -1;
    this.box.addEventListener("keydown", view.guard((event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      view.grid.table.focus();
    }));
  }

  // Draw it, unless it stands there already: somebody may be typing in it. Gives whether it did.
  draw(row, detail) {
    const known = detail && [detail.seq, detail.actions, detail.live, detail.source];
    const key = row ? JSON.stringify([row.id, known ?? null]) : "";
    if (key === this.key) return false;
    const [had, historyOpen] = [this.box.contains(document.activeElement), this.history?.open];
    this.key = key;
    this.history = this.cascade = this.cascadeRequest = this.queuedLine = this.why = null;
    this.fork = null;
    if (this.box.contains(this.view.messageLine)) this.view.bringHome();
    this.box.replaceChildren();
    if (row) {
      this.box.setAttribute("aria-label", `operation ${row.id}`);
      if (detail) this.whole(row, detail, Boolean(historyOpen));
      else this.part(row);
    } else this.box.removeAttribute("aria-label");
    if (had) this.box.focus({ preventScroll: true });
    return true;
  }

  title(row) {
    return make("div", "dnb-title", outcome(row), make("code", "", row.id));
  }

  facts(...lines) {
    const facts = make("dl", "dnb-facts");
    for (const [name, shown] of lines)
      if (shown) facts.append(make("dt", "", name), make("dd", "", shown));
    return facts;
  }

  // What the row itself knows, until the kernel has told the rest.
  part(row) {
    this.box.append(
      this.title(row), this.facts(["note", row.note], ["took", took(row.took)]),
      this.view.pending,
    );
  }

  whole(row, detail, historyOpen) {
    const attempt = detail.live || row.attempt > 1 ? `attempt ${row.attempt}` : "";
    const facts = this.facts(
      ...detail.inputs.map(([name, text]) => [`input ${name}`, text]),
      ["result", detail.result], ["error", detail.error], ["changed", detail.changes.join("; ")],
      ["effect", [detail.effect, attempt].filter(Boolean).join(", ")],
      ["source", sourceOf(detail)],
      ["idempotency key", keyOf(detail)], ["begun", moment(detail.started)],
      ["ended", moment(detail.ended)], ["spent", detail.spent], ["time", detail.outside],
    );
    this.why = this.folded("dnb-why", "why", () => this.view.ask("why", row.id));
    this.history = this.folded("dnb-history", "history of records", () =>
      this.view.ask("history", row.id),
    );
    const shown = { ...row, outcome: detail.outcome, live: detail.live };
    this.box.append(
      this.title(shown), facts, this.why, this.actions(detail), this.history, this.forking(detail),
    );
    this.history.open = historyOpen;
    this.why.open = this.view.isHere(); // elsewhere, the owner has to be asked for it
  }

  // Something that is asked for when it is opened for the first time.
  folded(name, title, ask) {
    const made = make("details", name, make("summary", "", title));
    made.addEventListener("toggle", this.view.guard(() => {
      if (!made.open || made.children.length > 1) return;
      made.append(this.view.pending);
      ask();
    }));
    return made;
  }

  unfold(made, ...shown) {
    made?.replaceChildren(made.firstChild, ...shown);
  }

  // Take what the kernel has told about it.
  take(answer) {
    if (answer.history) this.unfold(this.history, recordTable(answer.history));
    if (answer.why) {
      const { said, differences } = answer.why;
      const table = differences.length ? [differenceTable(differences)] : [];
      this.unfold(this.why, make("div", "dnb-said", said), ...table);
    }
    if (answer.cascade && answer.request === this.cascadeRequest) this.drawCascade(answer.cascade);
    if (answer.more) this.fork?.replaceChildren(make("pre", "dnb-forked", answer.more));
  }

  // Say where the button was clicked that it was not done, and where to write what was missing.
  refuse(action, lacking = []) {
    const buttons = this.box.querySelector(BUTTONS[action] ?? `.dnb-button.dnb-${action}`)?.parentNode;
    if (!buttons) return;
    buttons.after(this.view.messageLine);
    const found = lacking.map((name) => buttons.parentNode.querySelector(FIELDS[name])).filter(Boolean);
    for (const input of found) {
      input.setAttribute("aria-invalid", "true");
      input.addEventListener("input", () => input.removeAttribute("aria-invalid"), { once: true });
    }
    found[0]?.focus({ preventScroll: true });
  }

  // It takes no clicks while one is on its way, nor before a person can have seen what it shows.
  hold(waiting, held, stale) {
    const off = Boolean(waiting || held) || stale;
    for (const box of this.box.querySelectorAll(".dnb-actions, .dnb-forking")) {
      // what is disabled loses the focus to the page, and whoever uses the keyboard their place
      if (off && box.contains(document.activeElement)) this.box.focus({ preventScroll: true });
      box.disabled = off;
    }
    if (this.queuedLine) this.queuedLine.hidden = !waiting || stale;
  }

  // -- actions --------------------------------------------------------------------------------

  // What a click on a button of this row does.
  doing(row, action, more) {
    return this.view.guard(() => {
      if (this.view.stale || this.view.waiting(row.id)) return; // one click, one verdict
      this.view.ask(action, row.id, { seq: row.seq, ...more() });
    });
  }

  actions(row) {
    const may = (name) => row.actions.includes(name);
    const box = make("fieldset", "dnb-actions");
    const act = (action, more) => this.doing(row, action, more);
    if (may("confirm") || may("deny") || may("check")) box.append(this.verdicts(row, may, act));
    if (ENDED_BY[row.waits]) box.append(this.waits(row, may, act));
    const line = make("div", "dnb-buttons");
    if (may("keep")) line.append(button("Keep the record", "dnb-keep", act("keep", () => ({}))));
    if (may("rerun")) line.append(button("Do it again", "dnb-rerun", act("rerun", () => ({}))));
    if (may("invalidate")) {
      line.append(
        button("Invalidate…", "dnb-ask", this.view.guard(() => {
          this.cascade.replaceChildren(make("div", "dnb-waiting", "asking what depends on it"));
          this.cascadeRequest = this.view.ask("dependants", row.id);
        })),
      );
      this.cascade = make("div", "dnb-cascade");
      this.invalidate = act("invalidate", () => ({
        reason: this.cascade.querySelector(".dnb-reason")?.value ?? "",
        effect: this.cascade.querySelector("input[type=radio]:checked")?.value ?? "",
      }));
    }
    box.append(line, ...(this.cascade ? [this.cascade] : []));
    this.queuedLine = make("div", "dnb-queued", "queued: the kernel answers when its cell lets it");
    return make("div", "dnb-doing", box, this.queuedLine);
  }

  // It settles nothing, so it stands apart from what does.
  forking(row) {
    this.fork = make("div", "dnb-fork");
    const fork = this.doing(row, "fork", () => ({
      name: this.fork.querySelector(".dnb-new-name").value,
      reason: this.fork.querySelector(".dnb-reason").value,
    }));
    const ask = button("Fork from here…", "dnb-fork-ask", () => this.drawFork(fork));
    return make("fieldset", "dnb-forking", ask, this.fork);
  }

  // Confirm, deny and check. Where nothing is in doubt, confirming is the exception: it is folded.
  verdicts(row, may, act) {
    const result = make("textarea", "dnb-result");
    result.rows = 2;
    const evidence = make("input", "dnb-evidence");
    const proof = () => ({ evidence: evidence.value });
    const told = () => ({ result: result.value, ...proof() });

    const line = make("div", "dnb-buttons");
    const add = (action, text, more) =>
      may(action) && line.append(button(text, `dnb-${action}`, act(action, more)));
    add("confirm", "✔ Confirm: it happened", told);
    add("deny", "✘ Deny: it did not happen", proof);
    add("check", "Check now", () => ({}));
    const fields = [field("Evidence", evidence, "how do you know? It is kept with the verdict")];
    if (may("confirm")) {
      fields.push(field("Result", result, "only to confirm: what the step returns to your program, as JSON; null if nothing"));
      if (row.like.length)
        fields.push(make("div", "dnb-hint", `for example, ${row.like[0]}, another one, returned ${row.like[1]}`));
    }
    fields.push(line);
    if (row.outcome === "unknown") {
      const { look, denied } = keyed(row);
      const hint = (text) => make("div", "dnb-hint", text);
      const asked = make("div", "dnb-question", "Did ", make("code", "", row.id), " happen? ");
      return make("div", "", asked, hint(look), ...fields, hint(CONFIRMED), hint(denied));
    }
    const summary = make("summary", "", "run its cell again: it is done anew. Or did it happen after all?");
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

    const input = may("signal")
      ? field("Value", given, HINT)
      : field("Reason", given, "why? It is needed to reject");
    return make("div", "", input, line);
  }

  drawCascade(cascade) {
    if (!this.cascade) return;
    const list = (title, ids) =>
      make("div", "dnb-list", make("b", "", title), " ", ids.length ? ids.join(", ") : "nothing");
    const parts = [
      list("no longer counts with it:", cascade.below),
      list("began later, and is checked when it is reached again:", cascade.later),
    ];
    if (cascade.happened.length) {
      const name = mint();
      const choice = (value, text) => {
        const radio = Object.assign(make("input"), { type: "radio", name, value });
        return make("label", "dnb-choice", radio, text);
      };
      parts.push(
        list("this happened outside:", cascade.happened),
        choice("stands", "stands: it was not undone, so that doing it again makes it happen twice"),
        choice("compensated", "compensated: it was undone outside, so that it may be done again"),
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

  // A new run that has what came before this operation.
  drawFork(fork) {
    const name = make("input", "dnb-new-name");
    name.value = `${this.view.model.get("header").run}-fork`;
    const reason = make("input", "dnb-reason");
    const typed = (event) => {
      if (event.key === "Enter") fork();
    };
    for (const input of [name, reason]) input.addEventListener("keydown", typed);
    this.fork.replaceChildren(
      make("div", "dnb-list", FORKED),
      field("New run", name, "its name"), field("Reason", reason, "what is to be tried?"),
      make(
        "div", "dnb-buttons", button("Fork", "dnb-fork-do", fork),
        button("Cancel", "dnb-cancel", () => this.fork.replaceChildren()),
      ),
    );
    name.focus();
    name.select();
  }
}
