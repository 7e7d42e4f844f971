"""The panel of a long run, in a real JupyterLab and a real Chromium.

first paint
    From the start of the cell ``run.panel()`` until the first rows are painted, with the static
    table above them: in the kernel that has run it all, in the next one that has only opened the
    run, and (without a cell) after the page was loaded anew, from the moment the notebook is there.
bytes
    What the kernel sends the page for that, all messages together, and for one click.
filter, sort, scroll
    From the key, or the click, until what is listed then is painted.
click to update
    From a click on "Deny" until the row, its place in the filters and the detail say so; the
    verdict is on disk before.
rows in the page
    Elements of rows that there are, of however many operations.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any, Final

from benchmarks.lab import Page, lab
from benchmarks.running import Row, parser, tell, to_stderr

_OPEN: Final = """\
import os, threading
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('long')
begun = threading.Barrier({doubts})  # the first that fails stops those that have not begun
def work(n):
    return {{'number': n, 'ok': True}}
def pay(n):
    begun.wait()
    raise TimeoutError('no answer')
run.map(work, range({work}), key=str)
try:
    run.map(pay, range({doubts}), key=str, limit={doubts})
except BaseException as stop:
    print(type(stop).__name__)"""
_AGAIN: Final = """\
import os
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('long')"""
#: Else a page that is loaded has got the panel that there was before the cell is run.
_FORGET: Final = """\
from durable_nb.notebook.panel import panel
for shown in panel._panels.values():
    shown.close()
panel._panels.clear()"""

#: Waits in the page, frame by frame, until something is true; then until it is painted.
_UNTIL: Final = """async (true_) => {
    const frame = () => new Promise((go) => requestAnimationFrame(go));
    while (!true_()) await frame();
    await frame();
    await new Promise((go) => setTimeout(go));
    return performance.now();
}"""
_PANEL: Final = "[...document.querySelectorAll('.dnb-panel')].at(-1)"
_PAINTED: Final = f"() => {_PANEL}?.querySelectorAll('tr[data-op]').length > 20"


def main() -> int:
    """Measure and tell."""
    asked = parser(__doc__, number=20_000, rounds=5).parse_args()
    doubts = 2 * asked.rounds + 2
    cells = [_OPEN.format(work=asked.n - doubts, doubts=doubts), "run.panel()", _AGAIN, _FORGET]
    with lab(cells) as page:
        to_stderr(f"making a run of {asked.n:,} operations")
        page.run_to_end(0, 900)
        rows = _measured(page, asked.rounds)
    return tell("Panel", rows, asked)


def _measured(page: Page, rounds: int) -> list[Row]:
    painted, sizes = [], []
    for n in range(rounds):  # each time in a page that knows nothing of the panel
        if n:
            page.run_to_end(3, 120)
            page.load()
            page.page.evaluate("jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        seconds, size = _shown(page)
        painted.append(seconds)
        sizes.append(size)
    to_stderr("shown")
    inside = [_inside(page, name) for name in ("filter", "sort", "scroll") for _ in range(rounds)]
    filters, sorts, scrolls = (inside[n * rounds : (n + 1) * rounds] for n in range(3))
    clicks, updates = zip(*[_denied(page) for _ in range(rounds)], strict=True)
    to_stderr("clicked")
    there = page.page.evaluate(f"() => {_PANEL}.querySelectorAll('tbody tr').length")
    page.page.evaluate("() => { jupyterapp.commands.execute('docmanager:save'); }")
    page.page.wait_for_timeout(1500)
    reloads = []
    for _ in range(rounds):
        page.load()
        reloads.append(_seconds(page, "window.loaded ??= performance.now()"))
        page.page.evaluate("() => { delete window.loaded; }")
    to_stderr("loaded anew")
    next_ = []
    for _ in range(rounds):
        page.restart()
        page.run_to_end(2, 120)
        page.page.evaluate("jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        next_.append(_shown(page)[0])
    median = statistics.median
    return [
        Row("first paint", median(painted), "s", "<= 2", "in the kernel that has run it"),
        Row("the same in the next kernel", median(next_), "s", "<= 2", "which has opened the run"),
        Row("the same in a page that is loaded", median(reloads), "s", "<= 2", "no cell is run"),
        Row("bytes for that", median(sizes) / 1e6, "MB", "<= 1", "all messages to the page"),
        Row("filter", median(filters), "ms", "<= 300", "a text, letter by letter, and none again"),
        Row("sort", median(sorts), "ms", "<= 300"),
        Row("scroll", median(scrolls), "ms", "", "from one end to the other"),
        Row("click to update", median(clicks), "ms", "<= 200", "a verdict, which is on disk"),
        Row("bytes for that click", median(updates) / 1e3, "KB", "", "all messages to the page"),
        Row("rows in the page", there, "elements", "<= 100"),
    ]


def _shown(page: Page) -> tuple[float, int]:
    """Run the cell that shows it; give the seconds until it is painted, and the bytes."""
    before = page.received
    page.run(1)
    found = _seconds(page, "window.asked")
    page.page.wait_for_timeout(1500)  # until all messages are there
    return found, page.received - before


def _seconds(page: Page, since: str) -> float:
    code = (
        f"async () => {{ const since = {since}; return (await ({_UNTIL})({_PAINTED}) - since); }}"
    )
    return float(page.page.evaluate(code)) / 1e3


#: What is done in the page, and what is true then.
_ACTS: Final = {
    "filter": (
        """for (const text of ['1', '12', '123', '']) {
            search.value = text;
            search.dispatchEvent(new Event('input'));
        }""",
        "count.textContent === ''",
    ),
    "sort": ("panel.querySelectorAll('.dnb-sort')[6].click();", "true"),
    "scroll": (
        "frame.scrollTop = frame.scrollTop ? 0 : frame.scrollHeight;",
        "(frame.scrollTop === 0) === (panel.querySelector('.dnb-row').ariaRowIndex === '2')",
    ),
}


def _inside(page: Page, name: str) -> float:
    act, true = _ACTS[name]
    code = f"""async () => {{
        const panel = {_PANEL}, search = panel.querySelector('.dnb-search');
        const count = panel.querySelector('.dnb-count'), frame = panel.querySelector('.dnb-frame');
        const since = performance.now();
        {act}
        return (await ({_UNTIL})(() => {true})) - since;
    }}"""
    return float(page.page.evaluate(code))


def _denied(page: Page) -> tuple[float, int]:
    """Deny what is chosen; give the milliseconds until all of the panel says so, and the bytes."""
    page.page.wait_for_timeout(2500)  # it takes no click before, and nothing else is on its way
    before = page.received
    code = f"""async () => {{
        const panel = {_PANEL};
        const op = panel.querySelector('.dnb-title code').textContent;
        const said = () => panel.querySelectorAll('.dnb-filter')[3].textContent;
        const [was, since] = [said(), performance.now()];
        panel.querySelector('.dnb-evidence').value = 'no such payment';
        panel.querySelector('.dnb-deny').click();
        const next = () => panel.querySelector('.dnb-title code').textContent !== op;
        return (await ({_UNTIL})(() => said() !== was && next())) - since;
    }}"""
    found: Any = page.page.evaluate(code)
    page.page.wait_for_timeout(500)
    return float(found), page.received - before


if __name__ == "__main__":
    sys.exit(main())
