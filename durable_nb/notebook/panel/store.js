// The rows of one view: all of them once, and then the patches that make them current.

const SHAPE = "depth outcome effect attempt source live waits asks begun note".split(" ");

class Store {
  constructor() {
    this.version = -1; // of nothing at all
    this.rows = []; // in the order of the operation tree
    this.byId = new Map();
  }

  // Take all rows; what is older than what is shown is left alone.
  reset(sent) {
    if (!sent.label || sent.version < this.version) return false;
    const above = []; // the rows that the next one may be below of
    const rows = this.read(sent, (label, shape) => {
      if (!shape.begun) return `?${label}`;
      while (above.length && above.at(-1).depth >= shape.depth) above.pop();
      const id = above.length ? `${above.at(-1).id}/${label}` : label;
      above.push({ id, depth: shape.depth });
      return id;
    });
    this.version = sent.version;
    this.keep(rows);
    return true;
  }

  // Apply a patch. Gives the ids that changed, or null where one before it is missing.
  patch(sent) {
    if (!("base" in sent) || sent.version <= this.version) return new Set();
    if (sent.base !== this.version) return null;
    const changed = this.read(sent, (label, shape, n) => sent.id[n]);
    const fresh = new Map(changed.map((row) => [row.id, row]));
    const gone = new Set(sent.removed);
    const after = new Map(); // a row -> what is new below it
    changed.forEach((row, n) => {
      if (sent.after[n] !== 0) after.set(sent.after[n], row);
    });
    const rows = [];
    const follow = (id) => {
      for (let next = after.get(id); next; next = after.get(next.id)) rows.push(next);
    };
    follow(null);
    for (const old of this.rows) {
      if (!gone.has(old.id)) rows.push(fresh.get(old.id) ?? old);
      follow(old.id);
    }
    this.version = sent.version;
    this.keep(rows);
    return new Set([...fresh.keys(), ...gone]);
  }

  keep(rows) {
    this.rows = rows;
    this.byId = new Map(rows.map((row) => [row.id, row]));
  }

  read(sent, idOf) {
    const shapes = sent.shapes.map((one) =>
      Object.fromEntries(SHAPE.map((name, n) => [name, one[n]])),
    );
    let moment = 0;
    return sent.label.map((label, n) => {
      const shape = shapes[sent.shape[n]];
      const id = idOf(label, shape, n);
      const step = sent.started[n];
      if (step !== null) moment += step;
      const started = step === null ? null : moment;
      return { ...shape, id, op: shape.begun ? id : null, label, started, took: sent.took[n] };
    });
  }
}
