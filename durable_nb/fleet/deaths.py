"""What a dead kernel was at, on record: whoever supervises the run next knows it as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from durable_nb.engine.run import Run
from durable_nb.fleet.errors import CrashLoop
from durable_nb.fleet.kernels import Pass
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Draft

#: So many kernels in a row that one operation ends: then it is left alone.
CRASH_LOOP: Final = 3


def record_death(run: Run, found: Pass, begun: Mapping[str, int]) -> CrashLoop | None:
    """Put the death of a kernel on record; give what to say if it goes on like that.

    Parameters
    ----------
    run : Run
        Held to settle, not to execute.
    found : Pass
        What became of the kernel.
    begun : Mapping of str to int
        The operations that it had begun, with the number of the attempt.
    """
    at_work = _at_work(run.fold, begun)
    body = {
        "at_work": at_work,
        "cell": found.cell,
        "exit_code": found.exit_code,
        "memory": found.memory,
        "reason": f"{how_it_ended(found)}, in {', '.join(at_work) or _code_of(found.cell)}",
    }
    run.append(Draft(RUN, Kind.DIED, body))
    return _loop(run.fold.deaths, found.memory)


def how_it_ended(found: Pass) -> str:
    """Say in some words how a kernel ended."""
    code = found.exit_code
    used = f", at {found.memory / 1e6:,.0f} MB" if found.memory else ""
    if code is None:
        return f"no exit code is known{used}"
    return (f"signal {-code}" if code < 0 else f"exit code {code}") + used


def _at_work(fold: Fold, begun: Mapping[str, int]) -> dict[str, int]:
    """Give the innermost operations that had not ended, and how many are below each.

    The intent of an operation without effect may be lost with its kernel: then the record knows
    fewer attempts of it than were begun.
    """
    cut = [op for op, attempt in begun.items() if _is_cut(fold, op, attempt)]
    around = {op for op in cut if any(other.startswith(f"{op}/") for other in cut)}
    return {op: _done_below(fold, op) for op in cut if op not in around}


def _is_cut(fold: Fold, op: str, attempt: int) -> bool:
    state = fold.operations.get(op)
    if state is None or state.attempt < attempt:
        return True
    return state.kind is Kind.INTENDED and state.wait is None


def _done_below(fold: Fold, op: str) -> int:
    """Count the operations below one that have ended: as long as that grows, it gets on."""
    below = (fold.operations.get(one) for one in fold.containers.get(op, ()))
    return sum(state is not None and state.kind is not Kind.INTENDED for state in below)


def _loop(deaths: Sequence[Mapping[str, Any]], memory: int | None) -> CrashLoop | None:
    """Tell whether the last deaths had one thing in common: an operation that got no further."""
    last = [_suspects(death) for death in deaths[-CRASH_LOOP:]]
    if len(last) < CRASH_LOOP:
        return None
    same = [name for name, done in last[0].items() if all(d.get(name) == done for d in last)]
    return CrashLoop(tuple(same), CRASH_LOOP, memory) if same else None


def _suspects(death: Mapping[str, Any]) -> Mapping[str, int]:
    """Give what may have ended a kernel: what was at work, else the code of the cell."""
    at_work: Mapping[str, int] = death["at_work"]
    return at_work or {_code_of(death["cell"]): 0}


def _code_of(cell: int) -> str:
    return f"the code of cell {cell}"
