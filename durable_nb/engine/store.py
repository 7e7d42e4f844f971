"""Opening: from a name and a store to a run that this process owns."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from durable_nb.engine import inbox, packages, recovery, settle, supervised
from durable_nb.engine.context import OPEN, Frame, set_frame
from durable_nb.engine.credentials import Wallet
from durable_nb.engine.pausing import paused_text
from durable_nb.engine.permits import Permits
from durable_nb.engine.run import Run
from durable_nb.engine.terms import Terms
from durable_nb.engine.trajectory import Clock, Surroundings
from durable_nb.engine.views import counts_of
from durable_nb.journal import HeldLease, Journal, OwnerInfo, Place, StoreLike, store_of
from durable_nb.journal.mirror import prepare
from durable_nb.model.adoption import Adoption, is_elsewhere
from durable_nb.model.errors import RunCopied, RunHeld, RunMissing
from durable_nb.model.facets import Part
from durable_nb.model.fold import ACCOUNT, Fold
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, SCHEMA_VERSION, Draft

#: Seconds between two publications of the mirror, and between heartbeats (DESIGN section 7).
MIRROR_S: Final = 2.0


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


_AS_RECORDED: Final = Terms()
#: What is brought on first use, and may be used first in a thread of an open run. An import in one
#: thread is what Ctrl-C must not meet in another: CPython may keep the import lock for ever.
_IN_THREADS: Final = ("difflib", "getpass", "diskcache")
#: Of `fresh`: begin anew only where the last one has come to its end.
FINISHED: Final = "finished"
#: A script: no cells, and stdout is left to the program.
SCRIPT: Final = Surroundings(origin=lambda: None, say=_to_stderr)


def open_run(
    name: str,
    *,
    store: StoreLike | None = None,
    must_exist: bool = False,
    fresh: bool | str = False,
    expect: Iterable[str] = (),
    adopt: str | None = None,
    allow_network_fs: bool = False,
    whole: bool = False,
    role: str = "runner",
    terms: Terms = _AS_RECORDED,
    surroundings: Surroundings = SCRIPT,
    who: OwnerInfo | None = None,
    clock: Clock | None = None,
) -> Run:
    """Open a run: take its lease, load and validate its journal, and record the opening.

    A reader records nothing; an operator settles and executes nothing; a runner is found by
    decorated steps. `whole` reads what pins have retired as well, and checks it.
    """
    clock, expect = clock or Clock(), tuple(expect)
    plan = supervised.plan() if role == "runner" else None
    if plan is not None:
        name = plan.name_of(name, surroundings.say)
    adopt = None if adopt is None else Adoption(adopt)
    root = store_of(store)
    place = root.place(name)
    held = OPEN.at(place)
    if fresh not in (True, False, FINISHED):
        raise ValueError(f"fresh is True, False or {FINISHED!r}, not {fresh!r}")
    if held is not None and role == "runner":
        if fresh and fresh != FINISHED:
            raise RunHeld(name, "this very process", "Close it first: run.close().")
        if terms.changes(held.fold, held.artifacts) or _asks_otherwise(held, terms):
            why = "Its terms cannot change while it is open. Close it first: run.close()."
            raise RunHeld(name, "this very process", why)
        return held
    if must_exist and not place.exists():
        raise RunMissing(name, root.shown, root.names())
    for module in _IN_THREADS:
        import_module(module)
    prepare()  # and what publishes the mirror
    root.prepare()
    for warning in root.warnings(allow_network_fs=allow_network_fs):
        surroundings.say(f"warning: {warning}")
    with _uncollected():
        lease, journal, fold = _take(
            place, who or OwnerInfo.here(role=role), fresh, clock, whole=whole
        )
        try:
            run = _begin(
                place, lease, journal, fold, role, expect, terms, surroundings, clock, adopt
            )
        except BaseException:
            lease.release()
            raise
    if role == "runner":
        if plan is not None:
            plan.attend(run)
        OPEN.add(run)
        set_frame(Frame(run, run.root))
        aside = (
            f": all is done anew; the one before it is kept as {lease.aside}" if lease.aside else ""
        )
        surroundings.say(_greeting(run) + aside)
        for note in _notes(run):
            surroundings.say(note)
    return run


def _notes(run: Run) -> Iterator[str]:
    """Say what stops a run that was just opened, or will."""
    if paused := paused_text(run.fold):
        yield f"run {run.name} is {paused}: nothing new begins in it until run.unpause()"
    for note in run.permits.notes(run.fold):
        yield f"run {run.name}: {note}"


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage be looked for: a load makes much and leaves none, and it takes a quarter."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _permits(terms: Terms, fold: Fold) -> Permits:
    scopes = None if terms.scopes is None else tuple(terms.scopes)
    return Permits.of(scopes, terms.budget, fold)


def _asks_otherwise(held: Run, terms: Terms) -> bool:
    """Tell whether a program that opens a run a second time says something else than before."""
    said = _permits(terms, held.fold)
    return (
        (said.scopes is not None and said.scopes != held.permits.scopes)
        or (said.budget is not None and said.budget != held.permits.budget)
        or (terms.credentials is not None and held.wallet.make is None)
    )


def _account(
    name: str, wallet: Wallet, terms: Terms, fold: Fold, surroundings: Surroundings
) -> Part | None:
    """Find out whose account a resume acts for, before anything of it is recorded."""
    wallet.open(name, lambda: _permits(terms, fold).scopes_now(fold))
    account = wallet.account(fold.salt)
    if account is None:
        recorded = fold.terms[ACCOUNT][1]
        surroundings.say(
            f"warning: run {name} acted for account {recorded}, and its credentials name none now"
        )
    return account


def _take(
    place: Place, who: OwnerInfo, fresh: bool | str, clock: Clock, *, whole: bool
) -> tuple[HeldLease, Journal, Fold]:
    """Take the lease and load the records; under it, too, is decided what is set aside."""
    lease = place.acquire(who)
    try:
        if fresh and fresh != FINISHED:
            lease = lease.set_aside()
        journal, fold = _load(place, lease, clock, whole=whole)
        if fresh == FINISHED and fold.kind is Kind.FINISHED:
            journal.close()
            lease = lease.set_aside()
            journal, fold = _load(place, lease, clock, whole=whole)
    except BaseException:
        lease.release()
        raise
    return lease, journal, fold


def _load(place: Place, lease: HeldLease, clock: Clock, *, whole: bool) -> tuple[Journal, Fold]:
    journal = lease.open_journal(clock.now, whole=whole)
    try:
        return journal, recovery.load(journal, place)
    except BaseException:
        journal.close()
        raise


def _begin(
    place: Place,
    lease: HeldLease,
    journal: Journal,
    fold: Fold,
    role: str,
    expect: tuple[str, ...],
    terms: Terms,
    surroundings: Surroundings,
    clock: Clock,
    adopt: str | None,
) -> Run:
    """Record the opening, or look only, and make the run."""
    name, wallet, account = place.name, Wallet(terms.credentials), None
    try:
        artifacts = place.artifacts()
        drafts = _adoption(place, fold, role, adopt)
        changed = terms.changes(fold, artifacts)
        told = _packages(fold, changed) if role == "runner" else ""
        if fold.terms.get(ACCOUNT) and terms.credentials is not None:
            account = _account(name, wallet, terms, fold, surroundings)
            if account is not None and not fold.operations:
                changed[ACCOUNT] = [account.digest, account.shown]
        drafts += _birth(place, fold, role, expect, changed, lease.run_id) + _loss(journal)
        if role != "reader":
            minted = [d.body["run_id"] for d in drafts if "run_id" in d.body]
            lease.keep_run_id(minted[-1] if minted else fold.run_id)
            for record in journal.append(drafts) if drafts else ():
                fold.apply(record)
        elif lost := _loss(journal):
            fold.doubted = lost[0].body  # shown, and left for the next owner to record
        lease.update(epoch=journal.epoch)
    except BaseException:
        journal.close()
        raise

    def let_go() -> None:
        try:
            run.publisher.publish()
        finally:
            journal.close()
            artifacts.close()
            lease.release()

    run = Run(
        name=name,
        place=place,
        journal=journal,
        fold=fold,
        artifacts=artifacts,
        surroundings=surroundings,
        clock=clock,
        role=role,
        on_close=let_go,
        expected=expect or fold.born.get("expect") or (),
        permits=_permits(terms, fold),
        on_change=terms.on_change,
        account=account,
        wallet=wallet,
    )
    if told:
        surroundings.say(told)
    run.headline = _headline(run)
    run.copied = is_elsewhere(fold.folder_id, place.identity)
    if journal.recovered is not None and (
        role == "runner" or journal.recovered.records is not None
    ):
        surroundings.say(f"warning: {journal.recovered}")
    if role != "reader":
        _listen(run, let_go)
    if role == "runner":
        lease.start_heartbeat(run.publisher.keep_up, MIRROR_S)
    return run


def _listen(run: Run, let_go: Callable[[], None]) -> None:
    """Apply what waits in the inbox; a runner goes on to do so until it closes."""
    watcher = inbox.Watcher(run)
    try:
        watcher.look()
    except BaseException:  # an interrupt: nobody would close what is open by now
        let_go()
        raise
    if run.role == "runner":
        run.stop_listening = watcher.stop
        watcher.start()
    else:
        watcher.stop()


def _adoption(place: Place, fold: Fold, role: str, adopt: str | None) -> list[Draft]:
    """Refuse to execute a copy of a run before a person has said what it is.

    Raises
    ------
    RunCopied
        Nothing was recorded.
    """
    if role != "runner" or not is_elsewhere(fold.folder_id, place.identity):
        return []
    if adopt is None:
        raise RunCopied(place.name, place.shown)
    return [Draft(RUN, Kind.ADOPTED, settle.adoption(Adoption(adopt), place.identity))]


def _birth(
    place: Place,
    fold: Fold,
    role: str,
    expect: tuple[str, ...],
    terms: dict[str, Any],
    run_id: str,
) -> list[Draft]:
    """Draft what an owner's beginning records; the run id is minted at birth.

    Where all records are lost, `run_id` is still known, and with it the idempotency keys.
    """
    drafts = []
    if not fold.born:
        born = {
            "run_id": run_id or uuid.uuid4().hex,
            "name": place.name,
            "schema": SCHEMA_VERSION,
            "expect": list(expect),
            "terms": terms,
        }
        drafts.append(Draft(RUN, Kind.BORN, born))
    owner: dict[str, Any] = {"role": role, "pid": os.getpid(), "host": os.uname().nodename}
    if role == "runner":
        if place.identity is not None:
            owner["folder_id"] = place.identity
        if fold.born and terms:
            owner["terms"] = terms
    return [*drafts, Draft(RUN, Kind.OPENED, owner)]


def _packages(fold: Fold, terms: dict[str, Any]) -> str:
    """Put the installed packages on record where they differ, and tell how."""
    before, now = fold.terms.get("packages"), packages.installed()
    if now == before:
        return ""
    terms["packages"] = now
    if before is None:
        return ""
    what = packages.in_a_line(packages.differences(before, now))
    return f"for information: packages differ from those that it was executed with: {what}"


def _loss(journal: Journal) -> list[Draft]:
    """Draft the doubt that lost records leave."""
    if journal.lost is None:
        return []
    return [recovery.doubt(str(journal.lost))]


def _headline(run: Run) -> str:
    """Say what the run is, how this owner came to it, and how the one before it ended."""
    return "; ".join(filter(None, (_fork_of(run), _ended(run))))


def _fork_of(run: Run) -> str:
    """Say of what a run is a fork; "" if it is none."""
    said = run.fold.forked
    if said is None:
        return ""
    place = f" at {said['at']}" if said["at"] else ""
    return f"a fork of {said['of']}{place}"


def _ended(run: Run) -> str:
    """Say how this owner came to the run, and how the one before it ended."""
    own = run.role != "reader"
    last = run.fold.previous(run.epoch if own else run.epoch + 1)
    if last is None:
        return ""
    how = "closed it" if last.closed else "ended without closing the run"
    return f"resumed; the previous kernel {how}" if own else f"its last kernel {how}"


def _greeting(run: Run) -> str:
    """Say "NEW run" or "resumed", and where; warn of a likely typo."""
    where = run.place.store.shown if run.place.folder is None else _short(run.place.folder)
    if run.fold.doubted:
        why = run.fold.doubted.get("why")
        return f"run {run.name} in {where} has lost records: {why}. Nothing new starts in it yet."
    first, fork = run.fold.previous(run.epoch) is None, _fork_of(run)
    if first and not fork:
        return f"NEW run {run.name} in {where}"
    c = counts_of(run)
    counts = f"{c['completed']} completed, {c['incomplete']} incomplete, {c['unknown']} unknown"
    if first:
        return f"NEW run {run.name} in {where}, {fork}: {counts}"
    end = _ended(run).removeprefix("resumed; ")
    what = f"{run.name}, {fork}," if fork else run.name
    return f"resumed run {what} from {where}: {counts} ({end})"


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


@atexit.register
def _close_all() -> None:
    """Close what a kernel still holds when it ends in order, so that it is not called crashed."""
    for run in OPEN.all():
        if run.is_open:
            run.close()
