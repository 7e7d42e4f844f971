"""Verbs that settle what a run cannot know: verdicts, grants and the questions to reconcilers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Final, TypeVar

import click

from durable_nb.engine.permits import budget_of, scopes_of
from durable_nb.faces import look, show, verdicts
from durable_nb.faces.arguments import parse_reconcilers, parse_result, parse_undo, telling
from durable_nb.faces.output import DONE, ERROR, PERSON_NEEDED, USAGE, Face, verb
from durable_nb.faces.plain import clean
from durable_nb.faces.problems import Unwrapped
from durable_nb.model.adoption import Adoption

F = TypeVar("F", bound=Callable[..., Any])

run_argument: Callable[[F], F] = click.argument("name", metavar="RUN")
op_argument: Callable[[F], F] = click.argument("op", metavar="OP")
reason_option: Callable[[F], F] = click.option(
    "--reason", required=True, callback=telling, help="Why; kept in the history."
)


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@click.argument("result", required=False)
@click.option("--evidence", required=True, callback=telling, help="How it is known.")
@click.option(
    "--result-file", type=click.File("rb"), help="Read RESULT from a file; - is standard input."
)
@verb
def confirm(
    face: Face,
    name: str,
    op: str,
    result: str | None,
    evidence: str,
    result_file: BinaryIO | None,
) -> int:
    r"""Record that an operation happened; replay then returns RESULT.

    RESULT is JSON, else a Python literal; without it replay returns None. One that begins with a
    dash goes after `--`.

    \b
    Example:
      durable-nb confirm refund-17 'charge#1' '{"id": "re_1"}' --evidence "seen in the shop"
    """
    if result is not None and result_file is not None:
        raise click.UsageError("give RESULT or --result-file, not both.")
    if result_file is not None:
        result = result_file.read().decode("utf-8", "replace")
    if result is not None:
        parse_result(result)
    verdicts.give(face, name, "confirm", op, {"result": result, "evidence": evidence})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@click.option("--evidence", default="", callback=telling, help="How it is known.")
@verb
def deny(face: Face, name: str, op: str, evidence: str) -> int:
    r"""Record that an operation did not happen: it is done again.

    Its idempotency key stays the same.

    \b
    Example:
      durable-nb deny refund-17 'charge#1' --evidence "no such payment in the ledger"
    """
    verdicts.give(face, name, "deny", op, {"evidence": evidence})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@reason_option
@click.option(
    "--effect",
    type=click.Choice(["stands", "compensated"]),
    help="What became of a completed external effect: it stands, or it was undone.",
)
@click.option("--yes", is_flag=True, help="Do not ask about what depends on it.")
@verb
def invalidate(face: Face, name: str, op: str, reason: str, effect: str | None, yes: bool) -> int:
    r"""Record that a result no longer counts: it is done again.

    It gets a new idempotency key. What depends on it is shown first. On a terminal you are
    asked; elsewhere --yes is needed.

    \b
    Example:
      durable-nb invalidate refund-17 'plan#1' --reason "wrong customer" --yes
    """
    seen = verdicts.dependants(face, name, op)
    row, told = seen["operation"], seen["more"]
    if told["happened"] and effect is None:
        raise click.UsageError(
            f"the effect of {clean(', '.join(told['happened']))} happened; say what becomes of "
            "it: --effect stands (it stays, and doing it again adds another) or "
            "--effect compensated (it was undone). Nothing was changed."
        )
    touched = {part: told[part] for part in ("below", "suspect")}
    if any(touched.values()) and not yes:
        face.say(seen["said"])
        if not sys.stdin.isatty():
            face.say("Nothing was changed: add --yes to invalidate it.")
            if face.as_json:
                face.emit({"run": name, "verdict": None, "operation": row, **touched})
            return USAGE
        if not click.confirm("Invalidate it?", err=True):
            face.say("Nothing was changed.")
            return ERROR
    asked = {"reason": reason, "effect": effect, "shown": touched}
    verdicts.give(face, name, "invalidate", row["id"], asked, seen=row["last_seq"])
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@click.option("--reason", default="", callback=telling, help="Why; kept in the history.")
@verb
def keep(face: Face, name: str, op: str, reason: str) -> int:
    r"""Use a recorded result although its inputs or code changed.

    \b
    Example:
      durable-nb keep refund-17 'plan#1' --reason "only the wording changed"
    """
    verdicts.give(face, name, "keep", op, {"reason": reason})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@click.option("--reason", default="", callback=telling, help="Why; kept in the history.")
@verb
def rerun(face: Face, name: str, op: str, reason: str) -> int:
    r"""Have an operation done again, because something changed.

    It gets a new idempotency key.

    \b
    Example:
      durable-nb rerun refund-17 'plan#1' --reason "the prompt is better now"
    """
    verdicts.give(face, name, "rerun", op, {"reason": reason})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@click.option(
    "--with",
    "undo",
    required=True,
    metavar="MODULE:FUNCTION",
    help="This importable function takes the effect back; it is given the operation.",
)
@reason_option
@verb
def compensate(face: Face, name: str, op: str, undo: str, reason: str) -> int:
    r"""Take the effect of a completed operation back.

    The function is called once, as an operation of its own. The operation that it takes back is
    invalidated with it. Only a function that can be imported is reached from here; one of a
    notebook is called there: run.compensate.

    \b
    Example:
      durable-nb compensate refund-17 charge --with shop.undo:refund --reason "wrong customer"
    """
    verdicts.compensate(face, name, op, parse_undo(undo), reason)
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@reason_option
@verb
def accept(face: Face, name: str, reason: str) -> int:
    r"""Accept that records of a run are lost, so that it goes on.

    Look at the outside world first: what they said stays unknown for good.

    \b
    Example:
      durable-nb accept refund-17 --reason "disk was restored; the shop has no payment"
    """
    verdicts.give(face, name, "accept", "", {"reason": reason})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@click.argument("how", type=click.Choice([str(how) for how in Adoption]))
@click.option("--reason", default="", callback=telling, help="Why; kept in the history.")
@verb
def adopt(face: Face, name: str, how: str, reason: str) -> int:
    r"""Say why a run is found in another folder than it was executed in.

    A copy and its original would do what is still to be done twice, so no kernel goes on with
    one before this is answered. moved: the old folder is gone. abandoned: this is a copy, and
    the other one is not executed any more. fork: both go on, and what begins here gets
    idempotency keys of its own.

    \b
    Example:
      durable-nb adopt refund-17 moved --reason "new disk"
    """
    verdicts.give(face, name, "adopt", "", {"how": how, "reason": reason})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@click.argument("scopes", metavar="[SCOPE]...", nargs=-1)
@click.option("--usd", type=float, help="US dollars that it may spend in all.")
@click.option("--tokens", type=int, help="Tokens that it may spend in all.")
@click.option("--calls", type=int, help="Attempts that it may make in all.")
@click.option("--seconds", type=float, help="Seconds that its operations may take in all.")
@reason_option
@verb
def grant(face: Face, name: str, scopes: tuple[str, ...], reason: str, **budget: Any) -> int:
    r"""Widen what the steps of a run may do, or what it may spend.

    A run's scopes and budget are recorded as it begins, and no resume widens them. Amounts are
    the new totals, larger than the recorded ones.

    \b
    Example:
      durable-nb grant refund-17 payments:write --reason "refunds up to 50 are ours"
    """
    amounts = {limit: amount for limit, amount in budget.items() if amount is not None}
    if not scopes and not amounts:
        raise click.UsageError("name a SCOPE, or an amount such as --usd 10. Nothing was granted.")
    try:
        several, amounts = scopes_of(scopes), budget_of(amounts)
    except (TypeError, ValueError) as problem:
        raise click.UsageError(f"{problem}. Nothing was granted.") from None
    arguments = {"reason": reason}
    if several:
        arguments["scopes"] = json.dumps(several)
    if amounts:
        arguments["budget"] = json.dumps(amounts)
    verdicts.give(face, name, "grant", "", arguments)
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@click.option(
    "--reconciler",
    "reconcilers",
    multiple=True,
    metavar="STEP=MODULE:FUNCTION",
    help="Ask this importable function about the unknown operations of STEP; repeatable.",
)
@verb
def reconcile(face: Face, name: str, reconcilers: tuple[str, ...]) -> int:
    r"""Ask reconcilers about unknown operations.

    Exits 3 if some stay unknown.

    Only functions that can be imported are reached from here; those of a notebook are asked there,
    by its owner if it is live.

    \b
    Example:
      durable-nb reconcile refund-17 --reconciler charge=shop.lookups:find_charge
    """
    asked = parse_reconcilers(reconcilers)
    if not asked and (waits := verdicts.check(face, name)) is not None:
        return PERSON_NEEDED if waits else DONE
    with look.watched(face, name).held("operator") as run:
        before = run.unknown()
        for step in sorted(set(asked) - {view.name for view in before}):
            face.say(f"no unknown operation is named {step!r}, so its reconciler is not asked")
        with face.working("asking ..."):
            left = run.reconcile(**asked)
        settled = [run.get(v.id) for v in before if v.id not in {u.id for u in left}]
        said = {view.id: show.last_word(run, view) for view in left}
        waits = show.reconciled(face, name, settled, left, run.status_view().doubt, said)
    return PERSON_NEEDED if waits else DONE


#: In the order in which `--help` lists them: what is in doubt, and what is on record.
DOUBTS: Final = (confirm, deny, reconcile, accept, adopt)
RESULTS: Final = (invalidate, keep, rerun, compensate)
