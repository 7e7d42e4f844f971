"""A second opinion on the rules: what DESIGN sections 3 to 5 say of a random program.

Nothing of the package is used here. The model is slow and simple: it knows no files, no records
and no threads. What is on disk is a copy of the whole state; a kill goes back to that copy.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from support.rule_programs import Program, Step
from support.rule_state import (
    FITS,
    HANDLED,
    OWN,
    SECOND,
    Basis,
    C,
    Killed,
    Op,
    Question,
    Raised,
    Row,
    State,
    Stop,
    U,
)


@dataclass
class Scope:
    """One pass through one list of calls."""

    parent: str
    counts: dict[tuple[str, str | None], int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@dataclass
class Model:
    """The rules, in the hands of one kernel after another."""

    state: State = field(default_factory=State)
    on_disk: State = field(default_factory=State)
    reached: set[str] = field(default_factory=set)
    ledger: list[tuple[str, int]] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    world: int = 0
    left_behind: list[str] = field(default_factory=list)

    @property
    def ops(self) -> dict[str, Op]:
        return self.state.ops

    def commit(self) -> None:
        self.on_disk = copy.deepcopy(self.state)

    # -- kernels -----------------------------------------------------------------------------

    def close(self, version: str | None = None) -> None:
        self.commit()
        self._open(version)

    def kill(self, version: str | None = None) -> None:
        self.state = copy.deepcopy(self.on_disk)
        self._open(version)

    def _open(self, version: str | None) -> None:
        """Another kernel: the version is as it was, if nothing else is said."""
        self.reached.clear()
        now = self.state.version = version or self.state.version
        self.commit()
        self.left_behind = [
            i for i, o in self.ops.items() if o.basis and o.basis.version not in {None, now}
        ]

    # -- a pass ------------------------------------------------------------------------------

    def go(self, program: Program, troubles: dict[str, str]) -> tuple[Any, ...]:
        """Run a program; tell how it ended."""
        self.troubles = troubles
        try:
            return ("returned", self.calls(program, ""))
        except Raised as error:
            return ("raised", error.args[0])
        except Stop as stop:
            return ("stopped", *stop.said)
        except Killed:
            self.kill()
            return ("killed",)

    def calls(self, steps: Program, parent: str) -> list[str]:
        scope, results = Scope(parent), list[str]()
        before = ""
        for step in steps:
            try:
                before = self.call(step, scope, before if step.feeds else "")
            except Raised as error:
                if not (step.catch and error.args[0] in HANDLED):
                    raise
                before = "handled"
            results.append(before)
        return results

    def call(self, step: Step, scope: Scope, before: str) -> str:
        """Section 5: an identity is counted within its parent, by name and key."""
        slot = (step.name, step.key)
        if step.key is not None and slot in scope.counts:
            raise Raised("DuplicateStep")
        scope.counts[slot] = scope.counts.get(slot, 0) + 1
        key = "" if step.key is None else f"[{step.key}]"
        above = f"{scope.parent}/" if scope.parent else ""
        op_id = f"{above}{step.name}{key}#{scope.counts[slot]}"
        for failure in scope.failures:  # the program went on, so that it is history
            failed = self.ops[failure]
            failed.last, failed.failed, failed.basis = "observed", failed.error, failed.intent
            failed.question = None
        scope.failures.clear()
        basis = Basis(step.value, before, step.code, step.model, self.state.version, step.requires)
        if not self.must_run(op_id, step, basis, scope):
            op = self.ops[op_id]
            self.reached.add(op_id)
            if op.failed:
                raise Raised(op.failed)
            return op.result
        return self.execute(op_id, step, basis, scope)

    # -- sections 3 and 4: may it run? ---------------------------------------------------------

    def must_run(self, op_id: str, step: Step, basis: Basis, scope: Scope) -> bool:
        op = self.ops.get(op_id)
        if op is not None and op.outcome == C and self.stands(op_id, step, basis):
            return False
        if op is not None and op.outcome == U:
            raise Stop("UnknownOutcome", [op_id])
        self.blocked(op_id, step)
        self.permitted(op_id, step)
        if op is None:
            self.nothing_left_behind()
            self.in_the_place_of_another(op_id, step, scope)
            return True
        if op.effect != "none" and op.sent == op.generation:
            assert op.intent is not None
            changes = op.intent.changes(basis, inputs_only=True)
            if changes and step.on_change != "keep":
                self.ask(op_id, changes, basis)
        self.as_it_was(op)
        return True

    def blocked(self, op_id: str, step: Step) -> None:
        """Section 3: while anything is unknown or undecided, nothing new begins.

        What has no effect of its own is entered, to reach what is below it.
        """
        pure = step.effect == "none"

        def within(other: str) -> bool:
            return other == op_id or (pure and self.inside(other, op_id))

        doubts = [i for i, o in self.ops.items() if o.outcome == U and not within(i)]
        if doubts:
            raise Stop("UnknownOutcome", doubts)
        for asked_id, asked in self.ops.items():
            rows = asked.question.rows if asked.question else ()
            if {new for facet, _, new in rows if facet == "version"} - {self.state.version}:
                asked.question = None  # nobody works under that version any more
            waits = asked.question is not None or (asked.differs is not None and not pure)
            if waits and not within(asked_id):
                assert asked.asked is not None
                raise Stop("IncompatibleCheckpoint", [asked_id], asked.asked.facets)

    def permitted(self, op_id: str, step: Step) -> None:
        """Section 6: without its scope a step is refused before its intent."""
        if step.requires is not None and step.requires not in self.state.scopes:
            raise Stop("ScopeDenied", [op_id] if op_id in self.ops else [])

    @staticmethod
    def inside(op_id: str, outer: str) -> bool:
        return op_id == outer or op_id.startswith(outer + "/")

    # -- section 5: change ---------------------------------------------------------------------

    def stands(self, op_id: str, step: Step, basis: Basis) -> bool:
        op = self.ops[op_id]
        assert op.basis is not None
        changes = op.basis.changes(basis, op.vouched)
        if not changes:
            self.as_it_was(op)
            return True
        policy = self.policy(op_id, step, changes)
        if policy == "ask":
            self.ask(op_id, changes, basis)
        if policy == "keep":
            op.last, op.basis, op.question = "kept", basis, None
        else:
            self.blocked(op_id, step)  # else it would lose its record for nothing
            self.do_again(op, "rerun")
        self.commit()
        return policy == "keep"

    def policy(self, op_id: str, step: Step | None, changes: tuple[Row, ...]) -> str:
        op = self.ops[op_id]
        decided = {self.state.decided.get(row) for row in changes}
        if decided == {"kept"}:
            return "keep"
        if None not in decided and op.effect == "none":
            return "rerun"
        if step is not None and step.on_change is not None:
            return step.on_change
        effects_after = [
            o for _, o in self.after(op_id) if o.effect != "none" and o.result is not None
        ]
        return "rerun" if op.effect == "none" and not effects_after else "ask"

    def after(self, op_id: str) -> list[tuple[str, Op]]:
        """Give what began later than an operation."""
        ids = list(self.ops)
        return [(i, self.ops[i]) for i in ids[ids.index(op_id) + 1 :]]

    def ask(self, op_id: str, changes: tuple[Row, ...], basis: Basis) -> None:
        op = self.ops[op_id]
        question = Question(changes, basis)
        if op.question != question:
            op.question = question
            self.commit()
        raise Stop("IncompatibleCheckpoint", [op_id], question.facets)

    @staticmethod
    def as_it_was(op: Op) -> None:
        """Withdraw a question whose change is gone; what came out differently stays so."""
        op.question = None

    def nothing_left_behind(self) -> None:
        """Ask about what stands on another version before something new begins beside it."""
        while self.left_behind:
            op_id = self.left_behind[0]
            op = self.ops[op_id]
            if op.outcome == C and not self.was_reached(op_id):
                assert op.basis is not None
                basis = replace(op.basis, version=self.state.version)
                changes = op.basis.changes(basis, inputs_only=op.vouched)
                if changes and self.policy(op_id, None, changes) == "ask":
                    self.ask(op_id, changes, basis)
            self.left_behind.pop(0)

    def in_the_place_of_another(self, op_id: str, step: Step, scope: Scope) -> None:
        if step.effect == "none":
            return
        above = f"{scope.parent}/" if scope.parent else ""
        beside = {i: self.name(i, above) for i in self.ops if self.name(i, above)}
        if step.name in beside.values():
            return
        called = {name for name, _ in scope.counts}
        for other, name in beside.items():
            if name in called or self.was_reached(other) or self.ops[other].outcome != C:
                continue
            if self.ops[other].effect == "none":  # it did nothing that this one would do again
                continue
            row = ("place", other, f"{scope.parent}/{step.name}")
            if row not in self.state.decided:
                basis = self.ops[other].basis
                assert basis is not None
                self.ask(other, (row,), basis)

    @staticmethod
    def name(op_id: str, above: str) -> str:
        """Give the step's name of an operation of that parent; else nothing."""
        rest = op_id.removeprefix(above)
        if not op_id.startswith(above) or "/" in rest:
            return ""
        return rest.partition("#")[0].partition("[")[0]

    def was_reached(self, op_id: str) -> bool:
        return any(self.inside(op_id, reached) for reached in self.reached)

    def do_again(self, op: Op, last: str) -> None:
        op.last, op.generation, op.question = last, op.generation + 1, None
        op.former, op.result, op.differs = op.former or op.result, None, None
        op.vouched, op.failed, op.error = False, "", ""

    # -- sections 3 and 4: intent, effect, outcome ------------------------------------------------

    def execute(self, op_id: str, step: Step, basis: Basis, scope: Scope) -> Any:
        op = self.ops.setdefault(op_id, Op(step.effect))
        op.last, op.effect, op.attempt = "intended", step.effect, op.attempt + 1
        op.intent, op.sent, op.question = basis, op.generation, None
        self.reached.add(op_id)
        if step.effect == "external":
            self.commit()  # the others' intents ride with the next commit
        trouble = self.troubles.pop(op_id, "return")
        try:
            op.result = self.body(op_id, step, basis, trouble)
        except Killed:
            raise
        except Raised as error:
            refused = error.args[0] == "ConnectionRefusedError"
            op.last, op.error = "refused" if refused else "raised", error.args[0]
            self.commit()
            if op.outcome == U:
                raise Stop("UnknownOutcome", [op_id]) from None
            scope.failures.append(op_id)
            raise
        except Stop:
            op.last = "interrupted"
            self.commit()
            raise
        if trouble == "lose":
            op.last, op.result, op.error = "lost", None, "ResultLost"
            self.commit()
            if op.outcome != U:
                scope.failures.append(op_id)
            raise Raised("ResultLost")
        doubts = [i for i, o in self.ops.items() if i.startswith(f"{op_id}/") and o.outcome == U]
        if doubts:  # no parent completes over an unknown descendant
            op.last, op.result = "interrupted", None
            self.commit()
            raise Stop("UnknownOutcome", doubts)
        op.last, op.basis, op.failed, op.error, op.vouched = "completed", basis, "", "", False
        self.came_out_differently(op_id, op, basis)
        op.former = op.former if op.differs else None
        self.commit()
        if trouble == "die recorded":
            raise Killed
        return op.result

    def body(self, op_id: str, step: Step, basis: Basis, trouble: str) -> Any:
        op = self.ops[op_id]
        if trouble == "die before":
            raise Killed
        if trouble == "refuse":
            raise Raised("ConnectionRefusedError")
        self.ledger.append((op_id, op.generation))
        if step.inner and step.effect != "none":
            raise Raised("NestedEffect")
        inner = self.calls(step.inner, op_id)
        if trouble == "die after":
            raise Killed
        if trouble == "raise":
            raise Raised("ValueError")
        if trouble == "interrupt":
            raise Stop("KeyboardInterrupt", [])
        return f"({basis.value} {basis.before} {basis.code} {self.world} {' '.join(inner)})"

    def came_out_differently(self, op_id: str, op: Op, basis: Basis) -> None:
        if op.former is None or op.former == op.result:
            return
        later = [
            i
            for i, o in self.after(op_id)
            if o.effect == "external" and o.outcome == C and not self.inside(i, op_id)
        ]
        if later:
            op.differs = Question((("result", None, None),), basis)

    def grant(self, scope: str) -> str:
        """Widen what the run may do; it is kept for good."""
        if scope in self.state.scopes:
            return "VerdictRefused"
        self.state.scopes.add(scope)
        self.commit()
        return "recorded"

    # -- sections 3 and 6: verdicts ---------------------------------------------------------------

    def verdict(self, verdict: str, op_id: str, fate: str | None = None) -> str:
        """Give a verdict; tell "recorded", or the name of the error."""
        op = self.ops[op_id]
        if op.asked is None and verdict in SECOND.get(op.last, ()):
            self.commit()  # it is kept in the history
            return "AlreadySettled"
        below = [o for i, o in self.ops.items() if self.inside(i, op_id)]
        if op.outcome not in FITS[verdict] or (verdict == "keep" and op.asked is None):
            return "VerdictRefused"
        if verdict == "invalidate":
            happened = [o for o in below if o.outcome == C and o.effect == "external"]
            if any(o.outcome == U for o in below) or (happened and fate is None):
                return "VerdictRefused"
        rows = op.asked.rows if op.asked else ()
        if verdict in {"keep", "rerun"}:
            said = "kept" if verdict == "keep" else "rerun"
            self.state.decided |= {row: said for row in rows if not row[0].startswith(OWN)}
        match verdict:
            case "confirm":
                op.last, op.result, op.basis = "confirmed", "confirmed", op.intent
                op.vouched, op.former, op.failed, op.error = True, None, "", ""
                op.question = op.differs = None
            case "deny":
                op.last, op.question = "denied", None
            case "invalidate":
                for each in below:
                    if each.outcome == C:
                        self.do_again(each, "invalidated")
            case "keep":
                assert op.asked is not None
                op.last, op.basis = "kept", op.asked.basis
                if op.question is None:
                    op.differs = op.former = None
                op.question = None
            case "rerun":
                self.do_again(op, "rerun")
        self.commit()
        return "recorded"
