"""What the owner of a run publishes of it, at a cost that does not grow with the run.

A publication makes rows of what changed since the last one, and writes them with those that are in
no segment yet. A row that will not change by itself goes into a segment once there are many.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine import permits, views
from durable_nb.engine.pausing import paused_text
from durable_nb.engine.retired import Retired
from durable_nb.journal import Mirror
from durable_nb.journal.columns import table_of
from durable_nb.journal.errors import MirrorUnreadable
from durable_nb.journal.segments import Sealed, numbers_in, packed
from durable_nb.model.identity import parse
from durable_nb.model.outcomes import OUTCOMES
from durable_nb.model.state import OperationState
from durable_nb.model.unfolded import last_seq_of
from durable_nb.model.waits import judged

if TYPE_CHECKING:
    from durable_nb.engine.changed import Taken
    from durable_nb.engine.operated import Operated
    from durable_nb.engine.trajectory import Trajectory

#: So many times as long as a publication computed, the next one waits. A run at full speed loses
#: twice of what that is, by sharing the interpreter: 3 %.
_REST: Final = 66
#: Rows in the tail from which on they are sealed.
SEAL: Final = 2_000
#: Rows in one segment at most, so that a run that is published anew is not in memory twice.
_LARGEST: Final = 20_000
#: Rows that are made before others get their turn, about 0.2 ms, and for how long they get it. To
#: let go for no time is not enough: who waits needs longer to wake up.
_AT_ONCE: Final = 4
_TURN_S: Final = 0.0003
#: How long this thread has computed so far; what it waits for costs nobody anything.
_computed: Final = time.thread_time
_quoted: Final = json.encoder.encode_basestring_ascii
#: Kernels that a mirror names, the last ones: of more, nobody reads the list.
_KERNELS: Final = 20
#: Units of a bill in a dollar.
_PER_USD: Final = 10**12


class Publisher:
    """Publishes one run that this process holds, from whatever thread, one at a time.

    Parameters
    ----------
    run : Operated
        What is published.

    Attributes
    ----------
    seal : int
        Rows in the tail from which on they are sealed.
    """

    def __init__(self, run: Operated) -> None:
        self.seal = SEAL
        self._run, self._clock = run, run.clock.monotonic
        self._mirror = Mirror(run.place.view)
        self._one = threading.Lock()
        self._sealed: Sealed | None = None
        self._rows: dict[str, tuple[Any, ...] | OperationState | int] = {}
        self._restless: set[str] = set()
        self._replayed = bytearray()
        self._told: str | None = ""
        self._seen: object = None
        self._not_before = 0.0
        self._gives_way = False

    def keep_up(self) -> None:
        """Publish if there is something new, and the last time is long enough ago."""
        run = self._run
        now = (run.fold.last_seq, frozenset(run.live), len(run.reconcilers))
        if now == self._seen and not run.changed:
            return
        if self._clock() < self._not_before:
            return
        with self._one:
            if self._clock() < self._not_before:
                return  # another thread has published while this one waited
            self._timed(gives_way=True)
        self._seen = now

    def publish(self) -> None:
        """Publish what there is now."""
        with self._one:
            self._timed(gives_way=False)

    def _timed(self, *, gives_way: bool) -> None:
        """Publish, and rest for so many times what that has computed.

        Parameters
        ----------
        gives_way : bool
            Steps go on beside it, so that it lets them have the interpreter again and again.
        """
        self._gives_way, began = gives_way, _computed()
        try:
            self._publish()
        finally:
            self._not_before = self._clock() + _REST * (_computed() - began)

    def _publish(self) -> None:
        run, operations = self._run, self._run.fold.operations
        with run.lock:  # the picture of one moment; its rows are made without the lock
            taken, restless, meta = run.changed.take(run.fold), run.restless(), meta_of(run)
            new = {op: operations.get(op) for op in taken.ids | restless | self._restless}
            known = operations.known() if self._sealed is None else {}
        self._restless = restless
        sealed = self._sealed or self._begin(taken, known)
        for op, state in new.items():
            if state is None:
                self._rows.pop(op, None)  # a pin has retired it
            else:
                self._rows[op] = state
        self._tell_sources(taken)
        rest = taken.operations - len(self._rows)
        settled = [op for op in self._rows if op not in restless]
        if len(settled) > self.seal:
            sealed, rest = self._seal_rows(sealed, settled), rest + len(settled)
        sealed = replace(sealed, to=taken.seq, operations=rest, replayed=self._packed())
        self._mirror.publish(table_of(self._made(list(self._rows))), meta, sealed)
        if self._sealed is None:
            self._mirror.tidy(sealed)
        self._sealed = sealed
        run.place.published()

    def _begin(self, taken: Taken, known: Mapping[str, OperationState | int]) -> Sealed:
        """Go on from the segments that are there, or begin anew where they do not fit."""
        run, view = self._run, self._run.place.view
        run.place.fetch()
        try:
            ids, meta = Mirror.tail(view)
        except MirrorUnreadable:
            ids, meta = set(), {}
        sealed = Sealed.of(meta)
        later = {op: s for op, s in known.items() if last_seq_of(s) > sealed.to or op in ids}
        if (
            (meta.get("run_id"), meta.get("name")) == (run.id, run.name)
            and sealed.to <= taken.seq
            and len(known) - len(later) == sealed.operations
            and sealed.fits(view)
        ):
            self._rows.update(later)
            return replace(sealed, own=sealed.next)
        self._rows.update(known)
        first = max(numbers_in(view), default=0) + 1
        return Sealed(first=first, own=first)

    def _tell_sources(self, taken: Taken) -> None:
        """Note which rows were taken from the record, and which are not any more."""
        fold, operations, sources = self._run.fold, self._run.fold.operations, self._run.sources
        again = taken.ids if self._replayed else ()
        for op in (*taken.replayed, *again):
            first_seq = operations.first_seq(op)
            if first_seq:
                self._mark(fold.row(first_seq), sources.get(op) == "record")

    def _mark(self, row: int, replayed: bool) -> None:
        """Note whether a row was taken from the record."""
        at, bit = row >> 3, 1 << (row & 7)
        self._replayed.extend(bytes(max(0, at + 1 - len(self._replayed))))
        if bool(self._replayed[at] & bit) != replayed:
            self._replayed[at] ^= bit
            self._told = None

    def _packed(self) -> str:
        """Write which rows were taken from the record, where that has changed."""
        if self._told is None:
            self._told = packed(self._replayed)
        return self._told

    def _made(self, ops: Sequence[str]) -> list[tuple[Any, ...]]:
        """Give rows, and make those that are missing.

        A step that waits for the interpreter gets it after a few rows, and not after the 5 ms that
        Python gives a busy thread: it took three times as long while a publication was made.
        """
        rows: list[tuple[Any, ...]] = []
        made = 0
        for op in ops:
            row = self._rows[op]
            if isinstance(row, int):
                row = self._run.fold.operations.state_at(op, row)
            if isinstance(row, OperationState):
                made += 1
                if self._gives_way and made % _AT_ONCE == 0:
                    time.sleep(_TURN_S)
                row = mirror_row(self._run, row, restless=op in self._restless)
                self._rows[op] = row
            rows.append(row)
        return rows

    def _seal_rows(self, sealed: Sealed, settled: Sequence[str]) -> Sealed:
        """Put what is at rest into segments; nobody reads them before the tail names them."""
        run = self._run
        said = {"run_id": run.id, "name": run.name}
        for begin in range(0, len(settled), _LARGEST):
            part = settled[begin : begin + _LARGEST]
            size = self._mirror.seal(sealed.next, table_of(self._made(part)), said)
            sealed = replace(sealed, sizes=(*sealed.sizes, size))
            if self._sealed is not None:
                self._sealed = sealed  # whatever becomes of the tail, these are written
            for op in part:
                del self._rows[op]
        return sealed


def mirror_row(run: Trajectory, state: OperationState, *, restless: bool) -> tuple[Any, ...]:
    """Give the row of an operation, in the order of `OPERATION_COLUMNS`: what its view shows.

    Of one that is at rest, the records alone tell; that is most of them, and takes half the time.
    """
    op, intent, asked = state.id, state.intent, state.asked
    parent, name, key = _parts(op)
    shown = intent.get("shown")
    return (
        run.name,
        op,
        parent,
        name,
        key,
        run.fold.row_of(state),
        str(state.effect),
        views.outcome_of(run, state) if restless else str(OUTCOMES[state.effect, state.kind]),
        restless and run.is_live(op),
        state.attempt,
        run.sources.get(op, ""),
        str(intent.get("idempotency_key", "")),
        views.preview_of(run, state) or None,
        (views.error_of(state.error) or None) if state.error else None,
        ("; ".join(asked.get("changes", ())) or None) if asked else None,
        state.usd,
        state.tokens,
        state.started,
        state.ended,
        state.duration_s,
        state.last.get("outside_s"),
        state.last_seq,
        _as_json(shown) if shown else "{}",
        intent.get("wait"),
        state.is_pending,
        judged(state.kind, state.last) or None,
    )


def _parts(op: str) -> tuple[str, str, str | None]:
    """Give parent, name and key of an identity; most have no key, and nothing escaped."""
    if "%" in op or op.endswith("]") or "[" in op:
        place = parse(op)
        return place.parent, place.name, place.key
    parent, _, own = op.rpartition("/")
    return parent, own.partition("#")[0], None


def _as_json(shown: Mapping[str, str]) -> str:
    """Write a mapping of texts as `json.dumps` does, in a fraction of the time."""
    return "{" + ", ".join([f"{_quoted(k)}: {_quoted(v)}" for k, v in shown.items()]) + "}"


def meta_of(run: Operated) -> dict[str, str]:
    """Give what a run says of itself; its numbers are kept, not counted."""
    fold, doubted = run.fold, run.fold.doubted
    retired = Retired.of(fold)
    usd = usd_of(run, retired)
    checkable = sorted(n for n, o in list(run.reconcilers.items()) if o.reconcile)
    kernels = [o for o in list(fold.openings) if o.role == "runner"]
    lost = run.changed.unpriced or any(c.unpriced for c in list(fold.carried.values()))
    return {
        "name": run.name,
        "run_id": run.id,
        "status": run.status(),
        "epoch": str(run.epoch),
        **{outcome: str(count) for outcome, count in views.counts_of(run).items()},
        "usd": "" if usd is None else repr(usd),
        "opened": _iso(fold.born_at),
        "updated": _iso(fold.updated),
        "headline": run.headline,
        "expected": json.dumps(run.changed.expected),
        "doubt": str(doubted.get("why")) if doubted else "",
        "checkable": json.dumps(checkable),
        "at_least": "yes" if lost else "",
        "copied": "yes" if run.copied else "",
        "paused": paused_text(fold),
        "budget": permits.line_of(run),
        "submitted": "" if fold.submitted is None else "yes",
        "retired": retired.to_json(),
        "kernels": json.dumps([[o.epoch, _iso(o.ts), o.closed] for o in kernels[-_KERNELS:]]),
    }


def usd_of(run: Trajectory, retired: Retired) -> float | None:
    """Give what operations said that they cost, without what lost attempts had reserved."""
    units, priced = run.changed.spent()
    if not priced:
        return retired.usd
    return units / _PER_USD + (retired.usd or 0.0)


def _iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""
