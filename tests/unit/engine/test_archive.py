"""A run in one file: whole, private, and taken apart piece by piece where it comes in."""

from __future__ import annotations

import json
import os
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from support.folders import KILLED_RECORDS, artifact, stored, tree

import durable_nb as dnb
from durable_nb.engine.store import open_run
from durable_nb.journal import archive as archives
from durable_nb.journal.archive import Archive

pytestmark = pytest.mark.slow  # together they take longer than all the rest


@pytest.fixture(scope="module")
def exported(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("exported") / "r.zip"
    dnb.export_run("r", file, store=killed)
    return file


def records(name: str, store: Path) -> list[tuple[object, ...]]:
    run = open_run(name, store=store, must_exist=True, role="reader")
    try:
        return list(run.history().itertuples(index=False, name=None))
    finally:
        run.close()


# -- out ---------------------------------------------------------------------------------------


def test_a_run_goes_out_and_comes_in_unchanged(folder: Path, tmp_path: Path) -> None:
    """Every record, value and doubt of a killed run is there again, in another store."""
    before = tree(folder)
    done = dnb.export_run("r", tmp_path / "r.zip", store=folder.parent)
    assert tree(folder) == before
    assert (done.records, done.artifacts) == (len(KILLED_RECORDS), 1)
    rows = stored(folder)
    shutil.rmtree(folder.parent)  # nothing of the old store is needed

    came = dnb.import_run(tmp_path / "r.zip", store=tmp_path / "new")

    assert came.run_id == done.run_id
    assert dnb.verify("r", store=tmp_path / "new").ok
    assert stored(came.folder) == rows
    with open_run("r", store=tmp_path / "new", role="reader") as run:
        assert run.get("plan").result == {"order": (1, 2)}
        assert run.get("big").result == "x" * 100_000
        assert [op.id for op in run.unknown()] == ["charge#1"]
        assert run.fold.doubted is None, "its head came along"
    assert len(records("r", tmp_path / "new")) == len(KILLED_RECORDS)


def test_an_archive_is_private_and_holds_only_the_run(exported: Path) -> None:
    """Mode 0600; a manifest, the one database file, the head and the artifacts, and no owner."""
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    with zipfile.ZipFile(exported) as file:
        names = file.namelist()
        manifest = json.loads(file.read("manifest.json"))
        assert {i.compress_type for i in file.infolist()} == {zipfile.ZIP_STORED}
        assert {i.external_attr >> 16 for i in file.infolist()} == {stat.S_IFREG | 0o600}
    assert names[:4] == ["manifest.json", "journal.duckdb", "head", "artifacts/cache.db"]
    assert len(names) == 5
    assert names[4].endswith(".val")
    assert (manifest["format"], manifest["version"]) == ("durable_nb run", 1)
    assert (manifest["run"], manifest["last_seq"]) == ("r", len(KILLED_RECORDS))
    assert set(manifest["files"]) == set(names[1:])


def test_the_database_file_of_an_archive_is_whole_on_its_own(
    exported: Path, tmp_path: Path
) -> None:
    """What lay in the write-ahead file is in it, so that any DuckDB can read the records."""
    with zipfile.ZipFile(exported) as file:
        file.extract("journal.duckdb", tmp_path)
    con = duckdb.connect()
    con.execute(f"ATTACH '{tmp_path}/journal.duckdb' AS j (READ_ONLY)")
    found = con.execute("SELECT op, kind FROM j.main.records ORDER BY seq").fetchall()
    assert tuple(found) == KILLED_RECORDS
    con.close()


def test_an_archive_that_was_unpacked_by_hand_is_a_folder_that_verifies(
    exported: Path, tmp_path: Path
) -> None:
    """No importer is needed to get at one's own data."""
    with zipfile.ZipFile(exported) as file:
        file.extractall(tmp_path / "by hand")
    (tmp_path / "by hand").chmod(0o700)

    report = dnb.verify(tmp_path / "by hand")

    assert report.ok, report
    assert report.checked["artifacts"] == 1


def test_equal_runs_make_equal_archives(killed: Path, exported: Path, tmp_path: Path) -> None:
    """Nothing of the time or the machine is in it, so a backup of the same is the same."""
    dnb.export_run("r", tmp_path / "again.zip", store=killed)
    with zipfile.ZipFile(exported) as one, zipfile.ZipFile(tmp_path / "again.zip") as two:
        assert one.read("head") == two.read("head")
        assert [i.date_time for i in one.infolist()] == [i.date_time for i in two.infolist()]


def test_a_damaged_run_is_not_exported(folder: Path, tmp_path: Path) -> None:
    """What was exported would look whole; nothing is left behind."""
    os.truncate(artifact(folder), 5)
    with pytest.raises(dnb.RunDamaged, match="5 bytes, and 100000 were recorded") as refused:
        dnb.export_run("r", tmp_path / "r.zip", store=folder.parent)
    assert [f.kind for f in refused.value.findings] == ["artifact"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]


def test_a_held_run_is_not_exported(own: Path, tmp_path: Path) -> None:
    """It says who holds it, and writes nothing."""
    with (
        dnb.run("r", store=own.parent),
        pytest.raises(dnb.RunHeld, match="This kernel has it open already"),
    ):
        dnb.export_run("r", tmp_path / "r.zip", store=own.parent)
    assert not (tmp_path / "r.zip").exists()


def test_an_export_replaces_nothing(folder: Path, tmp_path: Path) -> None:
    """A file of that name is left alone."""
    (tmp_path / "r.zip").write_text("mine")
    with pytest.raises(FileExistsError, match="Nothing was written"):
        dnb.export_run("r", tmp_path / "r.zip", store=folder.parent)
    assert (tmp_path / "r.zip").read_text() == "mine"


def test_an_export_that_is_stopped_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    """The archive has its name only once it was read back; before, there is nothing."""

    def stop(text: str) -> None:
        if "back" in text:
            assert len(list(tmp_path.glob(".export-*"))) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dnb.export_run("r", tmp_path / "r.zip", store=folder.parent, tell=stop)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]
    assert dnb.verify("r", store=folder.parent).ok


def test_what_changes_while_it_is_exported_is_noticed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verified is what was written, and not what was read before."""
    write = archives.write_archive

    def later(*given: object) -> None:
        artifact(folder).write_bytes(b"y" * 100_000)
        write(*given)

    monkeypatch.setattr("durable_nb.engine.archive.write_archive", later)
    with pytest.raises(OSError, match="changed while it was exported"):
        dnb.export_run("r", tmp_path / "r.zip", store=folder.parent)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]


# -- in ----------------------------------------------------------------------------------------


def test_an_import_says_that_it_is_the_same_run(exported: Path, folder: Path) -> None:
    """Two kernels on both copies would do effects twice, so the choices are named."""
    came = dnb.import_run(exported, "copy", store=folder.parent)
    text = str(came)
    assert came.run == "copy"
    assert came.run_id in text
    assert "effects happen twice" in text
    assert [word in text for word in ("moved", "abandoned", "fork")] == [True] * 3
    dnb.runs(folder.parent)  # publishes the mirrors
    assert dnb.import_run(exported, "third", store=folder.parent).twins == ("copy", "r")


def test_what_comes_in_is_private(exported: Path, tmp_path: Path) -> None:
    """Folders 0700 and files 0600, whatever the umask."""
    old = os.umask(0)
    try:
        came = dnb.import_run(exported, store=tmp_path / "s")
    finally:
        os.umask(old)
    for path in [came.folder, *came.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_name_that_is_taken_is_kept(exported: Path, folder: Path) -> None:
    """Nothing is replaced; `--as` is named."""
    before = tree(folder)
    with pytest.raises(dnb.ArchiveRefused, match="--as NAME"):
        dnb.import_run(exported, store=folder.parent)
    assert tree(folder) == before
    (folder.parent / "x").mkdir()
    with pytest.raises(dnb.ArchiveRefused, match="already"):
        dnb.import_run(exported, "x", store=folder.parent)
    with pytest.raises(dnb.BadName):
        dnb.import_run(exported, "../x", store=folder.parent)


def again(
    source: Path,
    target: Path,
    change: Callable[[dict[str, bytes]], object],
    **options: object,
) -> Path:
    """Write an archive anew, with other members."""
    with zipfile.ZipFile(source) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    kind = options.get("compress", zipfile.ZIP_STORED)
    with zipfile.ZipFile(target, "w", kind) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if name == options.get("link") else 0o100600) << 16
            info.compress_type = kind
            file.writestr(info, data)
    return target


def manifest(members: dict[str, bytes], **changes: object) -> None:
    body = json.loads(members["manifest.json"]) | changes
    members["manifest.json"] = json.dumps(body).encode()


def one_record_less(members: dict[str, bytes]) -> None:
    manifest(members, last_seq=json.loads(members["manifest.json"])["last_seq"] - 1)


def describe(members: dict[str, bytes], name: str, data: bytes) -> None:
    """Put a member in, and have the manifest agree."""
    import hashlib

    members[name] = data
    body = json.loads(members["manifest.json"])
    said = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest(members, files={**body["files"], name: said})


def value_of(members: dict[str, bytes]) -> str:
    return next(name for name in members if name.endswith(".val"))


def foreign_journal(tmp_path: Path, statement: str) -> bytes:
    path = tmp_path / "foreign.duckdb"
    con = duckdb.connect()
    con.execute(f"ATTACH '{path}' AS j (BLOCK_SIZE 16384)")
    con.execute("CREATE TABLE j.main.meta AS SELECT 1::BIGINT AS schema_version")
    con.execute(statement)
    con.execute("CHECKPOINT j")
    con.close()
    return path.read_bytes()


REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "a longer path": (lambda m: describe(m, "../r/head", b"x"), "which no run has"),
    "an absolute path": (lambda m: describe(m, "/tmp/x", b"x"), "which no run has"),
    "an owner": (lambda m: describe(m, "owner.json", b"{}"), "which no run has"),
    "a lock": (lambda m: describe(m, "owner.lock", b""), "which no run has"),
    "an inbox": (lambda m: describe(m, "inbox/x.json", b"{}"), "which no run has"),
    "a write-ahead file": (lambda m: describe(m, "journal.duckdb.wal", b"x"), "which no run has"),
    "a hidden slash": (
        lambda m: describe(m, "artifacts/../../x.val", b"x"), "which no run has",
    ),
    "no manifest": (lambda m: m.pop("manifest.json"), "it has no manifest"),
    "another format": (lambda m: manifest(m, format="zip"), "not one of a run"),
    "a newer version": (lambda m: manifest(m, version=2), "is of version 2, and this program"),
    "version text": (lambda m: manifest(m, version="1"), "not one of a run"),
    "no JSON": (lambda m: m.update({"manifest.json": b"{"}), "not one of a run"),
    "a list": (lambda m: m.update({"manifest.json": b"[]"}), "not one of a run"),
    "files unsaid": (lambda m: manifest(m, files={}), "not those of its manifest"),
    "a file that is gone": (lambda m: m.pop(value_of(m)), "not those of its manifest"),
    "a size": (lambda m: m.update({"head": b"x" * 1025}), "not those of its manifest"),
    "a digest": (lambda m: m.update({value_of(m): b"z" * 100_000}), "digest is another one"),
    "the journal": (
        lambda m: m.update({"journal.duckdb": bytes(len(m["journal.duckdb"]))}), "digest",
    ),
    "another end": (lambda m: manifest(m, digest="0" * 32), "not those that its manifest says"),
    "another count": (one_record_less, "not those that its manifest says"),
    "another run id": (lambda m: manifest(m, run_id="0" * 32), "of another run"),
    "no database": (lambda m: describe(m, "journal.duckdb", b"x" * 999), "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_not_what_it_says_changes_nothing(
    exported: Path, tmp_path: Path, change: Callable[..., object], said: str
) -> None:
    """Each is refused by name, and leaves no folder in the store."""
    file = again(exported, tmp_path / "bad.zip", change)
    with pytest.raises(dnb.ArchiveRefused) as refused:
        dnb.import_run(file, store=tmp_path / "s")
    assert said in str(refused.value)
    left = [p.name for p in (tmp_path / "s").glob("*")] if (tmp_path / "s").exists() else []
    assert [name for name in left if name != ".gitignore"] == []
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "s") == ["bad.zip"]


def test_links_bombs_and_doubles_are_refused(exported: Path, tmp_path: Path) -> None:
    """A link, a compressed member, a claim beyond the file's size, and one name twice."""
    cases = {
        "which is no plain file": {"link": "head"},
        "compressed or encrypted": {"compress": zipfile.ZIP_DEFLATED},
    }
    for said, options in cases.items():
        file = again(exported, tmp_path / "bad.zip", lambda m: None, **options)
        with pytest.raises(dnb.ArchiveRefused, match=said):
            dnb.import_run(file, store=tmp_path / "s")
    with zipfile.ZipFile(shutil.copy(exported, tmp_path / "double.zip"), "a") as file:
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("head", b"x")
    with pytest.raises(dnb.ArchiveRefused, match="holds 'head', twice"):
        dnb.import_run(tmp_path / "double.zip", store=tmp_path / "s")
    large = zipfile.ZipFile(tmp_path / "large.zip", "w")
    large.writestr("manifest.json", b"{}")
    large.filelist[0].file_size = 2**40
    large.close()
    with pytest.raises(dnb.ArchiveRefused, match="more than it has"):
        dnb.import_run(tmp_path / "large.zip", store=tmp_path / "s")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    """A text, a folder, and a file that is cut."""
    (tmp_path / "x.zip").write_text("no zip")
    (tmp_path / "d").mkdir()
    for name, said in (("x.zip", "it is no zip archive"), ("d", "it is no plain file")):
        with pytest.raises(dnb.ArchiveRefused, match=said):
            dnb.import_run(tmp_path / name, store=tmp_path / "s")
    with pytest.raises(FileNotFoundError):
        dnb.import_run(tmp_path / "nope.zip", store=tmp_path / "s")


@pytest.mark.parametrize("part", range(1, 10))
def test_an_archive_that_is_cut_is_refused(exported: Path, tmp_path: Path, part: int) -> None:
    """Wherever it was cut."""
    data = exported.read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[: len(data) * part // 10])
    with pytest.raises(dnb.ArchiveRefused):
        dnb.import_run(tmp_path / "cut.zip", store=tmp_path / "s")


def test_a_flipped_byte_is_noticed_or_harmless(exported: Path, tmp_path: Path) -> None:
    """Wherever a byte is flipped: refused, or what came in is byte for byte the run."""
    data = exported.read_bytes()
    came = 0
    for at in range(0, len(data), len(data) // 40):
        flipped = bytearray(data)
        flipped[at] ^= 0xFF
        (tmp_path / "f.zip").write_bytes(flipped)
        try:
            dnb.import_run(tmp_path / "f.zip", f"n{at}", store=tmp_path / "s")
        except dnb.ArchiveRefused:
            continue
        came += 1
        assert dnb.verify(f"n{at}", store=tmp_path / "s").ok
    assert came < 3


VIEW = (
    "CREATE VIEW j.main.records AS SELECT 1::BIGINT seq, '' op, 'born' kind, 0::BIGINT ts, "
    "1::BIGINT epoch, content::BLOB body FROM read_text('/etc/hostname')"
)
TEXTS = "CREATE TABLE j.main.records AS SELECT 'a' seq, 1 op, 2 kind, 'b' ts, 'c' epoch, 'd' body"
MORE = (
    "CREATE TABLE j.main.records (seq BIGINT, op VARCHAR, kind VARCHAR, ts BIGINT, epoch BIGINT, "
    "body BLOB); CREATE TABLE j.main.more (x INT)"
)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (VIEW, "its tables are meta"),
        (TEXTS, "is damaged"),
        (MORE, "its tables are meta, more, records"),
        ("SELECT 1", "its tables are meta"),
    ],
)
def test_a_foreign_journal_gives_rows_and_nothing_else(
    exported: Path, tmp_path: Path, statement: str, said: str
) -> None:
    """A view that reads this machine's files, other types and other tables are refused."""
    journal = foreign_journal(tmp_path, statement)
    file = again(exported, tmp_path / "bad.zip", lambda m: describe(m, "journal.duckdb", journal))
    with pytest.raises(dnb.ArchiveRefused, match=said):
        dnb.import_run(file, store=tmp_path / "s")


def test_a_foreign_journal_reaches_no_file_of_this_machine(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its tables hide, DuckDB may open nothing while it is read."""
    from durable_nb.journal import transplant

    reach = "SELECT content FROM read_text('/etc/passwd')"
    monkeypatch.setattr(transplant, "read_rows", lambda con: con.execute(reach).fetchall())
    with pytest.raises(dnb.ArchiveRefused, match="disabled by configuration"):
        dnb.import_run(exported, store=tmp_path / "s")


def test_a_planted_index_is_not_taken_along(exported: Path, tmp_path: Path) -> None:
    """The index of the artifacts is made anew, so a planted row or setting never arrives."""
    file = again(
        exported, tmp_path / "p.zip", lambda m: describe(m, "artifacts/cache.db", b"planted")
    )
    came = dnb.import_run(file, store=tmp_path / "s")
    assert (came.folder / "artifacts" / "cache.db").read_bytes()[:6] == b"SQLite"
    assert dnb.verify("r", store=tmp_path / "s").ok


def test_a_run_that_was_recorded_damaged_is_not_imported(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came in is verified before it gets its name: here, a record's artifact is not there."""

    def without(members: dict[str, bytes]) -> None:
        body = json.loads(members["manifest.json"])
        name = value_of(members)
        del members[name], body["files"][name]
        manifest(members, files=body["files"])

    file = again(exported, tmp_path / "bad.zip", without)
    with pytest.raises(dnb.RunDamaged, match="is missing"):
        dnb.import_run(file, store=tmp_path / "s")
    assert list((tmp_path / "s").iterdir()) == [tmp_path / "s" / ".gitignore"]


def test_an_import_that_is_stopped_leaves_nothing(exported: Path, tmp_path: Path) -> None:
    """Ctrl-C in the middle: no half run in the store."""

    def stop(text: str) -> None:
        if text.startswith("reading values"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dnb.import_run(exported, store=tmp_path / "s", tell=stop)
    assert list((tmp_path / "s").iterdir()) == [tmp_path / "s" / ".gitignore"]


def test_an_archive_gives_only_what_its_manifest_names(exported: Path) -> None:
    """Reading checks the digest of each file."""
    with Archive(exported) as archive:
        for name in archive.manifest.files:
            archive.check(name)
            assert len(archive.read(name)) == archive.manifest.files[name].size
