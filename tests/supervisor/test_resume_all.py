"""`durable-nb resume --all`: many runs whose kernels were killed, and nobody who looks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

_TESTS = Path(__file__).resolve().parents[1]

CUT = """import os, pathlib, signal

def cut():
    if not pathlib.Path(f'cut-{number}').exists():
        pathlib.Path(f'cut-{number}').touch()
        os.kill(os.getpid(), signal.SIGKILL)"""
CELLS = (
    CUT,
    "%%durable first --effect external\nhappen(f'first-{number}')\na = number",
    # a doubt in the runs of every sixth number, and no doubt in all others
    "%%durable pay --effect external\nhappen(f'pay-{number}')\nif number % 6 == 0:\n    cut()\nb = 1",
    "cut()",
    "%%durable last --effect external\nhappen(f'last-{number}')\nc = a + b",
    "print('all', c)",
)


def killed_runs(desk: Any, happen: str, numbers: range, *more: str) -> list[str]:
    """Make a run of each number; each is killed, those of every sixth with an effect in doubt."""
    notebook = desk.notebook(happen, *(more or CELLS), parameters="number = 0")
    runs = [f"r{n}={json.dumps({'number': n})}" for n in numbers]
    env = desk.environment
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], str(_TESTS)])
    made = subprocess.run(
        [sys.executable, "-m", "support.killed_runs", notebook, desk.folder / "store", *runs],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return [f"r{n}" for n in numbers]


def test_thirty_crashed_runs_are_finished_by_two_at_once_and_none_is_taken_twice(desk, happen):
    """25 finish, each in one kernel of either; the 5 in doubt are told of, and left as they are."""
    names = killed_runs(desk, happen, range(1, 31))
    in_doubt = {f"r{n}" for n in range(6, 31, 6)}
    _, out, _ = desk.do("runs", "--json")
    assert Counter(row["status"] for row in json.loads(out)) == {"crashed": 30}

    began = time.monotonic()
    two = [desk.start("resume", "--all", "--jobs", 2, "--json") for _ in range(2)]
    told = [child.communicate(timeout=300) for child in two]
    print(f"{time.monotonic() - began:.1f} s")

    found = [json.loads(out) for out, _ in told]
    assert 3 in [child.returncode for child in two], told
    for child, documents in zip(two, found, strict=True):
        asks = any(d["end"] == "person needed" for d in documents)
        assert child.returncode == (3 if asks else 0), documents
    everything = [document for documents in found for document in documents]
    started = [d["run"] for d in everything if d["kernels"]]
    assert sorted(started) == sorted(set(names) - in_doubt), "each by exactly one"
    assert {d["end"] for d in everything if d["kernels"]} == {"finished"}
    for d in everything:
        assert d["kernels"] in {0, 1}
        assert d["kernels"] == 1 or d["end"] in {"left alone", "person needed"}, d
        assert (
            d["kernels"] == 1
            or d["run"] in in_doubt
            or "somebody else" in d["why"]
            or ("supervisor process" in d["why"])
        ), d
    for documents in found:
        assert {d["run"] for d in documents if d["end"] == "person needed"} <= in_doubt
    assert {d["run"] for d in everything if d["end"] == "person needed"} == in_doubt
    for document, (_, err) in zip(found, told, strict=True):
        assert all(f"{d['run']}: {d['end']}" in err.splitlines() for d in document)
    once = {f"{what}-{n}" for n in range(1, 31) for what in ("first", "pay", "last")}
    once -= {f"last-{n}" for n in range(6, 31, 6)}
    assert Counter(desk.effects()) == dict.fromkeys(once, 1)
    _, out, _ = desk.do("runs", "--json")
    rows = json.loads(out)
    assert Counter(row["status"] for row in rows) == {"finished": 25, "crashed": 5}
    assert {row["name"] for row in rows if row["unknown"]} == in_doubt
    assert {row["epoch"] for row in rows} == {1, 2}


def test_who_waits_for_a_person_is_told_of_again_and_again(desk, happen):
    """With the lines that settle it; settled, the run is taken up like any other."""
    killed_runs(desk, happen, range(5, 7))

    code, out, err = desk.do("resume", "--all")

    assert code == 3, err
    lines = out.splitlines()
    assert lines[0] == "run r5: finished (1 kernels)"
    assert "    durable-nb deny r6 'pay#1' --evidence \"…\"" in lines, out
    assert lines[-1] == "1 of 2 crashed runs were taken up; person needed: 1"
    assert {"r5: finished", "r6: person needed"} <= set(err.splitlines())
    code, out, _ = desk.do("resume", "--all", "--json")
    assert (code, [d["run"] for d in json.loads(out)]) == (3, ["r6"])
    code, _, err = desk.do("confirm", "r6", "pay#1", '{"b": 1}', "--evidence", "seen")
    assert code == 0, err
    code, out, _ = desk.do("resume", "--all", "--json")
    assert (code, [d["end"] for d in json.loads(out)]) == (0, ["finished"])
    assert Counter(desk.effects()).most_common(1)[0][1] == 1
    code, out, _ = desk.do("resume", "--all")
    assert (code, out) == (0, "0 of 0 crashed runs were taken up\n")


def test_a_run_that_cannot_be_taken_up_does_not_stop_the_others(desk, happen):
    """Its journal is damaged, or its notebook's folder is gone: told, with exit code 1."""
    killed_runs(desk, happen, range(1, 4))
    for wal in (desk.folder / "store" / "r1").glob("journal.duckdb*"):
        wal.write_bytes(b"nothing of a journal" * 400)

    code, out, err = desk.do("resume", "--all", "--jobs", 2, "--json")

    ends = {d["run"]: d["end"] for d in json.loads(out)}
    assert (code, ends) == (1, {"r1": "failed", "r2": "finished", "r3": "finished"}), err


def test_one_signal_stops_all_of_them_in_order(desk, happen):
    """What is at work ends, nothing new begins, no kernel stays behind; a resume does the rest."""
    work = """cut()
import time
for n in range(30):
    run.step('act', effect='external', key=n).call(lambda n: (time.sleep(0.3), happen(f'{number}-{n}'))[0], n)"""
    killed_runs(desk, happen, range(1, 5), CUT, work)
    child = desk.start("resume", "--all", "--jobs", 2, "--json")
    try:
        while len({line.split("-")[0] for line in desk.effects()}) < 2:
            assert child.poll() is None
            time.sleep(0.05)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    found = {d["run"]: d for d in json.loads(out)}
    assert child.returncode == 130, err
    assert {d["end"] for d in found.values()} == {"broken off"}
    assert sorted(d["kernels"] for d in found.values()) == [0, 0, 1, 1]
    done = len(desk.effects())
    assert done < 60
    time.sleep(1)
    assert len(desk.effects()) == done, "no kernel stays behind"
    _, out, _ = desk.do("runs", "--json")
    assert {row["unknown"] for row in json.loads(out)} == {0}
