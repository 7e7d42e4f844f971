// All runs of a store; a click, or Enter, opens the panel of one below.

const HEADINGS = ["run", "status", "done", "in doubt", "cost", "touched", "waits for you"];

function ago(seconds) {
  if (seconds === null) return "";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

function runRow(model, row) {
  const all = row.completed + row.incomplete + row.unknown;
  const state = row.pace ? `${row.status}, ${row.pace}` : row.status;
  const done = make("td", "dnb-done", `${row.completed} of ${all}`);
  const bar = make("div", "dnb-gauge", make("span", "dnb-gauge-done"));
  bar.firstChild.style.width = `${all ? (100 * row.completed) / all : 0}%`;
  bar.setAttribute("aria-hidden", "true");
  done.append(bar);
  const asks = row.asks.slice(0, 2).join("; ");
  const more = row.asks.length > 2 ? ` and ${row.asks.length - 2} more` : "";
  const made = make(
    "tr", "dnb-row", make("td", "dnb-name", row.name),
    make("td", `dnb-status-${row.status}`, state), done,
    make("td", row.unknown ? "dnb-asks" : "", row.unknown ? `? ${row.unknown}` : ""),
    make("td", "dnb-number", row.cost), make("td", "dnb-time", ago(row.touched_s)),
    make("td", "dnb-note dnb-asks", asks + more),
  );
  made.dataset.run = row.name;
  made.tabIndex = 0;
  made.setAttribute("role", "button");
  made.setAttribute("aria-label", `open run ${row.name}`);
  made.setAttribute("aria-selected", String(row.name === model.get("chosen")));
  const open = () => model.send({ open: row.name });
  made.addEventListener("click", open);
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open();
  });
  return made;
}

function drawRuns(model, root) {
  const focused = root.contains(document.activeElement) && document.activeElement.dataset.run;
  const rows = model.get("rows");
  const heads = make("tr", "", ...HEADINGS.map((name) => make("th", "", name)));
  const body = make("tbody", "", ...rows.map((row) => runRow(model, row)));
  if (!rows.length) {
    const none = make("td", "dnb-none", "no runs here yet");
    body.append(make("tr", "", Object.assign(none, { colSpan: HEADINGS.length })));
  }
  const needs = rows.filter((row) => row.asks.length).length;
  const said = `${rows.length} ${rows.length === 1 ? "run" : "runs"}` + (needs ? `, ${needs} waiting for you` : "");
  const message = make("div", "dnb-message dnb-failed", model.get("message"));
  message.setAttribute("role", "status");
  root.replaceChildren(
    make(
      "div", "dnb-head", make("span", "dnb-run", `runs in ${model.get("store")}`),
      make("span", "dnb-elapsed", said),
    ),
    make("div", "dnb-frame", make("table", "dnb-table", make("thead", "", heads), body)), message,
  );
  if (focused)
    [...body.children].find((tr) => tr.dataset.run === focused)?.focus({ preventScroll: true });
}

export default {
  render({ model, el }) {
    const root = make("div", "dnb-panel dnb-runs");
    root.setAttribute("role", "region");
    root.setAttribute("aria-label", "runs");
    el.append(root);
    const draw = () => drawRuns(model, root);
    const names = ["rows", "chosen", "message", "store"].map((name) => `change:${name}`).join(" ");
    model.on(names, draw);
    draw();
    return () => model.off(names, draw);
  },
};
