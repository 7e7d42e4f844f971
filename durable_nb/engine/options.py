"""Step options: what a step may say of itself, the same in every spelling."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final
from uuid import UUID

from durable_nb.engine import validation
from durable_nb.engine.change import check_policy
from durable_nb.engine.facets import Code, declared
from durable_nb.model.errors import NotApplied
from durable_nb.model.facets import FacetSet
from durable_nb.model.outcomes import Effect
from durable_nb.model.waits import Wait

#: Seconds after which a reconciler's "not found" counts (DESIGN section 4): a request that was
#: under way when its kernel died can still arrive. An intent that says none means this one.
SETTLE_AFTER_S: Final = 30.0

_NOTHING: Final = FacetSet()

#: HTTP answers that prove that nothing was applied (DESIGN section 3).
_REJECTED: Final = frozenset({400, 401, 403, 404, 422, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything a step can declare.

    Attributes
    ----------
    effect : Effect
        What it may do outside; undeclared is ``external``, the safe one.
    key : str or None
        Tells calls of one step apart; unique per step and parent.
    inputs : Mapping or None
        What the result depends on, instead of all arguments of the call.
    reconcile : callable or None
        ``look_up(op)`` gives `Happened`, `DidNotHappen` or `Undecided`.
    settle_after : float
        Seconds after which `DidNotHappen` counts.
    not_applied : tuple of exception types, callable or None
        What proves that nothing happened outside.
    key_ttl : float or None
        Seconds for which the receiver remembers an idempotency key.
    validate : callable, class, Mapping or None
        Raises, or returns False, when a result must not be recorded; a class with
        ``model_validate``; or for a mapping, one of these by name.
    record : callable or None
        Turns what the body returned into what is recorded and returned.
    retries : int
        Further attempts after a failure that left nothing in doubt.
    timeout : float or None
        Seconds after which an async body is cancelled.
    on_change : {"rerun", "keep", "ask"}, callable or None
        What to do when a recorded result stands on something that changed; a callable
        ``migrate(old_result, changes)`` gives the new result. `None` is the default rule.
    facets : Mapping or None
        What else the result depends on, by name: ``{"model": "...", "prompt": PROMPT}``. They
        count beside the run's own; of the same name, instead of them.
    uses : tuple of str
        Files that it reads: their content is compared.
    produces : tuple of str
        Files that it writes: their content is on record, and checked on a resume.
    requires : tuple of str
        Scopes that it needs; without them it is refused before its intent.
    compensate : callable or None
        ``undo(op)`` takes the effect back; see `Run.compensate`.
    declared : FacetSet
        `facets`, digested.
    code : callable or None
        Gives the facets of the code where it is no function's (a durable cell).
    single : bool
        The name stands for one operation, never for an occurrence (a durable cell).
    preview : callable or None
        Shows in one line what `record` gave; kept beside it (a durable cell).
    wait : Wait or None
        What it waits for: it has no body, and depends on its inputs alone.
    counted : bool
        Its key may come more than once (the title of an approval).
    """

    effect: Effect = Effect.EXTERNAL
    key: str | None = None
    inputs: Mapping[str, Any] | None = None
    reconcile: Callable[[Any], Any] | None = None
    settle_after: float = SETTLE_AFTER_S
    not_applied: tuple[type[BaseException], ...] | Callable[[BaseException], bool] | None = None
    key_ttl: float | None = None
    validate: Any = None
    record: Callable[[Any], Any] | None = None
    retries: int = 0
    timeout: float | None = None
    on_change: str | Callable[[Any, Any], Any] | None = None
    facets: Mapping[str, Any] | None = None
    uses: tuple[str, ...] = ()
    produces: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    compensate: Callable[..., Any] | None = None
    declared: FacetSet = _NOTHING
    code: Code | None = None
    single: bool = False
    preview: Callable[[Any], str] | None = None
    wait: Wait | None = None
    counted: bool = False

    @property
    def rides(self) -> bool:
        """Whether the intent may ride with a later commit: to do the body again does no harm."""
        effect = self.effect
        return effect is Effect.NONE or (effect is Effect.IDEMPOTENT and self.key_ttl is None)

    def with_(self, given: Mapping[str, Any]) -> Options:
        """Give these options with some replaced, checked.

        Raises
        ------
        TypeError
            An option that does not exist, or a value of the wrong kind.
        """
        unknown = sorted(set(given) - _NAMES)
        if unknown:
            raise TypeError(
                f"a step has no option {', '.join(map(repr, unknown))}; "
                f"options are {', '.join(sorted(_NAMES - _INTERNAL))}"
            )
        new = dict(given)
        if "effect" in new:
            try:
                new["effect"] = Effect(new["effect"])
            except ValueError:
                raise TypeError(
                    f"effect={new['effect']!r}: an effect is 'none', 'idempotent' or 'external'"
                ) from None
        if new.get("key") is not None:
            new["key"] = _key(new["key"])
        check_policy(new.get("on_change"))
        if isinstance(new.get("not_applied"), type):
            new["not_applied"] = (new["not_applied"],)
        for name in ("uses", "produces", "requires"):
            if name in new:
                new[name] = texts(name, new[name])
        if new.get("facets") is not None:
            new["declared"] = declared(new["facets"])
        _refuse_misfits(new)
        options = replace(self, **new)
        both = sorted(set(options.uses) & set(options.produces))
        if both:
            raise TypeError(
                f"uses= and produces= both name {', '.join(both)}: a file that its own step "
                "changes would be found changed on each resume; write to another file"
            )
        return options

    def proves_nothing_happened(self, error: BaseException) -> bool:
        """Tell whether this error is proof that the effect did not happen."""
        if isinstance(error, NotApplied):
            return True
        if self.not_applied is None:
            return False
        if isinstance(self.not_applied, tuple):
            return isinstance(error, self.not_applied)
        return bool(self.not_applied(error))


_NAMES: Final = frozenset(f.name for f in fields(Options))
_INTERNAL: Final = frozenset({"code", "single", "preview", "declared", "wait", "counted"})


def _refuse_misfits(new: Mapping[str, Any]) -> None:
    """Refuse options of the wrong kind, which would fail, or do nothing, only later."""
    retries, timeout = new.get("retries", 0), new.get("timeout")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise TypeError(f"retries={retries!r}: it is a whole number of further attempts, 0 or more")
    if timeout is not None:
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not number or not math.isfinite(timeout) or timeout <= 0:
            raise TypeError(f"timeout={timeout!r}: it is a number of seconds, more than 0")
    validate, undo = new.get("validate"), new.get("compensate")
    if validate is not None and not validation.fits(validate):
        raise TypeError(
            f"validate={validate!r}: it is a plain function, a class with model_validate, or a "
            "mapping of names to these"
        )
    if undo is not None and not callable(undo):
        raise TypeError(f"compensate={undo!r}: it is a function that takes the operation")


def texts(name: str, given: object) -> tuple[str, ...]:
    """Take one text, or several, for an option of that name."""
    several = [given] if isinstance(given, str | os.PathLike) else given
    if isinstance(several, Iterable):
        texts = [os.fspath(t) if isinstance(t, os.PathLike) else t for t in several]
        if all(isinstance(t, str) and t for t in texts):
            return tuple(texts)
    raise TypeError(f"{name}={given!r}: it is a text, or a list of texts")


def _key(key: object) -> str:
    """Turn a key into text; only values whose text is one thing for ever."""
    if isinstance(key, bool) or not isinstance(key, str | int | UUID):
        raise TypeError(f"key={key!r}: a key is a str, an int or a UUID")
    return str(key)


def http_rejected(error: BaseException) -> bool:
    """Tell whether an HTTP client's error proves that the request was not applied.

    True for answers 400, 401, 403, 404, 422 and 429, of urllib, requests, httpx and SDKs built on
    them. A time-out, a lost connection and a 5xx prove nothing.

    Parameters
    ----------
    error : BaseException
        What the body raised.

    Returns
    -------
    bool
        For ``not_applied=durable_nb.http_rejected``.
    """
    response = getattr(error, "response", None)
    for holder, name in (
        (response, "status_code"),
        (error, "status_code"),
        (error, "code"),
        (error, "status"),
        (response, "status"),
    ):
        status = getattr(holder, name, None)
        if isinstance(status, int):
            return status in _REJECTED
    return False
