"""`%durable VERB ...`: the operator's side of a run, typed in a notebook."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

from IPython.core.error import UsageError
from IPython.display import display

from durable_nb.engine import listing, store
from durable_nb.engine.context import OPEN, current_run
from durable_nb.engine.permits import LIMITS
from durable_nb.engine.run import Run
from durable_nb.engine.settle import FATES
from durable_nb.engine.watched import Watched, watch
from durable_nb.journal import store_of
from durable_nb.journal.owner import Life
from durable_nb.model.adoption import Adoption
from durable_nb.model.errors import DurableError
from durable_nb.notebook import panel
from durable_nb.notebook.hooks import surroundings
from durable_nb.notebook.options import HELP as CELL_HELP

HELP: Final = """\
%durable run NAME [--adopt moved|abandoned|fork]
                                         open or resume a run, as the variable `run`; --adopt
                                         where it is found in another folder than before
%durable status [RUN]                    what is done, what is open, and how to settle it
%durable panel [RUN]                     the same as a table, to settle with a click
%durable runs                            all runs of the store; a click opens the panel of one
%durable history [OP]                    the records of an operation, or of the run
%durable confirm OP RESULT [--evidence E]    it happened, with this result
%durable deny OP [--evidence E]          it did not happen: it is done again
%durable invalidate OP --reason R [--effect stands|compensated]
                                         its result no longer counts: it is done again
%durable keep OP [--reason R]            what it depended on changed: use its record
%durable rerun OP [--reason R]           what it depended on changed: do it again
%durable approve OP [--reason R]         it waits for approval: yes
%durable reject OP --reason R            it waits for approval: no; the program gets an error
%durable signal NAME [VALUE]             what waits for a signal of that name gets VALUE
%durable compensate OP [--reason R]      take its effect back, by the compensate= of its step
%durable grant SCOPE... [--usd N] [--tokens N] [--calls N] [--seconds N] --reason R
                                         it may do, or spend, more than is recorded
%durable fork NAME [--at OP] [--reason R]    a new run that has what is on record before OP
%durable pause [--reason R]              nothing new begins, in any kernel, until it is let go on
%durable unpause [--reason R]            let a paused run go on
%durable facets [OP]                     what recorded results depend on, and what is not watched
%durable report [RUN]                    what durability cost, what it saved, and what to do
%durable timeline [RUN]                  a picture: what ran when, in which kernel, what was killed
%durable accept --reason R               records of the run are lost: go on all the same
%durable help                            this, and %%durable

OP is an operation's id (charge#1), its name, or its row number in the status. RESULT is a Python
expression; what it names is looked up in the notebook. The verbs are about the active run; with
--run RUN about another one, also one that another notebook executes: that one does it, and
answers.
"""

#: A name, quoted where it has spaces, and what follows it.
_NAME_FIRST: Final = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s*(.*)""", re.S)
#: Run states in which there is nothing left to do.
_DONE: Final = frozenset({"finished"})
#: What to do with one that nobody holds.
_GO_ON: Final = "Run its cells again to go on, or open it: %durable run"


class Verbs:
    """The verbs of `%durable`, for one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._verbs: Mapping[str, Callable[[str], None]] = {
            "run": self._run,
            "status": self._status,
            "panel": self._panel,
            "runs": self._runs,
            "confirm": self._confirm,
            "deny": self._deny,
            "history": self._history,
            "invalidate": self._invalidate,
            "keep": self._keep,
            "rerun": self._rerun,
            "approve": self._approve,
            "reject": self._reject,
            "signal": self._signal,
            "compensate": self._compensate,
            "grant": self._grant,
            "fork": self._fork,
            "pause": self._pause,
            "unpause": self._unpause,
            "facets": self._facets,
            "report": self._report,
            "timeline": self._timeline,
            "accept": self._accept,
            "help": self._help,
        }

    def __call__(self, line: str) -> None:
        """Do what the line says.

        Raises
        ------
        UsageError
            No such verb, or something is missing. Nothing was changed.
        """
        verb, _, rest = line.strip().partition(" ")
        act = self._verbs.get(verb or "help")
        if act is None:
            raise UsageError(
                f"%durable has no verb {verb!r}; verbs are {', '.join(self._verbs)}. Nothing was "
                "changed. %durable help shows how each is used."
            )
        try:
            act(rest.strip())
        except DurableError as problem:
            raise UsageError(f"%durable {verb}: {problem}") from None

    # -- verbs ---------------------------------------------------------------------------

    def _run(self, rest: str) -> None:
        rest, adopt = _take(rest, "--adopt")
        words = _words(rest)
        if len(words) != 1:
            raise UsageError("%durable run needs one name. Example: %durable run refund-17")
        if adopt and adopt not in list(Adoption):
            known = " or ".join(map(str, Adoption))
            raise UsageError(f"--adopt is {known}. Example: %durable run {words[0]} --adopt moved")
        run = store.open_run(words[0], adopt=adopt or None, **surroundings())
        names = self._shell.user_ns
        held = names.get("run")
        if held is None or held is run or (isinstance(held, Run) and not held.is_open):
            names["run"] = run
        else:
            print(
                "the variable `run` is taken, so it stays as it is; the run is the active one all "
                f'the same (some_name = durable_nb.open_run("{run.name}") gives it a name)'
            )
        if run.states():
            print(run.status_view().to_text())

    def _status(self, rest: str) -> None:
        run = self._find(rest)
        status = run.status_view()
        print(status.to_text())
        if isinstance(run, Watched):
            if status.held_by:
                print(f"executed by {status.held_by}; as it published it last")
            if status.open:
                print(f'here, with: run = durable_nb.watch("{run.name}")')

    def _runs(self, rest: str) -> None:
        if rest:
            raise UsageError(f"%durable runs lists all runs; one is %durable panel {rest}")
        panel.show_runs(store_of())

    def _panel(self, rest: str) -> None:
        run = self._find(rest)
        panel.show(run.place)

    def _history(self, rest: str) -> None:
        run, rest = self._target(rest)
        display(run.history(_ref(rest) if rest else None))  # type: ignore[no-untyped-call]

    def _confirm(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, evidence = _take(rest, "--evidence")
        op, _, result = rest.partition(" ")
        if not op or not result.strip():
            raise UsageError(
                "%durable confirm needs an operation and its result. Example: "
                '%durable confirm charge#1 {"id": "ch_1"} --evidence "seen in the dashboard". '
                "Nothing was changed."
            )
        view = run.confirm(_ref(op), self._value(result), evidence=evidence)
        print(f"{view.id}: confirmed; replay returns {view.result_preview}")

    def _deny(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, evidence = _take(rest, "--evidence")
        op = _only(rest, "%durable deny charge#1 --evidence E")
        view = run.deny(_ref(op), evidence=evidence)
        print(f"{view.id}: denied; it is done again under the same key")

    def _invalidate(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, effect = _take(rest, "--effect")
        rest, reason = _take(rest, "--reason")
        example = '%durable invalidate charge#1 --reason "wrong amount" --effect compensated'
        op = _only(rest, example)
        if not reason:
            raise UsageError(f"%durable invalidate needs --reason. Example: {example}")
        if effect and effect not in FATES:
            raise UsageError(f"--effect is {' or '.join(FATES)}. Example: {example}")
        print(run.invalidate(_ref(op), reason, effect=effect or None))

    def _keep(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        view = run.keep(_ref(_only(rest, '%durable keep plan#1 --reason "R"')), reason=reason)
        print(f"{view.id}: its record is kept")

    def _rerun(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        view = run.rerun(_ref(_only(rest, '%durable rerun plan#1 --reason "R"')), reason=reason)
        print(f"{view.id}: it is done again under a new key")

    def _approve(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        view = run.approve(_titled(rest, "%durable approve OP --reason R"), reason=reason)
        print(f"{view.id}: approved; run the cell that asked for it again")

    def _reject(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        op = _titled(rest, "%durable reject OP --reason R")
        if not reason:
            raise UsageError("%durable reject needs --reason. Nothing was changed.")
        print(f"{run.reject(op, reason=reason).id}: rejected; its cell gets an error")

    def _signal(self, rest: str) -> None:
        run, rest = self._target(rest)
        found = _NAME_FIRST.match(rest)
        name, value = (found[1] or found[2] or found[3], found[4]) if found else ("", "")
        if not name:
            raise UsageError("%durable signal needs a name. Example: %durable signal paid 12.5")
        view = run.signal(name, self._value(value) if value.strip() else None)
        if view is None:
            print(f"signal {name!r} is held: the first that waits for it gets it")
        else:
            print(f"{view.id}: signalled; it gets {view.result_preview or None}")

    def _compensate(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        op = _only(rest, '%durable compensate charge#1 --reason "wrong customer"')
        if isinstance(run, Watched):
            raise UsageError(
                f"%durable compensate runs a function of the notebook that executes {run.name!r}: "
                "do it there. Nothing was changed."
            )
        view = run.compensate(_ref(op), reason)
        if inspect.isawaitable(view):
            _close(view)
            raise UsageError(
                f"the function that takes {op} back is async: await it in a cell instead: "
                f'await run.compensate("{op}"). Nothing was begun.'
            )
        print(f"{view.id}: its effect was taken back; it is done again when its step is called")

    def _grant(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        budget: dict[str, float] = {}
        for name in LIMITS:
            rest, amount = _take(rest, f"--{name}")
            if amount:
                budget[name] = _number(name, amount)
        scopes = _words(rest)
        if not reason or not (scopes or budget):
            raise UsageError(
                "%durable grant needs what and why. Example: %durable grant payments:write "
                '--usd 10 --reason "the customer asked". Nothing was changed.'
            )
        run.grant(*scopes, budget=budget or None, reason=reason)
        what = [*scopes, *(f"{name} {amount:g}" for name, amount in budget.items())]
        print(f"run {run.name}: granted {', '.join(what)}")

    def _fork(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        rest, op = _take(rest, "--at")
        words = _words(rest)
        if len(words) != 1:
            raise UsageError(
                "%durable fork needs one name, that of the new run. Example: %durable fork what-if "
                "--at mail#1. Nothing was made."
            )
        print(run.fork(words[0], _ref(op) if op else None, reason=reason))

    def _pause(self, rest: str) -> None:
        run, reason = self._reasoned(rest, "pause")
        run.pause(reason)
        print(f"run {run.name}: paused; what is in flight finishes, and nothing new begins")

    def _unpause(self, rest: str) -> None:
        run, reason = self._reasoned(rest, "unpause")
        run.unpause(reason)
        print(f"run {run.name}: it goes on when its cell is run again")

    def _reasoned(self, rest: str, verb: str) -> tuple[Run | Watched, str]:
        """Take the line of a verb that is about a run, with a reason or without."""
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        if rest:
            example = f'%durable {verb} --reason "R"'
            raise UsageError(f"it is the run, not {rest}. Example: {example}. Nothing was changed.")
        return run, reason

    def _facets(self, rest: str) -> None:
        run, rest = self._target(rest)
        display(run.facets_of(_ref(rest) if rest else None))  # type: ignore[no-untyped-call]

    def _report(self, rest: str) -> None:
        print(self._find(rest).report().to_text())

    def _timeline(self, rest: str) -> None:
        display(self._find(rest).timeline())  # type: ignore[no-untyped-call]

    def _accept(self, rest: str) -> None:
        run, rest = self._target(rest)
        rest, reason = _take(rest, "--reason")
        if rest or not reason:
            raise UsageError(
                "%durable accept needs --reason: how do you know what was done outside? Example: "
                '%durable accept --reason "the shop has no payment". Nothing was changed.'
            )
        run.accept(reason)
        print(f"run {run.name}: the loss is accepted; it goes on")

    def _help(self, rest: str) -> None:
        print(f"{HELP}\n{CELL_HELP}")

    # -- finding -------------------------------------------------------------------------

    def _active(self) -> Run:
        run = current_run()
        if run is None:
            raise UsageError("no run is open here. Open one first: %durable run NAME")
        return run

    def _target(self, rest: str) -> tuple[Run | Watched, str]:
        """Split off ``--run NAME``; without it, the active run is meant."""
        rest, name = _take(rest, "--run")
        return self._find(name), rest

    def _find(self, rest: str) -> Run | Watched:
        """Find a run: the active one, one that is open here, or else one of the store."""
        name = rest.strip()
        if not name:
            return self._active()
        for run in reversed(OPEN.all()):
            if run.name == name:
                return run
        held = self._shell.user_ns.get(name)
        if isinstance(held, Run):
            return held
        return watch(name)

    def _value(self, text: str) -> Any:
        """Read a result: a literal, else an expression over the notebook's names."""
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            pass
        try:
            return eval(text.strip(), self._shell.user_global_ns, self._shell.user_ns)
        except Exception as problem:
            raise UsageError(
                f"%durable: the value {text.strip()!r} is no Python expression here "
                f"({type(problem).__name__}: {problem}). Text needs quotes. Nothing was changed."
            ) from None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as problem:
        raise UsageError(f"%durable: {problem}") from None


def _only(rest: str, example: str) -> str:
    words = rest.split()
    if len(words) != 1:
        raise UsageError(f"one operation, please. Example: {example}. Nothing was changed.")
    return words[0]


def _titled(rest: str, example: str) -> object:
    """Give the operation that a line is about; its title may have spaces."""
    text = rest.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if not text:
        raise UsageError(f"one operation, please. Example: {example}. Nothing was changed.")
    return _ref(text)


def _take(text: str, flag: str) -> tuple[str, str]:
    """Split off ``--flag VALUE``: the value goes up to the next flag."""
    before, found, after = f" {text} ".partition(f" {flag} ")
    if not found:
        before, found, after = f" {text} ".partition(f" {flag}=")
    if not found:
        return text.strip(), ""
    value, dashes, others = after.partition(" --")
    words = value.strip()
    if len(words) > 1 and words[0] == words[-1] and words[0] in "\"'":
        words = words[1:-1]
    return f"{before}{dashes}{others}".strip(), words


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--{name} {text}: it is a number. Nothing was changed.") from None


def _close(awaitable: Any) -> None:
    """Let go of what nobody will await, without a warning."""
    getattr(awaitable, "close", lambda: None)()


def _ref(text: str) -> object:
    """Give an operation as `run.confirm` takes it: a row number is a number."""
    return int(text) if text.isdigit() else text


def list_unfinished() -> list[str]:
    """Say which runs of the store are not finished; opens and executes none."""
    try:
        root = store_of()
        listing.refresh(root)
        found = listing.runs()
    except (OSError, DurableError):  # there is no store yet, or none that can be read
        return []
    here = {run.name for run in OPEN.all()}
    rows = [
        r
        for r in found.to_dict("records")
        if r.get("status") not in _DONE and r.get("name") not in here
    ]
    if not rows:
        return []
    where = root.shown if root.folder is None else root.folder.name
    holders, free = root.overview(), []
    lines = [f"unfinished runs in {where}:"]
    for row in rows:
        counts = ", ".join(
            f"{int(row.get(k) or 0)} {k}" for k in ("completed", "incomplete", "unknown")
        )
        name = str(row["name"])
        lines.append(f"  {name} · {row.get('status')} · {counts}")
        holder, _ = holders.get(name, (None, False))
        if holder is not None and holder.life is not Life.CRASHED:
            lines.append(f"    held by {holder.who}; watch it: %durable panel {name}")
        else:
            free.append(name)
    lines.append("nothing was started." + (f" {_GO_ON} {free[0]}" if free else ""))
    return lines
