"""The line under a long cell, in real kernels."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from kernels import Kernel, kernel

pytestmark = pytest.mark.slow

OPEN = "import time, durable_nb as dnb\nrun = dnb.open_run('r')"
#: Each of its steps takes half a second, and one costs something.
WORK = """\
for n in {}:
    with run.step('work', key=n, effect='none', inputs={{'n': n}}) as op:
        if op.needed:
            time.sleep(0.5)
            op.result = n
            if n == 1:
                op.spend(usd=0.12)
"""


def work(*numbers: int) -> str:
    """A cell with steps of these numbers, from and to."""
    return WORK.format(f"range{numbers}")


LINE = re.compile(
    r"this cell: step (\d+) · (\d+) completed(, (\d+) of them from record)?( · \$0\.12 in this run so far)? · 0:0\d"
    r"( · work\[\d\]#1)?\Z"
)


@pytest.fixture
def k(tmp_path) -> Iterator[Kernel]:
    with kernel(tmp_path, OPEN) as started:
        yield started


def _lines(shown) -> list[str]:
    return [data["text/plain"] for data in (*shown.displays, *shown.updates)]


def test_a_long_cell_shows_one_line_that_is_updated(k: Kernel):
    """It counts steps as they come, what came from record, and money; the last state stays."""
    shown = k.run(work(0, 6), cell_id="c1")

    lines = _lines(shown)
    assert len(shown.displays) == 1
    assert all(LINE.match(line) for line in lines), lines
    steps = [int(LINE.match(line)[1]) for line in lines]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]
    assert lines[-1].startswith("this cell: step 6 · 6 completed · $0.12 in this run so far · 0:0")
    assert all("from record" not in line for line in lines)


def test_what_comes_from_the_record_is_counted_so(k: Kernel):
    """Opened again, as a new kernel would find it, with four more to do."""
    k.run(work(0, 6))
    k.restart_run()
    shown = k.run(work(0, 10), cell_id="c1")
    assert _lines(shown)[-1].startswith(
        "this cell: step 10 · 10 completed, 6 of them from record · $0.12 in this run so far · "
    )


def test_what_the_kernel_had_reached_before_is_counted_again(k: Kernel):
    """A cell that is run again replays its steps: the line is about the cell, not the kernel."""
    k.run(work(0, 3), cell_id="c1")
    shown = k.run(work(0, 7), cell_id="c1")
    assert _lines(shown)[-1].startswith("this cell: step 7 · 7 completed, 3 of them from record · ")


def test_it_names_what_is_under_way_and_a_kill_leaves_that(k: Kernel):
    """So that whoever finds the page sees what was cut off; the end of a cell leaves nothing."""
    shown = k.run(work(0, 5), cell_id="c1")
    *earlier, last = _lines(shown)
    assert [line for line in earlier if " · work[" in line]
    assert "work[" not in last
    message = k.send(
        "with run.step('refund', key='A-1007') as op:\n    if op.needed:\n"
        "        time.sleep(3)\n        open('long', 'w').close()\n        time.sleep(60)",
        cell_id="c2",
    )
    k.wait_for("long")
    os.kill(k.pid, signal.SIGKILL)
    shown = k.wait(message)
    assert shown.status == "dead"
    assert _lines(shown)[-1].endswith(" · refund[A-1007]#1")


def test_of_many_under_way_the_first_is_named(k: Kernel):
    """And their number; what others are below of is not one of them."""
    k.run("import asyncio\nasync def look(n):\n    await asyncio.sleep(3)")
    cell = (
        "async def all_of_them():\n"
        "    await asyncio.gather(*(run.step('look', key=n, effect='none').call(look, n)"
        " for n in range(3)))\n"
        "await run.step('outer', effect='none').call(all_of_them)"
    )
    line = _lines(k.run(cell, cell_id="c1"))[0]
    assert line.startswith("this cell: step 3 · 0 completed")
    assert line.endswith(" · outer#1/look[0]#1 and 2 more")


def test_the_last_line_of_a_cell_names_nothing(k: Kernel):
    """What a task of it goes on with would stand there for ever."""
    k.run("import asyncio\nasync def look():\n    await asyncio.sleep(20)")
    cell = (
        "task = asyncio.ensure_future(run.step('look', effect='none').call(look))\n"
        "await asyncio.sleep(3)"
    )
    first, *_, last = _lines(k.run(cell, cell_id="c1"))
    assert first.endswith(" · look#1")
    assert re.search(r" · 0:0\d\Z", last)


def test_a_short_cell_shows_nothing(k: Kernel):
    """Nor does one that does no step, however long."""
    assert _lines(k.run(work(0, 2), cell_id="c1")) == []
    assert _lines(k.run("time.sleep(3)", cell_id="c2")) == []


def test_where_nobody_looks_nothing_is_shown(k: Kernel):
    """Front ends give their cells an id; nbval, nbclient and papermill do not."""
    assert _lines(k.run(work(0, 6))) == []


def test_a_cell_that_fails_leaves_its_last_state(k: Kernel):
    """And the next one begins anew."""
    shown = k.run(work(0, 5) + "1 / 0", cell_id="c1", check=False)
    assert shown.error == "ZeroDivisionError"
    assert _lines(shown)[-1].startswith("this cell: step 5 · 5 completed")
    shown = k.run(work(5, 10), cell_id="c2")
    assert _lines(shown)[-1].startswith("this cell: step 5 · 5 completed")


def test_in_a_supervised_run_nothing_is_shown(k: Kernel):
    """The executed notebook is a document."""
    k.run("import os; os.environ['DURABLE_SUPERVISED'] = '/nothing'")
    assert _lines(k.run(work(0, 5), cell_id="c1")) == []
