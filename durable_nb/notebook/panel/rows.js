// The table: of any number of rows, only those in view and some around them are in the page.

const COLUMNS = "outcome operation effect attempt source started duration note".split(" ");
const NUMBERS = new Set(["attempt", "duration"]);
const AROUND = 12; // rows above and below the view that are there already when it is scrolled
const LEAST = 40; // rows that are drawn in any case, also before the page has laid anything out
const RANKS = { unknown: 0, live: 1, incomplete: 2, completed: 3 };
const KEYS = {
  outcome: (row) => RANKS[row.live ? "live" : row.outcome],
  operation: (row) => row.label,
  effect: (row) => row.effect,
  attempt: (row) => row.attempt,
  source: (row) => row.source,
  started: (row) => row.started ?? Infinity,
  duration: (row) => row.took ?? -1,
  note: (row) => row.note,
};

let grids = 0;

class Grid {
  // `view` says what is chosen and what is queued, and is told what a person chooses.
  constructor(view) {
    this.view = view;
    this.name = `dnb-grid-${++grids}`;
    this.all = [];
    this.list = []; // what the filters let through, in the order that is shown
    this.word = "all";
    this.text = "";
    this.sorted = null; // a column; else the order of the operation tree
    this.down = false;
    this.active = null; // the row that the arrow keys have come to
    this.height = 24;
    this.drawn = new Map(); // id -> the row as it is in the page, and what it says

    this.body = make("tbody");
    this.heads = new Map(COLUMNS.map((name) => [name, this.heading(name)]));
    const head = make("thead", "", make("tr", "", ...this.heads.values()));
    this.table = make("table", "dnb-table dnb-rows", head, this.body);
    this.table.tabIndex = 0;
    this.table.setAttribute("role", "grid");
    head.firstChild.setAttribute("aria-rowindex", "1");
    this.frame = make("div", "dnb-frame", this.table);
    this.frame.addEventListener("scroll", () => {
      this.coming ??= requestAnimationFrame(view.guard(() => this.draw()));
    });
    this.table.addEventListener("keydown", view.guard((event) => this.key(event)));
    this.table.addEventListener("focus", view.guard(() => this.begin()));
    this.body.addEventListener("click", view.guard((event) => this.click(event)));
    this.watching = new ResizeObserver(view.guard(() => this.draw()));
    this.watching.observe(this.frame);
    this.arrange();
  }

  close() {
    this.watching.disconnect();
    cancelAnimationFrame(this.coming);
  }

  heading(name) {
    const sort = button(name, "dnb-sort", this.view.guard(() => this.sort(name)));
    sort.append(make("span", "dnb-arrow"));
    sort.lastChild.setAttribute("aria-hidden", "true");
    const made = make("th", `dnb-${name}-column ${NUMBERS.has(name) ? "dnb-number" : ""}`, sort);
    made.scope = "col";
    made.setAttribute("aria-sort", "none");
    return made;
  }

  // -- which rows, in which order -----------------------------------------------------------

  // Sort by a column, then the other way round, then not at all.
  sort(name) {
    if (this.sorted !== name) [this.sorted, this.down] = [name, false];
    else if (!this.down) this.down = true;
    else [this.sorted, this.down] = [null, false];
    for (const [column, th] of this.heads) {
      const direction = this.down ? "descending" : "ascending";
      th.setAttribute("aria-sort", column === this.sorted ? direction : "none");
      th.querySelector(".dnb-arrow").textContent =
        column === this.sorted ? (this.down ? " ▼" : " ▲") : "";
    }
    this.arrange();
    this.frame.scrollTop = 0;
    this.draw();
  }

  filter(word, text) {
    [this.word, this.text] = [word, text.trim().toLowerCase()];
    this.arrange();
    this.frame.scrollTop = 0;
    this.draw();
  }

  fill(rows) {
    this.all = rows;
    this.arrange();
    this.draw();
  }

  arrange() {
    const { word, text } = this;
    const found = (row) =>
      (row.words ??= `${row.id}\n${row.effect}\n${row.note}`.toLowerCase()).includes(text);
    this.list = this.all.filter(
      (row) => (word === "all" || row.outcome === word) && (!text || found(row)),
    );
    if (this.sorted) {
      const key = KEYS[this.sorted];
      const keyed = this.list.map((row, n) => [key(row), n, row]);
      const way = this.down ? -1 : 1;
      keyed.sort(([a, m], [b, n]) => (a < b ? -way : a > b ? way : m - n));
      this.list = keyed.map(([, , row]) => row);
    }
    this.at = new Map(this.list.map((row, n) => [row.id, n]));
    this.table.setAttribute("aria-rowcount", String(this.list.length + 1));
  }

  // -- drawing --------------------------------------------------------------------------------

  draw() {
    cancelAnimationFrame(this.coming);
    this.coming = null;
    const size = parseFloat(getComputedStyle(this.frame).fontSize) || 13;
    this.height = Math.round(size * 1.85);
    this.frame.style.setProperty("--dnb-row", `${this.height}px`);
    const inView = Math.ceil(this.frame.clientHeight / this.height) || 0;
    const count = Math.max(LEAST, inView + 2 * AROUND);
    const last = Math.max(0, this.list.length - count);
    const from = Math.min(last, Math.max(0, this.top() - AROUND));
    const until = Math.min(this.list.length, from + count);
    const drawn = new Map();
    const rows = this.list.slice(from, until).map((row, n) => this.shown(row, from + n, drawn));
    this.drawn = drawn;
    if (!this.list.length) rows.push(this.nothing());
    if (from) rows.unshift(this.space(from));
    if (until < this.list.length) rows.push(this.space(this.list.length - until));
    const top = this.frame.scrollTop;
    sync(this.body, rows);
    if (this.frame.scrollTop !== top) this.frame.scrollTop = top;
    const there = this.at.get(this.active);
    if (there >= from && there < until)
      this.table.setAttribute("aria-activedescendant", `${this.name}-${there}`);
    else this.table.removeAttribute("aria-activedescendant");
  }

  top() {
    return Math.floor(this.frame.scrollTop / this.height);
  }

  space(rows) {
    const made = make("tr", "dnb-space", make("td")); // one cell: a narrow table has fewer columns
    made.firstChild.style.height = `${rows * this.height}px`;
    made.setAttribute("aria-hidden", "true");
    return made;
  }

  nothing() {
    const none = make("td", "dnb-none", this.all.length ? "none of these" : "nothing has begun yet");
    const columns = [...this.heads.values()].filter((th) => th.offsetWidth).length;
    return make("tr", "", Object.assign(none, { colSpan: columns || COLUMNS.length }));
  }

  // Give the row as it is drawn already, if it still says the same.
  shown(row, index, drawn) {
    const note = this.view.noteOf(row);
    const source = row.begun ? sourceOf(row) : "";
    const { words, ...facts } = row;
    const key = JSON.stringify([facts, note, source]);
    const known = this.drawn.get(row.id);
    const made = known?.key === key ? known.made : this.row(row, note, source);
    drawn.set(row.id, { key, made });
    made.id = `${this.name}-${index}`;
    made.setAttribute("aria-rowindex", String(index + 2));
    made.classList.toggle("dnb-active", row.id === this.active);
    if (row.op) made.setAttribute("aria-selected", String(row.op === this.view.chosen));
    return made;
  }

  row(row, said, source) {
    const name = make("td", "dnb-name", cut(row.label));
    name.style.paddingLeft = `${0.6 + 1.3 * row.depth}em`;
    name.title = row.op ?? row.label;
    const iso = row.started === null ? "" : new Date(row.started).toISOString();
    const started = make("td", "dnb-time dnb-started-column", clock(iso));
    started.title = moment(iso);
    const note = make("td", "dnb-note dnb-note-column", said);
    note.title = row.note;
    const made = make(
      "tr", "dnb-row", make("td", "", outcome(row)), name,
      make("td", "dnb-effect-column", row.effect),
      make("td", "dnb-number dnb-attempt-column", row.attempt || ""),
      make("td", "dnb-source-column", source), started, make("td", "dnb-number dnb-duration-column", took(row.took)),
      note,
    );
    if (row.op) made.dataset.op = row.op;
    return made;
  }

  // Have a row for the arrow keys to go on from.
  begin() {
    if (this.at.has(this.active)) return;
    this.active = this.at.has(this.view.chosen) ? this.view.chosen : this.list[0]?.id ?? null;
    this.draw();
  }

  // -- by hand --------------------------------------------------------------------------------

  click(event) {
    const op = event.target.closest("tr[data-op]")?.dataset.op;
    if (op === undefined) return;
    this.active = op;
    this.view.choose(op);
  }

  key(event) {
    if (event.target !== this.table || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.frame.clientHeight / this.height) - 2);
    const steps = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity,
    };
    const now = this.at.get(this.active);
    if (event.key in steps) {
      this.go((now ?? 0) + steps[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      const row = this.list[now];
      if (row?.op) this.view.choose(row.op, true);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Bring a row into view; gives whether it is listed.
  reveal(id) {
    if (!this.at.has(id)) return false;
    this.go(this.at.get(id));
    return true;
  }

  go(index) {
    const there = Math.max(0, Math.min(this.list.length - 1, index));
    if (!this.list.length) return;
    this.active = this.list[there].id;
    const head = this.table.tHead.offsetHeight;
    const top = there * this.height;
    const room = this.frame.clientHeight - head - this.height;
    if (top < this.frame.scrollTop) this.frame.scrollTop = top;
    else if (top > this.frame.scrollTop + room) this.frame.scrollTop = top - room;
    this.draw();
  }
}
