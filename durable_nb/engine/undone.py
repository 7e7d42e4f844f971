"""What a compensation invalidates: its result and the end of what it took back are one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind, Outcome
from durable_nb.model.records import Draft

#: Records that say that a compensation took place.
_HAPPENED: Final = frozenset({Kind.COMPLETED, Kind.CONFIRMED})


def undone(fold: Fold, drafts: Iterable[Draft], now: Callable[[], datetime]) -> Iterator[Draft]:
    """Draft the invalidation of what these records say was taken back.

    In the same commit, so that no kill leaves a result that counts and an effect that is gone,
    whoever says so: the body that returned, a person, or a reconciler.
    """
    for op, kind, _ in drafts:
        if kind not in _HAPPENED:
            continue
        state = fold.operations.get(op)
        if state is None or state.undoes is None:
            continue
        found = fold.operations.get(state.undoes["op"])
        if found is None or found.generation != state.undoes["generation"]:
            continue  # somebody has invalidated it meanwhile
        if found.outcome(now()) is Outcome.COMPLETED:
            said = {name: state.undoes[name] for name in ("reason", "actor")}
            body = {**said, "effect_is": "compensated", "with": op}
            yield Draft(found.id, Kind.INVALIDATED, body)
