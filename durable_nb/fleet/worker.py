"""A worker of the fleet: takes runs from the queue, and looks after what others have left."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from procrastinate import App, JobContext
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import DeleteJobCondition, Job, Status
from procrastinate.worker import Worker as QueueWorker

from durable_nb.fleet.kernels import Stop
from durable_nb.fleet.queue import (
    QUEUE,
    TASK,
    Again,
    OnlyWhenAsked,
    app_of,
    is_away,
    is_forgotten,
    job_of,
    prepare_queue,
    put,
)
from durable_nb.fleet.submitting import database_of
from durable_nb.fleet.supervising import RESTARTS, stopping
from durable_nb.fleet.turns import Turns, this_worker
from durable_nb.journal import StoreLike
from durable_nb.journal.postgres.errors import StoreUnreachable
from durable_nb.journal.postgres.fleet import FleetState, FleetTable
from durable_nb.journal.postgres.place import PostgresStore
from durable_nb.model.errors import DurableError

#: Runs at the same time, if nobody says how many.
SLOTS: Final = 4
#: Beats, and looks, in a lease; and the most seconds between two looks.
_BEATS: Final = 4
_LOOK_S: Final = 5.0
#: Seconds between two looks whether to stop.
_WATCH_S: Final = 0.1
#: Seconds until the queue is asked again where nothing was heard of it.
_POLL_S: Final = 5.0
#: Seconds that a worker which begins waits for the server, and between two tries.
_START_S: Final = 10.0
_LATER_S: Final = 0.5
#: Threads beside those that execute runs.
_MORE: Final = 4


def work(
    *,
    slots: int = SLOTS,
    restarts: int = RESTARTS,
    once: bool = False,
    store: StoreLike | None = None,
    tell: Callable[[str], object] = print,
) -> None:
    """Execute runs of the fleet, until Ctrl-C.

    What is at work then stops at its next step, and is given back to the queue; a second Ctrl-C
    interrupts the cells at work.

    Parameters
    ----------
    slots : int
        How many at the same time.
    restarts : int
        Dead kernels that are replaced, in each turn.
    once : bool
        End once nothing is in the queue, not even to be tried again later.
    store : str or Store, optional
        A database's address, as for `open_run`.
    tell : callable
        Told what happens, a line each; from several threads.

    Raises
    ------
    DatabaseOnly
        The store is a folder.
    StoreUnreachable, StoreForbidden, StoreTooNew, StoreRefused
        The database cannot be used. Nothing was begun.
    """
    stop = Stop()
    worker = Worker(database_of(store, "worker"), slots, restarts, tell, stop, once)
    with stopping(stop, tell):
        worker.work()


@dataclass(slots=True)
class Worker:
    """Executes runs of the fleet.

    Parameters
    ----------
    store : PostgresStore
        Where they are.
    slots : int
        How many at the same time.
    restarts : int
        Dead kernels that are replaced, in each turn.
    tell : callable
        Told what happens, a line each; from several threads.
    stop : Stop
        When and how to stop: nothing more is taken, and what is at work stops at its next step.
    once : bool
        End once nothing is in the queue, not even to be tried again later.
    """

    store: PostgresStore
    slots: int = SLOTS
    restarts: int = RESTARTS
    tell: Callable[[str], object] = print
    stop: Stop = field(default_factory=Stop)
    once: bool = False
    _away: str = ""
    _at_work: set[int] = field(default_factory=set)
    _doubtful: set[int] = field(default_factory=set)

    def work(self) -> None:
        """Work until told to stop.

        Raises
        ------
        StoreUnreachable, StoreForbidden, StoreTooNew, StoreRefused
            The database cannot be used; nothing was begun.
        """
        self._prepare()
        slots = f"{self.slots} slot{'s' * (self.slots > 1)}"
        self.tell(f"{this_worker()}: {slots}, for runs of {self.store.shown}; Ctrl-C stops it")
        problem: list[BaseException] = []
        thread = threading.Thread(target=self._thread, args=(problem,), name="durable_nb worker")
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_WATCH_S)
        except BaseException:
            self.stop.wanted.set()
            self.stop.at_once.set()
            thread.join()
            raise
        if problem:
            raise problem[0]

    def _prepare(self) -> None:
        """Make sure of the tables; a server that only starts again is waited for."""
        limit = time.monotonic() + _START_S
        while True:
            try:
                self.store.prepare()
                prepare_queue(self.store.server)
            except StoreUnreachable as problem:
                if time.monotonic() > limit or self.stop.wanted.is_set():
                    raise
                self._is_away(problem.cause)
                time.sleep(_LATER_S)
            else:
                self._is_away("")
                return

    def _thread(self, problem: list[BaseException]) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # for the thread that waits
            problem.append(error)

    async def _serve(self) -> None:
        """Serve the queue, again after the server was gone for longer than anybody waits."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: None)  # a job's own end says enough
        pool = ThreadPoolExecutor(self.slots + _MORE, thread_name_prefix="durable_nb turn")
        loop.set_default_executor(pool)
        table = FleetTable(self.store.server, enough=self.stop.wanted.is_set)
        turns = Turns(self.store, table, self.stop, self.tell, self.restarts)
        app = app_of(self.store.server, self.stop.wanted, self._is_away)
        app.task(name=TASK, queue=QUEUE, pass_context=True, retry=OnlyWhenAsked())(
            lambda context, run: self._turn(turns, context, run)
        )
        try:
            async with app.open_async():
                await self._serve_queue(app, table)
        finally:
            table.close()

    async def _serve_queue(self, app: App, table: FleetTable) -> None:
        lease_s = self.store.server.lease_s
        while True:
            queue = QueueWorker(
                app,
                queues=[QUEUE],
                concurrency=self.slots,
                wait=not self.once,
                install_signal_handlers=False,
                fetch_job_polling_interval=_POLL_S,
                update_heartbeat_interval=lease_s / _BEATS,
                stalled_worker_timeout=lease_s,
                delete_jobs=DeleteJobCondition.SUCCESSFUL,
            )
            beside = [
                asyncio.create_task(self._stop_when_told(queue)),
                asyncio.create_task(self._look_after(app, queue, table)),
            ]
            try:
                await queue.run()  # type: ignore[no-untyped-call]
            except ConnectorException as error:
                if not (is_away(error) or is_forgotten(error)):
                    raise
                if is_away(error) and self.stop.wanted.is_set():
                    server = self.store.server
                    cause = server.clean(str(error.__cause__ or error))
                    raise StoreUnreachable(server.place, cause) from None
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
            if self.stop.wanted.is_set() or (self.once and not await self._is_queued(table)):
                return
            await asyncio.sleep(_WATCH_S)

    async def _is_queued(self, table: FleetTable) -> bool:
        """Whether anything is in the queue, such as what is tried again later."""
        rows = await asyncio.to_thread(table.roster, every=False)
        return any(row.state is FleetState.QUEUED for row in rows)

    def _turn(self, turns: Turns, context: JobContext, run: str) -> None:
        """Execute a run; this is what the queue calls, in a thread."""
        job = context.job.id or 0
        self._at_work.add(job)
        try:
            if self.stop.wanted.is_set():
                raise Again(0.0)
            turns.take(run)
        finally:
            self._at_work.discard(job)

    async def _stop_when_told(self, queue: QueueWorker) -> None:
        while not self.stop.wanted.is_set():
            await asyncio.sleep(_WATCH_S)
        queue.stop()  # type: ignore[no-untyped-call]

    async def _look_after(self, app: App, queue: QueueWorker, table: FleetTable) -> None:
        """Queue what was orphaned, and what has waited long enough; every worker does."""
        every = min(_LOOK_S, self.store.server.lease_s / _BEATS)
        while True:
            try:
                await self._look(app, queue, table)
            except (ConnectorException, DurableError) as problem:
                self._is_away(str(problem.__cause__ or problem))
            else:
                self._is_away("")
            await asyncio.sleep(every * random.uniform(0.8, 1.2))

    async def _look(self, app: App, queue: QueueWorker, table: FleetTable) -> None:
        jobs, lease_s = app.job_manager, self.store.server.lease_s
        for job in await jobs.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=lease_s):
            run = str(job.task_kwargs["run"])
            why = f"its worker has said nothing for {lease_s:g} s"
            if await self._give_back(app, job):
                await asyncio.to_thread(table.orphaned, run, why)
                self.tell(f"{run}: queued again, {why}")
                await self._put(app, run)
        mine: list[Job] = []
        if queue.worker_id is not None:
            found = await jobs.list_jobs_async(
                queue=QUEUE, status="doing", worker_id=queue.worker_id
            )
            mine = [job for job in found if job.id not in self._at_work]
        for job in mine:  # seen twice: the answer that gave it to this worker was lost
            if job.id in self._doubtful and await self._give_back(app, job):
                await self._put(app, str(job.task_kwargs["run"]))
        self._doubtful = {job.id or 0 for job in mine}
        await asyncio.to_thread(self._call_back, table)

    def _call_back(self, table: FleetTable) -> None:
        """Queue what is due."""
        with table.looking() as names:
            if names:
                put(self.store.server, *names)

    async def _give_back(self, app: App, job: Job) -> bool:
        """End a job that nobody does; `False` if somebody else was faster."""
        try:
            await app.job_manager.finish_job(job, Status.ABORTED, delete_job=True)
        except ConnectorException as error:
            if is_away(error):
                raise
            return False
        return True

    async def _put(self, app: App, run: str) -> None:
        with contextlib.suppress(AlreadyEnqueued):
            await job_of(app, run).defer_async(run=run)

    def _is_away(self, why: str) -> None:
        """Say once that the database is gone, and once that it is back."""
        if bool(why) != bool(self._away):
            self.tell(f"waits for the database: {why}" if why else "the database is back")
        self._away = why
