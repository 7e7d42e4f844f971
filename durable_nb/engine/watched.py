"""A run seen from where it is not executed: watched, and settled, whoever holds it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine import published, remote, settle, views
from durable_nb.engine import store as stores
from durable_nb.engine.audit import audit_rows
from durable_nb.engine.context import OPEN
from durable_nb.engine.fork import Forked, fork
from durable_nb.engine.kept import Kept
from durable_nb.engine.run import Run
from durable_nb.engine.settle import Cascade
from durable_nb.engine.tables import Tables
from durable_nb.engine.trajectory import QUIET, Surroundings
from durable_nb.engine.usage import UsageReport
from durable_nb.engine.verbs import ASKING, TAKES_LONG, perform
from durable_nb.engine.views import OperationView, StatusView
from durable_nb.engine.why import Why
from durable_nb.journal import Place, StoreLike, folder_of, store_of
from durable_nb.journal.errors import MirrorUnreadable
from durable_nb.journal.mirror import prepare
from durable_nb.journal.owner import Life
from durable_nb.model.errors import OperationMissing, OwnerRefused, RunHeld, RunMissing

if TYPE_CHECKING:
    import pandas as pd

    from durable_nb.engine.picture.timeline import TimelinePicture

#: Seconds for which an owner that has just begun is given to publish its first mirror.
_FIRST_MIRROR_S: Final = 2.0
#: Seconds for which the owner is awaited; what it does aside may take longer.
_ANSWER_S: Final = 3.0
_ASIDE_S: Final = 30.0

_SETTLE_THERE: Final = (
    "Settle it where it lives: in a cell of its notebook, `%durable confirm ...`, "
    "`%durable deny ...` or `%durable invalidate ...`. Or shut that kernel down, and repeat this."
)


class Watched(Tables):
    """A run, whoever holds it: this process, another one, or nobody.

    What is shown comes from memory if this process holds it, from the mirror if another one does,
    and else from the journal. A verdict goes to whoever holds it; if nobody does, it is recorded
    under a lease of its own. Made by `durable_nb.watch`.

    Attributes
    ----------
    name : str
        Of the run.
    place : Place
        Where it is.
    """

    def __init__(self, place: Place, surroundings: Surroundings = QUIET) -> None:
        self.name, self.place = place.name, place
        self._surroundings = surroundings
        self._seen: tuple[object, StatusView] | None = None
        self._kept = Kept()

    @property
    def folder(self) -> Path:
        """Where its files are; raises `FoldersOnly` where there are none."""
        return folder_of(self.place, "run.folder")

    # -- looking -----------------------------------------------------------------------------

    @property
    def here(self) -> Run | None:
        """The run itself, where this process executes it."""
        return OPEN.at(self.place)

    def stamp(self) -> object:
        """Give something that is equal as long as there is nothing new to be seen."""
        run = self.here
        if run is not None:
            live = frozenset(filter(run.is_live, list(run.live)))
            return (id(run), run.fold.last_seq, live, run.trouble)
        return self.place.stamp(held=self._is_held())

    def status_view(self) -> StatusView:
        """Show the run at this moment; prints as stable plain text.

        Raises
        ------
        RunHeld, JournalDamaged, NotTrusted
            It cannot be read; nothing was changed.
        """
        run = self.here
        if run is not None:
            return self._kept.status(run)
        stamp = self.stamp()
        if self._seen is None or self._seen[0] != stamp:
            self._seen = (stamp, self._of_mirror() if self._is_held() else self._of_journal())
        return self._seen[1]

    def operations(self) -> pd.DataFrame:
        """Give all operations, a row each (columns: `durable_nb.engine.views.COLUMNS`)."""
        return views.frame_of_operations(list(self.status_view().views))

    def unknown(self) -> list[OperationView]:
        """List the operations whose outcome only evidence can settle."""
        return [v for v in self.status_view().views if v.outcome == "unknown"]

    def get(self, op: object) -> OperationView:
        """Give one operation, by id, unique name or row number.

        Raises
        ------
        OperationMissing
        """
        seen = self.status_view()
        try:
            return settle.pick(op, seen.views)
        except OperationMissing as missing:
            if seen.retired.has(missing.op):
                raise OperationMissing(missing.op, retired=True) from None
            raise

    def records(self, op: object = None) -> list[dict[str, Any]]:
        """Give the same as mappings, with the columns of `history`."""
        told = self.ask("history", "" if op is None else self._on_record(op))["more"]["records"]
        return [{**record, "ts": datetime.fromisoformat(record["ts"])} for record in told]

    def _on_record(self, op: object) -> str:
        """Give the identity of an operation; one that a pin has retired by its id alone."""
        try:
            return self.get(op).id
        except OperationMissing as missing:
            if missing.retired:
                return missing.op
            raise

    def facet_rows(self, op: object = None) -> list[dict[str, Any]]:
        """Give the same as mappings."""
        told = self.ask("facets", "" if op is None else self.get(op).id)
        return list(told["more"]["facets"])

    def why(self, op: object) -> Why:
        """Say why an operation was reused, run again or stopped; see `Run.why`."""
        told = self.ask("why", self.get(op).id)["more"]["why"]
        return Why(told["said"], tuple(tuple(row) for row in told["differences"]))

    def report(self) -> UsageReport:
        """Report what durability cost the run and saved it; see `Run.report`."""
        return UsageReport.told(self.ask("report")["more"]["report"])

    def timeline(self, *, published: bool = False) -> TimelinePicture:
        """Draw what ran when; see `Run.timeline`.

        Where its owner, in another process, does not tell, it is drawn from the mirror: then it
        has last attempts only, no kernels, and a note that says so.

        Parameters
        ----------
        published : bool
            Not to ask an owner in another process, who may take a while to answer.
        """
        from durable_nb.engine.picture import timeline as pictures  # with the first picture
        from durable_nb.model.timeline import Timeline

        if self.here is not None:
            return self.here.timeline()
        try:
            if published and self._is_held():
                return pictures.picture_of_status(self.status_view())
            told = self.ask("timeline")["more"]["timeline"]
        except (OwnerRefused, RunHeld):
            return pictures.picture_of_status(self.status_view())
        return pictures.TimelinePicture(Timeline.told(told))

    def audit_rows(self) -> list[dict[str, Any]]:
        """Give the same as mappings."""
        if self.here is None and not remote.is_listening(self.place):
            from durable_nb.engine import at_rest  # it brings diskcache

            with at_rest.recorded(self.place) as found:
                return audit_rows(found)
        return list(self.ask("audit")["more"]["audit"])

    def dependants(self, op: object) -> Cascade:
        """Show what `invalidate` would touch, and change nothing."""
        told = self.ask("dependants", self.get(op).id)
        more = told["more"]
        return Cascade(told["operation"]["id"], tuple(more["below"]), tuple(more["suspect"]))

    def fork(
        self,
        name: str,
        at: object = None,
        *,
        store: StoreLike | None = None,
        reason: str = "",
    ) -> Forked:
        """Make a new run from what is on record of this one; see `Run.fork`.

        The owner of a live run does it. Where nobody holds the run, not a byte of it changes.
        """
        root = None if store is None else store_of(store)
        ref = at.id if isinstance(at, OperationView) else at
        if self.here is None and not remote.is_listening(self.place):
            from durable_nb.engine import at_rest  # it brings diskcache

            with at_rest.recorded(self.place) as source:
                return fork(source, name, ref, root, reason=reason)
        other = None if root in (None, self.place.store) else root
        # never an address with a password: the owner has what the other store asks for, or not
        shown = None if other is None else other.shown
        said = {"name": name, "store": shown, "reason": reason}
        told = self.ask("fork", "" if ref is None else str(ref), said)
        return Forked.from_dict(told["more"]["fork"])

    # -- settling ----------------------------------------------------------------------------

    def confirm(self, op: object, result: Any = None, *, evidence: str = "") -> OperationView:
        """Record that an operation happened, with the result that replay will return.

        Parameters
        ----------
        op
            A view, an id, a unique name, or a row number.
        result : Any
            What the step would have returned; plain data, for it goes to another process as text.
        evidence : str
            How it is known; kept in the history.

        Raises
        ------
        OwnerRefused, VerdictRefused, AlreadySettled, StillRunning, OperationMissing, RunHeld
            Nothing was changed; a verdict that came second is in the history.
        NotRecordable
            The result is no plain data: give it where the run is executed.
        """
        return self._settle("confirm", op, result=settle.as_literal(result), evidence=evidence)

    def deny(self, op: object, *, evidence: str = "") -> OperationView:
        """Record that an operation did not happen: it is done again, under the same key."""
        return self._settle("deny", op, evidence=evidence)

    def invalidate(self, op: object, reason: str, *, effect: str | None = None) -> Cascade:
        """Record that a result no longer counts: it is done again, under a new key."""
        view = self.get(op)
        told = self.ask(
            "invalidate", view.id, {"reason": reason, "effect": effect}, seen=view.last_seq
        )
        return Cascade(view.id, tuple(told["more"]["below"]), tuple(told["more"]["suspect"]))

    def keep(self, op: object, *, reason: str = "") -> OperationView:
        """Use a recorded result although something that it depended on has changed."""
        return self._settle("keep", op, reason=reason)

    def rerun(self, op: object, *, reason: str = "") -> OperationView:
        """Do an operation again, under a new key, because something it depended on has changed."""
        return self._settle("rerun", op, reason=reason)

    def approve(self, op: object, *, reason: str = "") -> OperationView:
        """Say yes to an approval that waits; see `Run.approve`."""
        return self._settle("approve", op, reason=reason)

    def reject(self, op: object, *, reason: str = "") -> OperationView:
        """Say no to an approval that waits: the program gets an `ApprovalRejected`."""
        return self._settle("reject", op, reason=reason)

    def signal(self, name: object, value: Any = None) -> OperationView | None:
        """Send a value, plain data, to what waits for a signal of that name; see `Run.signal`."""
        text = settle.as_literal(value)
        if not isinstance(name, str):
            return self._settle("signal", name, value=text)
        told = self.ask("signal", "", {"name": name, "value": text})["operation"]
        return None if told is None else published.view_of_row(told)

    def accept(self, reason: str) -> None:
        """Accept that records of this run are lost; what they said stays unknown for good."""
        self.ask("accept", "", {"reason": reason})

    def grant(
        self,
        *scopes: str,
        budget: Mapping[str, float] | None = None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Widen what the run may do, or spend; see `Run.grant`."""
        arguments = {"by": by, "reason": reason}
        if scopes:
            arguments["scopes"] = settle.as_literal(list(scopes))
        if budget is not None:
            arguments["budget"] = settle.as_literal(dict(budget))
        self.ask("grant", "", arguments)

    def pause(self, reason: str = "") -> None:
        """Let nothing new begin; see `Run.pause`. Whoever executes the run heeds it within 2 s."""
        self.ask("pause", "", {"reason": reason})

    def unpause(self, reason: str = "") -> None:
        """Let a paused run go on; see `Run.unpause`."""
        self.ask("unpause", "", {"reason": reason})

    def reconcile(self) -> list[OperationView]:
        """Have the owner's kernel ask its reconcilers now; give what stays unknown."""
        for view in self.unknown():
            if view.name in self.status_view().checkable:
                self.ask("reconcile", view.id, seen=view.last_seq)
        return self.unknown()

    def _settle(self, verb: str, op: object, **arguments: str | None) -> OperationView:
        view = self.get(op)
        told = self.ask(verb, view.id, arguments, seen=view.last_seq)
        return published.view_of_row(told["operation"])

    def ask(
        self,
        verb: str,
        op: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        seen: int | None = None,
    ) -> Mapping[str, Any]:
        """Do what a verb says, wherever the run is held.

        Parameters
        ----------
        verb : str
            One of `durable_nb.engine.verbs.VERBS`.
        op : str
            Id, unique name or row number of an operation; "" for the run itself.
        arguments : Mapping, optional
            Texts, as a person gives them.
        seen : int, optional
            The operation's last record that the person saw: the verdict is about that.

        Returns
        -------
        dict
            As `durable_nb.engine.verbs.perform` gives it.

        Raises
        ------
        OwnerRefused
            The owner, in another process, refused it, or has not answered.
        DurableError
            Nothing was changed.
        """
        arguments = arguments or {}
        run = self.here
        if run is not None:
            return _perform(run, verb, op, arguments, seen)
        if remote.is_listening(self.place):
            wait = _ASIDE_S if verb in TAKES_LONG else _ANSWER_S
            answer = remote.settle_live(self.place, verb, op, arguments, seen, wait)
            if answer["ok"]:
                return answer
            if not answer.get("withdrawn"):
                raise OwnerRefused(str(answer["error"]), str(answer["message"]))
            self._surroundings.say(str(answer["message"]))
        with self.held("reader" if verb in ASKING else "operator") as run:
            return _perform(run, verb, op, arguments, seen)

    @contextmanager
    def held(self, role: str) -> Iterator[Run]:
        """Take the lease for a moment: a ``reader`` records nothing, an ``operator`` settles.

        Raises
        ------
        RunHeld
            Somebody else has it, and does not listen.
        """
        try:
            run = stores.open_run(
                self.name,
                store=self.place.store,
                must_exist=True,
                role=role,
                surroundings=self._surroundings,
            )
        except RunHeld as held:
            if role != "reader":
                held.add_note(_SETTLE_THERE)
            raise
        try:
            yield run
        finally:
            run.close()

    # -- where it is read --------------------------------------------------------------------

    @property
    def is_held_elsewhere(self) -> bool:
        """Whether another process holds it, so that its mirror is what can be seen."""
        return self.here is None and self._is_held()

    def _is_held(self) -> bool:
        holder = self.place.probe()
        return holder is not None and holder.life is not Life.CRASHED

    def _of_journal(self) -> StatusView:
        try:
            with self.held("reader") as run:
                return run.status_view()
        except RunHeld:  # taken meanwhile, or by what a dead holder left behind
            return self._of_mirror()

    def _of_mirror(self) -> StatusView:
        ends = time.monotonic() + _FIRST_MIRROR_S
        while True:
            try:
                return published.published(self.place)
            except MirrorUnreadable:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.1)

    def panel(self) -> None:
        """Show the run as a panel in which it can be settled; in a script, print its status."""
        if self._surroundings.panel is None:
            print(self.status_view().to_text())
        else:
            self._surroundings.panel(self.place)

    def __repr__(self) -> str:
        return f"<watched run {self.name}>"


def _perform(
    run: Run, verb: str, op: str, arguments: Mapping[str, Any], seen: int | None
) -> Mapping[str, Any]:
    ref: object = op if seen is None else replace(run.get(op), last_seq=seen)
    return perform(run, verb, ref, arguments)


def watch(
    name: str,
    *,
    store: StoreLike | None = None,
    surroundings: Surroundings = stores.SCRIPT,
) -> Watched:
    """Find a run to watch and settle; see `durable_nb.watch`."""
    root = store_of(store)
    place = root.place(name)
    if not place.exists():
        raise RunMissing(name, root.shown, root.names())
    place.check_trusted()
    prepare()  # here, and not in whatever thread looks at it
    return Watched(place, surroundings)
