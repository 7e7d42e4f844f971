"""What a notebook needs of a machine: told from its cells, and compared."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import nbformat
import pytest

from durable_nb.engine import packages
from durable_nb.fleet.errors import NotebookUnusable
from durable_nb.fleet.needs import Needs, lacking, needs_of
from durable_nb.fleet.notebooks import Submitted, submit


def _submitted(folder: Path, *cells: str) -> Submitted:
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    made.cells.append(nbformat.v4.new_markdown_cell("import pyarrow"))
    path = folder / "n.ipynb"
    nbformat.write(made, path)
    return submit(path, {})


def test_the_packages_are_those_that_the_cells_import(tmp_path):
    """With Python and durable_nb; the standard library and files beside the notebook are no packages."""
    submitted = _submitted(
        tmp_path,
        "%matplotlib inline\nimport os, click as c\nfrom rich.table import Table\n!pip list",
        "def later():\n    import IPython.display\n    from . import sibling",
        "import beside",
        "this is no Python: import diskcache",
    )
    needs = needs_of(submitted, (), packages=True)
    assert set(needs.packages) == {"python", "durable-nb", "click", "rich", "ipython"}
    assert needs.packages["click"] == metadata.version("click")
    assert lacking(needs.as_json(), submitted) == []
    assert needs_of(submitted, (), packages=False).packages == {}


def test_another_version_and_a_missing_package_are_told(tmp_path):
    """More than what is needed does no harm."""
    submitted = _submitted(tmp_path, "import click")
    here = packages.providing(["click", "durable_nb"])
    needs = Needs({**here, "click": "0.0.1", "absent": "2.0"})
    assert lacking(needs.as_json(), submitted) == [
        f"packages differ: click 0.0.1 -> {here['click']}, absent 2.0 -> not there"
    ]
    assert lacking(Needs({"python": here["python"]}).as_json(), submitted) == []


def test_a_file_is_compared_by_what_it_holds(tmp_path):
    """Its time does not count; a folder is all that is in it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1")
    submitted = _submitted(tmp_path, "pass")
    needs = needs_of(submitted, ["data"], packages=False).as_json()
    (tmp_path / "data" / "a.csv").write_text("1")
    assert lacking(needs, submitted) == []
    (tmp_path / "data" / "b.csv").write_text("")
    assert lacking(needs, submitted) == ["file data differs"]
    (tmp_path / "data").rename(tmp_path / "moved")
    assert lacking(needs, submitted) == ["file data is not there"]
    with pytest.raises(NotebookUnusable, match="it needs data, which is not there"):
        needs_of(submitted, ["data"], packages=False)
