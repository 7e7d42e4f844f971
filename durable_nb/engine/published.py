"""The view that another process makes of what the owner of a run publishes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from durable_nb.engine import views
from durable_nb.engine.retired import Retired
from durable_nb.engine.views import OperationView, StatusView
from durable_nb.journal import Mirror, Place
from durable_nb.model.fold import Opening


def row_of(view: OperationView) -> dict[str, Any]:
    """Give one operation whole, in JSON's own types."""
    whole = {**view.as_dict(), "inputs": dict(view.inputs), "last_seq": view.last_seq}
    whole |= {"outside_s": view.outside_s, "decided": view.decided or None}
    return {
        name: v.astimezone(UTC).isoformat() if isinstance(v, datetime) else v
        for name, v in whole.items()
    }


def view_of_row(row: Mapping[str, Any]) -> OperationView:
    """Make the view of an operation from what another process tells of it.

    Parameters
    ----------
    row : Mapping
        From `row_of`, or a row of the mirror. Its result is a preview: there is no value in it.
    """
    inputs = row.get("inputs") or {}
    if isinstance(inputs, str):
        inputs = json.loads(inputs)
    return OperationView(
        run=str(row["run"]),
        id=str(row["id"]),
        parent=str(row["parent"] or ""),
        name=str(row["name"]),
        key=row["key"],
        row=int(row["row"] or 0),
        effect=str(row["effect"]),
        outcome=str(row["outcome"]),
        live=bool(row["live"]),
        attempt=int(row["attempt"] or 0),
        source=str(row["source"] or ""),
        idempotency_key=str(row["idempotency_key"] or ""),
        inputs=dict(inputs),
        error=str(row["error"] or ""),
        usd=row["usd"],
        tokens=row["tokens"],
        started=_moment(row["started"]),
        ended=_moment(row["ended"]),
        duration_s=row["duration_s"],
        last_seq=int(row["last_seq"] or 0),
        wait=str(row.get("wait") or ""),
        waits=bool(row.get("waits")),
        decided=str(row.get("decided") or ""),
        changes=(row["changes"],) if row["changes"] else (),
        result_preview=str(row["result"] or ""),
        outside_s=row.get("outside_s"),
    )


def published(place: Place) -> StatusView:
    """Give the view of a run as its owner published it last.

    Raises
    ------
    MirrorUnreadable
        There is none, or it is damaged.
    """
    place.fetch()
    rows, meta = Mirror.read(place.view)
    holder = place.probe()
    return views.assemble(
        [view_of_row(row) for row in sorted(rows, key=lambda row: row["row"] or math.inf)],
        run=meta.get("name") or place.name,
        status=place.standing(meta.get("status")),
        headline=meta.get("headline", ""),
        expected=json.loads(meta.get("expected") or "[]"),
        doubt=meta.get("doubt", ""),
        at_least=bool(meta.get("at_least")),
        copied=bool(meta.get("copied")),
        paused=meta.get("paused", ""),
        budget=meta.get("budget", ""),
        checkable=frozenset(json.loads(meta.get("checkable") or "[]")),
        held_by="" if holder is None or not holder.live else holder.who,
        born=_moment(meta.get("opened")),
        updated=_moment(meta.get("updated")),
        retired=Retired.read(meta.get("retired", "")),
        kernels=tuple(
            Opening(int(epoch), datetime.fromisoformat(ts), "runner", closed=bool(closed))
            for epoch, ts, closed in json.loads(meta.get("kernels") or "[]")
        ),
    )


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        return datetime.fromisoformat(value) if value else None
    return value if isinstance(value, datetime) else None
