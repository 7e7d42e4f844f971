"""`durable-nb run`: a notebook executed from a shell, in as many kernels as it takes."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

KILL = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
KILL_ONCE = f"""import pathlib
if not pathlib.Path('killed').exists():
    pathlib.Path('killed').touch()
    {KILL.replace(chr(10), chr(10) + "    ")}"""

pytestmark = pytest.mark.slow


def test_a_kernel_that_dies_is_replaced_and_the_run_goes_on(desk, happen):
    """What was done is not done again; the executed notebook is that of the last kernel."""
    notebook = desk.notebook(
        happen,
        "%%durable one --effect none\nhappen('one')\nx = 20",
        KILL_ONCE,
        "%%durable two --effect none\nhappen('two')\ny = x + 1",
        "print('answer', y)",
    )

    code, said = desk.run(notebook)

    assert (code, said["end"], said["kernels"], said["deaths"]) == (0, "finished", 2, 1)
    assert desk.effects() == ["one", "two"]
    assert desk.cells()[-1].outputs[0].text == "answer 21\n"
    code, out, _ = desk.do("runs", "--json")
    (row,) = json.loads(out)
    assert (row["name"], row["status"], row["completed"]) == ("r", "finished", 2)


def test_a_kernel_that_a_supervisor_saw_die_is_marked_in_the_timeline(desk, happen):
    """With its signal, and what was at work; the kernel after it tells what it replayed."""
    notebook = desk.notebook(
        happen,
        "%%durable one --effect none\nhappen('one')",
        f"%%durable two --effect none\n{KILL_ONCE}\ny = 1",
    )

    code, said = desk.run(notebook)

    assert (code, said["kernels"], said["deaths"]) == (0, 2, 1)
    code, out, err = desk.do("timeline", "r", "--json")
    assert code == 0, err
    died, last = json.loads(out)["kernels"]
    assert died["ended"] == "died"
    assert "signal 9" in died["why"]
    assert "two#1" in died["why"]
    assert (last["ended"] in {"closed", "finished"}, last["known"], last["restored"]) == (
        True,
        1,
        1,
    )
    code, out, err = desk.do("timeline", "r")
    assert 'class="killed" data-kernel="1"' in out


def test_parameters_are_assigned_after_their_defaults_and_are_on_record(desk):
    """Typed as JSON has them; a resume with others is refused."""
    notebook = desk.notebook("print(count + 1, name)", parameters="count = 1\nname = 'a'")

    code, said = desk.run(notebook, "-p", "count=41", "-p", "name=b c")

    assert code == 0, said
    assert desk.cells()[-1].outputs[0].text == "42 b c\n"
    code, _, err = desk.do("run", notebook.name, "--run", "r", "-p", "count=7")
    assert code == 1
    assert "run 'r' is in use, with other parameters" in err


def test_an_effect_in_doubt_needs_a_person_and_is_told_with_the_lines_that_settle_it(desk, happen):
    """Exit 3; settled from the shell, a resume finishes it, and nothing happens twice."""
    notebook = desk.notebook(
        happen, f"%%durable pay --effect external\nhappen('pay')\n{KILL}\nz = 1", "print('end', z)"
    )

    code, said = desk.run(notebook)

    assert (code, said["end"], said["kernels"], said["deaths"]) == (3, "person needed", 1, 1)
    assert [line["line"] for line in said["open"]] == [
        "durable-nb confirm r 'pay#1' '{\"id\": …}' --evidence \"…\"",
        "durable-nb deny r 'pay#1' --evidence \"…\"",
    ]
    code, said = desk.run(notebook)  # it does not even start a kernel
    assert (code, said["kernels"]) == (3, 0)
    assert desk.effects() == ["pay"]
    code, _, err = desk.do("confirm", "r", "pay#1", '{"z": 1}', "--evidence", "seen")
    assert code == 0, err
    code, out, err = desk.do("resume", "r", "--json")
    assert (code, json.loads(out)[0]["end"]) == (0, "finished"), err
    assert desk.effects() == ["pay"]


def test_one_operation_that_ends_three_kernels_is_left_alone(desk):
    """It is named, with the memory that was used; the run counts as failed."""
    notebook = desk.notebook(f"%%durable eats --effect none\n{KILL}\nz = 1")

    code, said = desk.run(notebook)

    assert (code, said["end"], said["deaths"]) == (1, "failed", 3)
    assert "eats#1 has ended 3 kernels in a row, which used up to" in said["why"]
    _, out, _ = desk.do("runs", "--json")
    assert json.loads(out)[0]["status"] == "failed"


def test_a_timer_is_waited_for_without_a_kernel(desk):
    """The kernel ends, and another one goes on when its time has come."""
    notebook = desk.notebook("run.sleep(4)\nprint('awake')")

    code, said = desk.run(notebook)

    assert (code, said["end"], said["kernels"], said["deaths"]) == (0, "finished", 2, 0)
    assert desk.cells()[-1].outputs[0].text == "awake\n"


def test_a_signal_is_waited_for_without_a_kernel(desk):
    """Whoever sends it lets the run go on."""
    notebook = desk.notebook("print('got', run.wait_for('go'))")
    child = desk.start("run", notebook.name, "--run", "r", "--json")
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            code, out, _ = desk.do("show", "r", "--json")
            shown = json.loads(out)
            if shown.get("status") == "waiting" and shown["operations"]:
                break
            time.sleep(0.5)
        code, _, err = desk.do("signal", "r", "go", "7")
        assert code == 0, err
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, json.loads(out)["kernels"]) == (0, 2), err
    assert desk.cells()[-1].outputs[0].text == "got 7\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_before_the_next_operation(desk, happen, number):
    """What is at work ends in order; nothing is in doubt, and a resume does the rest."""
    work = (
        "import time\nfor n in range(30):\n"
        "    run.step('act', effect='external', key=n).call("
        "lambda n: (time.sleep(0.3), happen(n))[0], n)"
    )
    notebook = desk.notebook(happen, work)
    child = desk.start("run", notebook.name, "--run", "r", "--json")
    try:
        while len(desk.effects()) < 3:
            assert child.poll() is None
            time.sleep(0.1)
        os.kill(child.pid, number)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert (child.returncode, json.loads(out)["end"]) == (130, "broken off"), err
    done = len(desk.effects())
    assert done < 30
    _, out, _ = desk.do("show", "r", "--json")
    assert json.loads(out)["counts"]["unknown"] == 0 if "counts" in out else True
    code, out, err = desk.do("resume", "r", "--json")
    assert (code, json.loads(out)[0]["end"]) == (0, "finished"), err
    assert desk.effects() == [str(n) for n in range(30)]


def test_notify_gets_the_document(desk):
    """A program is told how it ended."""
    notebook = desk.notebook("1 / 0")
    code, said = desk.run(notebook, "--notify", "cat > told.json")
    assert (code, said["end"]) == (1, "failed")
    assert said["why"] == "cell 2 ended with ZeroDivisionError"
    assert json.loads((desk.folder / "told.json").read_text()) == said
    code, out, _ = desk.do("run", notebook.name, "--run", "r")
    assert code == 1
    assert "why: cell 2 ended with ZeroDivisionError" in out
    assert "  ZeroDivisionError: division by zero\n" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing.ipynb"], "nothing.ipynb: it is not there"),
        (["broken.ipynb"], "broken.ipynb: it is no notebook"),
        (["job.ipynb", "-p", "cont=1"], "job.ipynb: it has no parameter 'cont'"),
        (["plain.ipynb", "-p", "a=1"], "plain.ipynb: it takes no parameters"),
        (["other.ipynb"], "its kernel 'cobol' is not installed here"),
        (["job.ipynb", "-p", "count=sk-ant-api03-" + "a" * 40], "looks like a secret"),
    ],
)
def test_what_cannot_be_executed_is_refused_before_anything_is_begun(desk, words, says):
    """What is wrong, that nothing was begun, and what to do; no run is there."""
    desk.notebook("1", parameters="count = 1")
    plain = desk.notebook("1", name="plain")
    (desk.folder / "broken.ipynb").write_text('{"cells": 7}')
    other = plain.read_text().replace('"python3"', '"cobol"')
    (desk.folder / "other.ipynb").write_text(other)

    code, out, err = desk.do("run", words[0], "--run", "r", *words[1:])

    assert (code, out) == (1, "")
    assert says in err
    assert "Nothing was begun." in err
    assert not (desk.folder / "store" / "r").exists()


def test_a_run_that_somebody_executes_is_not_taken(desk):
    """Neither by another supervisor nor by `resume --all`."""
    notebook = desk.notebook(
        "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.1)"
    )
    child = desk.start("run", notebook.name, "--run", "r", "--json")
    try:
        while not (desk.folder / "store" / "r" / "journal.duckdb").exists():
            assert child.poll() is None
            time.sleep(0.1)
        code, _, err = desk.do("run", notebook.name, "--run", "r")
        assert code == 1
        assert f"supervisor process {child.pid}" in err
        code, out, _ = desk.do("resume", "--all")
        assert (code, "0 of 0 crashed runs were taken up" in out) == (0, True)
        (desk.folder / "go").touch()
        assert child.wait(60) == 0
    finally:
        child.kill()


def test_a_notebook_that_moved_goes_on_and_one_that_changed_is_a_mismatch_like_any_other(
    desk, happen
):
    """What differs is said before; a changed cell with an effect is asked about, not repeated."""
    cells = (
        happen,
        "%%durable send --effect external\nhappen('send')\nz = 1",
        "import pathlib\nif not pathlib.Path('go').exists():\n    1 / 0",
    )
    notebook = desk.notebook(*cells)
    code, said = desk.run(notebook)
    assert (code, said["why"]) == (1, "cell 4 ended with ZeroDivisionError")

    moved = notebook.rename(desk.folder / "moved.ipynb")
    code, out, err = desk.do("run", moved.name, "--run", "r", "--json")
    assert (code, json.loads(out)["why"]) == (1, "cell 4 ended with ZeroDivisionError")
    assert f"r: the notebook has moved: {notebook} -> {moved}" in err

    (desk.folder / "go").touch()
    desk.notebook(cells[0], cells[1].replace("z = 1", "z = 2"), *cells[2:], name="moved")
    code, out, err = desk.do("run", moved.name, "--run", "r", "--json")
    said = json.loads(out)
    assert "r: the notebook is not what it was: 1 cell changed" in err
    assert (code, said["end"]) == (3, "person needed"), said
    assert said["open"][0]["line"].startswith("durable-nb")
    assert desk.effects() == ["send"]


def test_a_file_that_is_gone_does_not_matter_to_a_resume(desk, happen):
    """The run has the notebook and its parameters on record."""
    stop = "import pathlib\nif not pathlib.Path('go').exists():\n    1 / 0"
    notebook = desk.notebook(happen, stop, "happen(count)", parameters="count = 1")
    code, said = desk.run(notebook, "-p", "count=5")
    assert code == 1, said
    notebook.unlink()
    (desk.folder / "go").touch()

    code, out, err = desk.do("resume", "r", "--json")

    assert (code, json.loads(out)[0]["end"]) == (0, "finished"), err
    assert desk.effects() == ["5"]


def test_a_killed_supervisor_leaves_a_run_that_the_next_one_takes_up(desk, happen):
    """Its kernel does not stay behind, and a pause that it could not take back is taken back."""
    work = (
        "import time\nfor n in range(20):\n    run.step('act', effect='none', key=n).call("
        "lambda n: (time.sleep(0.3), happen(n))[0], n)"
    )
    notebook = desk.notebook(happen, work)
    child = desk.start("run", notebook.name, "--run", "r", "--json")
    try:
        while len(desk.effects()) < 2:
            assert child.poll() is None
            time.sleep(0.1)
        os.kill(child.pid, signal.SIGSTOP)  # so that it cannot unpause
        code, _, err = desk.do("pause", "r", "--reason", "its supervisor was told to stop")
        assert code == 0, err
    finally:
        child.kill()
    child.communicate()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        _, out, _ = desk.do("runs", "--json")
        if json.loads(out)[0]["status"] != "open":
            break
        time.sleep(0.5)
    assert json.loads(out)[0]["status"] == "waiting"  # paused, and nobody executes it

    code, out, err = desk.do("resume", "--all", "--json")

    assert (code, [d["end"] for d in json.loads(out)]) == (0, ["finished"]), err
    assert sorted(set(desk.effects()), key=int) == [str(n) for n in range(20)]


def test_the_deaths_of_kernels_are_in_the_history(desk):
    """With how each ended and what was at work; and each kernel has an opening of its own."""
    notebook = desk.notebook(f"%%durable one --effect none\n{KILL_ONCE}\nz = 1")
    code, said = desk.run(notebook)
    assert code == 0, said
    _, out, _ = desk.do("history", "r", "--json")
    records = json.loads(out)
    (died,) = [r for r in records if r["kind"] == "died"]
    assert died["detail"].startswith("signal 9, at ")
    assert died["detail"].endswith(" MB, in one#1")
    openings = [r for r in records if r["kind"] == "opened"]
    assert len(openings) == 3  # two kernels, and the supervisor that recorded the death
