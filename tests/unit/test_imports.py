"""What importing the package brings: each of these is time before the first cell of a kernel."""

import subprocess
import sys
from typing import Final

import pytest

#: Modules that may come with the package, beyond IPython and DuckDB and what these bring.
ALLOWED: Final = frozenset(
    [
        "asyncio",
        "concurrent",
        "contextvars",
        "durable_nb",
        "fcntl",
        "fractions",
        "gc",
        "msgspec",  # what writes and reads every record
        "signal",
        "ssl",
        "subprocess",
        "sysconfig",
        "typing_extensions",  # which msgspec brings
        "unicodedata",
        "zoneinfo",
    ]
)
#: What stands behind parts of them, by the build of Python.
PRIVATE: Final = "_"

_TELL: Final = """
import sys, IPython, duckdb
before = {*sys.modules}
import durable_nb
print(*{name.partition(".")[0] for name in {*sys.modules} - before})
"""

_OPEN: Final = """
import sys, durable_nb as dnb
with dnb.run("r", store=sys.argv[1]):
    print(*sys.modules)
"""


def _told(program: str, *words: str) -> set[str]:
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return {*done.stdout.split()}


@pytest.mark.slow
def test_the_package_brings_nothing_that_only_some_runs_need():
    """What is costly to import comes when it is used first."""
    brought = {name for name in _told(_TELL) if not name.startswith(PRIVATE)}
    assert brought - ALLOWED == set()


def test_what_threads_of_a_run_may_need_is_there_once_it_is_open(tmp_path):
    """No thread of an open run is the first to import anything: Ctrl-C may then hang the kernel."""
    needed = {"difflib", "getpass", "diskcache", "sqlite3", "pyarrow", "pyarrow.parquet"}
    assert needed - _told(_OPEN, str(tmp_path)) == set()


@pytest.mark.slow
def test_every_public_name_is_there_although_some_come_late():
    """A name in `__all__` can be used, whenever its module is brought."""
    program = "import durable_nb as d; print(*(n for n in d.__all__ if not hasattr(d, n)))"
    assert _told(program) == set()
    assert "nothing" in _told(
        "import durable_nb as d\ntry: d.nothing\nexcept AttributeError as e: print('nothing')"
    )
