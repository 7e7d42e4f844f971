"""What waits for a person, and the line of Python that answers it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from durable_nb.model.errors import give_up
from durable_nb.model.outcomes import Outcome
from durable_nb.model.waits import WAITS_FOR, Wait

if TYPE_CHECKING:
    from durable_nb.engine.views import OperationView

#: What a view shows in place of a value, up to the reason.
NOT_LOADABLE: Final = "<value not loadable here: "

#: Verb -> the line that gives it in Python.
_LINES: Final[Mapping[str, str]] = {
    "confirm": 'run.confirm("{op}", result, evidence="...")',
    "deny": 'run.deny("{op}", evidence="...")',
    "keep": 'run.keep("{op}")',
    "rerun": 'run.rerun("{op}")',
    "approve": 'run.approve("{op}")',
    "reject": 'run.reject("{op}", reason="...")',
    "signal": 'run.signal("{op}", value)',
    "accept": 'run.accept(reason="...")',
    "adopt": 'dnb.open_run("{run}", adopt="moved")',
    "unpause": "run.unpause()",
}


def asked_of(op: str, outcome: str, wait: str) -> str:
    """Say in few words what a person is asked about an operation.

    Parameters
    ----------
    op : str
        Its identity.
    outcome : str
        Of it.
    wait : str
        What it waits for; "" if it has changed.
    """
    if outcome == Outcome.UNKNOWN:
        return f"{op} may have happened: confirm or deny"
    return f"{op} {WAITS_FOR[Wait(wait)]}" if wait else f"{op} has changed: keep or rerun"


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that waits for a person.

    Attributes
    ----------
    text : str
        What is asked.
    verb : str
        What answers it: ``confirm``, ``deny``, ``invalidate``, ``keep``, ``rerun``, ``approve``,
        ``reject``, ``signal``, ``accept``, ``adopt`` or ``unpause``.
    view : OperationView or None
        The operation that it is about; `None` is the run.
    """

    text: str
    verb: str
    view: OperationView | None = None

    def line(self, run: str) -> str:
        """Give the line of Python that answers it, for a person to fill in."""
        if self.verb == "invalidate":
            return give_up(self.view)
        op = json.dumps(self.view.id, ensure_ascii=False)[1:-1] if self.view else ""
        return _LINES[self.verb].format(op=op, run=run)


def details_of(facts: Mapping[str, Any]) -> str:
    """Give the details of an approval as they are shown, from its intent or view; "" if none."""
    shown = str((facts.get("shown") or {}).get("details", ""))
    return "" if shown == "None" else shown


def questions_of(
    views: Sequence[OperationView], *, doubt: str = "", copied: bool = False, paused: str = ""
) -> tuple[Question, ...]:
    """List what waits for a person.

    Parameters
    ----------
    views : sequence of OperationView
        Operations of one run.
    doubt : str
        Why records are known to be lost; "" if none are.
    copied : bool
        Whether the run is found in another folder than it was executed in.
    paused : str
        That it is paused, and why; "" if it is not.
    """
    found = []
    for v in views:
        if not (v.waits or v.changes or v.outcome == Outcome.UNKNOWN) and v.loadable:
            continue  # nearly all of them
        if v.outcome == Outcome.UNKNOWN:
            found.append(Question(f"{v.id} happened?", "confirm", v))
            found.append(Question(f"{v.id} did not happen?", "deny", v))
        if v.waits and v.wait == Wait.APPROVAL:
            details = details_of({"shown": v.inputs})
            what = f"{v.id} waits for approval" + (f" (details: {details})" if details else "")
            found.append(Question(f"{what}: yes?", "approve", v))
            found.append(Question(f"{v.id}: no?", "reject", v))
        if v.waits and v.wait == Wait.SIGNAL:
            what = f"{v.id} waits for signal {v.inputs.get('name', '')}."
            found.append(Question(what, "signal", v))
        if v.result_preview.startswith(f"{NOT_LOADABLE}artifact"):
            what = f"{v.id}: its value is lost ({v.result_preview[len(NOT_LOADABLE) : -1]}). "
            what += "Restore artifacts/ from a backup, or give it up?"
            found.append(Question(what, "invalidate", v))
        changes = "; ".join(v.changes)
        if changes and v.outcome == Outcome.COMPLETED:
            found.append(Question(f"{v.id} changed ({changes}): use the record?", "keep", v))
        if changes:
            found.append(Question(f"{v.id} changed: do it again?", "rerun", v))
    if doubt:
        found.append(Question(f"records of this run are lost ({doubt}). Accept?", "accept"))
    if copied:
        what = "this folder is a copy of the run's, or was moved here: moved, abandoned or fork?"
        found.append(Question(what, "adopt"))
    if paused:
        found.append(Question(f"{paused}: go on?", "unpause"))
    return tuple(found)
