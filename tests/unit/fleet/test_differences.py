"""What differs from the last time is said before a run goes on; another notebook is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import durable_nb as dnb
from durable_nb.engine import packages
from durable_nb.engine.store import open_run
from durable_nb.engine.trajectory import QUIET
from durable_nb.fleet.differences import differences, packages_of, refuse_another, refuse_homeless
from durable_nb.fleet.errors import NotebookUnusable, RunTaken
from durable_nb.fleet.notebooks import Submitted, submit, value_of
from durable_nb.model.outcomes import RunStatus


def notebook(folder: Path, *cells: str, name: str = "job") -> Submitted:
    made = new_notebook(cells=[new_code_cell(source, id=f"c{n}") for n, source in enumerate(cells)])
    made.cells.append(new_markdown_cell("text", id="m"))
    nbformat.write(made, folder / f"{name}.ipynb")
    return submit(folder / f"{name}.ipynb", {})


def told(store: Path, now: Submitted, before: Submitted | None = None) -> list[str]:
    with open_run("r", store=store, role="reader", surroundings=QUIET) as run:
        return differences(run, now, before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a run has used one file and made another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("1")

    @dnb.step(effect="none", uses=["in.csv"], produces=["out.csv"])
    def convert():
        Path("out.csv").write_text("2")

    with dnb.open_run("r", store=tmp_path / "store"):
        convert()
    return tmp_path


def test_nothing_is_said_where_nothing_differs(folder):
    """Neither of the notebook nor of packages nor of files."""
    now = notebook(folder, "1", "2")
    assert told(folder / "store", now, now) == []


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["1", "3"], "1 cell changed"),
        (["1"], "1 cell gone"),
        (["1", "2", "3", "4"], "2 cells new"),
        (["0", "5", "2"], "1 cell changed, 1 cell new"),
    ],
)
def test_a_notebook_that_changed_is_told_by_its_cells(folder, cells, says):
    """Of the code cells, how many are not what they were."""
    before = notebook(folder, "1", "2")
    line = f"the notebook is not what it was: {says}"
    assert told(folder / "store", notebook(folder, *cells), before) == [line]


def test_a_notebook_that_moved_is_told(folder):
    """From where to where."""
    before, now = notebook(folder, "1"), notebook(folder, "1", name="other")
    (line,) = told(folder / "store", now, before)
    assert line == f"the notebook has moved: {before.path} -> {now.path}"


def test_packages_that_differ_are_told(folder, monkeypatch):
    """As name, version before and version now."""
    now = {**packages.installed(), "frobnicate": "2.0"}
    monkeypatch.setattr(packages, "installed", lambda: now)
    assert told(folder / "store", notebook(folder, "1")) == [
        "packages differ: frobnicate not there -> 2.0"
    ]


def test_files_that_are_not_what_any_step_has_seen_are_told(folder):
    """Used or produced; looked for from where the notebook is."""
    (folder / "in.csv").write_text("changed")
    (folder / "out.csv").unlink()
    first, second = told(folder / "store", notebook(folder, "1"))
    assert first.startswith("file in.csv differs: 1 bytes, sha256 ")
    assert " -> 7 bytes, sha256 " in first
    assert second == "file out.csv is gone"


def test_the_interpreter_of_the_kernel_is_asked_for_its_packages(folder, kernel):
    """Which need not be that of whoever supervises."""
    here = packages.installed()
    assert packages_of(kernel(f'exec "{sys.executable}" "$@"'))["python"] == here["python"]


def test_an_interpreter_that_cannot_say_is_refused_before_a_kernel_is_started(folder, kernel):
    """It has no durable_nb, so that the notebook could not do anything."""
    with pytest.raises(NotebookUnusable, match=r"cannot say what is installed \(no such module\)"):
        packages_of(kernel("echo no such module >&2; exit 1"))


@pytest.fixture
def kernel(folder, monkeypatch):
    """Give a notebook for a kernel whose interpreter is a shell script."""

    def make(script: str) -> Submitted:
        program = folder / "interpreter"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        spec = folder / "kernels" / "mine"
        spec.mkdir(parents=True)
        argv = [str(program), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        said = {"argv": argv, "display_name": "Mine", "language": "python"}
        (spec / "kernel.json").write_text(json.dumps(said))
        monkeypatch.setenv("JUPYTER_PATH", str(folder))
        made = new_notebook(cells=[new_code_cell("1")])
        made.metadata["kernelspec"] = {"name": "mine", "display_name": "Mine"}
        nbformat.write(made, folder / "mine.ipynb")
        return submit(folder / "mine.ipynb", {})

    return make


def test_another_notebook_under_the_same_name_is_refused(folder):
    """While the first is there, it is no notebook that moved and was changed then."""
    before, now = notebook(folder, "1"), notebook(folder, "2", name="other")
    with pytest.raises(RunTaken, match="with another notebook"):
        refuse_another("r", before, now, RunStatus.CRASHED)
    Path(before.path).unlink()
    refuse_another("r", before, now, RunStatus.CRASHED)


def test_a_finished_run_of_no_supervisor_is_not_taken_for_this_one(folder):
    """Else it would be called finished, and nothing of this notebook was executed."""
    now = notebook(folder, "1")
    with pytest.raises(RunTaken, match="no supervisor has executed"):
        refuse_another("r", None, now, RunStatus.FINISHED)
    refuse_another("r", None, now, RunStatus.CRASHED)


def test_without_its_folder_nothing_is_executed(folder):
    """The kernel works there."""
    with pytest.raises(NotebookUnusable, match="its folder /nowhere is not there"):
        refuse_homeless(Submitted("/nowhere/job.ipynb", "{}"))


def test_a_kernel_for_another_language_is_refused(folder, kernel):
    """A run needs Python in the kernel."""
    kernel("exit 1")
    path = folder / "kernels" / "mine" / "kernel.json"
    path.write_text(path.read_text().replace('"python"', '"R"'))
    with pytest.raises(NotebookUnusable, match="is for R, and a durable run needs Python"):
        submit(folder / "mine.ipynb", {})


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("1.5", 1.5), ("true", True), ('["a"]', ["a"]), ("b c", "b c"), ("NaN", "NaN"),
     ("-Infinity", "-Infinity"), ("2026-03-01", "2026-03-01"), ("", "")],
)  # fmt: skip
def test_a_parameter_on_a_command_line_is_json_else_text(text, value):
    """What is no JSON is text, the constants that JSON does not have included."""
    assert value_of(text) == value


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_begun(folder):
    """Else hours of work would end with an error."""
    with pytest.raises(NotebookUnusable, match=r"cannot be written there\. Nothing was begun"):
        dnb.supervise(notebook(folder, "1").path, "n", output=folder / "nowhere" / "x.ipynb")
