"""From a click to the run's own verb: a compare-and-set, and an answer in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from durable_nb import values
from durable_nb.engine.drive import Ask, Sleep
from durable_nb.engine.evidence import Undecided
from durable_nb.engine.operation import lone_signal
from durable_nb.engine.recovery import reconcile
from durable_nb.engine.trajectory import Trajectory
from durable_nb.engine.views import OperationView
from durable_nb.model.errors import DurableError
from durable_nb.model.outcomes import Outcome
from durable_nb.model.verdicts import SETTLED, Verdict
from durable_nb.notebook.panel.model import CHECK

#: How every action that settled something ends.
SETTLED_LINE: Final = "Settled. Run the cell again."


class NotDone(DurableError):
    """A click that asked for something that cannot be done as it was asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a click.

    Attributes
    ----------
    ok : bool
        Whether it did what it asked for.
    text : str
        What the panel's message line shows.
    """

    ok: bool
    text: str


def act(run: Trajectory, click: Mapping[str, Any]) -> Answer:
    """Do what a click asks for; whatever goes wrong is the answer, and is raised nowhere.

    Parameters
    ----------
    run : Trajectory
        The run that the panel shows.
    click : Mapping
        ``action``, ``op`` (an id), ``seq`` (the last record that the person saw of it), and what
        the action needs: ``result`` and ``evidence``, or ``reason`` and ``effect``.

    Returns
    -------
    Answer
        A refusal names its reason; then nothing was recorded but, where somebody else was first,
        the second verdict itself.
    """
    try:
        return _act(run, click)
    except DurableError as problem:
        return Answer(False, str(problem))
    except Exception as problem:
        return Answer(False, f"{type(problem).__name__}: {problem}. Nothing was recorded.")
    except BaseException as stop:
        signal = lone_signal(stop)
        if signal is None:
            raise
        return Answer(False, str(signal))


def _act(run: Trajectory, click: Mapping[str, Any]) -> Answer:
    action, op = str(click.get("action")), str(click.get("op"))
    do = _ACTIONS.get(action)
    if do is None:
        raise NotDone(f"the panel has no action {action!r}. Nothing was recorded.")
    seq = click.get("seq")
    if not isinstance(seq, int):
        raise NotDone("the click does not say what was seen. Nothing was recorded.")
    return do(run, op, seq, click)


def _seen(run: Trajectory, op: str, seq: int) -> OperationView:
    """Give the operation as the person saw it; called with the run's lock held.

    What somebody else settled is left to the verdict itself, which notes the second one in the
    history.
    """
    now = run.get(op)
    if now.last_seq != seq and run.fold.operations[op].kind not in SETTLED:
        raise NotDone(
            f"{op} has changed since the panel showed it: it is {now.outcome} now. Nothing was "
            "recorded. Look at it again, and then decide."
        )
    return replace(now, last_seq=seq)


def _confirm(run: Trajectory, op: str, seq: int, click: Mapping[str, Any]) -> Answer:
    result = parse_result(str(click.get("result", "")))
    with run.lock:
        view = run.confirm(_seen(run, op, seq), result, evidence=_text(click, "evidence"))
    return Answer(True, f"{op}: confirmed; replay returns {view.result_preview}. {SETTLED_LINE}")


def _deny(run: Trajectory, op: str, seq: int, click: Mapping[str, Any]) -> Answer:
    with run.lock:
        run.deny(_seen(run, op, seq), evidence=_text(click, "evidence"))
    return Answer(
        True, f"{op}: denied, it did not happen; it is done again, same key. {SETTLED_LINE}"
    )


def _invalidate(run: Trajectory, op: str, seq: int, click: Mapping[str, Any]) -> Answer:
    reason = _text(click, "reason")
    if not reason:
        raise NotDone("say why its result no longer counts. Nothing was recorded.")
    with run.lock:
        effect = _text(click, "effect") or None
        cascade = run.invalidate(_seen(run, op, seq), reason, effect=effect)
    with_it = f" and {len(cascade.below)} below it" if cascade.below else ""
    later = f"; {len(cascade.suspect)} later are checked when reached" if cascade.suspect else ""
    return Answer(True, f"{op}{with_it}: invalidated{later}. {SETTLED_LINE}")


def _keep(run: Trajectory, op: str, seq: int, click: Mapping[str, Any]) -> Answer:
    with run.lock:
        run.keep(_seen(run, op, seq), reason=_text(click, "reason"))
    return Answer(True, f"{op}: its record is kept. {SETTLED_LINE}")


def _rerun(run: Trajectory, op: str, seq: int, click: Mapping[str, Any]) -> Answer:
    with run.lock:
        run.rerun(_seen(run, op, seq), reason=_text(click, "reason"))
    return Answer(True, f"{op}: it is done again, under a new key. {SETTLED_LINE}")


def _check(run: Trajectory, op: str, seq: int, click: Mapping[str, Any]) -> Answer:
    """Ask the reconciler once; unlike a resume, a click does not wait for "not found" to count."""
    with run.lock:
        view = _seen(run, op, seq)
        state = run.fold.operations[op]
    options = run.reconcilers.get(view.name)
    if options is None or options.reconcile is None:
        raise NotDone(
            f"this kernel knows no reconciler for {view.name}: run the cell that defines its step "
            "first. Nothing was recorded."
        )
    if view.live or view.outcome != Outcome.UNKNOWN:
        raise NotDone(f"{op} is {view.outcome}, so there is nothing to ask. Nothing was recorded.")
    asking = reconcile(run, options, state)
    request, answered = next(asking), False
    while not answered:
        if isinstance(request, Sleep):
            asking.close()
            return Answer(
                False,
                f"{op}: its reconciler found nothing, which counts in {request.seconds:.0f} s (it "
                "may still be under way). Check again then.",
            )
        try:
            request = asking.send(_call(request))
        except StopIteration:
            answered = True
    after = run.get(op)
    if after.outcome == Outcome.UNKNOWN:
        return Answer(False, f"{op}: its reconciler could not tell; it is still unknown.")
    return Answer(True, f"{op}: its reconciler says: {after.outcome}. {SETTLED_LINE}")


def _call(request: Ask) -> Any:
    """Call the reconciler; what it raises is no answer, as the engine sees it."""
    try:
        answer = request.fn(request.argument)
    except Exception as problem:
        return Undecided(f"the reconciler raised {type(problem).__name__}: {problem}")
    if hasattr(answer, "__await__"):
        getattr(answer, "close", lambda: None)()
        return Undecided("the reconciler is async: run the step's cell, which awaits it")
    return answer


def parse_result(text: str) -> Any:
    """Read a result that a person typed: JSON, else a Python literal.

    Parameters
    ----------
    text : str
        As typed.

    Returns
    -------
    Any
        The value; code is never run.

    Raises
    ------
    NotDone
        It is neither, or empty.
    """
    text = text.strip()
    if not text:
        raise NotDone(
            "what would the step have returned? Write null where there is nothing to return. "
            "Nothing was recorded."
        )
    try:
        return values.read_literal(text)
    except ValueError:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise NotDone(
            f"the result {shown!r} is neither JSON nor a Python literal; text needs quotes. "
            "Nothing was recorded."
        ) from None


def _text(click: Mapping[str, Any], name: str) -> str:
    return str(click.get(name) or "").strip()


_ACTIONS: Final[Mapping[str, Callable[[Trajectory, str, int, Mapping[str, Any]], Answer]]] = {
    Verdict.CONFIRM: _confirm,
    Verdict.DENY: _deny,
    Verdict.INVALIDATE: _invalidate,
    Verdict.KEEP: _keep,
    Verdict.RERUN: _rerun,
    CHECK: _check,
}
