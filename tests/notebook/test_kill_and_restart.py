"""Kernels that are really killed, and notebooks that are run again from the top."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from kernels import LOAD, REPOSITORY, Kernel, kernel, lines
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

OPEN = "%durable run job"
MARK = "with open('ledger', 'a') as f:\n    f.write({!r} + '\\n')\n"


class Ran:
    """A notebook that was run from the top in a new kernel."""

    def __init__(self, folder: Path, sources: list[str]) -> None:
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        self.notebook = nbformat.v4.new_notebook(cells=cells)
        self.error = ""
        client = NotebookClient(
            self.notebook,
            timeout=60,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        )
        try:
            client.execute()
        except CellExecutionError as problem:
            self.error = str(problem)

    @property
    def shown(self) -> list[str]:
        return ["\n".join(map(self._text, cell.outputs)) for cell in self.notebook.cells]

    @staticmethod
    def _text(output: nbformat.NotebookNode) -> str:
        data = output.get("data", {}).get("text/plain")
        return str(output.get("text") or data or output.get("ename"))


@pytest.fixture
def run_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Ran]:
    monkeypatch.setenv("DURABLE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    return lambda sources: Ran(tmp_path, sources)


def kill_inside(k: Kernel, source: str, file: str) -> None:
    k.send(source)
    k.wait_for(file)
    k.kill()


@pytest.mark.slow
def test_case_22_a_failed_run_all_goes_on_from_the_broken_cell(tmp_path, run_all):
    """Cells that were done give their values without effects; the broken one and the rest run."""
    cells = [LOAD, OPEN]
    for n in range(1, 6):
        before = ", ".join(f"v{i}" for i in range(1, n))
        mark = MARK.format(f"c{n}")
        cells += [f"%%durable c{n}\n{mark}v{n} = {n} + sum([{before}])"]
    broken = [*cells]
    broken[5] = "%%durable c4\nraise ConnectionRefusedError('down')"
    assert "ConnectionRefusedError" in run_all(broken).error
    assert lines(tmp_path / "ledger") == ["c1", "c2", "c3"]

    mended = [*cells, "v1, v2, v3, v4, v5"]
    mended.insert(2, "run.deny('c4#1', evidence='it was down');")
    ran = run_all(mended)

    assert ran.error == ""
    assert lines(tmp_path / "ledger") == ["c1", "c2", "c3", "c4", "c5"]
    assert ran.shown[-1] == "(1, 3, 7, 15, 31)"
    assert ran.shown[3].startswith("↺ c1 · from record")


@pytest.mark.slow
def test_case_28_a_failing_durable_cell_stops_run_all(tmp_path, run_all):
    """The front end sees an error, so the next cell is not run."""
    after = "open('after', 'w').close()"
    cells = [LOAD, OPEN, "%%durable bad --effect none\n1 / 0", after]

    assert "ZeroDivisionError" in run_all(cells).error
    assert not (tmp_path / "after").exists()


@pytest.mark.slow
def test_a_notebook_run_again_from_the_top_runs_nothing_again(tmp_path, run_all):
    """Every durable cell comes from the record, with its output, and loading starts none."""
    cells = [
        LOAD,
        OPEN,
        "%%durable plan\n" + MARK.format("plan") + "import math\nplan = [1]\nprint('planned')",
        "%%durable work\n" + MARK.format("work") + "plan.append(math.floor(2.5))\nlen(plan)",
        "plan",
        "%durable panel",
    ]
    first, second = run_all(cells), run_all(cells)

    assert first.error == second.error == ""
    assert lines(tmp_path / "ledger") == ["plan", "work"]
    assert first.shown[4] == second.shown[4] == "[1, 2]"
    assert first.shown[2] == "planned\n"
    assert second.shown[2].endswith("planned\n")
    assert second.shown[3].endswith("2")


@pytest.mark.slow
def test_case_75_a_saved_notebook_keeps_a_table_and_a_text_of_the_run(run_all):
    """What a reopened notebook shows without a kernel is static HTML, with plain text beside it."""
    ran = run_all([LOAD, OPEN, "%%durable plan --effect none\nx = 1", "%durable panel"])

    output, live = nbformat.reads(nbformat.writes(ran.notebook), 4).cells[-1].outputs
    assert "<table" in output.data["text/html"]
    assert "script" not in output.data["text/html"]
    assert "✔ plan#1" in output.data["text/plain"]
    assert live.data["text/plain"] == "the live panel of run job"


@pytest.mark.slow
def test_a_changed_list_of_an_earlier_cell_comes_back_in_a_new_kernel(tmp_path):
    """`history.append(...)` is recorded, though neither name nor identity changed."""
    earlier = "history = ['hello']"
    turn = "%%durable turn --effect none\nhistory.append('answer')"
    with kernel(tmp_path, LOAD, OPEN, earlier, turn) as k:
        k.kill()

    with kernel(tmp_path, LOAD, OPEN, earlier, turn) as k:
        assert k.run("history").results == [{"text/plain": "['hello', 'answer']"}]


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [
        ("external", "unknown"),
        pytest.param("idempotent", "incomplete", marks=pytest.mark.slow),
        pytest.param("none", "incomplete", marks=pytest.mark.slow),
    ],
)
def test_a_kernel_killed_in_the_middle_of_a_cell(tmp_path, effect, outcome):
    """What was begun is unknown or incomplete by its effect, and is run again only if it may be."""
    before = "%%durable before\n" + MARK.format("before") + "x = 41"
    body = f"%%durable send --effect {effect}\n" + MARK.format("send")
    dying = (
        body + "open('inside', 'w').close()\nimport time; time.sleep(0 if done else 60)\ny = x + 1"
    )
    with kernel(tmp_path, LOAD, OPEN, before, "done = False") as k:
        kill_inside(k, dying, "inside")

    with kernel(tmp_path) as k:
        loaded = k.run(LOAD).text
        assert "job · crashed · 1 completed" in loaded
        assert f"{int(outcome == 'unknown')} unknown" in loaded
        listed = k.run(OPEN).text
        assert "the previous kernel ended without closing the run" in listed
        k.run(before)
        k.run("done = True")
        shown = k.run(dying, check=False)
        if outcome == "unknown":
            assert shown.error == "UnknownOutcome"
            assert "? send#1" in listed
            assert lines(tmp_path / "ledger") == ["before", "send"]
            blocked = k.run("%%durable more\n" + MARK.format("more"), check=False)
            assert blocked.error == "UnknownOutcome"
            k.run("%durable confirm send#1 {'y': 42} --evidence 'the ledger'")
            k.run(dying)
        assert k.run("y").results == [{"text/plain": "42"}]
        sent = ["send"] if outcome == "unknown" else ["send", "send"]
        assert lines(tmp_path / "ledger") == ["before", *sent]


@pytest.mark.slow
def test_a_kernel_killed_inside_a_container_goes_on_at_the_step_it_had_reached(tmp_path):
    """Code outside of steps runs again; completed steps give their record, and no effect twice."""
    mark = MARK.format("send").replace("\n", "\n    ").rstrip()
    steps = (
        "import durable_nb as dnb, time\n"
        f"@dnb.step\ndef send(n):\n    {mark}\n    return n\n"
        "@dnb.step(effect='none')\ndef think(n):\n"
        "    open('thinking', 'w').close()\n    time.sleep(0 if done else 60)\n    return n * 2\n"
    )
    cell = (
        "%%durable turn\nouter = outer + 1\na = send(1)\nb = think(a)\nc = send.options(key=2)(b)"
    )
    with kernel(tmp_path, LOAD, OPEN, "done = False; outer = 0", steps) as k:
        kill_inside(k, cell, "thinking")
    assert lines(tmp_path / "ledger") == ["send"]

    with kernel(tmp_path, LOAD, OPEN, "done = True; outer = 0", steps) as k:
        k.run(cell)
        assert lines(tmp_path / "ledger") == ["send", "send"]
        assert k.run("outer, a, b, c").results == [{"text/plain": "(1, 1, 2, 2)"}]
        assert "from record" in k.run(cell).text
        status = k.run("%durable status").text
        assert "✔ turn#1" in status

    with kernel(tmp_path, LOAD, OPEN, "done = True; outer = 0", steps) as k:
        k.run(cell)
        assert k.run("outer, a, b, c").results == [{"text/plain": "(1, 1, 2, 2)"}]
    assert lines(tmp_path / "ledger") == ["send", "send"]


@pytest.mark.slow
def test_loading_beside_a_run_that_another_kernel_holds_starts_and_breaks_nothing(tmp_path):
    """The list is read from the mirror; opening the held run is refused and names the holder."""
    with kernel(tmp_path, LOAD, OPEN, "%%durable a --effect none\nx = 1") as first:
        time.sleep(2.5)  # the mirror is published at most every 2 s
        with kernel(tmp_path) as second:
            assert "job · " in second.run(LOAD).text
            refused = second.run(OPEN, check=False)
            assert refused.status == "error"
            assert str(first.pid) in refused.all
        first.run("%%durable b --effect none\ny = x")
