"""Operations of a long journal that are not folded at opening: the same states, later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from durable_nb.engine.changed import Changed
from durable_nb.journal.loading import Sorting
from durable_nb.journal.rows import RawRow, Row, micros, pack_body, pack_op, records_of
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Effect, Kind
from durable_nb.model.records import RUN, Draft, Record

_NOW = datetime(2026, 3, 1, tzinfo=UTC)
_ARTIFACT = '{"$":"artifact","sha256":"' + "a" * 64 + '","size":3,"of":"bytes"}'


def _intent(effect: Effect, unusual: Any = (), **more: Any) -> tuple[Kind, dict[str, Any]]:
    body = {
        "effect": str(effect),
        "attempt": 1,
        **dict(unusual),
        "inputs": {"n": "b2:1"},
        "shown": {"n": '"wait":1,"inputs":{}'},
        "facets": "f",
        "idempotency_key": "k",
    }
    return Kind.INTENDED, body | more


def _result(text: str = '{"a":[1,","],"b":"$"}', **more: Any) -> tuple[Kind, dict[str, Any]]:
    return Kind.COMPLETED, {
        "result": text, "duration_s": 9.1e-05, "checkpoint_s": 0.001, "attempt": 1, **more
    }  # fmt: skip


_ROWS = [["input n", "1", "2", "a", "b"], ["model", "m", "n", "c", "d"]]
_ERROR = {"error": {"type": "E", "message": "m"}, "attempt": 1, "duration_s": 1.5}
#: What is said most, and then all that may be said beside and after it.
SAID: Sequence[tuple[Kind, dict[str, Any]]] = [
    *(_intent(effect) for effect in Effect),
    _result(),
    _result("x,"),
    (Kind.COMPLETED, {"result": "1", "duration_s": 12.0, "checkpoint_s": 1e-06, "attempt": 1}),
    _intent(Effect.NONE, cell="c1", branch="b#1"),
    _intent(Effect.EXTERNAL, attempt=2),
    _intent(Effect.NONE, {"generation": 1}),
    _intent(Effect.IDEMPOTENT, {"key_ttl": 5.0}),
    _intent(Effect.EXTERNAL, {"settle_after": 60.0}),
    _intent(Effect.NONE, wait="approval", what="?"),
    _intent(Effect.EXTERNAL, undoes={"op": "a#1", "generation": 0}),
    _result(_ARTIFACT),
    _result(usd=0.5),
    _result(tokens=7),
    _result(differs={"changes": ["c"], "rows": _ROWS, "cost": "?"}),
    (Kind.COMPLETED, {"result": "1", "preview": "p", **_result()[1]}),
    (Kind.COMPLETED, {"result": "1", "late": True, **_ERROR}),
    (Kind.COMPLETED, {"duration_s": 1.0, "checkpoint_s": 1.0, "attempt": 1}),
    (Kind.RAISED, {**_ERROR, "usd": 0.25}),
    (Kind.NOT_APPLIED, _ERROR),
    (Kind.INTERRUPTED, _ERROR),
    (Kind.UNRECORDED, _ERROR),
    (Kind.OBSERVED, {}),
    (Kind.CONFIRMED, {"result": "2", "actor": "me"}),
    (Kind.DENIED, {"actor": "me"}),
    (Kind.INVALIDATED, {"actor": "me"}),
    (Kind.KEPT, {"actor": "me", "rows": _ROWS, "basis": {"facets": "g"}}),
    (Kind.RERUN, {"actor": "policy", "rows": _ROWS}),
    (Kind.APPROVED, {"result": "true"}),
    (Kind.REJECTED, {"error": {"type": "ApprovalRejected"}}),
    (Kind.SIGNALLED, {"result": "1", "name": "go", "held": True}),
    (Kind.DUPLICATE, _ERROR),
    (Kind.ASKED, {"changes": ["c"], "rows": _ROWS}),
    (Kind.ASKED, {"changes": []}),
    (Kind.UNDECIDED, {"reason": "?"}),
    (Kind.EVIDENCE, {"result": "3"}),
    (Kind.CONTESTED, {"actor": "me"}),
    (Kind.RESERVED, {"usd": 1.0, "tokens": 5}),
]
_OPS = ["a#1", "b#1", "a#1/c#1", "d#1/e#1", "d#1/e#1/f#1", "d#1", "x\ud800#1", "g[k]#1"]
_OF_RUN = [
    (Kind.OPENED, {"role": "runner", "terms": {"version": "2"}}),
    (Kind.SIGNALLED, {"name": "go", "result": "1"}),
    (Kind.PAUSED, {"actor": "me"}),
    (Kind.DIED, {"at_work": {"a#1": 0}, "reason": "signal 9"}),
    (Kind.CLOSED, {}),
]
_OPERATIONS = st.tuples(
    st.sampled_from(_OPS), st.one_of(st.sampled_from(SAID[:6]), st.sampled_from(SAID))
)
_RECORDS = st.lists(
    st.one_of(_OPERATIONS, _OPERATIONS, st.tuples(st.just(RUN), st.sampled_from(_OF_RUN))),
    max_size=40,
)


def rows_of(said: Sequence[tuple[str, tuple[Kind, dict[str, Any]]]]) -> list[RawRow]:
    """Give rows as the journal writes them."""
    return [
        Row(
            seq,
            pack_op(op),
            kind.value,
            micros(_NOW + timedelta(seconds=seq)),
            1,
            pack_body(Draft(op, kind, body)),
        )
        for seq, (op, (kind, body)) in enumerate(said, start=1)
    ]


def sorted_out(rows: Sequence[RawRow], parts: int = 3) -> tuple[Fold, int]:
    """Fold rows as the opening of a long journal does; tell how many were left out."""
    sorting = Sorting()
    for start in range(0, len(rows), parts):
        sorting.take(rows[start : start + parts])
    left, unfolded = sorting.sorted(lambda seqs: [rows[seq - 1] for seq in seqs])

    def read(first: int, last: int) -> list[Record]:
        return records_of(rows[first - 1 : last])

    fold = Fold.of(records_of(left), (), unfolded, read)
    return fold, len(rows) - len(left)


def counted(fold: Fold, *, expected: Sequence[str] = ("a", "f", "z")) -> tuple[Any, ...]:
    """Give the numbers that are kept beside a fold, as an opening begins them."""
    changed = Changed(expected)
    changed.unfolded(fold.operations)
    for state in fold.operations.folded():
        changed.loaded(state)
    return (
        changed.by_outcome(), changed.spent(), changed.unpriced, changed.waits, changed.expected
    )  # fmt: skip


@given(_RECORDS)
@example([("a#1", SAID[2]), ("a#1", SAID[3])])
@example([("x\ud800#1", SAID[2]), ("x\ud800#1", SAID[3])])
@example([("a#1", SAID[2]), ("a#1", SAID[3]), ("a#1", SAID[24])])
@example([("a#1", SAID[0]), ("a#1/c#1", SAID[0]), ("a#1/c#1", SAID[3]), ("a#1", SAID[3])])
def test_what_is_folded_later_is_what_folding_at_once_gives(said: list[Any]) -> None:
    """Whatever was recorded, all that a run knows is the same, however its records are loaded."""
    rows = rows_of(said)
    lazy, _ = sorted_out(rows)
    eager = Fold.of(records_of(rows))

    assert dict(lazy.operations.items()) == dict(eager.operations.items())
    assert [s.id for s in lazy.ordered()] == [s.id for s in eager.ordered()]
    assert sorted(s.id for s in lazy.operations.values()) == sorted(eager.operations)
    assert lazy.with_effect() == eager.with_effect()
    assert counted(lazy) == counted(eager)
    for name in (
        "spending", "containers", "last_seq", "updated", "terms", "decided", "held", "kind",
        "paused", "signalled", "openings", "_first_seqs",
    ):  # fmt: skip
        assert getattr(lazy, name) == getattr(eager, name), name
    for state in eager.operations.values():
        assert lazy.row(lazy.operations.first_seq(state.id)) == eager.row_of(state)
        assert lazy.operations[state.id].outcome(_NOW) is state.outcome(_NOW)


@given(_RECORDS, _OPERATIONS)
def test_a_record_that_comes_later_moves_what_was_not_folded_as_it_moves_the_rest(
    said: list[Any], more: Any
) -> None:
    """A state that is folded on first use goes on as one that was there."""
    rows = rows_of([*said, more])
    lazy, _ = sorted_out(rows[:-1])
    eager = Fold.of(records_of(rows[:-1]))
    (late,) = records_of(rows[-1:])

    assert lazy.apply(late) == eager.apply(late)
    assert dict(lazy.operations.items()) == dict(eager.operations.items())
    assert (lazy.spending, lazy.containers) == (eager.spending, eager.containers)


def test_only_what_says_nothing_of_the_run_is_left_out() -> None:
    """An intent and a plain result are left out; whatever is beside them is folded at once."""
    plain = [*range(3), 6]
    for number, intent in enumerate(SAID):
        if intent[0] is Kind.INTENDED:
            found = sorted_out(rows_of([("a#1", intent), ("a#1", SAID[3])]))[1]
            assert found == (2 if number in plain or "undoes" in intent[1] else 0), intent
    for number, result in enumerate(SAID):
        if result[0] is Kind.COMPLETED:
            found = sorted_out(rows_of([("a#1", SAID[0]), ("a#1", result)]))[1]
            said = result[1]
            assert (found == 2) == (number in {3, 4, 5} or "preview" in said), result
    for kind, body in SAID[17:]:
        later = [("a#1", SAID[0]), ("a#1", SAID[3]), ("a#1", (kind, body))]
        assert sorted_out(rows_of(later))[1] == 0, kind
