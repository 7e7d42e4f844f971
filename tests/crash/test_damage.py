"""A run whose owner was killed and whose files were harmed then: what a user sees of it.

The child makes effects that an outside ledger counts, and is killed; the test harms its files;
another child goes on. No effect of an operation that was acknowledged may fire again unasked.
The stores are copies, which the children adopt.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskcache
import duckdb
import pytest
from click.testing import CliRunner
from support.child import Bench, Ended
from support.ledger import Ledger

import durable_nb as dnb
from durable_nb.cli import cli
from durable_nb.journal import Head
from durable_nb.journal.head import HeadState
from durable_nb.journal.rows import START, Row, chain

WORK = """
name, mode = more[0], more[1]

def small():
    ledger.add(f"{name} small")
    return {"n": 1}

def big(*, idempotency_key):
    ledger.add(f"{name} big", idempotency_key)
    return name * 100_000

def last(*, idempotency_key):
    ledger.add(f"{name} last", idempotency_key)
    return [name, "last"]

def go(run):
    tell(small=run.step("small", effect="none").call(small))
    tell(size=len(run.call(big)))
    tell(last=run.call(last))

with dnb.run(name, store=store, adopt="moved") as run:
    tell(opened=outcomes(run), status=str(run.status_view()), doubt=run.status_view().doubt)
    if mode == "invalidate":
        run.invalidate("big", "its value is lost", effect="stands")
    try:
        go(run)
    except (dnb.DurableSignal, dnb.DurableError) as problem:
        tell(problem=type(problem).__name__, text=str(problem))
        tell(stopped=str(run.status_view()), results=dict(zip(run.operations()["id"], run.operations()["result"])))
    if mode == "die":
        die()
"""


@dataclass
class Harmed:
    """A killed run to be harmed, and another one of the same store that must not notice."""

    bench: Bench
    ledger: Ledger

    @property
    def folder(self) -> Path:
        return self.bench.store / "mine"

    @property
    def other(self) -> Path:
        return self.bench.store / "other"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.duckdb"

    @property
    def wal(self) -> Path:
        return self.folder / "journal.duckdb.wal"

    @property
    def index(self) -> Path:
        return self.folder / "artifacts" / "cache.db"

    @property
    def value(self) -> Path:
        (found,) = self.folder.glob("artifacts/??/??/*.val")
        return found

    def resume(self, mode: str = "resume") -> Ended:
        return self.bench.run(WORK, "mine", mode)

    def effects(self) -> dict[str, int]:
        return {what: self.ledger.count(f"mine {what}") for what in ("big", "last")}

    def copied(self, to: Path) -> Harmed:
        """Give the same story in another place, to be harmed in another way."""
        shutil.copytree(self.bench.store, to / "store")
        shutil.copy(self.bench.ledger_file, to / "effect.log")
        bench = Bench(to)
        return Harmed(bench, Ledger(bench.ledger_file))


ONCE = {"big": 1, "last": 1}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Harmed:
    """Two runs that went through, and were killed before they closed."""
    bench = Bench(tmp_path_factory.mktemp("killed"))
    for name in ("mine", "other"):
        assert bench.run(WORK, name, "die").killed
    return Harmed(bench, Ledger(bench.ledger_file))


@pytest.fixture
def harmed(killed: Harmed, tmp_path: Path) -> Iterator[Harmed]:
    """A copy to harm; afterwards the other run of the store goes on as if nothing were."""
    story = killed.copied(tmp_path)
    yield story
    seen = story.bench.run(WORK, "other", "resume").ok().facts
    assert (seen["last"], seen["size"]) == (["other", "last"], 500_000)
    assert "problem" not in seen
    assert story.ledger.count("other big") == story.ledger.count("other last") == 1
    assert "other" in set(dnb.runs(store=story.bench.store)["name"])


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def is_detected(ended: Ended) -> bool:
    """Whether a user is told: an error, a doubt in the status, or a warning."""
    told = ended.facts.get("doubt") or ended.facts.get("problem") or ended.code
    return bool(told) or "warning:" in ended.err


# -- the journal -------------------------------------------------------------------------------

JOURNAL: dict[str, Callable[[Harmed], None]] = {
    "wal removed": lambda s: s.wal.unlink(),
    "wal zeroed": lambda s: write(s.wal, bytes(s.wal.stat().st_size)),
    "wal with a zeroed tail": lambda s: write(s.wal, s.wal.read_bytes()[:-300] + bytes(300)),
    "wal with a zeroed middle": lambda s: write(
        s.wal, s.wal.read_bytes()[:1500] + bytes(200) + s.wal.read_bytes()[1700:]
    ),
    "wal cut by 37 bytes": lambda s: write(s.wal, s.wal.read_bytes()[:-37]),
    "wal of another run": lambda s: write(s.wal, (s.other / s.wal.name).read_bytes()),
    "database removed": lambda s: s.journal.unlink(),
    "database zeroed": lambda s: write(s.journal, bytes(s.journal.stat().st_size)),
    "database emptied": lambda s: write(s.journal, b""),
    "database with a zeroed tail": lambda s: write(
        s.journal, s.journal.read_bytes()[:-4096] + bytes(4096)
    ),
    "database with a zeroed head": lambda s: write(
        s.journal, bytes(4096) + s.journal.read_bytes()[4096:]
    ),
    "database cut": lambda s: write(s.journal, s.journal.read_bytes()[:-37]),
    "database and wal removed": lambda s: (s.journal.unlink(), s.wal.unlink())[0],
}


@pytest.mark.parametrize("harm", JOURNAL)
def test_case_53_a_harmed_journal_is_told_and_fires_nothing_again(
    harmed: Harmed, harm: str
) -> None:
    """What was acknowledged is there, or the run is in doubt or refused; no effect fires twice."""
    JOURNAL[harm](harmed)
    for _ in range(2):
        ended = harmed.resume()
        whole = ended.facts.get("last") == ["mine", "last"] and not ended.facts.get("problem")
        assert whole or is_detected(ended), ended
        assert harmed.effects() == ONCE
        if "problem" not in ended.facts and not ended.code:
            assert whole
        elif ended.facts.get("problem") == "UnknownOutcome":
            assert "run.accept(" in ended.facts["status"]
        else:
            assert "JournalDamaged" in ended.err
            assert "damaged-1" in ended.err


def test_case_53_a_lost_record_of_an_effect_is_in_doubt_until_a_person_accepts(
    harmed: Harmed,
) -> None:
    """The records that are left replay; what they do not know runs only once that is accepted."""
    harmed.wal.unlink()
    first = harmed.resume()
    assert first.facts["problem"] == "UnknownOutcome"
    with dnb.run("mine", store=harmed.bench.store, adopt="moved") as run:
        run.accept("looked outside: nothing was sent")
    assert "problem" not in harmed.resume().ok().facts
    assert harmed.effects() == {"big": 2, "last": 2}  # which the person decided


@pytest.mark.parametrize("parts", ["database", "database and wal"])
def test_case_53_the_journal_of_another_run_is_refused_by_name(harmed: Harmed, parts: str) -> None:
    """Another run's records are never replayed as this one's."""
    for name in ("journal.duckdb", "journal.duckdb.wal"):
        if name == "journal.duckdb" or parts != "database":
            shutil.copy(harmed.other / name, harmed.folder / name)
    before = harmed.journal.read_bytes()
    ended = harmed.resume()
    seen = ended.facts
    if parts == "database":  # its own write-ahead file is refused by DuckDB, or is in doubt
        assert is_detected(ended)
    else:
        assert ended.code == 1
        assert "holds the records of run 'other'" in ended.err
        assert (harmed.folder / "damaged-1" / "journal.duckdb").read_bytes() == before
    assert seen.get("last") in (None, ["mine", "last"])
    assert harmed.effects() == ONCE


def cuts(size: int, step: int) -> list[int]:
    return sorted({*range(0, size, step), size - 1})


@pytest.mark.parametrize(
    "step", [499, pytest.param(16, marks=pytest.mark.slow)], ids=["sampled", "every16"]
)
@pytest.mark.parametrize("which", ["wal", "journal"])
@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_case_53_cut_or_flipped_anywhere_a_run_is_whole_in_doubt_or_refused(
    killed: Harmed, tmp_path: Path, which: str, harm: str, step: int
) -> None:
    """At no byte does a harmed file open as a run that knows less without a doubt."""
    whole = getattr(killed, which).read_bytes()
    everything = _opened(killed.copied(tmp_path / "whole"))
    assert everything[1] == ""
    for at in cuts(len(whole), step):
        place = tmp_path / f"at{at}"
        (place / "store").mkdir(parents=True, mode=0o700)
        shutil.copytree(killed.folder, place / "store" / "mine")
        story = Harmed(Bench(place), killed.ledger)
        file: Path = getattr(story, which)
        file.write_bytes(whole[:at] if harm == "cut" else flipped(whole, at))
        found = _opened(story)
        if found is not None:
            operations, doubt = found
            assert doubt or operations == everything[0], at
            done = {item for item in operations.items() if item[1][0] == "completed"}
            assert done <= set(everything[0].items()), at
        shutil.rmtree(place)


def _opened(story: Harmed) -> tuple[dict[str, Any], str] | None:
    """Open a run in this process: its operations and its doubt; `None` if it is refused."""
    try:
        with dnb.run("mine", store=story.bench.store, adopt="moved") as run:
            status = run.status_view()
            return {v.id: (v.outcome, v.result_preview) for v in status.views}, status.doubt
    except (dnb.JournalDamaged, dnb.JournalUnwritable):
        return None


# -- the head ----------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["removed", "zeroed", "of another run"])
def test_a_harmed_head_is_told_and_fires_nothing_again(harmed: Harmed, harm: str) -> None:
    """Without its own head nothing proves that the records are all, and that is said."""
    head = harmed.folder / "head"
    if harm == "removed":
        head.unlink()
    else:
        write(head, bytes(1024) if harm == "zeroed" else (harmed.other / "head").read_bytes())
    ended = harmed.resume()
    assert is_detected(ended)
    assert ended.facts["opened"]["last#1"] == "completed"
    assert harmed.effects() == ONCE


# -- artifacts ---------------------------------------------------------------------------------

VALUE: dict[str, Callable[[Harmed], None]] = {
    "missing": lambda s: s.value.unlink(),
    "cut": lambda s: write(s.value, s.value.read_bytes()[:-1]),
    "empty": lambda s: write(s.value, b""),
    "flipped": lambda s: write(s.value, flipped(s.value.read_bytes(), 1234)),
    "a folder": lambda s: (s.value.rename(s.folder / "gone"), _folder_for(s))[0],
    "with its whole folder": lambda s: shutil.rmtree(s.folder / "artifacts"),
}


def _folder_for(story: Harmed) -> None:
    with sqlite3.connect(story.index) as connection:
        ((name,),) = connection.execute("SELECT filename FROM Cache").fetchall()
    (story.folder / "artifacts" / name).mkdir()


@pytest.mark.parametrize("harm", VALUE)
def test_case_62_a_lost_value_is_shown_and_its_step_is_not_run_again(
    harmed: Harmed, harm: str
) -> None:
    """The run opens, only that operation is hurt, and calling it says what to do."""
    backup = shutil.copytree(harmed.folder / "artifacts", harmed.bench.folder / "backup")
    VALUE[harm](harmed)
    for attempt in range(2):
        ended = harmed.resume().ok()
        seen = ended.facts
        assert set(seen["opened"].values()) == {"completed"}
        if harm != "flipped":  # whose digest is only checked at the first read
            assert "warning: the value of big#1 is not loadable here: artifact" in ended.err
            assert "value not loadable here" in seen["status"], attempt
        assert seen["small"] == {"n": 1}
        assert seen["problem"] == "ResultNotLoadable"
        for said in ("big#1 in run 'mine' is completed", "It is not run again", "backup",
                     'run.invalidate("big#1", reason="its value is lost", effect="stands")'):  # fmt: skip
            assert said in seen["text"]
        assert "value not loadable here" in seen["stopped"]
        assert seen["results"]["big#1"].startswith("<value not loadable here: artifact")
        assert harmed.effects() == ONCE
    if harm != "flipped":
        shown = CliRunner().invoke(
            cli, ["show", "mine", "--json", "--store", str(harmed.bench.store)]
        )
        assert shown.exit_code == 3, shown.output
        big = next(op for op in json.loads(shown.stdout)["operations"] if op["id"] == "big#1")
        assert big["result"].startswith("<value not loadable here: artifact")
        assert big["outcome"] == "completed"

    shutil.rmtree(harmed.folder / "artifacts")
    shutil.copytree(backup, harmed.folder / "artifacts")
    seen = harmed.resume().ok().facts
    assert (seen["size"], seen["last"]) == (400_000, ["mine", "last"])
    assert harmed.effects() == ONCE


def test_case_62_a_value_that_is_given_up_is_computed_anew(harmed: Harmed) -> None:
    """The line that the error offers is the way on, and it is a person's choice."""
    harmed.value.unlink()
    seen = harmed.resume("invalidate").ok().facts
    assert seen["size"] == 400_000
    assert harmed.effects() == {"big": 2, "last": 1}
    assert harmed.resume().ok().facts["size"] == 400_000


INDEX: dict[str, Callable[[Harmed], None]] = {
    "missing": lambda s: _index(s, None),
    "zeroed": lambda s: _index(s, bytes(s.index.stat().st_size)),
    "no database": lambda s: _index(s, b"x" * 5000),
    "of another run": lambda s: _index(s, _closed_index(s.other)),
}


def _closed_index(folder: Path) -> bytes:
    """Give the index of a run with what its write-ahead file holds."""
    with sqlite3.connect(folder / "artifacts" / "cache.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (folder / "artifacts" / "cache.db").read_bytes()


def _index(story: Harmed, data: bytes | None) -> None:
    for path in story.index.parent.glob("cache.db*"):
        path.unlink()
    if data is not None:
        story.index.write_bytes(data)


@pytest.mark.parametrize("harm", INDEX)
def test_a_harmed_index_is_told_and_its_artifacts_are_found_by_their_content(
    harmed: Harmed, harm: str
) -> None:
    """An index holds nothing that the files do not prove; it is made again, and that is said."""
    INDEX[harm](harmed)
    ended = harmed.resume().ok()
    assert "warning: 1 artifacts were not in their index and were found" in ended.err
    assert (ended.facts["size"], ended.facts["last"]) == (400_000, ["mine", "last"])
    assert harmed.effects() == ONCE
    assert "warning" not in harmed.resume().ok().err


@pytest.mark.parametrize("when", ["before the first step", "after artifacts were kept"])
def test_case_58_a_default_diskcache_that_was_there_before_drops_nothing(
    harmed: Harmed, when: str
) -> None:
    """Limits that somebody's own diskcache left in the folder are set right, and it is said."""
    folder = harmed.folder / "artifacts"
    if when == "before the first step":
        shutil.rmtree(harmed.folder)
        folder.mkdir(mode=0o700, parents=True)
        os.chmod(harmed.folder, 0o700)
    diskcache.Cache(str(folder), size_limit=10 * 2**20).close()
    ended = harmed.bench.run(MANY).ok()
    assert "warning: size_limit was 10485760" in ended.err
    if when == "before the first step":
        assert "eviction_policy was 'least-recently-stored' and is 'none' again" in ended.err
    assert ended.facts["lengths"] == [2**20 + n for n in range(40)]
    again = harmed.bench.run(MANY).ok()
    assert again.facts["lengths"] == ended.facts["lengths"]
    assert "warning" not in again.err
    assert [harmed.ledger.count(f"blob {n}") for n in range(40)] == [1] * 40


MANY = """
def blob(n):
    ledger.add(f"blob {n}")
    return "x" * (2**20 + n)

with dnb.run("mine", store=store, adopt="moved") as run:
    tell(lengths=[len(run.step("blob", key=n).call(blob, n)) for n in range(40)])
"""


class Bomb:
    """An object whose unpickling makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("where", ["value", "file", "key", "path"])
def test_case_59_what_was_planted_in_the_index_is_neither_run_nor_followed(
    harmed: Harmed, where: str
) -> None:
    """A pickle is not loaded and a path out of the folder is not read: the value is lost, or found."""
    mark, bomb = harmed.bench.folder / "ran", pickle.dumps(Bomb(harmed.bench.folder / "ran"))
    secret = harmed.folder / "secret"
    secret.write_bytes(harmed.value.read_bytes())
    if where == "file":
        harmed.value.write_bytes(bomb)
    else:
        harmed.value.unlink()
    change = {
        "value": ("UPDATE Cache SET mode = 4, value = ?, filename = NULL", bomb),
        "file": ("UPDATE Cache SET mode = ?", 4),
        "key": ("UPDATE Cache SET raw = 0, key = ?", bomb),
        "path": ("UPDATE Cache SET filename = ?", "../secret"),
    }[where]
    connection = sqlite3.connect(harmed.index)
    connection.execute(change[0], (change[1],))
    connection.commit()
    connection.close()
    seen = harmed.resume().ok().facts
    assert seen["problem"] == "ResultNotLoadable"
    assert "value not loadable here" in seen["status"]
    assert not mark.exists()
    assert secret.exists()
    assert harmed.effects() == ONCE
    pickle.loads(bomb)  # the bomb is live: only here does it go off
    assert mark.exists()


# -- planted records ---------------------------------------------------------------------------


def plant(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any] | bytes]) -> None:
    """Change the body of the record that completed `last`, and make head and chain agree."""
    con = duckdb.connect(":memory:")
    con.execute(f"ATTACH '{folder / 'journal.duckdb'}' AS j")
    query = "SELECT seq, op, kind, ts, epoch, body FROM j.main.records ORDER BY seq"
    rows = [Row(*row) for row in con.execute(query).fetchall()]
    at = next(n for n, r in enumerate(rows) if (r.op, r.kind) == ("last#1", "completed"))
    new = change(json.loads(rows[at].body))
    body = new if isinstance(new, bytes) else json.dumps(new).encode()
    rows[at] = rows[at]._replace(body=body)
    con.execute("UPDATE j.main.records SET body = ? WHERE seq = ?", [body, rows[at].seq])
    con.execute("CHECKPOINT j")
    con.close()
    digest = START
    for row in rows:
        digest = chain(digest, row)
    head = Head(folder / "head")
    for _ in range(2):
        head.write(HeadState(len(rows), digest))
    head.close()


def result(text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda body: {**body, "result": text}


RESULTS = {
    "a foreign tag": '{"$":"os.system","items":["touch ran"]}',
    "a class of a module that is not imported": '{"$":"dataclass","class":"planted:Evil","data":{}}',
    "a nest of 100,000 levels": "[" * 100_000 + "]" * 100_000,
    "a nest of tags": '{"$":"tuple","items":[' * 50_000 + "]}" * 50_000,
    "a path as an artifact": '{"$":"artifact","sha256":"../../secret","size":5,"of":"text","refs":[]}',
    "no JSON": "import os",
}


@pytest.mark.parametrize("planted", RESULTS)
def test_case_59_a_planted_result_runs_no_code_and_hurts_its_operation_only(
    harmed: Harmed, planted: str
) -> None:
    """A result that this package did not write is refused when it is loaded, and imports nothing."""
    (harmed.bench.folder / "planted.py").write_text("open('ran', 'w').close()")
    plant(harmed.folder, result(RESULTS[planted]))
    seen = harmed.resume().ok().facts
    assert (seen["small"], seen["size"]) == ({"n": 1}, 400_000)
    assert seen["problem"] in {"ResultNotLoadable"}
    assert "value not loadable here" in seen["status"]
    assert "value not loadable here" in seen["stopped"]
    assert not list(harmed.bench.folder.rglob("ran"))
    assert harmed.effects() == ONCE


BODIES: dict[str, Callable[[dict[str, Any]], dict[str, Any] | bytes]] = {
    "a nest": lambda _: b"[" * 100_000 + b"]" * 100_000,
    "a deep object": lambda _: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "no object": lambda _: b"[1]",
    "a number without end": lambda _: b'{"result":' + b"9" * 100_000 + b"}",
    "a price that is a list": lambda body: {**body, "usd": [1]},
}


@pytest.mark.parametrize("planted", BODIES)
def test_case_59_a_planted_record_is_refused_by_name(harmed: Harmed, planted: str) -> None:
    """A record that nobody wrote refuses its run with what to do, and changes nothing in it."""
    plant(harmed.folder, BODIES[planted])
    ended = harmed.resume()
    assert harmed.effects() == ONCE
    assert "RecursionError" not in ended.err.splitlines()[-1]
    assert ended.code == 1
    assert "JournalDamaged: the journal of run 'mine' is damaged" in ended.err


def test_case_59_a_folder_that_others_can_write_to_is_refused(harmed: Harmed) -> None:
    """What somebody else could have written is not read: the run is refused by name."""
    os.chmod(harmed.folder, 0o777)
    ended = harmed.resume()
    assert ended.code == 1
    assert "NotTrusted" in ended.err
    os.chmod(harmed.folder, 0o700)
    os.chmod(harmed.folder / "artifacts", 0o777)
    seen = harmed.resume().ok().facts
    assert seen["problem"] == "ResultNotLoadable"
    assert "not trusted" in seen["text"]
    assert harmed.effects() == ONCE
