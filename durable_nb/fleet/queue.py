"""The fleet's queue: procrastinate, in a schema of its own beside the runs.

It says whose turn it is, and which worker has gone silent. What a run is, and where it stands, is
told by the run's records and by its row in the fleet's table.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

try:
    import procrastinate  # noqa: F401 - whether it is there
    import psycopg
except ImportError as missing:
    raise ImportError(
        f"a fleet needs procrastinate and psycopg ({missing}): pip install 'durable-nb[fleet]'"
    ) from missing
from procrastinate import App, PsycopgConnector, RetryDecision, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy
from procrastinate.schema import SchemaManager
from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

from durable_nb.journal.postgres import Server
from durable_nb.journal.postgres.errors import StoreRefused, StoreUnreachable
from durable_nb.journal.postgres.server import is_lost
from durable_nb.journal.sql import queries

#: Names in procrastinate's tables.
QUEUE: Final = "durable_nb"
TASK: Final = "durable_nb.turn"
#: Most seconds between two tries to reach the server.
_PAUSE_S: Final = 2.0
#: Connections of a worker beside those of its runs: it takes one for each short statement.
_CONNECTIONS: Final = 4
#: Seconds that a statement waits for one; then it is tried again, unless the worker is to stop.
_CONNECTED_S: Final = 3.0

_T = TypeVar("_T")

# What procrastinate and its pool say of a server that restarts is said by the worker.
for _library in ("procrastinate", "psycopg.pool"):
    logging.getLogger(_library).addHandler(logging.NullHandler())


class Again(Exception):
    """The turn is over, and there will be another one.

    Attributes
    ----------
    in_s : float
        Seconds until then.
    """

    def __init__(self, in_s: float) -> None:
        super().__init__(in_s)
        self.in_s = in_s


class OnlyWhenAsked(BaseRetryStrategy):
    """Gives a run another turn when its task asks for it, and never by itself."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Say when."""
        if not isinstance(exception, Again):
            return None
        return RetryDecision(retry_in={"seconds": max(0, round(exception.in_s))})


def prepare_queue(server: Server) -> None:
    """Make the queue's tables, or bring them to the installed version of procrastinate.

    Raises
    ------
    StoreUnreachable
    StoreRefused
        The right to make them is missing, or something else is in the way; nothing was made.
    """
    sql: Any = queries("fleet")
    con = server.connect("queue schema")
    scripts = sorted(p.name for p in Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    try:
        if _made(con) == scripts:
            return
        with con.transaction():
            con.execute(sql["queue_lock"])
            made = _made(con)
            if made == scripts:
                return
            con.execute(sql["queue_begin"])
            if made is None:
                con.execute(_raw(SchemaManager.get_schema()))
            for name in scripts:
                if made is not None and name not in made:
                    text = Path(SchemaManager.get_migrations_path(), name).read_text("utf-8")
                    con.execute(_raw(text))
            told = psycopg.sql.Literal(" ".join([*scripts, *(set(made or ()) - set(scripts))]))
            con.execute(psycopg.sql.SQL("COMMENT ON SCHEMA durable_nb_queue IS {}").format(told))
    except psycopg.Error as error:
        cause = server.clean(str(error))
        found = StoreUnreachable if is_lost(error) else StoreRefused
        raise found(server.place, cause) from None
    finally:
        con.close()


def put(server: Server, *runs: str) -> None:
    """Put runs into the queue; each is there once at most.

    Raises
    ------
    StoreUnreachable
    """
    connector = SyncPsycopgConnector(
        kwargs=server.conninfo("queue"), configure=_configure, min_size=1, max_size=1
    )
    try:
        with App(connector=connector).open() as app:
            for run in runs:
                with contextlib.suppress(AlreadyEnqueued):
                    job_of(app, run).defer(run=run)
    except ConnectorException as error:
        cause = server.clean(str(error.__cause__ or error))
        raise StoreUnreachable(server.place, cause) from None


def job_of(app: App, run: str) -> Any:
    """Describe a run's turn: one waits in the queue, and one is at work, at most."""
    return app.configure_task(TASK, queue=QUEUE, lock=run, queueing_lock=run)


def app_of(server: Server, stop: threading.Event, away: Callable[[str], object]) -> App:
    """Make the app of a worker.

    Parameters
    ----------
    server : Server
        Where the queue is.
    stop : threading.Event
        Ends the patience with a server that is gone.
    away : callable
        Told why the server cannot be reached, and "" once it can.
    """
    return App(connector=_Patient(server, stop, away))


def is_away(error: BaseException) -> bool:
    """Tell whether an error of the queue says that the server is gone."""
    if not isinstance(error, ConnectorException):
        return isinstance(error, StoreUnreachable)
    cause = error.__cause__
    return cause is None or is_lost(cause)


def is_forgotten(error: ConnectorException) -> bool:
    """Tell whether the queue has struck this worker off, which had been silent for too long.

    Every worker that begins strikes off those; what is fetched then names a worker that is gone.
    """
    return isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation)


class _Patient(PsycopgConnector):
    """Goes on trying while the server is gone, such as one that starts again.

    A statement that was sent twice because its answer was lost does no harm: what is put twice is
    refused, and a job that was fetched and never begun is given back by the worker.
    """

    def __init__(
        self, server: Server, stop: threading.Event, away: Callable[[str], object]
    ) -> None:
        super().__init__(
            kwargs=server.conninfo("worker"),
            configure=_configure_async,
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=_CONNECTED_S,
        )
        self._server, self._stop, self._away = server, stop, away

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """Send a statement."""
        await self._insisting(lambda: super(_Patient, self).execute_query_async(query, **arguments))

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        """Send a statement that has one row."""
        return await self._insisting(
            lambda: super(_Patient, self).execute_query_one_async(query, **arguments)
        )

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        """Send a statement, and give its rows."""
        return await self._insisting(
            lambda: super(_Patient, self).execute_query_all_async(query, **arguments)
        )

    async def listen_notify(self, on_notification: Any, channels: Any) -> None:
        """Listen, for ever."""
        await self._insisting(
            lambda: super(_Patient, self).listen_notify(on_notification, channels)
        )

    async def _insisting(self, do: Callable[[], Awaitable[_T]]) -> _T:
        trying = AsyncRetrying(
            retry=retry_if_exception(is_away),
            wait=wait_random_exponential(multiplier=0.1, max=_PAUSE_S),
            stop=lambda _state: self._stop.is_set(),
            before_sleep=self._waits,
            reraise=True,
        )

        async def once() -> _T:
            return await do()

        done: _T = await trying(once)
        if trying.statistics.get("attempt_number", 1) > 1:
            self._away("")
        return done

    def _waits(self, state: Any) -> None:
        error = state.outcome.exception()
        self._away(self._server.clean(str(error.__cause__ or error)))


def _made(con: psycopg.Connection[Any]) -> list[str] | None:
    """Give the names of procrastinate's scripts that were done; `None` if there is no queue."""
    sql: Any = queries("fleet")
    row = con.execute(sql["queue_made"]).fetchone()
    return None if row is None or row[0] is None else sorted(row[0].split())


def _configure(con: psycopg.Connection[Any]) -> None:
    con.execute(_raw(queries("fleet")["queue_search_path"]))
    con.commit()


async def _configure_async(con: psycopg.AsyncConnection[Any]) -> None:
    await con.execute(_raw(queries("fleet")["queue_search_path"]))
    await con.commit()


def _raw(text: str) -> Any:
    """Hand over a statement that is no literal: psycopg's types insist on one."""
    return text
