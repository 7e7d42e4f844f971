"""Every notebook of the repository runs, and prints what it says it prints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_of_the_repository_runs_as_it_is_printed(notebook, tmp_path):
    """nbval runs each notebook in a store of its own, twice: the second time it is resumed."""
    shutil.copy(notebook, tmp_path)
    env = os.environ | {"DURABLE_STORE": str(tmp_path / "store"), "PYTEST_ADDOPTS": ""}
    for _ in range(2):
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "--nbval", "--nbval-cell-timeout=60",
                "-p", "no:cacheprovider", "-q", notebook.name,
            ],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-5000:]


def test_there_are_notebooks():
    """An empty glob would make the test above pass for ever."""
    assert NOTEBOOKS


def test_what_is_meant_for_the_tests_is_not_in_the_readers_way():
    """Marks for nbval are tags of a cell: its first line is the reader's."""
    cells = [c for path in NOTEBOOKS for c in nbformat.read(path, as_version=4).cells]
    tags = {tag for cell in cells for tag in cell.metadata.get("tags", ())}

    assert [cell.source for cell in cells if "NBVAL" in cell.source] == []
    assert tags == {"nbval-ignore-output", "raises-exception"}
