"""A run's panel in tests: what a click sends, and what a row says."""

from __future__ import annotations

from typing import Any

import pytest

import durable_nb as dnb
from durable_nb.engine.watched import Watched
from durable_nb.notebook.panel import actions, model


def watched(run: dnb.Run) -> Watched:
    return Watched(run.place)


def act(run: dnb.Run, click: dict[str, Any]) -> actions.Answer:
    return actions.act(watched(run), click)


def fail() -> None:
    raise TimeoutError("no answer")


def doubt(run: dnb.Run, name: str = "pay", **options: Any) -> None:
    with pytest.raises(dnb.UnknownOutcome):
        run.step(name, **options).call(fail)


def row(run: dnb.Run, op: str) -> dict[str, Any]:
    status = run.status_view()
    view = next(view for view in status.views if view.id == op)
    return model.detail_of(view, status.checkable)


def click(run: dnb.Run, action: str, op: str, **more: Any) -> dict[str, Any]:
    """What the front end sends for a row as it shows it now."""
    if action in {"confirm", "deny"}:
        more.setdefault("evidence", "seen in the shop")
    return {
        "request": f"{action}-{op}-{more}", "action": action, "op": op,
        "seq": row(run, op)["seq"], **more,
    }  # fmt: skip


def kinds(run: dnb.Run, op: str) -> list[str]:
    return [str(kind) for kind in run.history(op).kind]
