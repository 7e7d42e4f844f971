"""The operator's side of a run: looking at what its journal proves, and giving verdicts on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from durable_nb import values
from durable_nb.engine import audit as trail
from durable_nb.engine import facets as listing_of_facets
from durable_nb.engine import pausing, permits, settle, standing, timelines, usage, views
from durable_nb.engine.drive import drive
from durable_nb.engine.fork import Forked, fork
from durable_nb.engine.options import SETTLE_AFTER_S, Options
from durable_nb.engine.recorded import Recorded
from durable_nb.engine.recovery import reconcile
from durable_nb.engine.tables import Tables
from durable_nb.engine.trajectory import Trajectory
from durable_nb.engine.why import Why, why
from durable_nb.journal import StoreLike, store_of
from durable_nb.model import identity
from durable_nb.model.adoption import Adoption
from durable_nb.model.control import ApprovalRejected
from durable_nb.model.errors import AlreadySettled, OperationMissing, VerdictRefused
from durable_nb.model.fold import Fold, status_of
from durable_nb.model.outcomes import Kind, Outcome
from durable_nb.model.records import RUN, Draft, Record
from durable_nb.model.verdicts import Verdict
from durable_nb.model.waits import Wait

if TYPE_CHECKING:
    import pandas as pd

    from durable_nb.engine.picture.timeline import TimelinePicture
    from durable_nb.engine.settle import Cascade
    from durable_nb.engine.usage import UsageReport
    from durable_nb.engine.views import OperationView, StatusView
    from durable_nb.model.state import OperationState


class Operated(Trajectory, Tables):
    """A trajectory with an operator's verbs; each verdict is a compare-and-set."""

    def operations(self) -> pd.DataFrame:
        """Give all operations, a row each (columns: `durable_nb.engine.views.COLUMNS`)."""
        return views.frame_of_operations([self.view(s) for s in self.states()])

    def unknown(self) -> list[OperationView]:
        """List the operations whose outcome only evidence can settle."""
        return [self.view(s) for s in self.unknown_states()]

    def unreached(self) -> list[OperationView]:
        """List what is on record and was not reached by the program in this kernel.

        Returns
        -------
        list of OperationView
            Completed or unknown operations, without those below a replayed one. At the end of a
            program they are what it no longer does; external ones among them have happened.
        """
        now = self.clock.now()
        left = [s for s in self.states() if s.undoes is None and not self.was_reached(s)]
        return [self.view(s) for s in left if s.outcome(now) is not Outcome.INCOMPLETE]

    def get(self, op: object) -> OperationView:
        """Give one operation, by id, unique name or row number."""
        return self.view(settle.find(self, op)[0])

    def records(self, op: object = None) -> list[dict[str, Any]]:
        """Give the same as mappings, with the columns of `history`."""
        wanted = None if op is None else self._on_record(op)
        state = None if wanted is None else self.fold.operations.get(wanted)
        found = self.committed() if state is None else self.records_of(state)
        return [views.record_row(r) for r in found if wanted is None or r.op == wanted]

    def records_of(self, state: OperationState) -> list[Record]:
        """Give the records of an operation, as they are on disk; what lies around is not read."""
        self._journal.flush()
        around = self.read_again(state.first_seq, state.last_seq)
        return [record for record in around if record.op == state.id]

    def why(self, op: object) -> Why:
        """Say why an operation was reused, run again or stopped, and what had changed.

        Parameters
        ----------
        op
            As for `confirm`.

        Returns
        -------
        Why
            ``said``, in words, and ``differences``: facet, before, after.
        """
        return why(self, settle.find(self, op)[0])

    def committed(self) -> list[Record]:
        """Give all records of the run, in order, as they are on disk."""
        self._journal.flush()
        return list(self._journal.load())

    def report(self) -> UsageReport:
        """Report what durability cost this run and saved it; prints as plain text.

        Returns
        -------
        UsageReport
            The share of time spent on checkpointing, what replays saved, the longest stretch
            without a checkpoint, and more, each with its numbers and what to do about it.
            Times are by the monotonic clock.
        """
        return usage.report_of(self)

    def timeline(self) -> TimelinePicture:
        """Draw what ran when, in which kernel, and how that ended.

        Returns
        -------
        TimelinePicture
            Shown as SVG in a notebook; ``.svg`` is its text, ``.save(path)`` writes it, ``.data``
            has the bars and the kernels. It prints as a line without times.
        """
        from durable_nb.engine.picture.timeline import TimelinePicture  # with the first picture

        return TimelinePicture(timelines.timeline_data(self))

    def audit_rows(self) -> list[dict[str, Any]]:
        """Give the same as mappings."""
        return trail.audit_rows(self.recorded())

    def recorded(self) -> Recorded:
        """Give all that is on record at this moment, also of what has been taken back since."""
        self.check_owner()
        records = self.committed()
        return Recorded(
            name=self.name,
            place=self.place,
            records=tuple(records),
            fold=Fold.whole(records),
            artifacts=self.artifacts,
            now=self.clock.now(),
            live=frozenset(filter(self.is_live, list(self.live))),
        )

    def fork(
        self,
        name: str,
        at: object = None,
        *,
        store: StoreLike | None = None,
        reason: str = "",
    ) -> Forked:
        """Make a new run from what is on record of this one; nothing of this one changes.

        What was done before `at` replays in the fork and is not done again. What the fork does
        itself gets idempotency keys of its own, and effects outside are refused in it until they
        are granted: ``run.grant("external", ...)``. It inherits spend, budget and other scopes.

        Parameters
        ----------
        name : str
            Of the new run.
        at
            The operation that the fork does anew: a view, an id, a unique name, or the row number
            that `show` prints. Without it, the fork has all that is on record now.
        store : path, optional
            Default: the store of this run.
        reason : str
            Kept in the history.

        Returns
        -------
        Forked
            What was copied, what is not repeated, and what is unknown in the fork too.

        Raises
        ------
        VerdictRefused, BadName, OperationMissing, NotTrusted
            Nothing was made.
        """
        root = None if store is None else store_of(store)
        return fork(self.recorded(), name, at, root, reason=reason)

    def _on_record(self, op: object) -> str:
        """Give the identity of an operation; one that a pin has retired by its id alone."""
        try:
            return settle.find(self, op)[0].id
        except OperationMissing as missing:
            if missing.retired:
                return missing.op
            raise

    def facet_rows(self, op: object = None) -> list[dict[str, Any]]:
        """Give the same as mappings."""
        states = self.states() if op is None else [settle.find(self, op)[0]]
        return listing_of_facets.rows(states, self.fold.known)

    def changes(self) -> pd.DataFrame:
        """Give what waits for a decision because something changed.

        Returns
        -------
        DataFrame
            ``op, facet, before, after, cost``: the operation that is asked about, what differs,
            and what running it again would redo.
        """
        return views.frame_of(
            ("op", "facet", "before", "after", "cost"),
            [
                {"op": s.id, "facet": f, "before": b, "after": a, "cost": s.asked["cost"]}
                for s in self.undecided_states()
                if s.asked
                for f, b, a, *_ in s.asked["rows"]
            ],
        )

    def confirm(self, op: object, result: Any = None, *, evidence: str = "") -> OperationView:
        """Record that an operation happened, with the result that replay will return.

        Parameters
        ----------
        op
            A view, an id, a unique name, or the row number that `show` prints.
        result : Any
            What the step would have returned.
        evidence : str
            How it is known; kept in the history.
        """
        body = {"result": settle.encoded(self, result), "evidence": values.redact(evidence)}
        return self.view(settle.give(self, Verdict.CONFIRM, op, body))

    def deny(self, op: object, *, evidence: str = "") -> OperationView:
        """Record that an operation did not happen: it is done again, under the same key."""
        body = {"evidence": values.redact(evidence)}
        return self.view(settle.give(self, Verdict.DENY, op, body))

    def invalidate(
        self, op: object, reason: str, *, effect: str | Mapping[str, str] | None = None
    ) -> Cascade:
        """Record that a result no longer counts: it is done again, under a new key.

        Parameters
        ----------
        op
            As for `confirm`.
        reason : str
            Kept in the history.
        effect : {"stands", "compensated"} or Mapping, optional
            What became of the effect; needed where an external one is completed. A mapping of
            operation ids gives each completed external effect its own answer.

        Returns
        -------
        Cascade
            What was invalidated with it, and what is checked when it is reached.
        """
        cascade = self.dependants(op)
        body = {"reason": values.redact(reason), "effect_is": effect}
        settle.give(self, Verdict.INVALIDATE, op, body)
        return cascade

    def dependants(self, op: object) -> Cascade:
        """Show what `invalidate` would touch, and change nothing."""
        return settle.dependants(self, settle.find(self, op)[0])

    def keep(self, op: object, *, reason: str = "") -> OperationView:
        """Use a recorded result although something that it depended on has changed."""
        state, _ = settle.find(self, op)
        body: dict[str, Any] = {"reason": values.redact(reason)}
        if state.asked is not None:
            body |= {
                "basis": dict(state.asked.get("basis") or state.basis),
                **standing.about(state),
            }
        return self.view(settle.give(self, Verdict.KEEP, op, body))

    def rerun(self, op: object, *, reason: str = "") -> OperationView:
        """Do an operation again, under a new key, because something it depended on has changed."""
        state, _ = settle.find(self, op)
        body = {"reason": values.redact(reason), **standing.about(state)}
        return self.view(settle.give(self, Verdict.RERUN, op, body))

    def approve(self, op: object, *, reason: str = "") -> OperationView:
        """Say yes to an approval that waits; what it is bound to are the details that it shows.

        Parameters
        ----------
        op
            As for `confirm`.
        reason : str
            Kept in the history, and given to the program.
        """
        said = values.redact(reason)
        yes = {"approved": True, "by": settle.actor(), "reason": said}
        body = {"result": settle.encoded(self, yes), "reason": said}
        return self.view(settle.give(self, Verdict.APPROVE, op, body))

    def reject(self, op: object, *, reason: str = "") -> OperationView:
        """Say no to an approval that waits: the program gets an `ApprovalRejected`."""
        said = values.redact(reason)
        no = ApprovalRejected(settle.find(self, op)[0].id, settle.actor(), said)
        body = {"error": values.describe_error(no), "reason": said}
        return self.view(settle.give(self, Verdict.REJECT, op, body))

    def signal(self, name: object, value: Any = None) -> OperationView | None:
        """Send a value to what waits for a signal of that name.

        Parameters
        ----------
        name
            Of the signal; where several wait for it, or it has to be one certain wait, the
            operation, as for `confirm`.
        value : Any
            What `wait_for` returns.

        Returns
        -------
        OperationView or None
            What waited for it; `None` if nothing does yet: then it is held for the first that will.

        Raises
        ------
        AlreadySettled
            It has got its value, or one is held already; this one is in the history.
        VerdictRefused
            Several wait for it. Nothing was changed.
        """
        with self.lock:
            self.check_owner()
            found = self._waiting_for(name)
            body = {"result": settle.encoded(self, value)}
            if found is not None:
                return self.view(settle.give(self, Verdict.SIGNAL, found, body))
            body = settle.signed({**body, "name": str(name)})
            held = self.fold.held.get(str(name))
            if held is None:
                self.append(Draft(RUN, Kind.SIGNALLED, body))
                return None
            self.append(Draft(RUN, Kind.CONTESTED, {**body, "verdict": str(Verdict.SIGNAL)}))
            raise AlreadySettled(f"signal {name!r}", "held", str(held["actor"]))

    def _waiting_for(self, name: object) -> object:
        """Give what a signal is for: the operation itself, or the one that waits for that name."""
        if not isinstance(name, str) or name in self.fold.operations:
            return name
        pending = [self.fold.operations[op] for op in self.changed.waits]
        asking = [s for s in pending if s.wait is Wait.SIGNAL and s.intent["what"] == name]
        waiting = [s.id for s in sorted(asking, key=lambda s: s.first_seq)]
        if len(waiting) > 1:
            why = f"{len(waiting)} wait for it. Name one: {', '.join(waiting)}."
            raise VerdictRefused(f"signal {name!r}", "send", why)
        if not waiting and identity.named(name).rpartition("/")[2] == Wait.SIGNAL and "#" in name:
            return settle.find(self, name)[0].id  # an id with a slip in it: it says what is close
        return waiting[0] if waiting else None

    def accept(self, reason: str) -> None:
        """Accept that records of this run are lost; what they said stays unknown for good.

        Raises
        ------
        VerdictRefused
            None of them is lost. Nothing was changed.
        """
        with self.lock:
            self.check_owner()
            if not self.fold.doubted:
                what, why = f"a loss of run {self.name!r}", "none of its records is lost."
                raise VerdictRefused(what, "accept", why)
            body = {"reason": values.redact(reason), "actor": settle.actor()}
            self.append(Draft(RUN, Kind.ACCEPTED, body))

    def grant(
        self,
        *scopes: str,
        budget: Mapping[str, float] | None = None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Widen what the run may do, or spend; the only way to.

        Parameters
        ----------
        *scopes : str
            What its steps may do from now on, beside what they may already.
        budget : Mapping, optional
            The new amounts in all, larger than the recorded ones: ``{"usd": 10}``.
        by : str
            Who decided it; default: who records it.
        reason : str
            Kept in the history.

        Raises
        ------
        VerdictRefused
            It has that much, or no such limit. Nothing was changed.
        """
        with self.lock:
            body = permits.grant_of(self, scopes, budget)
            who = settle.actor()
            said = {"by": values.redact(by) or who, "reason": values.redact(reason), "actor": who}
            self.append(Draft(RUN, Kind.GRANTED, {**body, **said}))
            self.permits = self.permits.lifted(body.get("scopes", ()), body.get("budget", {}))

    def adopt(self, how: str, reason: str = "") -> None:
        """Say why the run is found in another folder than it was executed in.

        Parameters
        ----------
        how : {"moved", "abandoned", "fork"}
            The old folder is gone; or this is a copy, and the other one is not executed any more;
            or both go on, and what begins here gets idempotency keys of its own.
        reason : str
            Kept in the history.

        Raises
        ------
        VerdictRefused
            It is where it was. Nothing was changed.
        """
        how = Adoption(how)
        with self.lock:
            if not self.copied:
                where = f"run {self.name!r}"
                raise VerdictRefused(where, "adopt", "it is in the folder that it was executed in.")
            body = settle.adoption(how, self.place.identity, reason)
            self.append(Draft(RUN, Kind.ADOPTED, body))
            self.copied = False

    def pause(self, reason: str = "") -> None:
        """Let nothing new begin, in this kernel and in all later ones, until `unpause`.

        What is in flight finishes and is recorded, what is recorded still replays, and what takes
        an effect back may still do so. The next operation raises `RunPaused`.

        Parameters
        ----------
        reason : str
            Shown to whoever comes to the run; kept in the history.

        Raises
        ------
        VerdictRefused
            It is paused already. Nothing was changed.
        """
        pausing.pause(self, reason, settle.actor())

    def unpause(self, reason: str = "") -> None:
        """Let a paused run go on: its next call does.

        Parameters
        ----------
        reason : str
            Kept in the history.

        Raises
        ------
        VerdictRefused
            It is not paused. Nothing was changed.
        """
        pausing.unpause(self, reason, settle.actor())

    def reconcile(self, **reconcilers: Callable[[Any], Any]) -> list[OperationView]:
        """Ask reconcilers about all unknown operations now; give those that stay unknown.

        Parameters
        ----------
        **reconcilers
            Step name to ``look_up(op)``. Steps reached in this kernel bring their own.
        """
        for state in self.unknown_states():
            name = state.place.name
            options = self.reconcilers.get(name, Options())
            if name in reconcilers:
                settle_after = state.intent.get("settle_after", SETTLE_AFTER_S)
                options = options.with_(
                    {"reconcile": reconcilers[name], "settle_after": settle_after}
                )
            if options.reconcile is None:
                continue
            drive(reconcile(self, options, state))
        return self.unknown()

    def status_view(self) -> StatusView:
        """Show the run at this moment; prints as stable plain text."""
        return views.status_view(self)

    def panel(self) -> None:
        """Show the run as a panel in which it can be settled; in a script, print its status."""
        if self._panel is None:
            print(self.status_view().to_text())
        else:
            self._panel(self.place)

    def status(self) -> str:
        """Tell where the run stands: new, open, waiting, crashed, closed, failed or finished."""
        held = self.is_open and self.role == "runner"
        waiting = len(self.unknown_states()) + len(self.changed.waits)
        return str(status_of(self.fold, held, waiting))
