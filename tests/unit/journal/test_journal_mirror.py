from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
import warnings
from datetime import UTC, datetime

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from durable_nb.journal.errors import MirrorSkipped, MirrorUnreadable
from durable_nb.journal.mirror import OPERATION_COLUMNS, RUN_COLUMNS, Mirror, query

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def _publish(store, name, count=2, **meta):
    folder = store / name
    folder.mkdir(exist_ok=True)
    rows = [
        {"run": name, "id": f"s#{n}", "row": n, "live": n == 1, "usd": 0.5, "started": NOW}
        for n in range(1, count + 1)
    ]
    said = {"name": name, "epoch": "3", "opened": NOW.isoformat(), "usd": "1.25", "status": "open"}
    Mirror(folder).publish(rows, {**said, **meta})
    return folder


def test_what_is_published_is_read(tmp_path):
    """Operations, a mapping each, and what the run says of itself; nothing else is left behind."""
    folder = _publish(tmp_path, "a")
    rows, meta = Mirror.read(folder)
    assert list(rows[0]) == list(OPERATION_COLUMNS)
    assert [row["id"] for row in rows] == ["s#1", "s#2"]
    assert rows[0]["started"] == NOW
    assert meta["epoch"] == "3"
    assert [p.name for p in folder.iterdir()] == ["operations.parquet"]


def test_a_table_can_be_published_as_it_is(tmp_path):
    """An Arrow table saves the way over dicts."""
    Mirror(tmp_path).publish(pa.table({"run": ["r"], "id": ["x#1"]}), {"name": "r"})
    assert Mirror.read(tmp_path)[0][0]["id"] == "x#1"


@pytest.mark.slow
def test_publishing_imports_nothing(tmp_path):
    """Once prepared, the beat of a run imports nothing: Ctrl-C could leave the lock held."""
    program = f"""
        import sys
        from datetime import datetime, UTC
        from pathlib import Path
        from durable_nb.journal.columns import table_of_mappings
        from durable_nb.journal.segments import Sealed, packed
        from durable_nb.journal.mirror import Mirror, prepare
        prepare()
        before = set(sys.modules)
        row = {{"run": "r", "row": 1, "usd": 0.5, "live": True, "started": datetime.now(UTC)}}
        mirror = Mirror(Path({str(tmp_path)!r}))
        size = mirror.seal(1, table_of_mappings([row]), {{"name": "r"}})
        mirror.publish([row], {{"name": "r"}}, Sealed(sizes=(size,), replayed=packed(b"1")))
        mirror.tail(mirror.folder)
        print(*sorted(set(sys.modules) - before))
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
    assert Mirror.read(tmp_path)[0][0]["usd"] == 0.5


def test_a_number_that_json_lacks_is_published_as_none(tmp_path):
    """The mirror is a view: a cost of NaN must not stop it."""
    Mirror(tmp_path).publish([{"run": "r", "usd": float("nan")}], {"name": "r"})
    assert Mirror.read(tmp_path)[0][0]["usd"] is None


def test_no_operations_is_a_mirror_too(tmp_path):
    """A run that was only opened shows in `runs`."""
    _publish(tmp_path, "a", count=0)
    assert query(tmp_path, "SELECT name FROM runs")["name"][0] == "a"
    assert len(query(tmp_path, "SELECT * FROM operations")) == 0


def test_texts_that_parquet_refuses_are_shown_escaped(tmp_path):
    """A lone surrogate in a preview must not stop the mirror."""
    Mirror(tmp_path).publish(
        [{"run": "r", "result": "a\ud800"}], {"name": "r", "version": "\udfff"}
    )
    rows, meta = Mirror.read(tmp_path)
    assert rows[0]["result"] == "a\\ud800"
    assert meta["version"] == "\\udfff"


def test_a_store_without_runs_answers_with_the_right_columns(tmp_path):
    """Empty frames, no error, nothing created; the same for a store that is not there."""
    for store in (tmp_path, tmp_path / "none"):
        assert list(query(store, "SELECT * FROM runs").columns) == list(RUN_COLUMNS)
        assert list(query(store, "SELECT * FROM operations").columns) == list(OPERATION_COLUMNS)
    assert not (tmp_path / "none").exists()


def test_one_query_answers_over_all_runs(tmp_path):
    """Both views, joined, with numbers and times in their types."""
    for name in ("a", "b", "with space", "it's"):
        _publish(tmp_path, name, count=3)
    frame = query(
        tmp_path,
        "SELECT r.name, r.epoch + 1 AS e, r.opened, r.folder, count(*) AS n, sum(o.usd) AS usd "
        "FROM runs r JOIN operations o ON o.run = r.name GROUP BY ALL ORDER BY r.name",
    )
    assert list(frame["name"]) == ["a", "b", "it's", "with space"]
    assert list(frame["n"]) == [3] * 4
    assert list(frame["e"]) == [4] * 4
    assert frame["usd"][0] == 1.5
    assert frame["opened"][0] == pd.Timestamp(NOW)
    assert frame["folder"][0] == str(tmp_path / "a")


@pytest.mark.parametrize("damage", ["empty", "cut", "page", "foreign"])
def test_a_bad_mirror_is_skipped_and_named(tmp_path, damage):
    """One bad file costs its own run, and a warning says which."""
    for name in ("a", "bad", "c"):
        _publish(tmp_path, name)
    path = tmp_path / "bad" / "operations.parquet"
    raw = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "cut": raw[: len(raw) // 2],
            "page": raw[:4] + b"\xff" * 60 + raw[64:],
            "foreign": b"not parquet at all",
        }[damage]
    )
    with pytest.warns(MirrorSkipped, match=r"bad.operations\.parquet"):
        frame = query(tmp_path, "SELECT name FROM runs UNION SELECT run FROM operations ORDER BY 1")
    assert list(frame["name"]) == ["a", "c"]
    with pytest.raises(MirrorUnreadable, match="The run itself is unhurt"):
        Mirror.read(tmp_path / "bad")
    with pytest.raises(MirrorUnreadable):
        Mirror.read(tmp_path / "none")


def test_mirrors_of_other_versions_are_read_as_far_as_they_go(tmp_path):
    """More or fewer columns, and other types, beside ours."""
    _publish(tmp_path, "a")
    (tmp_path / "b").mkdir()
    odd = pa.table({"run": ["b"], "id": ["s#1"], "usd": ["much"], "mood": ["new column"]})
    Mirror(tmp_path / "b").publish(odd, {"name": "b", "epoch": "many"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operations = query(tmp_path, "SELECT run, usd FROM operations ORDER BY run, id")
        runs = query(tmp_path, "SELECT epoch FROM runs ORDER BY name")
    assert list(operations["run"]) == ["a", "a", "b"]
    assert pd.isna(operations["usd"][2])
    assert runs["epoch"][0] == 3
    assert pd.isna(runs["epoch"][1])


def test_hidden_and_linked_folders_are_no_runs(tmp_path):
    """What was set aside does not show, and a link leads nowhere."""
    store = tmp_path / "store"
    store.mkdir()
    _publish(store, "a")
    _publish(store, ".b.old-1")
    _publish(tmp_path, "outside")
    (store / "link").symlink_to(tmp_path / "outside")
    assert list(query(store, "SELECT name FROM runs")["name"]) == ["a"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "COPY runs TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/x.duckdb' AS x",
        "SELECT * FROM secret",
        'SELECT * FROM "table"',  # a variable of the function that asks
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "INSTALL httpfs",
        "LOAD httpfs",
    ],
)
def test_a_query_reaches_the_two_views_and_nothing_else(tmp_path, sql):
    """No files, no network, no variables of the caller, and no way to switch that on."""
    _publish(tmp_path, "a")
    secret = pd.DataFrame({"password": ["x"]})
    assert len(secret) == 1
    file = tmp_path / "file.csv"
    file.write_text("a,b\n1,2\n")
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(duckdb.Error):
        query(tmp_path, sql.format(file=file, folder=tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.slow
def test_readers_see_the_old_or_the_new_mirror_and_never_half_of_one(tmp_path):
    """Publishing replaces in one step, under readers that never stop."""
    _publish(tmp_path, "a", count=1)
    stop = threading.Event()

    def publish():
        count = 1
        while not stop.is_set():
            count = count % 50 + 1
            _publish(tmp_path, "a", count=count, completed=str(count))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            rows, meta = Mirror.read(tmp_path / "a")
            assert len(rows) == int(meta.get("completed", "1"))
    finally:
        stop.set()
        thread.join()
