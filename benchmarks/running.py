"""Running engines' programs, each in a process of its own, and telling what came out."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.engines.program import STORE

#: The page that all benchmarks write their tables to.
PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"

#: Seconds after which a program is given up.
LIMIT_S: Final = 900


class Missing(Exception):
    """An engine that is not installed."""


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes
    ----------
    name : str
        What was measured.
    value : float
        The median.
    unit : str
        Its unit, "x" for a ratio.
    target : str
        ``<= 1.1`` or ``>= 30000``; "" where nothing is aimed at.
    means : str
        What the row says, for the page.
    """

    name: str
    value: float
    unit: str
    target: str = ""
    means: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; `None` without one."""
        if not self.target:
            return None
        sign, _, number = self.target.partition(" ")
        limit = float(number.replace(",", ""))
        return self.value <= limit if sign == "<=" else self.value >= limit


def program(
    engine: str, task: str, folder: Path, number: int, *, store: str = ""
) -> dict[str, Any]:
    """Run a task of an engine in a process of its own; give what it measured.

    Parameters
    ----------
    store : str
        The address of a database; without one, things are kept in the folder.

    Raises
    ------
    Missing
        The engine is not installed.
    """
    words, env = called(engine, task, folder, number, store=store)
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode in {0, -9} and lines:
        found: dict[str, Any] = json.loads(lines[-1])
        return found
    if "No module named 'dbos'" in done.stderr or "No module named 'langgraph" in done.stderr:
        raise Missing(f"{engine} is not installed: pip install 'durable-nb[bench]'")
    raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr[-3000:]}")


def called(
    engine: str, task: str, folder: Path, number: int, *, store: str = ""
) -> tuple[list[str], dict[str, str]]:
    """Give the words and the environment by which a program is started."""
    words = [sys.executable, "-m", f"benchmarks.engines.{engine}", task, str(folder), str(number)]
    root = str(Path(__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    env[STORE] = store
    if store:
        env["XDG_CACHE_HOME"] = str(folder)  # where copies of mirrors are kept
    return words, env


def interleaved(
    measures: Mapping[str, Callable[[], float]], rounds: int, say: Callable[[str], None]
) -> dict[str, float]:
    """Give the median of each measure; rounds alternate, so that a busy machine slows all."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for n in range(rounds):
        for name, measure in measures.items():
            try:
                found[name].append(measure())
            except Missing as why:
                if n == 0:
                    say(f"left out: {why}")
        say(f"round {n + 1} of {rounds} done")
    return {name: statistics.median(values) for name, values in found.items() if values}


def in_folder(
    engine: str, task: str, number: int, base: Path, *, store: str = ""
) -> dict[str, Any]:
    """Run a task in a new folder below `base`."""
    with tempfile.TemporaryDirectory(dir=base) as folder:
        return program(engine, task, Path(folder), number, store=store)


def parser(
    doc: str | None, *, number: int = 0, rounds: int = 5, page: Path = PAGE
) -> argparse.ArgumentParser:
    """Make the parser of a benchmark's own command line."""
    about = (doc or "").strip()
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="one JSON document on stdout")
    made.add_argument("--rounds", type=int, default=rounds, help="default: %(default)s")
    if number:
        made.add_argument("--n", type=int, default=number, help="default: %(default)s")
    made.add_argument(
        "--folder", type=Path, default=Path.cwd(), help="on the disk to measure; default: here"
    )
    made.add_argument("--page", action="store_true", help=f"write the table to {page.name}")
    return made


def tell(
    title: str,
    rows: Sequence[Row],
    asked: argparse.Namespace,
    *,
    also: str = "",
    page: Path = PAGE,
) -> int:
    """Print a table or JSON, write the page if it was asked for; 1 if a target is missed.

    Parameters
    ----------
    also : str
        What else ran, with its version, beside the machine.
    """
    if asked.json:
        print(json.dumps([{**asdict(row), "met": row.met} for row in rows], indent=2))
    else:
        table = Table(title=title)
        for heading in ("what", "median", "target", ""):
            table.add_column(heading)
        for row in rows:
            table.add_row(row.name, shown(row), row.target, _sign(row))
        Console().print(table)
    if asked.page:
        write_page(title, rows, also=also, page=page)
    return int(any(row.met is False for row in rows))


def shown(row: Row) -> str:
    """Write a value with its unit."""
    digits = 2 if row.value < 10 else 1 if row.value < 100 else 0
    return f"{row.value:,.{digits}f} {row.unit}"


def _sign(row: Row) -> str:
    return {True: "yes", False: "NO", None: ""}[row.met]


def write_page(title: str, rows: Iterable[Row], *, also: str = "", page: Path = PAGE) -> None:
    """Put a table into its place on the page, with the machine and the date."""
    ran = f"{machine()}, {also}" if also else machine()
    begin, end = f"<!-- {title} -->", f"<!-- end of {title} -->"
    lines = [
        begin,
        f"_{ran}, {datetime.now(UTC):%Y-%m-%d}_",
        "",
        "| what | median | target | met | what it means |",
        "|---|---|---|---|---|",
        *(f"| {r.name} | {shown(r)} | {r.target} | {_sign(r)} | {r.means} |" for r in rows),
        end,
    ]
    text = page.read_text()
    if begin not in text:
        text = f"{text.rstrip()}\n\n## {title}\n\n{begin}\n{end}\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(before + "\n".join(lines) + after)


def machine() -> str:
    """Name the kind of machine: cores, system, Python and DuckDB; no name of its own."""
    import duckdb

    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, DuckDB {duckdb.__version__}"
    )


def to_stderr(line: str) -> None:
    """Show progress where it is in nobody's way."""
    print(line, file=sys.stderr, flush=True)
