"""How the panel says things: texts that can be sent, short ones, times, and the note of a row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from durable_nb.engine.tree import about
from durable_nb.engine.usage import outside_text
from durable_nb.engine.views import OperationView
from durable_nb.model.outcomes import Outcome

#: How much of one input, error or detail is sent to the front end, in characters.
LIMIT: Final = 2000


def plain(text: str) -> str:
    """Give a text that can be sent: lone surrogates, which UTF-8 has no bytes for, as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def short(text: str, limit: int = LIMIT) -> str:
    """Cut a text, and make it one that can be sent."""
    safe = plain(text)
    return safe if len(safe) <= limit else f"{safe[:limit]}… ({len(safe):,} characters)"


def moment(at: datetime | None) -> str:
    """Give a time as the front end parses it, in UTC."""
    if at is None:
        return ""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def spent(usd: float | None, tokens: int | None, *, digits: int = 4) -> str:
    """Say what something has cost; "" where nobody said."""
    parts = [] if usd is None else [f"${usd:.{digits}f}"]
    if tokens is not None:
        parts.append(f"{tokens:,} tokens")
    return ", ".join(parts)


def source(view: OperationView) -> str:
    """Say where a result is from: ``"ran"``, ``"record"``, ``"verdict"``, or "" if not reached."""
    if view.source != "record" and view.decided and view.outcome == Outcome.COMPLETED:
        return "verdict"
    return view.source


def note(view: OperationView) -> str:
    """Say of an operation what no other column of the table does."""
    if view.changes and view.outcome != Outcome.UNKNOWN and not view.waits:
        return "changed: keep or rerun?"
    return plain(about(view)) or outside_text(view.outside_s)
