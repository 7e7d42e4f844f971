"""`dnb.supervise` and `dnb.resume`: the same from Python, and so from a cell."""

from __future__ import annotations

import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

import durable_nb as dnb

pytestmark = pytest.mark.slow

KILL_ONCE = """import os, pathlib, signal
if not pathlib.Path('killed').exists():
    pathlib.Path('killed').touch()
    os.kill(os.getpid(), signal.SIGKILL)"""


def test_a_notebook_is_executed_in_as_many_kernels_as_it_takes(desk, happen, monkeypatch):
    """What became of it is told, and so is each death while it goes on."""
    monkeypatch.setenv("PYTHONPATH", desk.environment["PYTHONPATH"])
    told: list[str] = []
    notebook = desk.notebook(
        happen, f"%%durable one --effect none\n{KILL_ONCE}\nhappen(n)", parameters="n = 1"
    )

    found = dnb.supervise(notebook, "r", {"n": 2}, store=desk.folder / "store", tell=told.append)

    assert str(found) == "run r: finished (2 kernels, of which 1 died)\nnotebook: job.r.ipynb"
    assert found.notebook == desk.folder / "job.r.ipynb"
    assert desk.effects() == ["2"]
    (line,) = told
    assert line.startswith("kernel 1 died (signal 9, at ")


def test_what_needs_a_person_is_told_with_the_lines_that_settle_it(desk, happen, monkeypatch):
    """Settled with `dnb.watch`, and taken up with `dnb.resume`."""
    monkeypatch.setenv("PYTHONPATH", desk.environment["PYTHONPATH"])
    store = desk.folder / "store"
    notebook = desk.notebook(
        happen, f"%%durable pay --effect external\nhappen('pay')\n{KILL_ONCE}\nz = 1"
    )

    found = dnb.supervise(notebook, "r", store=store)

    assert found.end == "person needed"
    assert "settle it with run = dnb.watch('r'), then dnb.resume('r'):" in str(found)
    assert '    run.deny("pay#1", evidence="...")' in str(found)
    dnb.watch("r", store=store).confirm("pay#1", {"z": 1}, evidence="seen")
    assert dnb.resume("r", store=store).end == "finished"
    assert desk.effects() == ["pay"]


def test_a_run_without_a_notebook_on_record_is_not_resumed(desk):
    """It was executed in a front end, or in a script."""
    with dnb.open_run("r", store=desk.folder / "store"):
        pass
    with pytest.raises(dnb.NotebookUnusable, match="it has no notebook on record"):
        dnb.resume("r", store=desk.folder / "store")


def test_it_works_from_a_cell_and_stops_before_the_next_operation(desk, happen):
    """Ctrl-C there leaves a run that is resumed, with nothing in doubt; handlers are put back."""
    work = (
        "import time\nfor n in range(20):\n    run.step('act', effect='external', key=n).call("
        "lambda n: (time.sleep(0.3), happen(n))[0], n)"
    )
    notebook = desk.notebook(happen, work)
    program = f"""
        import os, pathlib, signal, threading, time
        import durable_nb as dnb
        def interrupt():
            while not pathlib.Path('effects').exists():
                time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        found = dnb.supervise({str(notebook)!r}, 'r')
        assert found.end == 'broken off', found
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        print(dnb.resume('r'))
    """
    code = textwrap.dedent(program)
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(made, kernel_name="python3", timeout=180).execute(
        cwd=str(desk.folder), env=desk.environment
    )
    (cell,) = made.cells
    said = "".join(o.get("text", "") for o in cell.outputs)
    assert "stopping before the next operation" in said
    assert "run r: finished (1 kernel)" in said
    assert desk.effects() == [str(n) for n in range(20)]


def test_a_notebook_on_record_that_another_user_submitted_is_not_executed(
    desk, happen, monkeypatch
):
    """It may have come in an archive: named by a person, it is, and from then on it is theirs."""
    monkeypatch.setenv("PYTHONPATH", desk.environment["PYTHONPATH"])
    monkeypatch.setenv("XDG_DATA_HOME", str(desk.folder / "theirs"))
    store = desk.folder / "store"
    notebook = desk.notebook(happen, "happen('began')", f"import os\n{KILL_ONCE}", "happen('end')")
    assert dnb.supervise(notebook, "r", store=store, restarts=0).end == "failed"
    monkeypatch.setenv("XDG_DATA_HOME", str(desk.folder / "mine"))

    with pytest.raises(dnb.NotebookUnusable, match="its notebook was not submitted by you"):
        dnb.resume("r", store=store)
    (left,) = dnb.resume_all(store=store)
    assert (left.end, left.kernels) == ("left alone", 0)
    assert "not submitted by you" in left.why
    assert desk.effects() == ["began"]

    (desk.folder / "killed").unlink()
    assert dnb.supervise(notebook, "r", store=store, restarts=0).end == "failed"
    assert dnb.resume("r", store=store).end == "finished"
