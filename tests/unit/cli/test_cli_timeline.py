"""`durable-nb timeline`: a picture of a run, from a shell, whoever holds the run."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.child import Child
from support.terminal import HOLD, do
from support.waiting import eventually

import durable_nb as dnb

SVG = "{http://www.w3.org/2000/svg}"


def test_a_killed_kernels_run_is_drawn_with_its_kill_and_its_doubt(store: Path) -> None:
    """The kernel of refund-17 got a real SIGKILL in a mail: marked, and nothing is recorded."""
    before = do("history", "refund-17").stdout
    result = do("timeline", "refund-17")
    assert result.exit_code == 0, result.output
    root = ElementTree.fromstring(result.stdout)
    assert [g.get("data-kernel") for g in root.iter(f"{SVG}g") if g.get("class") == "killed"] == [
        "1"
    ]
    looks = {a.get("data-op"): a.find(f"{SVG}rect").get("class") for a in root.iter(f"{SVG}a")}
    assert looks == {"plan#1": "done", "charge[o-1]#1": "done", "mail#1": "unknown"}
    assert do("history", "refund-17").stdout == before


def test_the_file_is_the_picture_and_an_older_one_is_replaced(store: Path, tmp_path: Path) -> None:
    """-o writes what stdout would get, and says what is in it."""
    for name in ("refund-18", "refund-17"):
        result = do("timeline", name, "-o", tmp_path / "run.svg")
        assert result.exit_code == 0, result.output
    assert (tmp_path / "run.svg").read_text("utf-8") == do("timeline", "refund-17").stdout
    assert result.stdout == (
        "timeline of run refund-17 · 3 operations in 3 attempts · 1 kernel, 1 killed · 1 unknown "
        f"in {tmp_path / 'run.svg'}\n"
    )


def test_json_is_the_data(store: Path) -> None:
    """Kernels and bars, in seconds since the run's birth."""
    document = json.loads(do("timeline", "refund-17", "--json").stdout)
    assert document == dnb.watch("refund-17", store=store).timeline().as_dict()
    (kernel,) = document["kernels"]
    assert (kernel["ended"], kernel["number"]) == ("crashed", 1)
    assert [(b["op"], b["ended"], b["outcome"]) for b in document["bars"]] == [
        ("plan#1", "completed", "completed"),
        ("charge[o-1]#1", "completed", "completed"),
        ("mail#1", "cut", "unknown"),
    ]
    assert all(0 <= b["begin"] <= b["end"] <= document["length_s"] < 60 for b in document["bars"])


@pytest.mark.slow
def test_a_terminal_gets_no_markup(store: Path) -> None:
    """It is told to name a file."""
    ours, its = pty.openpty()
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "durable_nb.cli",
                "timeline",
                "refund-17",
                "--store",
                str(store),
            ],
            stdout=its,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert "durable-nb timeline refund-17 -o run.svg" in done.stderr
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 1)
    finally:
        os.close(its)
        os.close(ours)


def test_a_file_that_cannot_be_written_is_named(store: Path, tmp_path: Path) -> None:
    """It exits 1, and says which."""
    result = do("timeline", "refund-17", "-o", tmp_path / "none" / "run.svg")
    assert result.exit_code == 1
    assert "none/run.svg" in result.stderr


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, Child]]:
    """Give a store, and the process that holds its run `live` in the middle of a mail."""
    program = tmp_path / "hold.py"
    program.write_text(HOLD)
    child = Child(program, tmp_path / ".durable")
    try:
        mirror = tmp_path / ".durable" / "live" / "operations.parquet"
        eventually(
            lambda: (
                mirror.exists()
                and "mail#1"
                in do("show", "live", "--store", tmp_path / ".durable", "--json").stdout
            )
        )
        yield tmp_path / ".durable", child
    finally:
        child.kill()


@pytest.mark.slow
def test_of_a_run_that_a_kernel_holds_that_kernel_tells(held: tuple[Path, Child]) -> None:
    """All attempts and the live kernel are there; what is at work is not unknown."""
    found = dnb.watch("live", store=held[0]).timeline()
    assert [(b.number, str(b.ended)) for b in found.data.bands] == [(1, "live")]
    assert [(b.op, b.ended, b.outcome) for b in found.data.bars] == [
        ("plan#1", "completed", "completed"),
        ("mail#1", "", "incomplete"),
    ]
    assert found.data.note == ""


@pytest.mark.slow
def test_where_the_kernel_does_not_tell_its_mirror_is_drawn_and_says_so(
    held: tuple[Path, Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process (SIGSTOP) answers nothing; nor is it asked where it was published."""
    monkeypatch.setattr("durable_nb.engine.watched._ASIDE_S", 0.5)
    store, child = held
    run = dnb.watch("live", store=store)
    os.kill(child.pid, signal.SIGSTOP)
    try:
        for found in (run.timeline(), run.timeline(published=True)):
            assert [b.op for b in found.data.bars] == ["plan#1", "mail#1"]
            assert found.data.bands == ()
            assert found.data.note == "from its mirror: last attempts, no kernels"
            assert "from its mirror" in found.svg
    finally:
        os.kill(child.pid, signal.SIGCONT)
