"""`papermill --engine durable`: papermill's own command, real kernels."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
from support.desk import REPOSITORY, Desk

import durable_nb as dnb

KILL = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
ONCE = "import pathlib\nif not pathlib.Path('{0}').exists():\n    pathlib.Path('{0}').touch()\n    "
KILL_ONCE = ONCE.format("killed") + KILL.replace("\n", "\n    ")
ENGINES = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"][
    "papermill.engine"
]


class Mill(Desk):
    """A folder with notebooks, and papermill's command in it."""

    @property
    def environment(self) -> dict[str, str]:
        installed = self.folder / "installed" / "durable_nb-0.1.0.dist-info"
        installed.mkdir(parents=True, exist_ok=True)
        listed = "\n".join(f"{name} = {where}" for name, where in ENGINES.items())
        (installed / "entry_points.txt").write_text(f"[papermill.engine]\n{listed}\n")
        env = super().environment
        env["PYTHONPATH"] += os.pathsep + str(installed.parent)  # as an installation writes it
        env.pop("DURABLE_RUN", None)
        return env

    def notebook(self, *cells: str, parameters: str = "", name: str = "job") -> Path:
        """Write a notebook; papermill has to know its language."""
        path = super().notebook(*cells, parameters=parameters, name=name)
        made = nbformat.read(path, as_version=4)
        made.metadata.kernelspec.language = "python"
        nbformat.write(made, path)
        return path

    def begin(self, *words: object, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "papermill", "--engine", "durable", *map(str, words)],
            cwd=self.folder,
            env=self.environment | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def mill(self, *words: object, **env: str) -> tuple[int, str]:
        """Execute a notebook; give the exit code and what was said."""
        child = self.begin(*words, **env)
        out, err = child.communicate(timeout=120)
        return child.returncode, out + err

    def whole(self, name: str = "out") -> Any:
        return nbformat.read(self.folder / f"{name}.ipynb", as_version=4)

    def shown(self, name: str = "out") -> list[str]:
        """Give what the cells of an executed notebook print."""
        cells = self.cells(name)
        return [o.text for c in cells for o in c.get("outputs", ()) if o.output_type == "stream"]

    def statuses(self) -> list[str]:
        """Give what papermill says of each cell; it adds some that point to an error."""
        told = [cell.metadata.get("papermill") for cell in self.cells("out")]
        return [one["status"] for one in told if one]

    def listed(self) -> list[tuple[str, str]]:
        _, out, _ = self.do("runs", "--json")
        return [(row["name"], row["status"]) for row in json.loads(out)]


@pytest.fixture
def call(mill, monkeypatch):
    """Papermill as a library: the same without another process."""
    papermill = pytest.importorskip("papermill")
    engines = importlib.import_module("papermill.engines").papermill_engines
    engines.register("durable", entry_point().load())
    monkeypatch.chdir(mill.folder)
    for name in ("PYTHONPATH", "DURABLE_STORE", "IPYTHONDIR"):
        monkeypatch.setenv(name, mill.environment[name])
    monkeypatch.delenv("DURABLE_RUN", raising=False)

    def made(notebook: Path, output: str | None, **options: Any) -> Any:
        return papermill.execute_notebook(
            notebook.name, output, engine_name="durable", progress_bar=False, **options
        )

    return made


def entry_point() -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint("durable", ENGINES["durable"], "papermill.engine")


@pytest.fixture
def mill(tmp_path):
    pytest.importorskip("papermill")
    return Mill(tmp_path)


@pytest.mark.slow
def test_parameters_and_outputs_are_papermills_and_a_second_time_nothing_is_done_again(
    mill, call, happen, caplog
):
    """The run has the name of the output; other parameters are refused, and leave it as it is."""
    notebook = mill.notebook(
        happen,
        "%%durable pay\nhappen(count)\nx = count + 1",
        "print('x', x, name)",
        parameters="count = 1\nname = 'a'",
    )
    words = (notebook.name, "out.ipynb", "-p", "count", 41, "-p", "name", "b c")

    code, said = mill.mill(*words)

    assert code == 0, said
    assert "Executing: 100%|" in said
    assert "x 42 b c\n" in mill.shown()
    assert mill.statuses() == ["completed"] * 6
    assert mill.whole().metadata.papermill.parameters == {"count": 41, "name": "b c"}
    assert mill.listed() == [("out", "finished")]

    moved = mill.folder / "moved.ipynb"
    shutil.copy(notebook, moved)  # the same one
    same = {"count": 41, "name": "b c"}
    call(moved, "out.ipynb", parameters=same)

    assert mill.effects() == ["41"]
    assert "out: the notebook has moved: " in caplog.text
    assert "out: it was finished before: what is on record is shown, and not done" in caplog.text
    assert "not what it was" not in caplog.text
    assert "x 42 b c\n" in mill.shown()
    before = mill.whole()
    (mill.folder / "else").mkdir()
    with pytest.raises(dnb.DurableError, match="in use, with other parameters") as taken:
        call(notebook, "out.ipynb", parameters={"count": 7})
    assert "DURABLE_RUN" in taken.value.__notes__[0]
    with pytest.raises(dnb.DurableError, match="in use, with another output"):
        call(notebook, "else/out.ipynb", parameters=same)
    assert not (mill.folder / "else" / "out.ipynb").exists()
    assert (mill.whole(), mill.effects()) == (before, ["41"])


@pytest.mark.slow
def test_a_kernel_that_dies_is_replaced_and_the_output_is_that_of_the_last(mill, happen):
    """What was done is not done again, and papermill ends well; a timer is waited for as well."""
    notebook = mill.notebook(
        happen,
        "%%durable one\nhappen('one')\nx = 20",
        KILL_ONCE,
        "run.sleep(2)",
        "%%durable two\nhappen('two')\ny = x + 1",
        "print('answer', y)",
    )

    code, said = mill.mill(notebook.name, "out.ipynb")

    assert (code, mill.effects()) == (0, ["one", "two"]), said
    assert "out: kernel 1 died (signal 9" in said
    assert "with no kernel: sleep#1" in said
    assert mill.shown()[-1] == "answer 21\n"
    assert mill.statuses() == ["completed"] * 7


@pytest.mark.slow
def test_an_effect_in_doubt_ends_papermill_with_the_lines_that_settle_it(mill, call, happen):
    """They stand in the notebook, with what was executed; settled, the same command finishes it."""
    notebook = mill.notebook(
        happen, "print('before')", f"%%durable pay\nhappen('pay')\n{KILL}\nz = 1", "print('end', z)"
    )
    line = "durable-nb confirm out 'pay#1' "

    code, said = mill.mill(notebook.name, "out.ipynb")

    assert code == 1
    assert "PapermillExecutionError" in said
    assert "run out: person needed" in said
    assert line in said
    assert "give the same command again" in said
    assert "before\n" in mill.shown()
    (error,) = [o for c in mill.cells("out") for o in c.get("outputs", ()) if "ename" in o]
    assert line in "\n".join(error.traceback)
    assert [s for s in mill.statuses() if s in {"failed", "pending"}] == ["failed", "pending"]

    before = mill.whole()
    with pytest.raises(dnb.DurableError, match=re.escape(line)):  # not even a kernel is started
        call(notebook, "out.ipynb")
    assert mill.whole() == before
    code, _, err = mill.do("confirm", "out", "pay#1", '{"z": 1}', "--evidence", "seen")
    assert code == 0, err
    code, said = mill.mill(notebook.name, "out.ipynb")
    assert (code, mill.effects()) == (0, ["pay"]), said
    assert mill.shown()[-1] == "end 1\n"


@pytest.mark.slow
def test_sigterm_stops_it_before_the_next_operation(mill, call, happen):
    """Papermill ends with a failure that says so, and the same command does the rest."""
    work = (
        "import time\nfor n in range(8):\n"
        "    run.step('act', effect='external', key=n).call("
        "lambda n: (time.sleep(0.3), happen(n))[0], n)"
    )
    notebook = mill.notebook(happen, work, "print('all')")
    child = mill.begin(notebook.name, "out.ipynb")
    try:
        while len(mill.effects()) < 3:
            assert child.poll() is None
            time.sleep(0.1)
        os.kill(child.pid, signal.SIGTERM)
        _, err = child.communicate(timeout=30)
    finally:
        child.kill()

    assert child.returncode == 1
    assert "run out: broken off" in err
    assert len(mill.effects()) < 8
    assert "all\n" not in mill.shown()
    call(notebook, "out.ipynb")
    assert mill.effects() == [str(n) for n in range(8)]
    assert mill.shown()[-1] == "all\n"


@pytest.mark.slow
def test_a_cell_that_fails_is_papermills_error_and_once_mended_the_run_goes_on(
    mill, call, happen, caplog
):
    """What it showed, and what to do; that the notebook has changed since is told."""
    pay = "%%durable pay\nhappen('pay')"
    notebook = mill.notebook(happen, pay, "import sys\nsys.exit(0)")

    code, said = mill.mill(notebook.name, "out.ipynb")

    assert code == 1  # even though papermill takes that exit for a good one
    assert "run out: failed" in said
    assert "cell 4 ended with SystemExit" in said
    assert mill.statuses()[-1] == "failed"
    mill.notebook(happen, pay, "print('mended')")
    call(notebook, "out.ipynb")
    assert mill.effects() == ["pay"]
    assert "the notebook is not what it was: 1 cell changed" in caplog.text
    assert mill.shown()[-1] == "mended\n"


@pytest.mark.slow
def test_what_papermill_is_told_of_kernels_and_output_holds(mill):
    """The working folder, the time for a cell, the log and the file for what is printed."""
    (mill.folder / "there").mkdir()
    notebook = mill.notebook(
        "import pathlib, time\nprint(f'in {pathlib.Path.cwd().name}')", "time.sleep(30)"
    )
    options = (
        "--cwd",
        "there",
        "--execution-timeout",
        6,
        "--stdout-file",
        mill.folder / "printed",
        "--log-output",
    )

    code, said = mill.mill(notebook.name, "out.ipynb", *options, DURABLE_RUN="nightly")

    assert code == 1
    assert "cell 3 ended with KeyboardInterrupt" in said
    assert "interrupted after 6 s" in said
    assert "in there" in said
    assert "in there\n" in (mill.folder / "printed").read_text()
    assert (mill.folder / "store" / "nightly").is_dir()


@pytest.mark.slow
def test_a_notebook_that_opens_no_run_is_executed_and_counts_as_failed(mill, call):
    """It says so, with all outputs in place: no record would let it go on."""
    notebook = mill.notebook("print('done')")
    made = nbformat.read(notebook, as_version=4)
    made.cells = made.cells[1:]
    nbformat.write(made, notebook)

    with pytest.raises(Exception, match="the notebook opens no run"):
        call(notebook, "out.ipynb")

    assert mill.shown() == ["done\n"]


@pytest.mark.parametrize(
    ("output", "options", "says"),
    [
        (None, {}, "its run has no name"),
        ("out.ipynb", {"kernel_name": "cobol"}, "its kernel 'cobol' is not installed here"),
        (".out.ipynb", {}, "It begins with a dot"),
        ("out.ipynb", {"parameters": {"a": "sk-ant-api03-" + "a" * 40}}, "looks like a secret"),
        ("out.ipynb", {"iopub_timeout": 4}, "unexpected keyword argument 'iopub_timeout'"),
    ],
)
def test_what_cannot_be_executed_is_refused_before_anything_is_begun(
    mill, call, output, options, says
):
    """No run is there, and an output that was there is as it was."""
    notebook = mill.notebook("1", parameters="a = 1")
    (mill.folder / "out.ipynb").write_text("kept")

    with pytest.raises((dnb.DurableError, TypeError), match=re.escape(says)):
        call(notebook, output, **options)

    assert (mill.folder / "out.ipynb").read_text() == "kept"
    assert not (mill.folder / "store").exists()


@pytest.mark.parametrize(
    "program",
    [
        "import durable_nb.faces.papermill, papermill",
        "import sys; sys.modules['papermill'] = None; import durable_nb.faces.papermill",
    ],
)
def test_either_may_be_imported_first_and_papermill_may_be_missing(mill, program):
    """Papermill loads every engine that is installed, while it is itself half imported."""
    subprocess.run([sys.executable, "-c", program], env=mill.environment, check=True)


def test_the_entry_point_is_an_engine():
    """It has what papermill calls, and needs no papermill to be loaded."""
    engine = entry_point().load()

    assert [*ENGINES] == ["durable"]
    assert {"execute_notebook", "nb_kernel_name", "nb_language"} <= {*dir(engine)}
