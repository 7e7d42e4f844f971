"""Waiting until the server tells of something, on a connection that others use meanwhile."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from typing import Any, Final

import psycopg

from durable_nb.journal.postgres.errors import StoreRefused, StoreUnreachable
from durable_nb.journal.postgres.patience import Patient

#: Seconds between two tries to select on a connection that others change.
_AGAIN_S: Final = 0.05


class Listener:
    """Hears what is notified on one channel.

    Nobody is kept from the connection while it waits, and a notification that comes with the
    answer of another statement is heard as well.

    Parameters
    ----------
    patient : Patient
        Whose connection is used.
    channel : str
        A plain identifier.
    kept : str
        The notification that is kept until somebody waits for it.
    """

    def __init__(self, patient: Patient, channel: str, kept: str) -> None:
        self._patient, self._channel = patient, channel
        self._wanted, self._heard = {kept}, set[str]()
        self._con: psycopg.Connection[Any] | None = None
        self._woken = threading.Event()
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._pid = os.getpid()

    def until(self, said: str, timeout_s: float) -> bool:
        """Wait for a notification.

        Returns
        -------
        bool
            `True` once it was heard, or may have been missed because nobody listened until now.
            `False` after the time, or `wake`.
        """
        limit = time.monotonic() + timeout_s
        self._wanted.add(said)
        while True:
            try:
                if self._patient(self._attend, again=False):
                    return True
            except (StoreUnreachable, StoreRefused):
                self._select(None, limit)  # whoever looks next is told why
                self._woken.clear()
                return False
            if said in self._heard:
                self._heard.discard(said)
                return True
            if time.monotonic() >= limit or self._woken.is_set():
                self._woken.clear()
                return False
            self._select(self._con, limit)

    def forget(self, said: str) -> None:
        """Wait for it no more."""
        self._wanted.discard(said)
        self._heard.discard(said)

    def wake(self) -> None:
        """End what waits, or the next wait at once."""
        self._woken.set()
        self._poke()

    def close(self) -> None:
        """Let go of what was opened here; nobody waits any more."""
        ends, self._ends = self._ends, None
        for end in ends or ():
            end.close()

    def _attend(self) -> bool:
        """Read what came; on another connection than last time, begin to listen, and say so."""
        con = self._patient.session.connected()
        try:
            if con is self._con:
                con.pgconn.consume_input()
                while (told := con.pgconn.notifies()) is not None:
                    self._hear(told.extra.decode())
                return False
            con.add_notify_handler(lambda told: self._hear(told.payload))
            channel: Any = f"LISTEN {self._channel}"
            con.execute(channel)
        except BaseException:
            self._patient.session.drop()
            raise
        self._con = con
        self._heard.clear()
        return True

    def _hear(self, said: str) -> None:
        if said in self._wanted:
            self._heard.add(said)
            self._poke()  # it may have been another thread that got it

    def _select(self, con: psycopg.Connection[Any] | None, limit: float) -> None:
        """Sleep until something comes, somebody pokes, or the time is over."""
        own, _ = self._pair()
        with selectors.DefaultSelector() as selector:
            with contextlib.suppress(ValueError):  # closed meanwhile
                selector.register(own, selectors.EVENT_READ)
            if con is not None:
                try:
                    selector.register(con.fileno(), selectors.EVENT_READ)
                except (psycopg.Error, OSError, ValueError, KeyError):  # dropped by another thread
                    limit = min(limit, time.monotonic() + _AGAIN_S)
            if not self._woken.is_set():
                selector.select(max(0.0, limit - time.monotonic()))
        with contextlib.suppress(OSError):  # nothing there, or closed
            own.recv(4096)

    def _poke(self) -> None:
        ends = self._ends
        if ends is not None:
            with contextlib.suppress(OSError):  # full: it is awake already; or closed
                ends[1].send(b"x")

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        """Give two ends of a wire to this very process, by which a sleeping thread is woken."""
        if self._ends is None or self._pid != os.getpid():
            ends = socket.socketpair()
            for end in ends:
                end.setblocking(False)
            self._pid, self._ends = os.getpid(), ends
        return self._ends
