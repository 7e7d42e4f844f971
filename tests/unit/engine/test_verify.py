"""`verify` reads everything, names what is wrong, and changes not a byte."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import diskcache
import pytest
from support.child import Bench
from support.folders import KILLED_RECORDS, artifact, index, rewrite, stored, tree

import durable_nb as dnb
from durable_nb import values
from durable_nb.journal import Inbox, Lease, OwnerInfo
from durable_nb.journal.rows import Row

pytestmark = pytest.mark.slow  # together they take longer than all the rest


def test_a_run_whose_kernel_was_killed_is_whole(folder: Path) -> None:
    """A doubt is no damage: every record is there, also those in the write-ahead file."""
    assert (folder / "journal.duckdb.wal").stat().st_size
    before = tree(folder.parent)

    report = dnb.verify("r", store=folder.parent)

    assert report.ok, report
    assert report.findings == ()
    assert tuple((row.op, row.kind) for row in stored(folder)) == KILLED_RECORDS
    assert report.checked == {
        "records": len(KILLED_RECORDS), "values": 2, "artifacts": 1, "bytes": 100_000,
    }  # fmt: skip
    assert len(report.run_id) == 32
    assert tree(folder.parent) == before


# -- one table: how it is damaged -> what is said ----------------------------------------------


def wal(folder: Path) -> Path:
    return folder / "journal.duckdb.wal"


def zero_the_tail(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-40] + bytes(40))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def swap_with_another_run(folder: Path) -> None:
    with dnb.run("other", store=folder.parent) as run:
        for n in range(9):
            run.step("s", effect="none", key=str(n)).call(str, "x")
    wal(folder).unlink()
    shutil.copy(folder.parent / "other" / "journal.duckdb", folder / "journal.duckdb")


INTENT, RESULT, DEFINITION = ("plan#1", "intended"), ("plan#1", "completed"), ("", "defined")


def change_body(
    folder: Path, which: tuple[str, str], change: Callable[[dict], dict], seal: bool = True
) -> None:
    """Change the body of the first record of an operation and a kind."""

    def changed(rows: list[Row]) -> list[Row]:
        row = next(row for row in rows if (row.op, row.kind) == which)
        body = json.dumps(change(json.loads(row.body))).encode()
        return [*rows[: row.seq - 1], row._replace(body=body), *rows[row.seq :]]

    rewrite(folder, changed, seal=seal)


def without_birth(folder: Path) -> None:
    rewrite(folder, lambda rows: [r._replace(seq=r.seq - 1) for r in rows[1:]])


def same_key_again(folder: Path) -> None:
    def again(rows: list[Row]) -> list[Row]:
        return [*rows, rows[-1]._replace(seq=len(rows) + 1, op="charge#2")]

    rewrite(folder, again)


def gap(folder: Path) -> None:
    change_table(folder, "DELETE FROM j.main.records WHERE seq = 3")


def change_table(folder: Path, statement: str) -> None:
    from durable_nb.journal.database import connect
    from durable_nb.journal.landing import move

    con = connect(folder / "journal.duckdb")
    move(con)
    con.execute(statement)
    con.execute("CHECKPOINT j")
    con.close()


def result_of(text: str) -> Callable[[dict], dict]:
    return lambda body: {**body, "result": text}


def default_diskcache(folder: Path) -> None:
    diskcache.Cache(str(folder / "artifacts"), size_limit=10 * 2**20).close()


def planted_pickle(folder: Path) -> None:
    bomb = pickle.dumps(print)
    index(folder, "UPDATE Cache SET mode = 4, filename = NULL, value = ?", bomb)


def planted_row(folder: Path) -> None:
    index(
        folder, "INSERT INTO Cache (key, raw, store_time, mode, filename, size) "
        "VALUES (?, 1, 0, 2, '../../../../etc/passwd', 5)", "0" * 64,
    )  # fmt: skip


def linked(folder: Path, name: str) -> None:
    target = folder.parent.parent / "elsewhere"
    (folder / name).rename(target)
    (folder / name).symlink_to(target)


def unneeded(folder: Path) -> None:
    disk = values.DiskArtifacts(folder / "artifacts")
    disk.put(b"never recorded")
    disk.close()


def stray(folder: Path) -> None:
    other = artifact(folder).with_name("0" * 28 + ".val")
    other.write_bytes(b"12345")


def doubted(folder: Path) -> None:
    wal(folder).unlink()
    dnb.recover("r", store=folder.parent)


def a_message(folder: Path) -> None:
    Inbox(folder).send("deny", {"op": "charge#1"})


def open_inbox(folder: Path) -> None:
    (folder / "inbox").mkdir()
    (folder / "inbox").chmod(0o777)


def write(name: str, text: str = "garbage") -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        (folder / name).write_text(text)

    return put


NO_CODEC = '{"$":"com.example.Money","v":1,"items":[1]}'
CLASS = '{"$":"dataclass","class":"__main__:Plan","fields":"n:int","items":[]}'

#: How it is damaged, the kind of the finding, and what it says.
DAMAGE = {
    "others may look": (lambda f: f.chmod(0o755), "rights", "mode 0755 instead of 0700"),
    "others may write": (lambda f: f.chmod(0o777), "rights", "others can write to it"),
    "the store": (lambda f: f.parent.chmod(0o777), "rights", "others can write to it"),
    "journal is a link": (lambda f: linked(f, "journal.duckdb"), "rights", "symbolic link"),
    "head is a link": (lambda f: linked(f, "head"), "rights", "symbolic link"),
    "artifacts are a link": (lambda f: linked(f, "artifacts"), "rights", "symbolic link"),
    "a pipe": (lambda f: os.mkfifo(f / "pipe"), "rights", "neither a file nor a folder"),
    "no journal": (lambda f: (f / "journal.duckdb").unlink(), "journal", "it is missing"),
    "no database": (write("journal.duckdb"), "journal", "not a valid DuckDB"),
    "zeroed tail": (lambda f: zero_the_tail(wal(f)), "journal", "byte position"),
    "flipped byte": (lambda f: flip(wal(f), 200), "journal", ""),
    "a row is gone": (gap, "journal", "record 3 is missing"),
    "an unknown kind": (
        lambda f: change_table(f, "UPDATE j.main.records SET kind = 'eaten' WHERE seq = 4"),
        "journal", "unknown kind 'eaten'",
    ),
    "a body is no JSON": (
        lambda f: change_table(f, "UPDATE j.main.records SET body = '{'::BLOB WHERE seq = 4"),
        "journal", "is not JSON",
    ),
    "an epoch falls": (
        lambda f: change_table(f, "UPDATE j.main.records SET epoch = 0 WHERE seq = 4"),
        "journal", "has epoch 0 after epoch 1",
    ),
    "no write-ahead file": (
        lambda f: wal(f).unlink(), "head", f"{len(KILLED_RECORDS)} records were acknowledged",
    ),
    "another run's": (swap_with_another_run, "head", "not those that were acknowledged"),
    "a changed body": (
        lambda f: change_body(f, RESULT, result_of('{"order": 1}'), seal=False),
        "head", "not those that were acknowledged",
    ),
    "no head": (lambda f: (f / "head").unlink(), "head", "the head file is missing"),
    "head zeroed": (lambda f: (f / "head").write_bytes(bytes(1024)), "head", "head file is missing"),
    "no birth": (without_birth, "record", "no record says that the run was born"),
    "a planted body": (
        lambda f: change_body(f, INTENT, lambda _: {"effect": "eat"}),
        "record", "it cannot be followed",
    ),
    "a planted definition": (
        lambda f: change_body(f, DEFINITION, lambda _: {"facets": "0" * 32}),
        "record", "it cannot be followed",
    ),
    "another definition": (
        lambda f: change_body(f, DEFINITION, lambda b: {**b, "parts": {"code": ["other", "x"]}}),
        "record", "not those that its digest says",
    ),
    "a definition that is gone": (
        lambda f: change_body(f, INTENT, lambda b: {**b, "facets": "0" * 32}),
        "record", "facets that no record before it defines",
    ),
    "a key twice": (same_key_again, "key", "was used before, by charge#1"),
    "a value's text": (
        lambda f: change_body(f, RESULT, result_of('{"$":"tuple"')), "value", "its text is damaged",
    ),
    "a value's parts": (
        lambda f: change_body(f, RESULT, result_of('{"$":"date","v":"x"}')),
        "value", "it does not decode",
    ),
    "artifact missing": (lambda f: artifact(f).unlink(), "artifact", "is missing"),
    "artifact cut": (lambda f: os.truncate(artifact(f), 99), "artifact", "99 bytes, and 100000"),
    "artifact flipped": (lambda f: flip(artifact(f), 50_000), "artifact", "another digest"),
    "a planted pickle": (planted_pickle, "index", "it was planted: its row holds no file of bytes"),
    "a planted name": (planted_row, "index", "leads out of the folder"),
    "a default diskcache": (default_diskcache, "index", "it is 10485760 and must be"),
    "a planted setting": (
        lambda f: index(f, "INSERT INTO Settings VALUES ('sqlite_x', 1)"),
        "index", "somebody planted it",
    ),
    "no index": (
        lambda f: (f / "artifacts" / "cache.db").unlink(), "index", "artifacts and no index",
    ),
    "index is no database": (
        lambda f: flip(f / "artifacts" / "cache.db", 0), "index", "it cannot be read",
    ),
    "an open inbox": (open_inbox, "inbox", "Others can write to it"),
}  # fmt: skip

#: The same, of what hurts nothing that was recorded.
NOTES = {
    "waits for a class": (
        lambda f: change_body(f, RESULT, result_of(CLASS)),
        "value",
        "class Plan",
    ),
    "wants a codec": (
        lambda f: change_body(f, RESULT, result_of(NO_CODEC)),
        "value",
        "no codec reads",
    ),
    "another name": (lambda f: None, "record", "born with the name 'r'"),
    "a doubt": (doubted, "record", "records of this run are lost"),
    "set aside": (doubted, "files", "was set aside there"),
    "unneeded artifact": (unneeded, "artifact", "1 that no record names (14 bytes)"),
    "a killed put": (stray, "artifact", "1 that no record names (5 bytes)"),
    "owner.json": (write("owner.json"), "owner", "it cannot be read"),
    "a message": (a_message, "inbox", "a message waits"),
    "no message": (write("inbox/x.txt"), "inbox", "not that of a message"),
    "mirror": (write("operations.parquet"), "mirror", ""),
    "a foreign file": (write("todo.txt"), "files", "it is no part of a run"),
}


@pytest.mark.parametrize(("hurt", "kind", "said"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named_and_left_as_it_is(
    folder: Path, hurt: Callable[[Path], object], kind: str, said: str
) -> None:
    """Each kind of damage has a finding that says what it means and what to do; nothing changes."""
    hurt(folder)
    before = tree(folder.parent)

    report = dnb.verify("r", store=folder.parent)

    assert tree(folder.parent) == before
    found = [f for f in report.damage if f.kind == kind and said in f.what]
    assert found, report
    assert all(f.where and f.what and f.means and f.do for f in report.damage)
    assert not report.ok


@pytest.mark.parametrize(("hurt", "kind", "said"), NOTES.values(), ids=NOTES)
def test_what_hurts_no_record_is_a_note(
    folder: Path, hurt: Callable[[Path], object], kind: str, said: str
) -> None:
    """A note leaves the run well: what only another kernel can load is intact."""
    hurt(folder)
    if said.startswith("born"):
        folder = folder.rename(folder.with_name("s"))
    before = tree(folder.parent)

    report = dnb.verify(folder.name, store=folder.parent)

    assert tree(folder.parent) == before
    assert report.ok, report
    assert [f.kind for f in report.findings if said in f.what and f.kind == kind], report


@pytest.mark.parametrize("name", ["journal.duckdb", "head", "artifacts"])
def test_what_is_a_link_is_not_read(folder: Path, name: str) -> None:
    """It can point to another run, or to anything: nothing of it is reported as this run's."""
    linked(folder, name)
    report = dnb.verify("r", store=folder.parent)
    assert report.checked["artifacts" if name == "artifacts" else "records"] == 0
    assert {f.kind for f in report.damage} == {"rights"}


def test_nothing_that_was_planted_runs(folder: Path, tmp_path: Path) -> None:
    """Neither a pickle in the index nor a class's module is loaded."""
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (Path.touch, (mark,))

    index(folder, "UPDATE Cache SET mode = 4, filename = NULL, value = ?", pickle.dumps(Bomb()))
    (tmp_path / "planted.py").write_text(f"open({str(mark)!r}, 'w')")
    change_body(folder, RESULT, result_of(CLASS.replace("__main__", "planted")))

    assert dnb.verify("r", store=folder.parent).damage
    assert not mark.exists()


# -- where the folder lies, and who has it -----------------------------------------------------


def test_a_copy_elsewhere_is_verified_by_its_folder(folder: Path, tmp_path: Path) -> None:
    """A backup needs no store, no lock file and no owner."""
    copy = tmp_path / "backup" / "of r"
    shutil.copytree(folder, copy)
    for name in ("owner.lock", "owner.json", "operations.parquet"):
        (copy / name).unlink(missing_ok=True)
    before = tree(copy)

    report = dnb.verify(copy)

    assert report.ok, report
    assert report.checked["records"] == len(KILLED_RECORDS)
    assert tree(copy) == before
    os.truncate(artifact(copy), 5)
    assert not dnb.verify(str(copy)).ok


def test_a_held_run_is_looked_at_from_outside_and_never_called_well(own: Path) -> None:
    """While a kernel holds the run only its surroundings are read, and the report says so."""
    with dnb.run("r", store=own.parent) as run:
        report = dnb.verify("r", store=own.parent)
        assert run.get("plan").result == {"order": (1, 2)}, "DuckDB's own lock was not dropped"

    assert not report.complete
    assert not report.ok
    assert report.damage == ()
    assert str(os.getpid()) in report.held_by
    assert "as far as it can be looked at while it is held" in str(report)


def test_a_run_held_by_another_process_is_not_disturbed(own: Path, tmp_path: Path) -> None:
    """Another kernel's run goes on, and what is wrong around it is still found."""
    hold = 'run = dnb.open_run("r", store=store)\ntell(ready=True)\ntime.sleep(60)'
    with Bench(tmp_path).start(hold) as child:
        assert child.first_line()
        own.chmod(0o755)
        waiting = os.open(own / "owner.lock", os.O_RDONLY)
        report = dnb.verify("r", store=own.parent)
        os.close(waiting)
    assert f"process {child.pid} " in report.held_by, "not whoever else wants to look"
    assert [f.kind for f in report.damage] == ["rights"]


def test_while_it_is_verified_nobody_opens_the_run(own: Path) -> None:
    """A kernel that comes in between is refused, told who looks, and can open it afterwards."""
    refused = []

    def tell(_text: str) -> None:
        if not refused:
            with pytest.raises(dnb.RunHeld) as held:
                Lease.acquire(own, run="r", who=OwnerInfo.here(), wait=0.1, dying_wait=0.1)
            refused.append(str(held.value))

    assert dnb.verify("r", store=own.parent, tell=tell).ok
    assert f"held by process {os.getpid()}, which verifies, exports or clears it" in refused[0]
    dnb.open_run("r", store=own.parent).close()


def test_a_journal_open_in_another_program_is_held(folder: Path) -> None:
    """A DuckDB shell takes no lease; what it writes meanwhile would be read half."""
    import subprocess
    import sys

    code = "import sys; f = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, folder / "journal.duckdb"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as shell:  # fmt: skip
        assert shell.stdout is not None
        shell.stdout.readline()
        report = dnb.verify("r", store=folder.parent)
        shell.communicate(b"")
    assert f"process {shell.pid}" in report.held_by


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    """A missing run is no damaged one, and looking for it creates nothing."""
    (tmp_path / "empty").mkdir()
    for what in ("nope", tmp_path / "empty", tmp_path / "nope"):
        with pytest.raises(dnb.RunMissing):
            dnb.verify(what, store=tmp_path / "store")
    assert [p.name for p in tmp_path.iterdir()] == ["empty"]


def test_a_newer_journal_is_refused_and_not_called_damaged(folder: Path) -> None:
    """This version cannot judge it."""
    change_table(folder, "UPDATE j.main.meta SET schema_version = 99")
    with pytest.raises(dnb.JournalTooNew):
        dnb.verify("r", store=folder.parent)


def test_many_values_that_wait_are_one_note(folder: Path) -> None:
    """Forty values of one class are one line, which names the first of them."""

    first = len(KILLED_RECORDS) + 1

    def forty(rows: list[Row]) -> list[Row]:
        body = json.dumps({"result": CLASS, "attempt": 1}).encode()
        row = next(row for row in rows if (row.op, row.kind) == RESULT)._replace(body=body)
        more = [row._replace(seq=first + n, op=f"plan#{n + 2}") for n in range(40)]
        return [*rows, *more]

    rewrite(folder, forty)
    (note,) = dnb.verify("r", store=folder.parent).findings
    assert note.where == (
        f"plan#2, record {first}, plan#3, record {first + 1}, plan#4, record {first + 2} "
        "and 37 more"
    )


def test_sqlite_itself_would_write_beside_the_index(folder: Path) -> None:
    """Why the index is read in a copy: even a read-only connection leaves files behind."""
    connection = sqlite3.connect(f"file:{folder}/artifacts/cache.db?mode=ro", uri=True)
    connection.execute("SELECT count(*) FROM Cache").fetchone()
    assert (folder / "artifacts" / "cache.db-shm").exists()
    connection.close()
