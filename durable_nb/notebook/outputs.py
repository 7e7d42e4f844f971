"""What a cell shows: recorded in its final state while it is shown live, and shown again later.

Streams, displays, their updates and clearings are noted as IPython passes them on. A replay shows
text and PNG images; what a front end could run code from (HTML, SVG, JavaScript and the like) only
with a signature which says that this user recorded it there, else its text.
"""

from __future__ import annotations

import base64
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from durable_nb import values

#: Characters kept of a stream: this much of its head, and as much of its tail.
KEPT: Final = 32 * 1024
#: Bytes kept of all displays of a cell; a larger one leaves its text.
KEPT_DISPLAYS: Final = 4 * 1024 * 1024

_TEXT: Final = "text/plain"
_PNG: Final = "image/png"
_WIDGET: Final = "application/vnd.jupyter.widget-view+json"
#: Shown whoever recorded it.
_PLAIN: Final = (_TEXT, _PNG)
#: Shown where this user signed it.
_RICH: Final = (
    "text/html", "text/markdown", "text/latex", "image/svg+xml", "application/javascript",
)  # fmt: skip
#: Kept in the record.
_RECORDED: Final = (*_PLAIN, *_RICH)


class _Stream:
    """Text written to stdout or stderr: its head, its tail, and how much lay between."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._in_head = self._in_tail = self._lost = 0

    def write(self, text: str) -> None:
        room = KEPT - self._in_head
        if room > 0:
            self._head.append(text[:room])
            self._in_head += len(text[:room])
            text = text[room:]
        if not text:
            return
        self._tail.append(text)
        self._in_tail += len(text)
        while self._in_tail - len(self._tail[0]) >= KEPT:
            gone = self._tail.popleft()
            self._in_tail -= len(gone)
            self._lost += _bytes(gone)

    def as_dict(self) -> dict[str, Any]:
        head, tail, lost = "".join(self._head), "".join(self._tail), self._lost
        if len(tail) > KEPT:
            lost += _bytes(tail[:-KEPT])
            tail = tail[-KEPT:]
        middle = f"\n[… {lost:,} bytes are not in the record …]\n" if lost else ""
        whole = {"type": "stream", "name": self.name, "text": settle(head + middle + tail)}
        return {**whole, "lost": lost} if lost else whole


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(slots=True)
class _Display:
    data: dict[str, Any]
    display_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"type": "display", "data": dict(self.data)}


def settle(text: str) -> str:
    """Show what a progress bar ends with: what follows a carriage return replaces the line."""
    if "\r" not in text:
        return text
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown)
    return "\n".join(lines)


@dataclass(slots=True)
class _Patch:
    """One method of one object, replaced for a while."""

    owner: Any
    name: str
    mine: Callable[..., Any]
    before: Any = None

    def put(self) -> None:
        self.before = vars(self.owner).get(self.name)
        setattr(self.owner, self.name, self.mine)

    def take_back(self) -> None:
        if vars(self.owner).get(self.name) is not self.mine:
            return  # somebody patched it over ours, and will put ours back to no effect
        if self.before is None:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


@dataclass(slots=True)
class Capture:
    """Notes what one cell shows, from `start` to `stop`; everything is still shown."""

    shell: Any
    _items: list[_Stream | _Display] = field(default_factory=list)
    _patches: list[_Patch] = field(default_factory=list)
    _clear_next: bool = False
    _on: bool = False

    def start(self) -> None:
        """Begin to note."""
        publisher, hook = self.shell.display_pub, self.shell.displayhook
        self._patches = [
            *self._stream_patches(),
            _Patch(publisher, "publish", self._publisher(publisher.publish)),
            _Patch(publisher, "clear_output", self._clearer(publisher.clear_output)),
            _Patch(hook, "write_format_data", self._resulter(hook.write_format_data)),
        ]
        for patch in self._patches:
            patch.put()
        self._on = True

    def stop(self) -> list[dict[str, Any]]:
        """End noting; give the outputs in their final state."""
        _flush_figures()
        self._on = False
        for patch in reversed(self._patches):
            patch.take_back()
        self._patches = []
        return [_redacted(output) for output in _limited(self._items)]

    # -- what IPython passes on ----------------------------------------------------------

    def _stream_patches(self) -> Iterator[_Patch]:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if hasattr(stream, "__dict__"):
                yield _Patch(stream, "write", self._writer(name, stream.write))

    def _writer(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def noted(text: str, *args: Any, **kwargs: Any) -> Any:
            written = write(text, *args, **kwargs)
            shell = self.shell
            # in a terminal, displays and tracebacks go to stdout too: they are noted elsewhere
            elsewhere = (
                getattr(shell.displayhook, "is_active", False)
                or getattr(shell.display_pub, "is_publishing", False)
                or getattr(shell, "showing_traceback", False)
            )
            if self._on and not elsewhere and isinstance(text, str) and text:
                self._stream(name).write(text)
            return written

        return noted

    def _stream(self, name: str) -> _Stream:
        self._before_output()
        last = self._items[-1] if self._items else None
        if not isinstance(last, _Stream) or last.name != name:
            last = _Stream(name)
            self._items.append(last)
        return last

    def _publisher(self, publish: Callable[..., Any]) -> Callable[..., Any]:
        def noted(
            data: Any, metadata: Any = None, *args: Any, transient: Any = None,
            update: bool = False, **kwargs: Any,
        ) -> Any:  # fmt: skip
            display_id = (transient or {}).get("display_id")
            if self._on and isinstance(data, dict):
                self._display(data, display_id, update)
            return publish(data, metadata, *args, transient=transient, update=update, **kwargs)

        return noted

    def _display(self, data: Mapping[str, Any], display_id: str | None, update: bool) -> None:
        kept = recorded(data)
        same = [i for i in self._items if isinstance(i, _Display) and display_id is not None]
        for item in same:
            if item.display_id == display_id:
                item.data = kept
        if not update:
            self._before_output()
            self._items.append(_Display(kept, display_id))

    def _clearer(self, clear: Callable[..., Any]) -> Callable[..., Any]:
        def noted(wait: bool = False) -> Any:
            if self._on and wait:
                self._clear_next = True
            elif self._on:
                self._items.clear()
            was, self._on = self._on, False  # a terminal clears by writing control characters
            try:
                return clear(wait)
            finally:
                self._on = was

        return noted

    def _resulter(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def noted(format_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
            if self._on:
                self._before_output()
                self._items.append(_Display(recorded(format_dict)))
            return write(format_dict, *args, **kwargs)

        return noted

    def _before_output(self) -> None:
        if self._clear_next:
            self._clear_next = False
            self._items.clear()


def recorded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of a display what can be shown again; of a widget its text."""
    wanted = (_TEXT,) if _WIDGET in data else _RECORDED
    kept = {}
    for mime in wanted:
        value = data.get(mime)
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode("ascii")
        if isinstance(value, str):
            kept[mime] = value
    return kept


def _limited(items: list[_Stream | _Display]) -> Iterator[dict[str, Any]]:
    """Give the outputs; once displays exceed their limit, their text only, cut."""
    total = 0
    for item in items:
        output = item.as_dict()
        if isinstance(item, _Display):
            total += sum(map(len, item.data.values()))
            if total > KEPT_DISPLAYS:
                text = item.data.get(_TEXT, "")
                lost = sum(map(_bytes, item.data.values())) - _bytes(text[:KEPT])
                note = f"\n[… {lost:,} bytes of this output are not in the record …]"
                output["data"] = {_TEXT: text[:KEPT] + note}
        if item_is_empty(output):
            continue
        yield output


def _redacted(output: dict[str, Any]) -> dict[str, Any]:
    """Take secrets out of what is kept; out of markup only what tells by its own shape."""
    if "text" in output:
        return {**output, "text": values.redact(output["text"])}
    data = {
        mime: values.redact(text) if mime == _TEXT else values.redact_tokens(text)
        for mime, text in output["data"].items()
        if mime != _PNG
    }
    return {**output, "data": {**output["data"], **data}}


def item_is_empty(output: Mapping[str, Any]) -> bool:
    """Tell whether an output has nothing to show."""
    return not (output.get("text") or output.get("data"))


def _flush_figures() -> None:
    """Show figures that matplotlib would show after the cell, while they can still be noted."""
    backend = sys.modules.get("matplotlib_inline.backend_inline")
    if backend is not None:
        backend.flush_figures()


def signed(outputs: list[dict[str, Any]], context: str) -> list[dict[str, Any]]:
    """Sign what could run code when it is shown again; `context` is the run and the operation."""
    return [
        {**output, "signature": values.sign(context, output["data"])}
        if any(mime in _RICH for mime in output.get("data", ()))
        else output
        for output in outputs
    ]


def show(outputs: list[Mapping[str, Any]], shell: Any, context: str) -> bool:
    """Show recorded outputs: streams as streams, displays as far as they are trusted.

    Returns
    -------
    bool
        Whether something was shown as plain text, because this user did not sign it.
    """
    distrusted = False
    for output in outputs:
        if output.get("type") == "stream":
            stream = sys.stderr if output.get("name") == "stderr" else sys.stdout
            stream.write(str(output.get("text", "")))
            continue
        data = {str(mime): str(value) for mime, value in output.get("data", {}).items()}
        shown = {mime: value for mime, value in data.items() if mime in _PLAIN}
        if len(shown) < len(data):
            if values.is_signed(context, data, output.get("signature")):
                shown = {mime: value for mime, value in data.items() if mime in _RECORDED}
            else:
                distrusted = True
        if shown:
            shell.display_pub.publish(shown, {})
    return distrusted
