"""The audit trail of a run: a row an operation, with all that was ever recorded of it.

It is an evaluation set as well: what went in, under which model and prompt, and what came out.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine.recorded import Recorded
from durable_nb.model.facets import FacetSet
from durable_nb.model.fold import OperationState
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Record
from durable_nb.model.spending import ENDS
from durable_nb.model.verdicts import RECORDED_AS
from durable_nb.values.redaction import MARK, is_secret_name

if TYPE_CHECKING:
    import pandas as pd

#: Columns of `run.audit()`, and keys of each line of `durable-nb audit`.
COLUMNS: Final = (
    "run", "run_id", "id", "parent", "name", "key", "effect", "outcome", "inputs",
    "input_digests", "result", "error", "model", "prompt", "facets", "usd", "tokens", "attempts",
    "verdicts", "questions",
)  # fmt: skip

#: Records that say what a person, a policy or a reconciler judged, the second answers included.
_JUDGED: Final = frozenset({*RECORDED_AS.values(), Kind.CONTESTED, Kind.UNDECIDED})
#: Records that close an attempt without its own word, or add a late one.
_CLOSES: Final = ENDS | {Kind.DUPLICATE}
#: How an attempt stands that has no end on record.
_OPEN: Final = {True: "under way", False: "no end on record"}
#: Facets that are columns of their own.
_COLUMNS_OF_THEIR_OWN: Final = ("model", "prompt")
_TOO_DEEP: Final = 50
#: Above it a whole number is shown as text: pandas and most readers of JSON take 64 bits.
_WHOLE_LIMIT: Final = 2**63


class _NotPlain(Exception):
    """A value has something in it that JSON does not know."""


def audit_rows(run: Recorded) -> list[dict[str, Any]]:
    """Give a row for each operation, in JSON's own types, redacted as previews are.

    Parameters
    ----------
    run : Recorded
        All records, also of what was taken back since.

    Returns
    -------
    list of dict
        With the keys of `COLUMNS`.
    """
    records: dict[str, list[Record]] = defaultdict(list)
    for record in run.records:
        records[record.op].append(record)
    said = run.declared()
    return [_row(run, s, records[s.id], said) for s in run.fold.ordered()]


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Give the rows as a DataFrame."""
    import pandas as pd  # half of the time that importing this package would take

    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(
    run: Recorded,
    state: OperationState,
    records: Sequence[Record],
    said: Mapping[tuple[str, str], str],
) -> dict[str, Any]:
    place, began = state.place, state.intent  # what it was made from, whatever was kept since
    facets = run.fold.known.get(str(began.get("facets")), FacetSet())
    return {
        "run": run.name,
        "run_id": run.fold.run_id,
        "id": state.id,
        "parent": place.parent,
        "name": place.name,
        "key": place.key,
        "effect": str(state.effect),
        "outcome": str(run.outcome(state)),
        "inputs": _redacted(dict(began.get("shown") or {})),
        "input_digests": dict(began.get("inputs") or {}),
        "result": _result(run, state),
        "error": _error(state.error),
        **{name: _declared(run, facets, said, name) for name in _COLUMNS_OF_THEIR_OWN},
        "facets": {
            name: {"shown": values.redact(part.shown), "digest": part.digest}
            for name, part in facets.parts.items()
        },
        "usd": state.usd,
        "tokens": state.tokens,
        "attempts": _attempts(records, state.id in run.live),
        "verdicts": [_verdict(r) for r in records if r.kind in _JUDGED],
        "questions": [
            {
                "seq": r.seq,
                "ts": _iso(r.ts),
                "changes": [values.redact(c) for c in r.body["changes"]],
                "cost": r.body.get("cost"),
            }
            for r in records
            if r.kind is Kind.ASKED and r.body["changes"]
        ],
    }


# -- attempts and verdicts ---------------------------------------------------------------------


def _attempts(records: Sequence[Record], live: bool) -> list[dict[str, Any]]:
    """List the attempts; what became of each is the last record that closes it."""
    found: list[dict[str, Any]] = []
    for record in records:
        body = record.body
        if record.kind is Kind.INTENDED:
            found.append(
                {
                    "number": body["attempt"],
                    "epoch": record.epoch,
                    "started": _iso(record.ts),
                    "ended": None,
                    "how": _OPEN[False],
                    "error": None,
                    "usd": None,
                    "tokens": None,
                    "duration_s": None,
                    "idempotency_key": body.get("idempotency_key") or None,
                }
            )
        elif record.kind in _CLOSES and found:
            number = body.get("attempt", found[-1]["number"])
            attempt = next((a for a in found if a["number"] == number), found[-1])
            attempt |= {"ended": _iso(record.ts), "how": str(record.kind)}
            attempt["error"] = _error(body.get("error"))
            for name in ("usd", "tokens", "duration_s"):
                if body.get(name) is not None:
                    attempt[name] = body[name]
    if live and found:
        found[-1]["how"] = _OPEN[True]
    return found


def _verdict(record: Record) -> dict[str, Any]:
    body = record.body
    return {
        "kind": str(body.get("verdict") or record.kind),
        "stands": record.kind is not Kind.CONTESTED,
        "actor": body.get("actor"),
        "by": body.get("by"),
        "reason": values.redact(str(body.get("reason") or "")),
        "evidence": values.redact(str(body.get("evidence") or "")),
        "changes": [values.redact(c) for c in body.get("changes") or ()],
        "ts": _iso(record.ts),
        "seq": record.seq,
    }


def _error(error: Mapping[str, Any] | None) -> str | None:
    said = [str(v) for v in ((error or {}).get("type"), (error or {}).get("message")) if v]
    return values.redact(": ".join(said)) or None


def _iso(moment: datetime) -> str:
    return moment.isoformat()


# -- values ------------------------------------------------------------------------------------


def _result(run: Recorded, state: OperationState) -> Any:
    """Give a result as JSON where it is plain, a large one by size and digest, else as shown."""
    if state.result is None:
        return None
    refs = values.text_refs(state.result)
    if refs:
        stored = [{"sha256": sha256, "size": size} for sha256, size in refs]
        return {"shown": run.shown(state), "artifacts": stored}
    plain = _plain(run, state.result)
    return run.shown(state) if plain is _MISSING else plain


def _declared(
    run: Recorded, facets: FacetSet, said: Mapping[tuple[str, str], str], name: str
) -> Any:
    """Give a facet by its value where the run declared it, else as it was shown."""
    part = facets.parts.get(name)
    if part is None:
        return None
    text = said.get((name, part.digest))
    plain = _MISSING if text is None else _plain(run, text)
    return values.redact(part.shown) if plain is _MISSING else plain


_MISSING: Final = object()


def _plain(run: Recorded, text: str) -> Any:
    """Decode a value that JSON knows, redacted; `_MISSING` for any other."""
    try:
        return _redacted(values.decode(text, run.artifacts))
    except Exception:  # a class that is not defined here, a lost artifact, or no plain value
        return _MISSING


def _redacted(value: Any, depth: int = 0) -> Any:
    """Give a plain value without what looks like a secret.

    Raises
    ------
    _NotPlain
        Something in it is none of JSON's own types.
    """
    if depth > _TOO_DEEP:
        raise _NotPlain
    if value is None or type(value) is bool:
        return value
    if type(value) is int and abs(value) < _WHOLE_LIMIT:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is str:
        return values.redact(value)
    if type(value) in (list, tuple):
        return [_redacted(item, depth + 1) for item in value]
    if type(value) is dict and all(type(name) is str for name in value):
        return {
            name: MARK if is_secret_name(name) and item else _redacted(item, depth + 1)
            for name, item in value.items()
        }
    raise _NotPlain


# -- files -------------------------------------------------------------------------------------


def to_jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as JSON, one a line."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def to_parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Write rows as a Parquet file; what has parts of its own is JSON text in it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"usd": pa.float64(), "tokens": pa.int64()}
    arrays = [
        pa.array([_cell(row[name], name) for row in rows], kinds.get(name, pa.string()))
        for name in COLUMNS
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(zip(COLUMNS, arrays, strict=True))), sink)
    return bytes(sink.getvalue().to_pybytes())


#: Columns that are text in a Parquet file because their values have parts, or any type.
_AS_JSON: Final = frozenset(
    {"inputs", "input_digests", "result", "facets", "attempts", "verdicts", "questions"}
)


def _cell(value: Any, name: str) -> Any:
    if value is None or name in {"usd", "tokens"}:
        return value
    if name in _AS_JSON or not isinstance(value, str):
        return json.dumps(value, allow_nan=False)
    return value.encode("utf-8", "backslashreplace").decode()  # Arrow refuses lone surrogates
