"""Durable cells in a real kernel: what they show, how they fail, and how Ctrl-C ends them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from kernels import LOAD, Kernel, kernel, lines, plain

NONE = "%%durable {} --effect none\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with kernel(tmp_path_factory.mktemp("shared"), LOAD) as started:
        yield started


_count = iter(range(1, 1000))


@pytest.fixture
def k(shared: Kernel) -> Kernel:
    """The shared kernel, with a new run in it and no names and runs of earlier tests."""
    shared.run("%reset -f")
    shared.run("[r.close() for r in __import__('durable_nb').engine.context.OPEN.all()];")
    shared.run(f"import durable_nb as dnb; run = dnb.open_run('r{next(_count)}')")
    return shared


def without_numbers(text: str) -> str:
    """Take out what differs between two executions of one body: counts, lines and the marker."""
    text = re.sub(r"In\[\d+\]|ipykernel_\d+/\d+\.py", "CELL", plain(text))
    text = re.sub(r"^.*run_cell_magic\('durable'.*\n", "", text, flags=re.M)
    return re.sub(r"\d+", "N", text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "x = 1\nprint('hello')\nx + 1",
        "import asyncio\nx = await asyncio.sleep(0, 5)\nx",
        "!echo from the shell",
        "%time y = 3",
        "1;",
        "from IPython.display import HTML\nHTML('<b>b</b>')",
        "import sys\nprint('e', file=sys.stderr)",
    ],
)
def test_a_durable_cell_shows_what_the_plain_cell_shows(k, body):
    """`await`, `!`, `%time` and the last expression reach the front end as ever."""
    without = k.run(body)
    with_it = k.run(NONE.format("cell") + body)

    for part in ("text", "results", "displays"):
        before, after = getattr(without, part), getattr(with_it, part)
        if "%time" in body and part == "text":
            before, after = (re.sub(r"[\d.]+(e[+-]\d+)? \w+", "N", t) for t in (before, after))
        assert after == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "x = 1\n\nx / 0",
        "def inner():\n    return {}['k']\n\ninner()",
        "import asyncio\nawait asyncio.sleep(0)\nraise ValueError('no')",
        "x = = 1",
        "return 1",
        "%time 1 / 0",
        "raise RuntimeError('a') from KeyError('b')",
        "raise ExceptionGroup('many', [ValueError(1), KeyError(2)])",
    ],
)
def test_a_failure_shows_the_traceback_of_the_plain_cell_and_fails_the_cell(k, body):
    """Error status, class, and the traceback line by line are as without `%%durable`."""
    without = k.run(body, check=False)
    with_it = k.run(NONE.format("cell") + body, check=False)

    assert (with_it.status, with_it.error) == ("error", without.error)
    before = without_numbers(without.traceback).splitlines()
    after = without_numbers(with_it.traceback).splitlines()
    assert [line.strip() for line in after if line.strip()] == [
        line.strip() for line in before if line.strip()
    ]
    arrows = [
        [int(n) for n in re.findall(r"^-+> (\d+)", plain(s.traceback), flags=re.M)]
        for s in (without, with_it)
    ]
    if "%time" not in body:  # it counts the lines of its own argument
        own = [n for n in arrows[0] if n < 20]  # lines of the cell, not of a library
        assert [n for n in arrows[1] if n < 20] == [n + 1 for n in own]
    assert "durable_nb" not in with_it.traceback


@pytest.mark.slow
def test_a_doubt_shows_where_the_cell_failed_and_then_what_settles_it(k):
    """The first time an external cell fails its traceback stands above the five lines."""
    shown = k.run("%%durable pay\nx = 1\nx / 0", check=False)

    assert (shown.status, shown.error) == ("error", "UnknownOutcome")
    text = plain(shown.traceback)
    assert "----> 3 x / 0" in text
    assert text.strip().endswith('run.deny("pay#1", evidence="...")')
    again = k.run("%%durable pay\nx = 1\nx / 0", check=False)
    assert len(again.traceback.strip().splitlines()) == 5


@pytest.mark.slow
def test_shift_enter_on_a_cell_that_charged_does_not_charge_again(k):
    """Executing a completed cell again gives its record, whatever the front end sends as its id."""
    cell = "%%durable charge\nwith open('ledger', 'a') as f:\n    f.write('x\\n')\npaid = True"
    (k.folder / "ledger").unlink(missing_ok=True)
    for cell_id in ("", "", "abc", "abc"):
        shown = k.run(cell, cell_id)
    k.run("paid = None")
    k.run("# moved and commented\n" + cell, "abc")

    assert lines(k.folder / "ledger") == ["x"]
    assert "from record" in shown.text
    assert k.run("paid").results == [{"text/plain": "True"}]


@pytest.mark.slow
def test_case_45_changing_a_cell_but_for_its_code_does_not_run_it_again(k):
    """Tags, place, id and execution count are no part of an operation's identity."""
    cell = "%%durable charge\nwith open('ledger45', 'a') as f:\n    f.write('x\\n')"
    k.run(cell, "first")
    k.run("1")
    k.restart_run()
    k.run(cell, "another")

    assert lines(k.folder / "ledger45") == ["x"]


@pytest.mark.slow
def test_an_interrupt_ends_an_awaiting_cell_within_half_a_second(k):
    """The cell is recorded as interrupted, shows KeyboardInterrupt, and is not called done."""
    message = k.send(
        "%%durable wait\nimport asyncio\nopen('awaiting', 'w').close()\nawait asyncio.sleep(30)"
    )
    k.wait_for("awaiting")
    began = time.monotonic()
    k.interrupt()
    shown = k.wait(message)

    assert time.monotonic() - began < 0.5
    assert (shown.status, shown.error) == ("error", "KeyboardInterrupt")
    assert "----> 4 await asyncio.sleep(30)" in plain(shown.traceback)
    assert 'run.deny("wait#1", evidence="...")' in shown.text
    kinds = k.run("list(run.history('wait#1')['kind'])").results[0]["text/plain"]
    assert kinds == "['intended', 'interrupted']"
    assert k.run("run.unknown()[0].id").results[0]["text/plain"] == "'wait#1'"


@pytest.mark.slow
def test_an_interrupt_reaches_a_step_that_an_ordinary_cell_awaits(k):
    """Bodies are shielded from cancellation, but not from a person's Ctrl-C."""
    message = k.send(
        "import asyncio\nasync def body():\n    open('inside', 'w').close()\n"
        "    await asyncio.sleep(30)\nawait run.call(body)"
    )
    k.wait_for("inside")
    began = time.monotonic()
    k.interrupt()
    shown = k.wait(message)

    assert time.monotonic() - began < 0.5
    assert shown.status == "error"
    kinds = k.run("list(run.history('body#1')['kind'])").results[0]["text/plain"]
    assert kinds == "['intended', 'interrupted']"


@pytest.mark.slow
def test_an_interrupt_works_in_the_very_cell_that_opened_the_run(k):
    """No earlier cell had a run, and still Ctrl-C reaches what this one awaits."""
    k.run("run.close(); del run")
    message = k.send(
        "import asyncio\nrun = dnb.open_run('here')\nopen('opened', 'w').close()\n"
        "await asyncio.sleep(30)"
    )
    k.wait_for("opened")
    began = time.monotonic()
    k.interrupt()

    assert k.wait(message).status == "error"
    assert time.monotonic() - began < 0.5


@pytest.mark.slow
def test_a_second_interrupt_while_steps_still_end_leaves_the_cell_recorded(k):
    """However often Ctrl-C is pressed, the cell ends as interrupted and never stays live."""
    message = k.send(
        "%%durable cell\nimport asyncio\nasync def stubborn():\n"
        "    try:\n        open('stubborn', 'w').close()\n        await asyncio.sleep(30)\n"
        "    except asyncio.CancelledError:\n        open('cancelled', 'w').close()\n"
        "        await asyncio.sleep(30)\n"
        "task = asyncio.ensure_future(run.step('s', effect='none').call(stubborn))\n"
        "await asyncio.sleep(0)"
    )
    k.wait_for("stubborn")
    k.interrupt()
    k.wait_for("cancelled")
    k.interrupt()
    shown = k.wait(message)

    assert shown.error == "KeyboardInterrupt"
    kinds = k.run("list(run.history('cell#1')['kind'])").results[0]["text/plain"]
    assert kinds == "['intended', 'interrupted']"


#: Cancels the cell once more while it waits until its outcome is on the disk, as a second Ctrl-C
#: does that comes just before.
ONCE_MORE = """
import asyncio
reached = run.durability.reached
async def once_more():
    run.durability.reached = reached
    asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
    await reached()
"""


@pytest.mark.slow
def test_a_second_interrupt_while_the_cell_is_recorded_is_an_interrupt_too(k):
    """It is no `CancelledError`, which nobody has raised, and the record is there."""
    k.run(ONCE_MORE)
    message = k.send(
        "%%durable cell\nrun.durability.reached = once_more\nopen('recorded', 'w').close()\n"
        "await asyncio.sleep(30)"
    )
    k.wait_for("recorded")
    k.interrupt()

    assert k.wait(message).error == "KeyboardInterrupt"
    kinds = k.run("list(run.history('cell#1')['kind'])").results[0]["text/plain"]
    assert kinds == "['intended', 'interrupted']"


@pytest.mark.slow
def test_an_interrupt_ends_a_blocking_cell_and_the_next_cell_runs(k):
    """A blocking cell is recorded as interrupted too, and Ctrl-C works afterwards as before."""
    for name in ("one", "two"):
        message = k.send(
            f"%%durable {name} --effect none\nimport time\nopen('{name}', 'w').close()\ntime.sleep(30)"
        )
        k.wait_for(name)
        k.interrupt()
        assert k.wait(message).error == "KeyboardInterrupt"
    assert k.run("1 + 1").results == [{"text/plain": "2"}]
    outcome = k.run("list(run.history('two#1')['kind'])").results[0]["text/plain"]
    assert outcome == "['intended', 'interrupted']"


#: Asks of a cell's operation from another thread, as the panel's watcher does.
FROM_A_THREAD = """
import threading
def ask(op):
    seen = []
    look = lambda: seen.append((run.get(op).live, run.get(op).outcome))
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return seen[0]
"""

#: Presses Ctrl-C once the wrapper's end is entered, and before a line of it has run.
PRESS_AS_THE_CELL_ENDS = """
import signal, sys
from durable_nb.notebook.cell import Cell
def press(frame, event, argument):
    if event == "call" and frame.f_code is Cell.__exit__.__code__:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.slow
def test_a_cell_that_ctrl_c_cut_off_as_it_ended_is_not_shown_as_running(k):
    """Whoever looks sees the doubt, settles it, and executes the cell again."""
    k.run(FROM_A_THREAD)
    k.run(PRESS_AS_THE_CELL_ENDS)

    cut = k.run("%%durable cut\nimport sys\nsys.setprofile(press)\nx = 1", "cut", check=False)

    assert cut.error == "KeyboardInterrupt"
    assert k.run("print(ask('cut'))").text == "(False, 'unknown')\n"
    k.run("run.deny('cut', evidence='it only sets a name');")
    k.run("%%durable cut\nx = 1", "cut")
    assert k.run("print(ask('cut'))").text == "(False, 'completed')\n"


@pytest.mark.slow
def test_a_cell_is_running_for_whoever_looks_while_its_body_runs(k):
    """Blocking or awaiting, and also when another thread asks."""
    k.run(FROM_A_THREAD)

    blocking = k.run("%%durable blocking\nprint(ask('blocking'))")
    awaiting = k.run(
        "%%durable awaiting\nimport asyncio\nawait asyncio.sleep(0)\nprint(ask('awaiting'))"
    )

    assert blocking.text == awaiting.text == "(True, 'incomplete')\n"
    assert k.run("print(ask('awaiting'))").text == "(False, 'completed')\n"


@pytest.mark.slow
def test_closing_a_durable_cell_awaits_the_steps_that_still_run(k):
    """A task that a cell starts and does not await is recorded before the cell is."""
    k.run(
        "%%durable cell\nimport asyncio\n"
        "async def slow():\n    await asyncio.sleep(0.2)\n    return 5\n"
        "task = asyncio.ensure_future(run.step('slow', effect='none').call(slow))\n"
        "await asyncio.sleep(0)\ndel task"
    )

    assert k.run("run.get('cell#1/slow#1').result").results == [{"text/plain": "5"}]


def test_case_27_await_in_a_durable_cell_works_also_on_replay(k):
    """`x = await f()` runs, and comes back."""
    cell = NONE.format("cell") + "async def f():\n    return 7\nx = await f()"
    k.run(cell)
    k.run("del x, f")
    shown = k.run(cell)

    assert "from record" in shown.text
    assert k.run("x, await f()").results == [{"text/plain": "(7, 7)"}]


@pytest.mark.slow
def test_case_29_a_run_opened_after_an_await_is_found_in_the_next_cell(k):
    """The active run is kept in an object, not only in a context variable."""
    k.run("run.close(); del run")
    k.run("import asyncio\nawait asyncio.sleep(0)\nlater = dnb.open_run('later')")
    k.run("@dnb.step(effect='none')\ndef one():\n    return 1")
    assert k.run("one()").results == [{"text/plain": "1"}]
    assert k.run("await asyncio.sleep(0)\none.options(key='b')()").results == [{"text/plain": "1"}]
    assert k.run("dnb.current_run().name").results == [{"text/plain": "'later'"}]
    in_thread = "await asyncio.to_thread(one.options(key='c'))"
    assert k.run(in_thread).results == [{"text/plain": "1"}]


@pytest.mark.slow
def test_case_30_a_thread_without_the_run_is_refused_and_never_begins_one(k):
    """`to_thread` inherits the run; a plain thread and an executor are told what to do."""
    k.run(
        "import asyncio, threading\n"
        "@dnb.step(effect='none')\ndef one(where):\n    return where\n"
        "seen = {}\n"
        "def call(where):\n"
        "    try:\n        seen[where] = one.options(key=where)(where)\n"
        "    except Exception as error:\n        seen[where] = type(error).__name__\n"
    )
    k.run("await asyncio.to_thread(call, 'to_thread')")
    k.run("t = threading.Thread(target=call, args=('thread',)); t.start(); t.join()")
    k.run("await asyncio.get_running_loop().run_in_executor(None, call, 'executor')")
    k.run("t = threading.Thread(target=lambda: seen.update(given=run.call(len, [1])))")
    k.run("t.start(); t.join()")

    assert k.run("sorted(seen.items())").results[0]["text/plain"].splitlines() == [
        "[('executor', 'NoActiveRun'),",
        " ('given', 1),",
        " ('thread', 'NoActiveRun'),",
        " ('to_thread', 'to_thread')]",
    ]
    opened = "len(__import__('durable_nb').engine.context.OPEN.all())"
    assert k.run(opened).results == [{"text/plain": "1"}]


@pytest.mark.slow
def test_a_broken_transformer_runs_nothing_unguarded(k):
    """IPython drops a transformer that raises; the cell in which it did must not run bare."""
    k.run(
        "from durable_nb.notebook.transform import Wrapper\nwhole = Wrapper.visit\n"
        "def broken(self, node):\n    Wrapper.visit = whole\n    raise RuntimeError('once')\n"
        "Wrapper.visit = broken"
    )
    shown = k.run("%%durable pay\nopen('unguarded', 'w').close()", check=False)
    after = k.run("1 + 1")
    k.run("%%durable pay\npaid = 1")

    assert shown.status == "error"
    assert not (k.folder / "unguarded").exists()
    assert "in place again" in after.text
    assert k.run("run.get('pay#1').outcome").results == [{"text/plain": "'completed'"}]


@pytest.mark.slow
def test_the_extension_survives_autoreload(k):
    """`%autoreload` leaves the hooks and the guard of durable cells working."""
    k.run("%load_ext autoreload\n%autoreload 2")
    k.run(NONE.format("cell") + "x = 1")
    assert "from record" in k.run(NONE.format("cell") + "x = 1").text
    k.run("%autoreload 0")


@pytest.mark.slow
def test_without_loading_the_extension_cells_and_runs_work_and_have_origins(tmp_path):
    """`import durable_nb` is enough for everything but the magics."""
    with kernel(tmp_path, "import durable_nb as dnb; run = dnb.open_run('plain')") as k:
        k.run("run.call(len, [1])", "a")
        assert k.run("run.call(len, [1])", "a").results == [{"text/plain": "1"}]
        assert k.run("# edited\nrun.call(len, [1])", "a").status == "ok"
        other = k.run("run.call(len, [1])", "b", check=False)
        assert other.error == "DuplicateStep"
        refused = k.run("%%durable x\nopen('ran', 'w').close()", check=False)
        assert refused.status == "error"
        assert not (tmp_path / "ran").exists()
        name = k.run("import json; json.load(open(run.folder / 'owner.json'))['kernel']")
        assert len(name.results[0]["text/plain"]) > 2
