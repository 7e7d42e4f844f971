"""The identity table of whole notebooks: what a person does to cells and files is no change.

Real files, executed from the top by real kernels: tags, places, ids and the file's own name are no
part of any operation's identity, neither of a `%%durable` cell's nor of a step's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from kernels import LOAD, REPOSITORY, lines
from nbclient import NotebookClient
from nbformat import NotebookNode

pytestmark = pytest.mark.slow  # each starts two kernels

MARK = "with open({ledger!r}, 'a') as file:\n    file.write({what!r} + '\\n')\n"


def new_notebook(ledger: Path) -> NotebookNode:
    """Make a notebook with a durable cell, a step, and cells that belong to neither."""
    step = MARK.format(ledger=str(ledger), what="step").replace("\n", "\n    ").rstrip()
    sources = [
        LOAD,
        "import durable_nb as dnb\nrun = dnb.open_run('job')",
        f"@dnb.step\ndef work(x):\n    {step}\n    return x + 1",
        "%%durable plan\n" + MARK.format(ledger=str(ledger), what="cell") + "plan = 41",
        "done = work(1)",
        "text = 'of no step'",
        "print(plan, done, [(o.id, o.source) for o in map(run.get, ('plan', 'work'))])",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    return nbformat.v4.new_notebook(cells=cells)


def as_it_was(notebook: NotebookNode) -> None:
    """Change nothing."""


def tag(notebook: NotebookNode) -> None:
    """Tag cells, collapse them, and give them other metadata."""
    for cell in notebook.cells:
        cell.metadata.update(tags=["parameters", "slow"], collapsed=True, name="a cell")


def move(notebook: NotebookNode) -> None:
    """Put the durable cell behind the step's, with new cells and text between them."""
    notebook.cells.insert(5, notebook.cells.pop(3))
    notebook.cells.insert(4, nbformat.v4.new_markdown_cell("Some words."))
    notebook.cells.insert(5, nbformat.v4.new_code_cell("1 + 1"))


def new_ids(notebook: NotebookNode) -> None:
    """Give each cell another id, as a paste into another notebook does."""
    for number, cell in enumerate(notebook.cells):
        cell.id = f"pasted-{number}"


Execute = Callable[[Path], str]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Execute a notebook's file from the top in a new kernel, save it; give what its end printed."""
    monkeypatch.setenv("DURABLE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)

    def run(path: Path) -> str:
        notebook = nbformat.read(path, 4)
        place = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=60, kernel_name="python3", resources=place).execute()
        nbformat.write(notebook, path)
        return str(notebook.cells[-1].outputs[0].text)

    return run


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (as_it_was, "work/agent.ipynb"),
        (tag, "work/agent.ipynb"),
        (move, "work/agent.ipynb"),
        (as_it_was, "work/agent-Copy1.ipynb"),
        (new_ids, "elsewhere/other.ipynb"),
    ],
    ids=["nothing", "a tag", "a moved cell", "a copied notebook", "a copy in another folder"],
)
def test_what_is_done_to_cells_and_files_is_not_noticed(
    tmp_path: Path, execute: Execute, edit: Callable[[NotebookNode], None], place: str
) -> None:
    """The run is known by its name, an operation by its own: both cell and step replay."""
    first, second, ledger = tmp_path / "work/agent.ipynb", tmp_path / place, tmp_path / "ledger"
    for path in (first, second):
        path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(ledger), first)
    recorded = execute(first)
    assert recorded == "41 2 [('plan#1', 'ran'), ('work#1', 'ran')]\n"
    again = nbformat.read(first, 4)
    edit(again)
    nbformat.write(again, second)

    assert execute(second) == recorded.replace("ran", "record")
    assert lines(ledger) == ["cell", "step"]


def test_a_copied_notebook_that_opens_a_run_of_its_own_shares_nothing(
    tmp_path: Path, execute: Execute
) -> None:
    """Another run name is another run: the same cells, with the same source, are done for it."""
    ledger = tmp_path / "ledger"
    nbformat.write(new_notebook(ledger), tmp_path / "one.ipynb")
    execute(tmp_path / "one.ipynb")
    copied = nbformat.read(tmp_path / "one.ipynb", 4)
    copied.cells[1].source = copied.cells[1].source.replace("'job'", "'another'")
    nbformat.write(copied, tmp_path / "two.ipynb")

    assert "('work#1', 'ran')" in execute(tmp_path / "two.ipynb")
    assert lines(ledger) == ["cell", "step"] * 2
