"""From a click to the verb that it stands for, and an answer in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from durable_nb import values
from durable_nb.engine.watched import Watched
from durable_nb.model.bases import lone_signal
from durable_nb.model.errors import DurableError
from durable_nb.model.verdicts import DECIDES_ONCE, Verdict
from durable_nb.notebook.panel.model import CHECK

#: How every action that settled something ends.
SETTLED_LINE: Final = "Settled. Run its cell again, or all cells."

#: The action that is about the run itself: its records are lost.
ACCEPT: Final = "accept"

#: The actions of the button beside the run's name.
PAUSE: Final = "pause"
UNPAUSE: Final = "unpause"

#: A new run that has what came before the operation; of this one nothing changes.
FORK: Final = "fork"

#: Action -> the verb of `durable_nb.engine.verbs`, and which of the click's texts it takes.
ACTIONS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    Verdict.CONFIRM: ("confirm", ("result", "evidence")),
    Verdict.DENY: ("deny", ("evidence",)),
    Verdict.INVALIDATE: ("invalidate", ("reason", "effect")),
    Verdict.KEEP: ("keep", ("reason",)),
    Verdict.RERUN: ("rerun", ("reason",)),
    Verdict.APPROVE: ("approve", ("reason",)),
    Verdict.REJECT: ("reject", ("reason",)),
    Verdict.SIGNAL: ("signal", ("value",)),
    CHECK: ("reconcile", ()),
    ACCEPT: ("accept", ("reason",)),
    PAUSE: ("pause", ("reason",)),
    UNPAUSE: ("unpause", ()),
    FORK: ("fork", ("name", "reason")),
}
#: What a click cannot do without, and how a person is asked for it.
_NEEDED: Final[Mapping[str, Mapping[str, str]]] = {
    Verdict.CONFIRM: {
        "evidence": "Evidence: say how you know that it happened",
        "result": "Result: say what the step returned to your program, null if nothing",
    },
    Verdict.DENY: {
        "evidence": "Evidence: say how you know that it did not happen",
    },
    Verdict.INVALIDATE: {"reason": "say why its result no longer counts"},
    Verdict.REJECT: {"reason": "say why not: the program gets it as an error"},
    Verdict.SIGNAL: {"value": "which value? Write null where there is nothing to send"},
    ACCEPT: {"reason": "say how you know what was done outside"},
    FORK: {"name": "say what the new run is called"},
}


class NotDone(DurableError):
    """A click that asked for something that cannot be done as it was asked.

    Attributes
    ----------
    fields : tuple of str
        The click's texts that are missing, or cannot be read; none where that is not the reason.
    """

    def __init__(self, why: str, *fields: str) -> None:
        super().__init__(why, *fields)
        self.why, self.fields = why, fields

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a click.

    Attributes
    ----------
    ok : bool
        Whether it did what it asked for.
    text : str
        What the panel's message line shows.
    more : str
        What is shown where it was clicked, over several lines; "" where that is all.
    fields : tuple of str
        Which of the click's texts are to be written first; none where that is not the reason.
    """

    ok: bool
    text: str
    more: str = ""
    fields: tuple[str, ...] = ()


def act(run: Watched, click: Mapping[str, Any]) -> Answer:
    """Do what a click asks for; whatever goes wrong is the answer, and is raised nowhere.

    Parameters
    ----------
    run : Watched
        The run that the panel shows, whoever holds it.
    click : Mapping
        ``action``, ``op`` (an id; "" for the run), ``seq`` (the last record that the person saw
        of it), and what the action needs: ``result`` and ``evidence``, or ``reason`` and
        ``effect``, a signal's ``value``, or a fork's ``name``.

    Returns
    -------
    Answer
        A refusal names its reason; then nothing was recorded but, where somebody else was first,
        the second verdict itself.
    """
    try:
        return _act(run, click)
    except NotDone as problem:
        return Answer(False, str(problem), fields=problem.fields)
    except DurableError as problem:
        return Answer(False, str(problem))
    except Exception as problem:
        return Answer(False, f"{type(problem).__name__}: {problem}. Nothing was recorded.")
    except BaseException as stop:
        signal = lone_signal(stop)
        if signal is None:
            raise
        return Answer(False, str(signal))


def _act(run: Watched, click: Mapping[str, Any]) -> Answer:
    action, op, seq = str(click.get("action")), str(click.get("op") or ""), click.get("seq")
    if action not in ACTIONS:
        raise NotDone(f"the panel has no action {action!r}. Nothing was recorded.")
    if op and not isinstance(seq, int):
        raise NotDone("the click does not say what was seen. Nothing was recorded.")
    verb, names = ACTIONS[action]
    texts = {name: str(click.get(name) or "").strip() for name in names}
    missing = {n: said for n, said in _NEEDED.get(action, {}).items() if not texts[n]}
    if missing:
        raise NotDone(f"{'. '.join(missing.values())}. Nothing was recorded.", *missing)
    for name in ("result", "value"):
        if name in texts:
            parse_result(texts[name], name)
    if action == FORK:  # of the operation nothing changes, so that it may have, meanwhile
        forked = run.fork(texts["name"], op, reason=texts["reason"])
        first, *lines = forked.to_text().splitlines()
        return Answer(True, f"{first}. Nothing of this run has changed.", "\n".join(lines))
    given = {name: text or None if name == "effect" else text for name, text in texts.items()}
    told = run.ask(verb, op, given, seen=seq if op else None)
    what = f"{op}: {told['verdict']}" if op else str(told["verdict"])
    if told["verdict"] == "undecided":
        return Answer(False, f"{what}; {told['said']}.")
    # what ends a wait, and a pause, says itself who goes on
    more = "" if action in DECIDES_ONCE or action in {PAUSE, UNPAUSE} else f" {SETTLED_LINE}"
    return Answer(True, f"{what}; {told['said']}.{more}")


def parse_result(text: str, field: str = "result") -> Any:
    """Read a result that a person typed: JSON, else a Python literal.

    Parameters
    ----------
    text : str
        As typed.
    field : str
        Which of the click's texts it is.

    Returns
    -------
    Any
        The value; code is never run.

    Raises
    ------
    NotDone
        It is neither.
    """
    try:
        return values.read_literal(text)
    except ValueError:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise NotDone(
            f"the value {shown!r} is neither JSON nor a Python literal; text needs quotes. "
            "Nothing was recorded.",
            field,
        ) from None
