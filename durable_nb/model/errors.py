"""What can go wrong, and what each means for the run.

Errors (`DurableError`) are ordinary exceptions. Signals (`DurableSignal`) derive from
`BaseException`, because an agent framework that catches `Exception` hands an "unknown" to the
model, and the model sends again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from durable_nb.model.bases import DurableError as DurableError
from durable_nb.model.bases import DurableSignal as DurableSignal
from durable_nb.model.bases import OperationLike as OperationLike
from durable_nb.model.bases import names as names
from durable_nb.model.doubts import UnknownOutcome as UnknownOutcome

#: What helps where a file could not be written.
_ROOM: Final = "Free some space (or lift the limit) and run the cell again."


class ResultNotLoadable(DurableSignal):
    """A completed operation whose recorded value cannot be loaded here.

    Its artifact is lost, its class has changed or is not defined yet, or its codec is missing.

    A signal and no error: an agent framework would hand an error to the model, which asks for
    the effect again.

    Attributes
    ----------
    operations : tuple
        The operation.
    why : str
        What is missing, damaged or changed.
    back : str
        What brings the value back.
    """

    def __init__(
        self,
        run: str,
        operations: Sequence[Any],
        why: str,
        back: str = "restore artifacts/ in the run's folder from a backup, run again",
    ) -> None:
        super().__init__(run, operations, why, back)
        self.run, self.operations, self.why, self.back = run, tuple(operations), why, back

    def lines(self) -> list[str]:
        """Give the five lines: what, why, what it means, and the two ways on."""
        op = self.operations[0]
        return [
            f"{op.id} in run {self.run!r} is completed, and its value is not loadable here.",
            f"Why: {self.why}.",
            "It is not run again: its record is intact, so what it did outside has happened.",
            f"Bring it back:      {self.back}",
            f"Give the value up:  {give_up(op)}",
        ]


def give_up(op: Any) -> str:
    """Write the line that gives a recorded value up, so that its operation is done again."""
    fate = ', effect="stands"' if str(getattr(op, "effect", "")) == "external" else ""
    return f'run.invalidate("{op.id}", reason="its value is lost"{fate})'


class IncompatibleCheckpoint(DurableSignal):
    """A recorded result depended on something that has changed since."""

    def __init__(
        self,
        run: str,
        operations: Sequence[Any],
        changes: Sequence[str],
        cost: str,
        facets: Sequence[str] = (),
        branch: str = "",
    ) -> None:
        super().__init__(run, operations, changes, cost, facets, branch)
        self.run, self.operations, self.changes = run, tuple(operations), tuple(changes)
        self.cost, self.facets, self.branch = cost, tuple(facets), branch

    def lines(self) -> list[str]:
        """Give what changed, what a rerun would redo, and the two lines that settle it."""
        first = self.operations[0].id
        again = f'Do it again:        run.rerun("{first}")'
        where = f" in branch {self.branch}" if self.branch else ""
        if self.facets == ("result",):
            return [
                f"{first} in run {self.run!r} was done again and came out differently.",
                "Changed: " + "; ".join(self.changes),
                f"{self.cost}. No new effect begins{where} until you choose.",
                f'Go on, they stand:  run.keep("{first}")',
                again,
            ]
        if self.facets == ("place",):
            return [
                f"the program does not follow the record of run {self.run!r} any more.",
                "Changed: " + "; ".join(self.changes),
                "A renamed step is a new one: it never gets the record of another.",
                f'Go on all the same: run.keep("{first}")   # what it did stays done',
                "As it was:          call it by its old name: name= keeps a step's name",
            ]
        if getattr(self.operations[0], "outcome", "") != "completed":
            return [
                f"{first} in run {self.run!r} was begun with other inputs.",
                "Changed: " + "; ".join(self.changes),
                f"Its key was sent with the old ones; nothing new runs{where} until you choose.",
                "As it was:          run the cell again with the old inputs",
                again + "   # under a new key",
            ]
        return [
            f"{first} in run {self.run!r} was recorded under other assumptions.",
            "Changed: " + "; ".join(self.changes),
            f"Running it again redoes {self.cost}. Nothing new runs{where} until you choose.",
            f'Use the record:     run.keep("{first}")',
            again,
        ]


class StaleOwner(DurableSignal):
    """Another owner has the run now, so this process may no longer append to it."""

    def __init__(self, run: str, why: str) -> None:
        super().__init__(run, why)
        self.run, self.why = run, why

    def lines(self) -> list[str]:
        """Say who owns the run and that nothing was written."""
        return [
            f"this process no longer owns run {self.run!r}.",
            f"Why: {self.why}",
            "Nothing more was written. Reopen the run to go on with it.",
        ]


class NotRecordable(DurableError):
    """A value cannot be brought back as it is, so it was not recorded."""

    def __init__(self, path: str, found: str, advice: str = "") -> None:
        super().__init__(path, found, advice)
        self.path, self.found, self.advice = path, found, advice

    def __str__(self) -> str:
        advice = self.advice or "return plain data, or name what to keep with record="
        return (
            f"{self.path} is a {self.found}, which cannot be recorded and brought back. "
            f"Nothing was recorded as completed. {advice[:1].upper()}{advice[1:]}."
        )


class ResultLost(NotRecordable):
    """A step did its work, but its result could not be recorded."""

    def __init__(self, op: str, cause: str, unknown: bool) -> None:
        DurableError.__init__(self, op, cause, unknown)
        self.op, self.cause, self.unknown = op, cause, unknown
        self.path, self.found, self.advice = op, "", ""

    def __str__(self) -> str:
        if self.unknown:
            return (
                f"{self.op}: it happened; only its result is missing ({self.cause}). "
                f'The operation is unknown now: run.confirm("{self.op}", result) settles it.'
            )
        return (
            f"{self.op}: it ran, but its result could not be recorded ({self.cause}). "
            "It is incomplete and will be done again once the step returns something recordable."
        )


class UnguardedStep(DurableError):
    """The body of a `with run.step(...)` ran without asking whether it was needed."""

    def __init__(self, op: str, replayed: bool) -> None:
        super().__init__(op, replayed)
        self.op, self.replayed = op, replayed

    def __str__(self) -> str:
        what = (
            "its result was on record, and its body ran all the same"
            if self.replayed
            else "its result is recorded now, but the next resume would run its body again"
        )
        return (
            f"the body of step {self.op} never looked at op.needed: {what}. "
            "Put the work under `if op.needed:`, and run the cell again."
        )


class NoActiveRun(DurableError):
    """A step was called where no run is open."""

    def __init__(self, step: str, where: str = "") -> None:
        super().__init__(step, where)
        self.step, self.where = step, where

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return (
            f"step {self.step!r} was called with no active run{where}. Nothing was run. "
            'Open one with `run = durable_nb.open_run("name")` or `with durable_nb.run("name"):`, '
            "or hand the run to the thread and use `run.call(...)`."
        )


class DuplicateStep(DurableError):
    """Two calls claim one identity, so a resume could give one the record of the other."""

    def __init__(self, op: str, why: str) -> None:
        super().__init__(op, why)
        self.op, self.why = op, why

    def __str__(self) -> str:
        return (
            f"{self.op} is claimed twice: {self.why}. Nothing was run for the second call. "
            "Give it a key of its own (key=...), another name, or wrap the loop in "
            "`with run.branch(name):`; to do it again on purpose, invalidate the first."
        )


class NestedEffect(DurableError):
    """A step was opened inside one that has an effect of its own."""

    def __init__(self, parent: str, effect: str, child: str, advice: str = "") -> None:
        super().__init__(parent, effect, child, advice)
        self.parent, self.effect, self.child, self.advice = parent, effect, child, advice

    def __str__(self) -> str:
        advice = self.advice or 'declare the outer step with effect="none"'
        return (
            f"{self.child} was opened inside {self.parent}, whose own effect is {self.effect}. "
            "A container runs again on resume, so its own effect would be doubled. "
            f"The inner step was not started. Move it out, or {advice}."
        )


class OutputUnknown(DurableError, KeyError):
    """A stage was asked for, or given, an output that it does not have."""

    def __init__(self, op: str, name: str, outputs: Sequence[str], declared: bool = False) -> None:
        super().__init__(op, name, outputs, declared)
        self.op, self.name, self.outputs, self.declared = op, name, tuple(outputs), declared

    def __str__(self) -> str:
        known = ", ".join(self.outputs)
        if self.declared:
            return f"{self.op} has not produced its output {self.name!r} yet; outputs are {known}."
        return (
            f"{self.name!r} is no output of {self.op}; outputs are {known}. "
            "Name it in outputs=, or use one of these. Nothing was recorded."
        )


class StepFailed(DurableError):
    """A step failed; the original error could not be rebuilt as its own class."""

    def __init__(self, op: str, error: str, traceback: str = "") -> None:
        super().__init__(op, error, traceback)
        self.op, self.error, self.traceback = op, error, traceback

    def __str__(self) -> str:
        return f"{self.op} failed: {self.error}"


class NotApplied(DurableError):
    """Raise it in the body of a step to say that the effect certainly did not happen."""


class RunHeld(DurableError):
    """Somebody else holds the run."""

    def __init__(self, run: str, holder: str, advice: str) -> None:
        super().__init__(run, holder, advice)
        self.run, self.holder, self.advice = run, holder, advice

    def __str__(self) -> str:
        return f"run {self.run!r} is held by {self.holder}. Nothing was written. {self.advice}"


class RunCopied(DurableError):
    """A run is found in another place than it was executed in: a copy, or it was moved."""

    exit_code = 3  # a person is needed (DESIGN section 6)

    def __init__(self, run: str, folder: str) -> None:
        super().__init__(run, folder)
        self.run, self.folder = run, folder

    def __str__(self) -> str:
        adopt = f'dnb.open_run("{self.run}", adopt='
        return (
            f"run {self.run!r} was last executed in another place: {self.folder} is a copy of it, "
            "or was moved here. If both went on, each would do what is still to be done, under "
            "the same idempotency keys. Nothing was executed. Which is it?\n"
            f'It was moved, the old one is gone:      {adopt}"moved")\n'
            f'A copy; the other is not run again:     {adopt}"abandoned")\n'
            f'A copy, and both go on:                 {adopt}"fork")  # with new keys\n'
            f"In a notebook: %durable run {self.run} --adopt moved"
        )


class RunMissing(DurableError):
    """No run of that name is in the store."""

    def __init__(self, run: str, store: str, known: Sequence[str] = ()) -> None:
        super().__init__(run, store, known)
        self.run, self.store, self.known = run, store, tuple(known)

    def __str__(self) -> str:
        known = ", ".join(self.known[:8]) or "none"
        return (
            f"there is no run {self.run!r} in {self.store} (runs there: {known}). "
            "Nothing was created. Check the name and the store (store=, --store, DURABLE_STORE)."
        )


class RunClosed(DurableError):
    """The run was closed; it takes no more operations through this object."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f'run {self.run!r} is closed. Open it again: run = durable_nb.open_run("{self.run}")'


class AlreadySettled(DurableError):
    """Somebody settled the operation first."""

    def __init__(self, op: str, verdict: str, by: str, operations: Sequence[Any] = ()) -> None:
        super().__init__(op, verdict, by, operations)
        self.op, self.verdict, self.by, self.operations = op, verdict, by, tuple(operations)

    def __str__(self) -> str:
        # a signal that is held is no operation yet
        undo = " To undo the first, invalidate the operation." if "#" in self.op else ""
        return (
            f"{self.op} is already settled: {self.verdict} by {self.by}. The first verdict stands; "
            f"this one is kept in the history.{undo}"
        )


class StillRunning(DurableError):
    """The operation is live: its body has not ended yet."""

    def __init__(self, op: str, operations: Sequence[Any] = ()) -> None:
        super().__init__(op, operations)
        self.op, self.operations = op, tuple(operations)

    def __str__(self) -> str:
        return (
            f"{self.op} is still running in this kernel, so its outcome is not open to a verdict. "
            "Wait for it to end, then look again."
        )


class VerdictRefused(DurableError):
    """The verdict does not fit what is known of the operation."""

    def __init__(self, op: str, verdict: str, why: str, operations: Sequence[Any] = ()) -> None:
        super().__init__(op, verdict, why, operations)
        self.op, self.verdict, self.why, self.operations = op, verdict, why, tuple(operations)

    def __str__(self) -> str:
        return f"cannot {self.verdict} {self.op}: {self.why} Nothing was changed."


class OperationMissing(DurableError):
    """No operation of that id, name or row is on record."""

    def __init__(self, op: str, near: Sequence[str] = (), retired: bool = False) -> None:
        super().__init__(op, near, retired)
        self.op, self.near, self.retired = op, tuple(near), retired

    def __str__(self) -> str:
        if self.retired:
            return (
                f"{self.op!r} was retired by a pin of its loop, so nothing can be said of it any "
                "more. Its history is there: `history`."
            )
        near = f" Close: {', '.join(self.near)}." if self.near else ""
        return f"no operation {self.op!r} is on record in this run.{near} `show` lists them all."


class JournalUnwritable(DurableError):
    """A record could not be written; what was on disk before is unhurt."""

    def __init__(self, run: str, cause: str, advice: str = _ROOM) -> None:
        super().__init__(run, cause, advice)
        self.run, self.cause, self.advice = run, cause, advice

    def __str__(self) -> str:
        return (
            f"the journal of run {self.run!r} could not be written: {self.cause} "
            "Earlier records are unhurt. A step whose effect was begun counts as unknown until "
            f"it is settled. {self.advice}"
        )


class OwnerRefused(DurableError):
    """The owner of a run, in another process, refused what was asked, or has not answered.

    Attributes
    ----------
    kind : str
        The owner's own error, such as ``AlreadySettled``.
    message : str
        Its words.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return self.message


class JournalDamaged(DurableError):
    """The journal's file is damaged; it was set aside whole, nothing was deleted."""

    def __init__(self, run: str, found: str, advice: str) -> None:
        super().__init__(run, found, advice)
        self.run, self.found, self.advice = run, found, advice

    def __str__(self) -> str:
        return f"the journal of run {self.run!r} is damaged: {self.found} {self.advice}"


class JournalTooNew(DurableError):
    """The journal was written by a newer version of this package."""

    def __init__(self, run: str, found: int, known: int) -> None:
        super().__init__(run, found, known)
        self.run, self.found, self.known = run, found, known

    def __str__(self) -> str:
        return (
            f"the journal of run {self.run!r} has schema {self.found}; this version reads up to "
            f"{self.known}. Nothing was changed. Upgrade durable_nb to go on with this run."
        )


class NotTrusted(DurableError):
    """A folder or file is not this user's own, so nothing is read from it."""

    def __init__(self, path: str, why: str, advice: str) -> None:
        super().__init__(path, why, advice)
        self.path, self.why, self.advice = path, why, advice

    def __str__(self) -> str:
        return f"{self.path} is not trusted: {self.why} Nothing was read or written. {self.advice}"


class BadName(DurableError, ValueError):
    """A name that cannot be a run's or a step's."""

    def __init__(self, what: str, name: str, why: str) -> None:
        super().__init__(what, name, why)
        self.what, self.name, self.why = what, name, why

    def __str__(self) -> str:
        shown = self.name if len(self.name) <= 60 else self.name[:57] + "..."
        return f"{shown!r} cannot be the name of a {self.what}: {self.why} Nothing was created."
