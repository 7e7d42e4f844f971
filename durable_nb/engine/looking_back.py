"""What is looked at once a body has returned, before its result is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.model.identity import named

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.trajectory import Trajectory

#: Values that a body cannot change in place, so that they need no second look.
_ATOMS: Final = (str, int, float, bool, bytes, type(None))


def refuse_changed_inputs(op: Operation) -> None:
    """Refuse a change of the arguments in place: a replay would not bring it back."""
    if op.options.single:  # a durable cell records what it changed
        return
    mutable = {n: v for n, v in op.inputs.items() if not isinstance(v, _ATOMS)}
    if not mutable:
        return
    for name, digest in op.run.digests(mutable, op.id).items():
        if digest != op.facets["inputs"][name]:
            raise ValueError(
                f"the step changed its argument {name!r} in place, which no replay would "
                "bring back: return it instead"
            )


def warn_of_secret(run: Trajectory, op: str, value: Any, text: str) -> None:
    """Say once a step where its result holds a secret: it is the user's, and kept as it is."""
    large = bool(values.text_refs(text))  # whose own text says nothing of what it holds
    if not large and values.redact_tokens(text) == text:
        return
    told, name = run.told_secrets, named(op)
    path = "" if name in told else values.find_secret(value)
    if path:
        told.add(name)
        run.say(
            f"warning: {op}: {values.redact(path)} holds something that looks like a "
            "secret. It is kept in the journal as it is; record= keeps it out."
        )
