// All runs of a store; a click, or Enter, opens the panel of one below, and closes it again.

const HEADINGS = ["run", "status", "done", "in doubt", "cost", "touched", "waits for you"];

function ago(seconds) {
  if (seconds === null) return "";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

// One run. It is changed in place, so that a click, and what has the focus, goes through it.
class RunRow {
  constructor(name, open) {
    this.cells = HEADINGS.map(() => make("td"));
    const [, , done, , cost, touched] = this.cells;
    this.said = make("span");
    this.gauge = make("div", "dnb-gauge", make("span", "dnb-gauge-done"));
    this.gauge.setAttribute("aria-hidden", "true");
    done.append(this.said, this.gauge);
    cost.className = "dnb-number dnb-cost-column";
    touched.className = "dnb-time dnb-touched-column";
    this.made = make("tr", "dnb-row", ...this.cells);
    this.made.dataset.run = name;
    this.made.tabIndex = 0;
    this.made.setAttribute("role", "button");
    this.made.addEventListener("click", (event) => event.detail > 1 || open()); // a double click is one
  }

  draw(row, chosen) {
    const [name, status, , doubt, cost, touched, asks] = this.cells;
    const all = row.completed + row.incomplete + row.unknown;
    const first = row.asks.slice(0, 2).join("; ");
    const more = row.asks.length > 2 ? ` and ${row.asks.length - 2} more` : "";
    say(name, row.name, "dnb-name");
    say(status, row.pace === "slow" ? `${row.status}, slow` : row.status, `dnb-status-${row.status}`);
    // how much there is to do is not known of a program that goes on once it is run again
    const isWhole = row.status === "finished" || row.completed < all;
    say(this.said, isWhole ? `${row.completed} of ${all}` : `${row.completed} so far`);
    this.gauge.hidden = !isWhole;
    this.gauge.firstChild.style.width = `${all ? (100 * row.completed) / all : 0}%`;
    say(doubt, row.unknown ? `? ${row.unknown}` : "", row.unknown ? "dnb-asks" : "");
    say(cost, row.cost);
    say(touched, ago(row.touched_s));
    say(asks, first + more, "dnb-note dnb-asks");
    const isOpen = row.name === chosen;
    this.made.setAttribute("aria-selected", String(isOpen));
    this.made.setAttribute("aria-expanded", String(isOpen));
    this.made.setAttribute("aria-label", `${isOpen ? "close" : "open"} run ${row.name}`);
  }
}

function say(element, text, name = element.className) {
  if (element.textContent !== text) element.textContent = text;
  if (element.className !== name) element.className = name;
}

// With arrow keys, Home and End from run to run; Enter, or a space, opens it.
function key(event) {
  const row = event.target.closest("tr[data-run]");
  if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
  const to = {
    ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling,
    Home: row.parentNode.firstElementChild, End: row.parentNode.lastElementChild,
  };
  if (event.key === "Enter" || event.key === " ") row.click();
  else if (event.key in to) to[event.key]?.focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

class Runs {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.gone = false;
    this.staleLine = make("div", "dnb-stale-line");
    this.staleLine.setAttribute("role", "alert");
    this.wanted = null; // the run that was asked for, until its panel is there
    this.rows = new Map();
    this.store = make("span", "dnb-run");
    this.said = make("span", "dnb-elapsed");
    this.message = make("div", "dnb-message dnb-failed");
    this.message.setAttribute("role", "status");
    this.none = make("tr", "", Object.assign(make("td", "dnb-none", "no runs here yet"), {
      colSpan: HEADINGS.length,
    }));
    this.body = make("tbody");
    this.body.addEventListener("keydown", key);
    const heads = HEADINGS.map((name) => make("th", `dnb-${name.replaceAll(" ", "-")}-column`, name));
    for (const head of heads) head.scope = "col";
    const table = make("table", "dnb-table", make("thead", "", make("tr", "", ...heads)), this.body);
    root.append(
      this.staleLine, make("div", "dnb-head", this.store, this.said), make("div", "dnb-frame", table), this.message,
    );
  }

  draw() {
    const [rows, chosen] = [this.model.get("rows"), this.model.get("chosen")];
    const failed = this.model.get("message");
    if (failed || chosen === this.wanted?.name) this.wanted = null;
    const known = this.rows;
    this.rows = new Map();
    for (const row of rows) {
      const open = () => this.choose(row.name);
      const made = known.get(row.name) ?? new RunRow(row.name, open);
      made.draw(row, chosen);
      this.rows.set(row.name, made);
    }
    const focused = this.body.contains(document.activeElement) && document.activeElement;
    sync(this.body, rows.length ? [...this.rows.values()].map((row) => row.made) : [this.none]);
    // what is moved to another place loses the focus
    if (focused && focused !== document.activeElement) focused.focus({ preventScroll: true });
    const needs = rows.filter((row) => row.asks.length).length;
    say(this.store, `runs in ${this.model.get("store")}`);
    const count = `${rows.length} run${rows.length === 1 ? "" : "s"}` + (needs ? `, ${needs} waiting for you` : "");
    say(this.said, rows.length ? `${count}; choose one: its panel opens below` : count);
    say(this.message, failed);
  }

  // What a kernel that is gone has said last may be untrue by now.
  cutOff(gone) {
    this.gone = gone;
    say(this.staleLine, gone ? `${GONE} ${AGAIN}` : "");
    this.root.classList.toggle("dnb-is-stale", gone);
  }

  // Open the panel of a run, or close it.
  choose(name) {
    if (this.gone) return;
    const wanted = name === (this.wanted?.name ?? this.model.get("chosen")) ? "" : name;
    this.wanted = { name: wanted, ...again() };
    this.model.send({ open: wanted });
  }

  // A message may get lost, as in a page that is just being loaded; to ask twice opens one panel.
  sendAgain() {
    if (this.wanted && isDue(this.wanted)) this.model.send({ open: this.wanted.name });
  }
}

export default {
  render({ model, el }) {
    const root = make("div", "dnb-panel dnb-runs");
    root.setAttribute("role", "region");
    root.setAttribute("aria-label", "runs");
    quiet(root);
    el.append(root);
    const runs = new Runs(model, root);
    const draw = () => runs.draw();
    const names = ["rows", "chosen", "message", "store"].map((name) => `change:${name}`).join(" ");
    model.on(names, draw);
    draw();
    const above = new Above(root);
    let gone = false;
    const tick = () => {
      above.look();
      if (!gone) runs.sendAgain();
      if (gone !== isCutOff(root)) above.unfold((gone = !gone));
      runs.cutOff(gone);
    };
    requestAnimationFrame(tick);
    const timer = setInterval(tick, 1000);
    return () => {
      clearInterval(timer);
      above.close();
      model.off(names, draw);
    };
  },
};
