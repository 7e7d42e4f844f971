"""A whole life of runs in PostgreSQL, from several processes and from the shell."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.child import Bench, Child
from support.desk import HAPPEN, Desk
from support.postgres import connected

import durable_nb as dnb
from durable_nb.cli import cli
from durable_nb.journal.postgres.errors import ExtraMissing
from durable_nb.journal.postgres.sessions import looks
from durable_nb.model.errors import OwnerRefused, RunHeld

PASSWORD = "hunter2hunter2"

pytestmark = pytest.mark.slow


@pytest.fixture
def url(cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the address of a new store, with a password in it that is nobody else's to see."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield cluster.new_database().replace("postgres@", f"postgres:{PASSWORD}@")
    for look in looks():
        look.close()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ask(*words: str) -> tuple[int, str, str]:
    """Do a command that only looks, in this process."""
    done = CliRunner().invoke(cli, words)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def desk(tmp_path: Path, url: str) -> Desk:
    return Desk(tmp_path)


STORY = """
url, kill_at = more
size = 1_000_000

with dnb.run("story", store=url) as run:
    def body(name):
        ledger.add(name)
        if name == kill_at:
            die()
        return name * (size // len(name))

    lengths = {
        effect: len(run.step(effect, effect=effect).call(body, effect))
        for effect in ("none", "idempotent", "external")
    }
tell(lengths=lengths)
"""


def test_steps_of_each_effect_are_killed_and_the_run_goes_on_where_it_was(url, bench, desk):
    """What is recorded comes back, large values too; an unknown effect is settled from a shell."""
    for kill_at in ("none", "idempotent", "external"):
        assert bench.run(STORY, url, kill_at).killed
    counts = {
        effect: bench.ledger_file.read_text().split().count(effect)
        for effect in ("none", "idempotent", "external")
    }
    assert counts == {"none": 2, "idempotent": 2, "external": 1}

    ended = bench.run(STORY, url, "nowhere")

    assert (ended.code, "UnknownOutcome" in ended.err) == (1, True)
    code, out, err = desk.do("runs", "--store", url, "--json")
    (row,) = json.loads(out)
    assert (code, row["name"], row["completed"], row["unknown"]) == (0, "story", 2, 1), err
    code, out, err = ask("show", "story", "--store", url)
    assert code == 3, err
    assert "durable-nb confirm story" in out
    given = ("confirm", "story", "external#1", '"abc"', "--evidence", "seen", "--store", url)
    code, out, err = desk.do(*given)
    assert code == 0, err
    told = bench.run(STORY, url, "nowhere").ok().facts
    assert told["lengths"] == {"none": 1_000_000, "idempotent": 1_000_000, "external": 3}
    assert bench.ledger_file.read_text().split().count("external") == 1
    for words in (("history", "story"), ("sql", "SELECT id FROM operations")):
        code, out, err = ask(*words, "--store", url)
        assert (code, "external" in out) == (0, True), err


HELD = """
import asyncio

async def main():
    async with dnb.run("held", store=more[0]) as run:
        print("ready", flush=True)
        got = await run.wait_for("go")
        tell(got=got)

asyncio.run(main())
"""


def _ready(bench: Bench, url: str) -> Child:
    child = bench.start(HELD, url)
    while "ready" not in (line := child.first_line()):
        assert line, child.wait().err
    return child


def test_a_live_run_is_refused_to_a_second_owner_and_answers_a_signal(url, bench):
    """Whoever asks is told who has it, and is answered within two seconds."""
    with _ready(bench, url) as child:
        with pytest.raises(RunHeld, match=f"process {child.pid} .* on "):
            dnb.run("held", store=url)
        seen = dnb.watch("held", store=url)
        child.until(lambda: len(seen.status_view().views) == 1)
        begun = time.monotonic()
        assert seen.signal("go", 7).outcome == "completed"
        assert time.monotonic() - begun < 2.0
        assert child.wait().ok().facts["got"] == 7


def test_no_password_is_shown_or_kept(url, bench, tmp_path):
    """Not in messages, rows, lists of sessions, or files; a line to type names the store."""
    with _ready(bench, url) as child:
        with pytest.raises(RunHeld) as held:
            dnb.run("held", store=url)
        seen = dnb.watch("held", store=url)
        child.until(lambda: len(seen.status_view().views) == 1)
        said = [str(held.value), repr(seen.place), *ask("show", "held", "--store", url)[1:]]
        said += ask("runs", "--store", url)[1:]
        assert not seen.fork("s", store=url).elsewhere  # the owner is not told its address
        with pytest.raises(OwnerRefused) as refused:  # nor that of another one
            seen.fork("s", store=url.replace("/t", "/gone"))
        said.append(str(refused.value))
        with connected(url) as con:
            said.append(str(con.execute("SELECT * FROM pg_stat_activity").fetchall()))
        child.kill()
    code, out, err = ask("verify", "held", "--store", url)
    assert (code, "is no folder" in err) == (1, True)
    said += [out, err]
    gone = ask("runs", "--store", f"postgresql://me:{PASSWORD}@/gone?host={tmp_path}")
    assert gone[0] == 1
    said += gone[1:]
    with connected(url) as con:
        tables = con.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'durable_nb'"
        ).fetchall()
        for (table,) in tables:
            rows = con.execute(f"SELECT t::text FROM durable_nb.{table} t").fetchall()
            said += [row for (row,) in rows]
    assert not [text for text in said if PASSWORD in text or PASSWORD.encode().hex() in text]
    kept = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert kept
    assert not [p for p in kept if PASSWORD.encode() in p.read_bytes()]


def test_a_run_that_waits_for_the_database_says_so(url):
    """Its status shows it as long as it lasts, and the step goes on by itself."""
    name = url.partition("@/")[2].partition("?")[0]
    admin = url.replace(name, "postgres")
    got: list[int] = []
    with dnb.run("r", store=url) as run, connected(admin) as con:
        seen = dnb.watch("r", store=url)
        stamp = seen.stamp()
        con.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        con.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        step = threading.Thread(target=lambda: got.append(run.step("a").call(lambda: 1)))
        step.start()
        limit = time.monotonic() + 10
        while "waits for the database" not in run.status_view().headline:
            assert time.monotonic() < limit
            time.sleep(0.05)
        assert seen.stamp() != stamp
        con.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        step.join(20)
        assert (got, run.status_view().headline) == ([1], "")


KILL_ONCE = """import os, pathlib, signal
if not pathlib.Path('killed').exists():
    pathlib.Path('killed').touch()
    os.kill(os.getpid(), signal.SIGKILL)"""


def test_a_missing_extra_is_named(tmp_path):
    """In Python it is an ImportError; on the command line, one paragraph."""
    code = "import sys; sys.modules['psycopg'] = None; from durable_nb.cli import main; main()"
    words = [sys.executable, "-c", code, "runs", "--store", f"postgresql://me:{PASSWORD}@h/d"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "pip install 'durable-nb[postgres]'" in done.stderr
    assert PASSWORD not in done.stderr
    assert "unexpected" not in done.stderr
    assert issubclass(ExtraMissing, ImportError)


def test_a_supervised_notebook_whose_kernel_is_killed_goes_on(url, desk):
    """The next kernel has the run at once: the server knows that its owner is gone."""
    notebook = desk.notebook(
        HAPPEN,
        "%%durable one --effect none\nhappen('one')\nx = 20",
        KILL_ONCE,
        "%%durable two --effect none\nhappen('two')\ny = x + 1",
        "print('answer', y)",
    )
    begun = time.monotonic()

    code, said = desk.run(notebook, "--store", url)

    assert (code, said["end"], said["kernels"], said["deaths"]) == (0, "finished", 2, 1), said
    assert time.monotonic() - begun < 40
    assert desk.effects() == ["one", "two"]
    assert desk.cells()[-1].outputs[0].text == "answer 21\n"
    assert not list(desk.folder.glob("store*"))
    assert PASSWORD not in (desk.folder / "job.r.ipynb").read_text()
