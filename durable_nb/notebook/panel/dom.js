// Elements and words. What is shown goes in as text nodes and is text, whatever it looks like.
// A widget's module is one text: the kernel puts dom.js, store.js, rows.js, detail.js and table.js
// together, in this order.

const GONE = "stale: the kernel is gone.";
const SILENT = "stale: no sign of life from the kernel. It is gone, or too busy, and then it comes back by itself.";
const AGAIN = "To go on, run all cells again.";
const WORDS = ["completed", "incomplete", "unknown"];
const ENDED_BY = { approval: "a person", wait_for: "a signal" }; // what a timer waits for comes
const SOURCES = { ran: "ran now", record: "from record", verdict: "by verdict" };

// Where a result is from, of what this kernel has come to; else whether there is one.
const sourceOf = (row) =>
  SOURCES[row.source] ?? (row.outcome === "completed" || row.live ? "" : "no result");
const TAIL = 8; // so much of the end is always to be seen
const SIGNS = { completed: "✔", incomplete: "○", unknown: "?", live: "▶" };

const asked = new Set(); // what this page asked for; other tabs see the same messages

let minted = 0;
const mint = () => `${Date.now().toString(36)}-${++minted}-${Math.random().toString(36).slice(2)}`;

function make(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  for (const child of children) {
    if (child === null || child === undefined || child === "") continue;
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

function button(text, name, click) {
  const made = make("button", `dnb-button ${name}`, text);
  made.type = "button";
  made.addEventListener("click", click);
  return made;
}

function field(label, input, hint) {
  input.placeholder = hint;
  input.spellcheck = false;
  return make("label", "dnb-field", make("span", "", label), input);
}

const two = (number) => String(number).padStart(2, "0");

function clock(iso) {
  if (!iso) return "";
  const at = new Date(iso);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// A moment as records have it, in UTC; where clocks show another time, with that before it.
function moment(iso) {
  if (!iso) return "";
  const utc = iso.replace("T", " ").replace("Z", " UTC");
  return new Date(iso).getTimezoneOffset() ? `${clock(iso)} here, ${utc}` : utc;
}

// A text that is cut in its middle where there is no room for it.
function cut(text) {
  const made = make("span", "dnb-cut", make("span", "", text.slice(0, -TAIL)));
  made.append(make("span", "", text.slice(-TAIL)));
  return made;
}

function took(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : span(seconds);
}

function span(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

function outcome(row) {
  const state = row.live ? "live" : row.outcome;
  const sign = make("span", `dnb-sign dnb-${state}`, SIGNS[state] ?? "");
  sign.setAttribute("aria-hidden", "true");
  return make("span", "dnb-outcome", sign, row.live ? "running" : row.outcome);
}

// What a step waits for a person with: it is chosen by itself, and can be settled.
const isOpen = (row) =>
  Boolean(row.op) && (row.outcome === "unknown" || row.asks || Boolean(ENDED_BY[row.waits]));

// The front end's one-letter shortcuts must not fire while somebody types here, or goes through a
// table. Notebook 7 sees a key before anything in the page does, and looks at what has the focus
// itself before it looks at what that is in.
function quiet(root) {
  root.dataset.lmSuppressShortcuts = "true";
  root.addEventListener("focusin", (event) => (event.target.dataset.lmSuppressShortcuts = "true"));
}

// Set only what differs, so that what is focused, or being read aloud, stays as it is.
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}

// Make these the children. Those that stay are not touched: a click goes through while it is drawn.
function sync(parent, nodes) {
  const staying = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!staying.has(child)) child.remove();
  let at = parent.firstChild;
  for (const node of nodes) {
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
}

// When something is sent again that was not answered: after 5 s, and then ever more rarely, for it
// may be waiting for a cell that takes hours.
const AGAIN_MS = 5000;
const again = () => ({ wait: AGAIN_MS, next: performance.now() + AGAIN_MS });

function isDue(sent) {
  const now = performance.now();
  if (now < sent.next) return false;
  sent.wait *= 2;
  sent.next = now + sent.wait;
  return true;
}

// Whether the kernel is gone, as the front end marks it.
const isCutOff = (root) => Boolean(root.closest(".jupyter-widgets-disconnected"));

// The static table above a live one says the same to whoever has no kernel: while the live one
// lives, it is folded, and so are the lines above it, which the live one has, too. It is shown anew
// where something has changed; what a person has opened stays.
class Above {
  constructor(root) {
    this.root = root;
    this.seen = new WeakSet(); // tables that were folded or left open, and outputs that are watched
    this.open = this.alone = false;
    this.renewed = new MutationObserver(() => this.look());
  }

  look() {
    const beside = this.root.closest(".jp-OutputArea")?.children ?? [];
    for (const output of beside) {
      if (this.seen.has(output) || output.contains(this.root)) continue;
      this.seen.add(output);
      this.renewed.observe(output, { childList: true, subtree: true });
    }
    for (const made of this.tables()) {
      if (this.seen.has(made)) continue;
      this.seen.add(made);
      made.parentNode.classList.toggle("dnb-has-live", !this.alone);
      made.open = this.open;
      made.addEventListener("toggle", () => (this.open = made.open));
    }
  }

  tables() {
    return this.root.closest(".jp-OutputArea")?.querySelectorAll("details.durable-nb-static") ?? [];
  }

  unfold(open) {
    this.open = this.alone = open;
    for (const made of this.tables()) {
      made.open = open;
      made.parentNode.classList.toggle("dnb-has-live", !open);
    }
  }

  close() {
    this.renewed.disconnect();
  }
}

function recordTable(records) {
  const heads = ["", "record", "at", "by", "detail"].map((name) =>
    Object.assign(make("th", "", name), { scope: "col" }),
  );
  const lines = records.map((record) =>
    make(
      "tr", "", make("td", "dnb-number", record.seq), make("td", "", record.kind),
      make("td", "", moment(record.at)), make("td", "", record.actor),
      make("td", "dnb-note", record.detail),
    ),
  );
  const head = make("thead", "", make("tr", "", ...heads));
  return make("table", "dnb-table dnb-plain", head, make("tbody", "", ...lines));
}

function differenceTable(differences) {
  const head = ["what", "before", "after"].map((name) => {
    const made = make("th", "", name);
    made.scope = "col";
    return made;
  });
  const lines = differences.map(([facet, before, after]) =>
    make(
      "tr", "", make("td", "", facet), make("td", "dnb-before", before || "–"),
      make("td", "dnb-after", after || "–"),
    ),
  );
  const body = make("tbody", "", ...lines);
  return make("table", "dnb-table dnb-plain", make("thead", "", make("tr", "", ...head)), body);
}
