"""Stages: a container that is completed only with all of its declared outputs, each validated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from durable_nb.engine.options import Options, texts
from durable_nb.engine.step import WithForm
from durable_nb.engine.validation import Outputs, fits
from durable_nb.model.errors import OutputUnknown
from durable_nb.model.outcomes import Effect

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.run import Run


class Stage(WithForm):
    """One operation whose result is the dict of its outputs; made by `Run.stage`.

    ::

        with run.stage("extract", outputs={"table", "summary"}) as stage:
            if stage.needed:
                stage["table"] = run.call(read, path)
                stage["summary"] = run.call(summarise, stage["table"])
        stage["summary"]

    Attributes
    ----------
    outputs : tuple of str
        What it has to produce.
    """

    _above = 3

    def __init__(self, run: Run, name: str, outputs: tuple[str, ...], options: Options) -> None:
        super().__init__(run, name, options)
        self.outputs = outputs
        self._made: dict[str, Any] = {}
        self._over = False

    @property
    def operation(self) -> Operation:
        """The operation that it is, once entered."""
        if self._op is None:
            raise AttributeError(f"stage {self._name!r} has not been entered yet")
        return self._op

    @property
    def id(self) -> str:
        """Its identity."""
        return self.operation.id

    @property
    def idempotency_key(self) -> str:
        """The key under which a receiver may recognise a repetition."""
        return self.operation.idempotency_key

    @property
    def needed(self) -> bool:
        """Whether the body has to run."""
        return self.operation.needed

    @property
    def result(self) -> dict[str, Any]:
        """All outputs, once it is completed; on replay the recorded ones."""
        found: dict[str, Any] = self.operation.result
        return found

    def spend(self, *, usd: float | None = None, tokens: int | None = None) -> None:
        """Add to what this attempt has cost; see `Operation.spend`."""
        self.operation.spend(usd=usd, tokens=tokens)

    def __setitem__(self, name: str, value: Any) -> None:
        """Produce an output; on replay the recorded one stays."""
        self._refuse_unknown(name)
        if self._over:
            raise RuntimeError(
                f"{self.id} is over: its output {name!r} comes too late, and is not recorded"
            )
        self._made[name] = value

    def __getitem__(self, name: str) -> Any:
        """Give an output: the recorded one, else what the body has produced so far."""
        self._refuse_unknown(name)
        recorded = getattr(self.operation, "result", None)
        made = self._made if recorded is None else recorded
        if name not in made:
            raise OutputUnknown(self.id, name, self.outputs, declared=True)
        return made[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether an output has been produced."""
        return name in (getattr(self.operation, "result", None) or self._made)

    def _refuse_unknown(self, name: object) -> None:
        if name not in self.outputs:
            raise OutputUnknown(self.id, str(name), self.outputs)

    def _leave(self, error: BaseException | None) -> Operation:
        """Make the outputs the result; whether they are all there, the validator tells."""
        self._over = True
        if error is None:
            self.operation.result = {n: self._made[n] for n in self.outputs if n in self._made}
        return self.operation

    def _enter(self) -> Operation:
        self._made, self._over = {}, False
        return super()._enter()

    def __enter__(self) -> Stage:
        self._enter().__enter__()
        return self

    async def __aenter__(self) -> Stage:
        await self._enter().__aenter__()
        return self


def make_stage(
    run: Run, name: str, outputs: Iterable[str], validate: Any, given: Mapping[str, Any]
) -> Stage:
    """Make a stage from what the user says of it.

    Raises
    ------
    TypeError
        No outputs, a validator of none of them, or an option that does not fit.
    """
    several = sorted(outputs) if isinstance(outputs, set | frozenset) else outputs
    names = tuple(dict.fromkeys(texts("outputs", several)))
    if not names:
        raise TypeError(f'outputs={outputs!r}: a stage has outputs; else use run.step("{name}")')
    if validate is not None and not fits(validate):
        Options().with_({"validate": validate})  # which says what fits
    foreign = sorted(set(validate) - set(names)) if isinstance(validate, Mapping) else []
    if foreign:
        raise TypeError(
            f"validate= names {', '.join(foreign)}, which is no output of stage {name!r}; "
            f"outputs are {', '.join(names)}"
        )
    options = Options().with_({"effect": Effect.NONE, **given})
    return Stage(run, name, names, options.with_({"validate": Outputs(names, validate)}))
