"""What a supervisor tells the kernel that it has started: which run it is for, and of what.

It is a file that only this user can read, named in the environment: a kernel that dies takes
nothing along, and a child process of the kernel knows as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine.context import OPEN
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Draft

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

#: The variable that names the file.
PLAN: Final = "DURABLE_SUPERVISED"
#: Beside it: the operations that this kernel has begun, a line each.
_BEGUN: Final = "begun"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a kernel was started for.

    Attributes
    ----------
    run : str
        Name of the run.
    submitted : Mapping
        The notebook as it was submitted (``path, text, parameters, kernel``).
    """

    run: str
    submitted: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write it where the kernel finds it, readable by this user only."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump({"run": self.run, "submitted": dict(self.submitted)}, file)

    def name_of(self, asked: str, say: Callable[[str], None]) -> str:
        """Give the name of the run that a notebook opens: the first is the one it was started for.

        Another one that it opens beside that keeps its own name.
        """
        called = OPEN.called
        if self.run not in called.values():
            called[asked] = self.run
            if asked != self.run:
                say(f"run {self.run} (the notebook says {asked})")
        return called.get(asked, asked)

    def attend(self, run: Run) -> None:
        """Let the supervisor see what begins, and keep what is executed: its file may change."""
        if run.name != self.run:
            return
        run.begun = _noting(Path(os.environ[PLAN]))
        if _is_on_record(run, self.submitted):
            return
        body = {**self.submitted, "text": values.encode(self.submitted["text"], run.artifacts)}
        signature = values.sign(run.id, _signable(self.submitted))
        run.append(Draft(RUN, Kind.SUBMITTED, {**body, "signature": signature}))


def plan() -> Plan | None:
    """Read what this process was started for; `None` where no supervisor has started it."""
    path = os.environ.get(PLAN)
    if not path:
        return None
    said = json.loads(Path(path).read_text("ascii"))
    return Plan(said["run"], said["submitted"])


def submitted_of(run: Run) -> dict[str, Any] | None:
    """Give what a supervisor executes of a run, as it is on record; `None` of all others.

    ``signed`` tells whether this user has submitted it: a record that came in an archive or from
    somebody else's folder is code that nobody here has vouched for.
    """
    found = run.fold.submitted
    if found is None:
        return None
    said = {**found, "text": values.decode(found["text"], run.artifacts)}
    signature = said.pop("signature", None)
    return {**said, "signed": values.is_signed(run.id, _signable(said), signature)}


def _signable(submitted: Mapping[str, Any]) -> dict[str, str]:
    return {"submitted": json.dumps(submitted, sort_keys=True)}


def _is_on_record(run: Run, submitted: Mapping[str, Any]) -> bool:
    return submitted_of(run) == {**submitted, "signed": True}


def _noting(plan_file: Path) -> Callable[[str, int], None]:
    """Give what notes an attempt of an operation as it begins.

    An intent that rides with the next commit is lost with the kernel. What was written to a file
    outlives the process, without a sync.
    """
    how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    fd = os.open(plan_file.with_name(_BEGUN), how, 0o600)

    def note(op: str, attempt: int) -> None:
        os.write(fd, json.dumps([op, attempt]).encode("ascii") + b"\n")

    return note


def begun(plan_file: Path) -> dict[str, int]:
    """Give the operations that the kernel of a plan has begun, with the attempt; forget them."""
    path = plan_file.with_name(_BEGUN)
    try:
        lines = path.read_text("ascii").splitlines()
    except FileNotFoundError:
        return {}
    path.unlink()
    return dict(json.loads(line) for line in lines if line.endswith("]"))
