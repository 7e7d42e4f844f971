"""Pins in the fold: live, loaded whole and loaded in part, it proves the same."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.pins import Carried, is_retired, stretch_of
from durable_nb.model.records import Record
from durable_nb.model.retiring import carry
from durable_nb.model.spending import Totals

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOOPS = ("a", "b[k]", "box#1/c")


class Story:
    """Writes the records of a run, and folds them as its owner would."""

    def __init__(self):
        self.fold, self.records = Fold(), []

    def add(self, op, kind, **body):
        record = Record(len(self.records) + 1, op, kind, NOW, 1, body)
        self.records.append(record)
        self.fold.apply(record)

    def begin(self, op, effect="none"):
        self.add(op, Kind.INTENDED, effect=effect, attempt=1, generation=0)

    def pin(self, loop):
        last = self.fold.carried.get(loop)
        op = f"{loop}#{last.stretch + 1 if last else 1}"
        body = {"carried": carry(self.fold, op, NOW).body(), **self.fold.decisions()}
        self.add(op, Kind.PINNED, effect="none", result="1", **body)

    def stretch(self, loop):
        last = self.fold.carried.get(loop)
        return f"{loop}#{last.stretch + 1 if last else 1}"

    def part(self):
        """Give what an opening loads: what no last pin has retired, and when the rest began."""
        pins = {f"{loop}#": c.seq for loop, c in self.fold.carried.items()}
        gone = [
            r for r in self.records for p, s in pins.items() if r.seq < s and r.op.startswith(p)
        ]
        first = {}
        for r in gone:
            first.setdefault(r.op, r.seq)
        kept = [r for r in self.records if r not in gone]
        return Fold.of(kept, first.values())


def proves(fold):
    """Give what must not depend on how the records were loaded."""
    carried = {
        loop: (c.stretch, c.seq, c.totals, {k: n for k, n in c.counts.items() if n}, c.unpriced)
        for loop, c in fold.carried.items()
    }
    rows = {op: fold.row_of(s) for op, s in fold.operations.items()}
    return fold.spending, carried, rows, dict(fold.operations), fold.decided, fold.last_seq


STEPS = st.tuples(
    st.sampled_from(["step", "nested", "outside", "pin", "decide", "inner", "late", "cut"]),
    st.sampled_from(LOOPS),
    st.sampled_from(["none", "idempotent", "external"]),
    st.sampled_from([None, 0.01, 0.25]),
)


@pytest.mark.slow
@given(st.lists(STEPS, max_size=40))
def test_live_whole_and_part_prove_the_same(steps):
    """Spending, counts, rows, decisions and states, over any sequence of calls and pins."""
    story = Story()
    story.begin("box#1")
    for n, (what, loop, effect, usd) in enumerate(steps, start=1):
        at = story.stretch(loop)
        cost = {} if usd is None else {"usd": usd}
        done = {"result": "1", "duration_s": 0.5, "attempt": 1, **cost}
        if what in ("step", "outside"):
            op = f"{at}/act#{n}" if what == "step" else f"out#{n}"
            story.begin(op, effect)
            story.add(op, Kind.COMPLETED, **done)
        elif what == "nested":
            story.begin(f"{at}/box#{n}")
            story.begin(f"{at}/box#{n}/branch#1/act#1", effect)
            story.add(f"{at}/box#{n}/branch#1/act#1", Kind.COMPLETED, **done)
            story.add(f"{at}/box#{n}", Kind.COMPLETED, **done)
        elif what == "cut":
            story.begin(f"{at}/cut#{n}")
            story.add(f"{at}/cut#{n}", Kind.RESERVED, usd=usd)
        elif what == "decide":
            story.begin(f"{at}/asked#{n}")
            rows = [["code", "x", "y", "old", str(n)]]
            story.add(f"{at}/asked#{n}", Kind.KEPT, actor="ada", rows=rows)
        elif what == "late":  # of what has begun, retired or not
            begun = [r.op for r in story.records if r.kind is Kind.INTENDED]
            story.add(begun[n % len(begun)], Kind.EVIDENCE)
        elif what == "inner":
            inner = story.stretch(f"{at}/in")
            story.begin(f"{inner}/act#{n}", effect)
            story.add(f"{inner}/act#{n}", Kind.COMPLETED, **done)
            if n % 2:
                story.pin(f"{at}/in")
        elif what == "pin":
            story.pin(loop)

    live = proves(story.fold)

    assert proves(Fold.of(story.records)) == live
    assert proves(story.part()) == live
    wanted = [r for r in story.records if r.op]
    known = {r.op for r in wanted if not is_retired(r.op, story.fold.carried)}
    assert known == set(story.fold.operations)


def test_totals_count_what_is_retired():
    """What the retired operations have cost is spent, once."""
    story = Story()
    for n in range(3):
        story.begin(f"a#{n + 1}/act#1", "external")
        story.add(f"a#{n + 1}/act#1", Kind.COMPLETED, result="1", usd=0.5, duration_s=1.0)
        story.pin("a")

    carried = story.fold.carried["a"]

    assert story.fold.spending.as_dict()["usd"] == 1.5
    assert carried.totals.calls == story.fold.spending.calls == 3
    assert carried.counts == {
        (Outcome.COMPLETED, Effect.EXTERNAL): 3,
        (Outcome.COMPLETED, Effect.NONE): 2,
    }
    assert list(story.fold.operations) == ["a#3"]


def test_a_pin_written_by_another_hand_is_refused():
    """No stretch number makes a reader count further than there are records."""
    body = {"effect": "none", "carried": Carried(1, 1, Totals(), {}).body()}
    with pytest.raises(ValueError, match="more often"):
        Fold.of([Record(1, "a#99999999999", Kind.PINNED, NOW, 1, body)])
    for op in ("a", "#1", "a#0"):
        with pytest.raises(ValueError, match=r"no stretch|invalid literal"):
            stretch_of(op)
