"""The lease of a run in PostgreSQL: a row with an epoch, and a heartbeat by the server's clock.

The system does not drop it with its holder, as it does with a lock: a lease whose heartbeat is
older than `Server.lease_s` may be taken over. What its holder does then is refused by the epoch,
which is checked in the very statement that appends; a holder that only stood still learns of it
there. Effects outside are not fenced by this.

A killed kernel is not waited for on its own machine. Its session holds an advisory lock of the
server, which is dropped with it: whoever finds that lock free and, on this boot of this machine,
no such process any more, takes the lease at once. Neither alone would be enough: a live owner
loses its session with its connection, and may be hidden in a container. An owner that is only
stopped has both. Of another machine only the heartbeat tells.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import psycopg

from durable_nb.journal.glance import Glance
from durable_nb.journal.heartbeat import HEARTBEAT, Heartbeat
from durable_nb.journal.owner import Holder, Life, OwnerInfo, boot_id, describe, life_of, only_look
from durable_nb.journal.postgres.errors import StoreUnreachable
from durable_nb.journal.postgres.server import Server, is_lost
from durable_nb.journal.postgres.sessions import Session, look_at
from durable_nb.model.errors import RunHeld, StaleOwner

_BEATS: Final = 4  # in a lease that is shorter than four of them
_RETRY: Final = 0.25


class PostgresLease:
    """The right to append to a run under one epoch; made by `PostgresLease.acquire`.

    It has what `Lease` has, so that a run may hold either.

    Attributes
    ----------
    key : int
        The number of the run in the store.
    info : OwnerInfo
        What others are told of this owner.
    previous : OwnerInfo or None
        The owner before.
    epoch : int
        The fencing token, above that of every earlier owner.
    trouble : str
        The last failure of the heartbeat; it raises to nobody.
    """

    def __init__(
        self,
        session: Session,
        *,
        run: str,
        key: int,
        info: OwnerInfo,
        previous: OwnerInfo | None,
        asked: float,
    ) -> None:
        self.server, self.run, self.key = session.server, run, key
        self.info, self.previous, self.epoch = info, previous, info.epoch
        self.trouble = ""
        self._session, self._pid = session, os.getpid()
        self._lock = threading.RLock()
        self._heart = Heartbeat(run, self.beat, self._note)
        self._on_beat: Callable[[], Any] | None = None
        self._lost = self._released = False
        self._beaten = asked  # monotonic, when the last beat that came through was begun
        self._owned = 0  # the connection that holds the lock of this owner
        self._own()

    @classmethod
    def acquire(
        cls, server: Server, *, run: str, who: OwnerInfo, wait: float = 1.0
    ) -> PostgresLease:
        """Take the lease of a run, which is made if it is not there, or say who has it.

        Parameters
        ----------
        server : Server
            A store that was prepared.
        run : str
            Name of the run.
        who : OwnerInfo
            This owner, as `OwnerInfo.here(...)` gives it.
        wait : float
            Seconds to go on trying. Beyond that a transaction that stands still and keeps the row
            is waited for, at most `server.takeover_s`.

        Raises
        ------
        RunHeld
            If somebody else has it; nothing was changed.
        StoreUnreachable
            If the server cannot be reached.
        """
        session = Session(server, f"lease {run}", takes_over=True)
        begun = time.monotonic()
        try:
            key = _key(session, run)
            while True:
                asked = time.monotonic()
                before = _seen(session, run)
                dead = before.info.epoch if before and before.info and before.is_gone else None
                epoch = _take(session, run, key, who, dead)
                if epoch is not None:
                    break
                if asked - begun >= wait:
                    raise _held(server, run, _seen(session, run) or before)
                time.sleep(_RETRY)
        except psycopg.Error as error:
            session.drop()
            raise StoreUnreachable(server.place, server.clean(str(error))) from None
        except BaseException:
            session.drop()
            raise
        info = replace(who, pid=os.getpid(), epoch=epoch, opened=_ago(0), heartbeat=_ago(0))
        previous = None if before is None else before.info
        return cls(session, run=run, key=key, info=info, previous=previous, asked=asked)

    @property
    def next_epoch(self) -> int:
        """The epoch to write under."""
        return self.epoch

    @property
    def held(self) -> bool:
        """Whether nobody else can have taken it: the last beat is younger than the lease.

        By the monotonic clock of this process; that nobody has taken it is told by an append.
        """
        if self._released or self._lost or os.getpid() != self._pid:
            return False
        return time.monotonic() - self._beaten < self.server.lease_s

    def update(self, **changes: Any) -> None:
        """Change what others are told of this owner; the epoch is the lease's own."""
        if changes.pop("epoch", self.epoch) != self.epoch:
            raise ValueError(f"the epoch of run {self.run!r} is {self.epoch}, by its lease")
        with self._lock:
            self._check_process()
            self.info = replace(self.info, **changes)
            if not self._send("tell_owner", owner=_owner(self.info)):
                self._lost = True
                raise StaleOwner(self.run, whose(self._session, self.run, self.epoch))

    def start_heartbeat(
        self,
        head: object = None,
        on_beat: Callable[[], Any] | None = None,
        every: float = HEARTBEAT,
    ) -> None:
        """Begin to tell others that this owner lives, from a thread and a connection of its own.

        Parameters
        ----------
        head : object
            Not used: see `Lease.start_heartbeat`.
        on_beat : callable, optional
            Called with each beat.
        every : float
            Seconds; less if the lease is short.
        """
        self._on_beat = on_beat
        self._heart.start(min(every, self.server.lease_s / _BEATS))

    def beat(self) -> None:
        """Do one heartbeat now; raises `StaleOwner` if the run has another owner."""
        with self._lock:
            if self._released:
                return
            self._check_process()
            asked = time.monotonic()
            if not self._send("beat"):
                self._lost = True
                raise StaleOwner(self.run, whose(self._session, self.run, self.epoch))
            self._beaten = asked
            self._own()
            self.info, self.trouble = replace(self.info, heartbeat=_ago(0)), ""
        if self._on_beat is not None:
            self._on_beat()

    def release(self) -> None:
        """Free the run for anybody; twice is harmless, and so is a server that is gone."""
        if os.getpid() != self._pid:
            return  # a fork child: the parent has it
        self._heart.stop()
        with self._lock:
            if self._released:
                return
            self._released = True
            self.info = replace(self.info, released=_ago(0))
            try:
                self._send("release", owner=_owner(self.info))
            except (StoreUnreachable, psycopg.Error) as error:
                self.trouble = f"the run was not released: {error}"
            finally:
                self._session.drop()

    def __enter__(self) -> PostgresLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _note(self, trouble: str) -> None:
        self.trouble = trouble

    def _send(self, name: str, **given: Any) -> bool:
        """Send a statement about this lease, once more if its connection was lost meanwhile."""
        given |= {"run": self.key, "epoch": self.epoch}
        try:
            return self._session.run(name, given).rowcount == 1
        except (StoreUnreachable, psycopg.Error) as error:
            if not is_lost(error):
                raise
        return self._session.run(name, given).rowcount == 1

    def _own(self) -> None:
        """Hold the lock that the server drops with this process, on a new connection once more."""
        # where it cannot be had the lease is as good, and the next beat tries again
        with contextlib.suppress(StoreUnreachable, psycopg.Error):
            if self._owned != self._session.opened:
                row = self._session.run("own", {"run": self.key, "epoch": self.epoch}).fetchone()
                if row is not None and row[0]:
                    self._owned = self._session.opened

    def _check_process(self) -> None:
        """Refuse in a forked child and after the release."""
        if os.getpid() != self._pid:
            holder = f"process {self._pid}, of which this process is a fork"
            raise RunHeld(self.run, holder, "Let the parent do it.")
        if self._released:
            raise RunHeld(self.run, "nobody: this lease was released", "Open the run again.")


def probe(server: Server, run: str) -> Holder | None:
    """Tell who holds a run; None if nobody does, or there is no such run."""
    found = look_at(server).ask("holder", {"name": run})
    return _holder(server, _read(found[0][1:])) if found else None


def holders(server: Server) -> dict[str, Holder | None]:
    """Tell of all runs of a store who holds them: by name; None if nobody does.

    An owner lives as long as its heartbeat is younger than the lease, wherever it is, unless it is
    known to be gone.
    """
    found = look_at(server).ask("holders")
    return {name: _holder(server, _read(rest)) for name, *rest, _, _ in found}


def overview(server: Server) -> dict[str, Glance]:
    """Tell of all runs of a store that have begun, in one question."""
    return {
        name: Glance(_holder(server, _read(rest)), mirrored is None or seq > mirrored)
        for name, *rest, seq, mirrored in look_at(server).ask("holders")
        if seq is not None and not name.startswith(".")  # as the statement `runs` has it
    }


def _holder(server: Server, seen: _Seen) -> Holder | None:
    """Tell what a row says of a run's owner; None if it has none."""
    if seen.info is None or seen.info.released:
        return None
    is_live = seen.beat < server.lease_s and not seen.is_gone
    return Holder(seen.info, Life.LIVE if is_live else Life.CRASHED)


def whose(session: Session, run: str, epoch: int) -> str:
    """Say who has the run instead, as far as that can be told now."""
    try:
        seen = _seen(session, run)
    except (StoreUnreachable, psycopg.Error):
        seen = None
    if seen is None or seen.info is None:
        return f"its lease of epoch {epoch} was taken over or given back."
    if seen.info.released:
        return f"its lease of epoch {epoch} was given back."
    who = Holder(seen.info, Life.LIVE).who
    return f"{who} has it under epoch {seen.info.epoch}; this process had epoch {epoch}."


class _Seen(NamedTuple):
    """The owner on record, the age of its heartbeat, and whether its session has its lock."""

    info: OwnerInfo | None
    beat: float
    owned: bool

    @property
    def has_ended(self) -> bool:
        """Whether its process, on this boot of this machine, is not there any more."""
        info = self.info
        return info is not None and info.boot == boot_id() != "" and life_of(info) is Life.CRASHED

    @property
    def is_gone(self) -> bool:
        """Whether it is certain that it will do nothing more: see the module's docstring."""
        return not self.owned and self.has_ended


def _key(session: Session, run: str) -> int:
    """Give the number of a run, which is made if it is not there."""
    row = session.run("run_of", {"name": run}).fetchone()
    if row is None:
        session.run("give_birth", {"name": run})
        row = session.run("run_of", {"name": run}).fetchone()
    assert row is not None
    return int(row[0])


def _take(
    session: Session, run: str, key: int, who: OwnerInfo, dead: int | None = None
) -> int | None:
    """Take the lease if it is free or late, or under the epoch of a dead owner; else None.

    If the answer is lost, the same is sent again: what came through the first time is told by the
    claim, as else this process would be kept out by itself.
    """
    claim = secrets.token_hex(8)
    owner = _owner(replace(who, pid=os.getpid(), released=""), claim=claim)
    given = {"run": key, "owner": owner, "claim": claim, "lease_s": session.server.lease_s}
    given["dead"] = dead
    try:
        try:
            row = session.run("take_lease", given).fetchone()
        except (StoreUnreachable, psycopg.Error) as error:
            if not is_lost(error):
                raise
            again = session.run("take_lease", given).fetchone()
            row = again or session.run("claimed", given).fetchone()
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
        waited = session.server.takeover_s
        holder = f"a transaction that stands still; it was waited for {waited:.0f} s"
        advice = "Try again, or end that session (pg_stat_activity shows it)."
        raise RunHeld(run, holder, advice) from None
    return None if row is None else int(row[0])


def _seen(session: Session, run: str) -> _Seen | None:
    """Tell the owner on record, and the age of its heartbeat; None before the first one."""
    row = session.run("holder", {"name": run}).fetchone()
    return None if row is None or not row[1] else _read(row[1:])


def _read(row: Any) -> _Seen:
    """Make the owner of a row of `holders`; what its clock said is told by this machine's."""
    epoch, owner, taken, beat, released, owned = row
    info = OwnerInfo.of(owner)
    if info is None:
        return _Seen(None, beat, owned)
    over = "" if released is None else _ago(released)
    told = {"epoch": epoch, "opened": _ago(taken), "heartbeat": _ago(beat), "released": over}
    return _Seen(replace(info, **told), beat, owned)


def _held(server: Server, run: str, seen: _Seen | None) -> RunHeld:
    """Say who has it, and when it may be taken over."""
    if seen is None or seen.info is None:
        who = "an owner that has not said who it is"
        return RunHeld(run, who, f"Try again in {server.lease_s:.0f} s.")
    left = max(0.0, server.lease_s - seen.beat)
    if seen.has_ended:
        who = f"{describe(seen.info)}, which has ended; what it started has its connection open"
        return RunHeld(run, who, f"End that, or wait: the run is free {left:.0f} s from now.")
    if seen.info.pid == os.getpid() and life_of(seen.info) is Life.LIVE:
        advice = "This kernel has it open already: use that run object, or close it first."
        return RunHeld(run, describe(seen.info), advice)
    advice = (
        "Close the run there (run.close()) or shut that kernel down; a live run is not taken over. "
        f"If it has died, the run is free {left:.0f} s from now. {only_look(run)}"
    )
    return RunHeld(run, describe(seen.info), advice)


def _owner(info: OwnerInfo, **more: str) -> str:
    """Give an owner as JSON that the database takes: no NUL, no lone surrogate."""
    plain = {
        name: said.replace("\0", "?").encode("utf-8", "replace").decode()
        if isinstance(said, str)
        else said
        for name, said in {**asdict(info), **more}.items()
    }
    return json.dumps(plain)


def _ago(seconds: float) -> str:
    """Give an ISO text of so long ago, by the clock of this machine."""
    return (datetime.now(UTC) - timedelta(0, seconds)).isoformat()
