"""The line under a long cell, in real kernels."""

from __future__ import annotations

import re
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
    r"step (\d+) · (\d+) completed(, (\d+) from record)?( · \$0\.12 so far)? · 0:0\d\Z"
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
    assert lines[-1].startswith("step 6 · 6 completed · $0.12 so far · 0:0")
    assert all("from record" not in line for line in lines)


def test_what_comes_from_the_record_is_counted_so(k: Kernel):
    """Opened again, as a new kernel would find it, with four more to do."""
    k.run(work(0, 6))
    k.restart_run()
    shown = k.run(work(0, 10), cell_id="c1")
    assert _lines(shown)[-1].startswith("step 10 · 10 completed, 6 from record · $0.12 so far · ")


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
    assert _lines(shown)[-1].startswith("step 5 · 5 completed")
    shown = k.run(work(5, 10), cell_id="c2")
    assert _lines(shown)[-1].startswith("step 5 · 5 completed")


def test_in_a_supervised_run_nothing_is_shown(k: Kernel):
    """The executed notebook is a document."""
    k.run("import os; os.environ['DURABLE_SUPERVISED'] = '/nothing'")
    assert _lines(k.run(work(0, 5), cell_id="c1")) == []
