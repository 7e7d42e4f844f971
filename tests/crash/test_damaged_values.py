"""A run whose owner was killed and whose values were harmed then: what a user sees of it.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diskcache
import pytest
from click.testing import CliRunner
from support.harmed import ONCE, Harmed, flipped, write

from durable_nb.cli import cli
from durable_nb.journal import Head
from durable_nb.journal.database import connect
from durable_nb.journal.head import HeadState
from durable_nb.journal.landing import pack
from durable_nb.journal.rows import START, chain
from durable_nb.journal.tables import read_rows

pytestmark = pytest.mark.slow  # together they take longer than all the rest

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
    with run.branch("blobs"):  # beside what another program has done in this run
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
    con = connect(folder / "journal.duckdb")
    rows = read_rows(con)
    at = next(n for n, r in enumerate(rows) if (r.op, r.kind) == ("last#1", "completed"))
    new = change(json.loads(rows[at].body))
    body = new if isinstance(new, bytes) else json.dumps(new).encode()
    rows[at] = rows[at]._replace(body=body)
    con.execute("DELETE FROM j.main.landing")  # where a kill has left all of them
    con.execute("INSERT INTO j.main.landing VALUES (?)", [pack(rows)])
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
