"""What a cell shows when it stops, in real kernels: what is in doubt now, and whose frames."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernels import LOAD, Kernel, Shown, kernel, plain

pytestmark = pytest.mark.slow

OPEN = "import asyncio, time, durable_nb as dnb\nrun = dnb.open_run('payout')"
#: A step that says that it has begun, and then takes long.
CHARGE = """\
@dnb.step(effect={effect!r})
def charge(name):
    open(name, 'w').close()
    time.sleep(60)
"""
LIVE = "the live panel"


@pytest.fixture
def k(tmp_path) -> Iterator[Kernel]:
    with kernel(tmp_path, OPEN, CHARGE.format(effect="external")) as started:
        yield started


def interrupted(k: Kernel, code: str, begun: str, error: str = "KeyboardInterrupt") -> Shown:
    """Execute a cell, press ■ once it has made a file, and see what it showed."""
    message = k.send(code)
    k.wait_for(begun)
    k.interrupt()
    shown = k.wait(message)
    assert (shown.status, shown.error) == ("error", error)
    return shown


def panels(shown: Shown) -> list[str]:
    return [t for d in shown.displays if LIVE in (t := d.get("text/plain", ""))]


def doubt(k: Kernel, code: str) -> list[str]:
    """The lines of an `UnknownOutcome`, as the cell shows them when it is run again."""
    again = k.run(code, check=False)
    assert again.error == "UnknownOutcome"
    return plain(again.traceback).removeprefix("UnknownOutcome: ").splitlines()


def test_an_interrupt_inside_an_external_step_says_at_once_that_it_is_unknown(k: Kernel):
    """The lines that a second run would show stand below the traceback, and the panel below them."""
    shown = interrupted(k, "charge('begun')", "begun")

    assert "----> 1 charge('begun')" in plain(shown.traceback)
    assert shown.text.splitlines() == doubt(k, "charge('begun')")
    assert 'run.deny("charge#1", evidence="...")' in shown.text
    assert len(panels(shown)) == 1
    kinds = [kind for kind in shown.order if kind in {"error", "stream", "display_data"}]
    assert kinds.index("error") < kinds.index("stream") < kinds.index("display_data")


def test_the_same_where_the_interrupt_closed_the_run(k: Kernel):
    """Nobody holds the run after its `with` block; its panel comes all the same."""
    k.run("run.close(); del run")
    cell = "with dnb.run('inside'):\n    charge('within')"
    shown = interrupted(k, cell, "within")

    assert shown.text.splitlines()[-5:] == doubt(k, cell)
    assert "run 'inside'" in shown.text
    assert len(panels(shown)) == 1


def test_the_same_in_the_cell_that_opened_the_run(k: Kernel):
    """What that cell began is told; what an earlier kernel left in doubt was told by opening it."""
    interrupted(k, "charge('first')", "first")
    k.run("name = run.name; run.close(); del run")
    assert k.run("1 / 0", check=False).text == ""
    shown = k.run("run = dnb.open_run(name)\n1 / 0", check=False)
    assert "may or may not have happened" not in shown.text
    cell = "run.close()\nrun = dnb.open_run('third')\ncharge('third')"
    assert "charge#1 in run 'third'" in interrupted(k, cell, "third").text


def test_the_same_in_durable_and_in_awaiting_cells(k: Kernel):
    """Once a cell, however it was cut."""
    k.run(LOAD)
    cell = "%%durable pay\nopen('paying', 'w').close()\ntime.sleep(60)"
    shown = interrupted(k, cell, "paying")
    assert shown.text.splitlines() == doubt(k, cell)
    k.run("run.deny('pay#1', evidence='the test says so')")
    cell = (
        "async def send():\n    open('sending', 'w').close()\n    await asyncio.sleep(60)\n"
        "await run.call(send)"
    )
    shown = interrupted(k, cell, "sending", "CancelledError")  # as IPython ends such a cell
    assert shown.text.count("may or may not have happened") == 1
    assert "send#1" in shown.text
    assert len(panels(shown)) == 1


def test_any_error_says_what_it_leaves_in_doubt(k: Kernel):
    """It need not be that of the operation; what a signal has said is not said again."""
    k.run("def refuse():\n    raise TimeoutError('no answer')")
    cell = "try:\n    run.call(refuse)\nexcept dnb.UnknownOutcome:\n    pass\n1 / 0"
    shown = k.run(cell, check=False)
    assert shown.error == "ZeroDivisionError"
    assert shown.text.startswith("refuse#1 in run 'payout' may or may not have happened.")
    assert len(panels(shown)) == 1

    shown = k.run("1 / 0", check=False)
    assert (shown.text, shown.displays) == ("", [])
    shown = k.run("run.step('next').call(len, 'ab')", check=False)
    assert shown.error == "UnknownOutcome"  # of what an earlier cell began
    assert (shown.text, len(panels(shown))) == ("", 1)
    k.run("run.deny('refuse#1', evidence='the test says so')")
    shown = k.run("run.step('other').call(refuse)", check=False)
    assert shown.error == "UnknownOutcome"  # of its own
    assert (shown.text, len(panels(shown))) == ("", 1)


def test_where_nothing_is_unknown_nothing_is_said(k: Kernel):
    """What has no effect is done again without a question."""
    k.run(CHARGE.format(effect="none"))
    shown = interrupted(k, "charge('pure')", "pure")
    assert (shown.text, shown.displays) == ("", [])


# -- whose frames ------------------------------------------------------------------------------


def test_an_error_of_ours_shows_the_frames_of_the_person_and_the_message(k: Kernel):
    """Those of their functions too; `%xmode Verbose` has all of them."""
    k.run("approval = 'approval[Send?]#1'")
    k.run("def ask():\n    return run.approval('Send?')", check=False)
    k.run("ask()", check=False)
    k.run("run.reject(approval, reason='not today')")

    shown = k.run("ask()", check=False)
    text = plain(shown.traceback)
    assert shown.error == "ApprovalRejected"
    assert "----> 1 ask()" in text
    assert "----> 2     return run.approval('Send?')" in text
    assert "durable_nb/" not in text
    assert (
        text.strip().splitlines()[-1].startswith("ApprovalRejected: approval[Send?]#1 was reject")
    )

    k.run("%xmode Verbose")
    assert "durable_nb/engine/waits.py" in plain(k.run("ask()", check=False).traceback)


def test_a_body_that_raises_an_error_of_ours_is_shown_and_what_called_it_is_not(k: Kernel):
    """From the cell, through our frames, to the person's function."""
    k.run("def check():\n    raise dnb.NotApplied('no such customer')")
    text = plain(k.run("run.call(check)", check=False).traceback)
    assert "----> 1 run.call(check)" in text
    assert "----> 2     raise dnb.NotApplied('no such customer')" in text
    assert "durable_nb/" not in text


def test_library_frames_below_ours_are_left_out_too(k: Kernel):
    """A map runs bodies in threads: that is how it does its work, and not the person's."""
    k.run("def check(n):\n    raise dnb.NotApplied('no such customer')")
    text = plain(k.run("run.map(check, [1, 2])", check=False).traceback)
    assert "----> 1 run.map(check, [1, 2])" in text
    assert "----> 2     raise dnb.NotApplied('no such customer')" in text
    assert "concurrent" not in text


def test_a_cause_of_the_person_is_shown_and_one_of_ours_is_not(k: Kernel):
    """What the message says already is not said by the frames in which it was found."""
    k.run("run.call(lambda: object(), effect='none', name='thing')", check=False)
    lost = k.run("run.step('lost', effect='none').call(lambda: object())", check=False)
    assert lost.error == "ResultLost"
    text = plain(lost.traceback)
    assert "NotRecordable" not in text
    assert "durable_nb/" not in text
    own = (
        "try:\n    {}['customer']\nexcept KeyError as problem:\n"
        "    raise dnb.NotApplied('unknown customer') from problem"
    )
    text = plain(k.run(own, check=False).traceback)
    assert "KeyError: 'customer'" in text
    assert "direct cause" in text


def test_a_run_that_another_notebook_holds(k: Kernel, tmp_path):
    """Opening it says so without our frames; loading the extension says who, and how to look."""
    with kernel(tmp_path) as other:
        loaded = other.run(LOAD).text
        shown = other.run("import durable_nb as dnb\nrun = dnb.open_run('payout')", check=False)
    text = plain(shown.traceback)
    assert shown.error == "RunHeld"
    assert "----> 2 run = dnb.open_run('payout')" in text
    assert "durable_nb/" not in text
    assert "contextlib" not in text
    assert "%durable panel payout" in text.strip().splitlines()[-1]

    assert f"held by process {k.pid}" in loaded
    assert "watch it: %durable panel payout" in loaded
    assert "%durable run" not in loaded


def test_a_run_that_nobody_holds_is_what_to_go_on_with(k: Kernel, tmp_path):
    """Whichever comes first by name."""
    k.run("two = dnb.open_run('then this'); two.step('a').call(lambda: 1); two.close()")
    with kernel(tmp_path) as other:
        loaded = other.run(LOAD).text
    assert loaded.strip().endswith("to go on, or open it: %durable run then this")
