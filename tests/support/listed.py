"""Reads the rows that a panel sends, as its front end does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from durable_nb.notebook.panel.rows import Shape


class Listed:
    """The rows of a front end: all of them once, and then what patches say."""

    def __init__(self) -> None:
        self.version = -1
        self.rows: dict[str, dict[str, Any]] = {}

    def take(self, sent: Mapping[str, Any]) -> bool:
        """Take all rows, or a patch; `False` if one before it is missing."""
        if "base" not in sent:
            self.version = sent["version"]
            self.rows = {row["id"]: row for row in rows_of(sent)}
            return True
        if sent["base"] != self.version:
            return False
        self.version = sent["version"]
        fresh = {row["id"]: row for row in rows_of(sent)}
        known = {id: fresh.get(id, row) for id, row in self.rows.items()}
        order = [id for id in self.rows if id not in sent["removed"]]
        for id, after in zip(sent["id"], sent["after"], strict=True):
            if after != 0:
                order.insert(0 if after is None else order.index(after) + 1, id)
        self.rows = {id: {**known, **fresh}[id] for id in order}
        return True


def rows_of(sent: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read columns: a mapping for each row."""
    found: list[dict[str, Any]] = []
    moment, above = 0, [(-1, "")]
    for n, label in enumerate(sent["label"]):
        shape = Shape(*sent["shapes"][sent["shape"][n]])
        step = sent["started"][n]
        moment += step or 0
        if "id" in sent:
            id = sent["id"][n]
        elif not shape.begun:
            id = f"?{label}"
        else:
            while above[-1][0] >= shape.depth:
                above.pop()
            id = f"{above[-1][1]}/{label}".lstrip("/")
            above.append((shape.depth, id))
        started = None if step is None else moment
        more = {"id": id, "label": label, "started": started, "took": sent["took"][n]}
        found.append({**shape._asdict(), **more})
    return found


def listed(panel: Any) -> list[dict[str, Any]]:
    """Give the rows that a page gets which opens now."""
    return rows_of(panel.table.get_state("rows")["rows"])
