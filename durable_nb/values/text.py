"""Values as text and back: `encode`, `decode` and `text_refs`.

Nothing here recurses into user data, and nothing that is loaded can run code: there is no pickle,
classes are looked up by name and instances are rebuilt without their `__init__`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Final, Protocol

from durable_nb.model.errors import DurableError, NotRecordable
from durable_nb.values.build import Unbuilt, build
from durable_nb.values.direct import DECLINED, read_direct, write_direct
from durable_nb.values.dissect import dissect
from durable_nb.values.errors import TextDamaged, ValueNotLoadable
from durable_nb.values.nodes import INLINE_LIMIT, from_json, to_json
from durable_nb.values.parts import type_name
from durable_nb.values.plain import read_json, write_json
from durable_nb.values.registry import Registry, default_registry
from durable_nb.values.same import difference
from durable_nb.values.trail import Trail


class Readable(Protocol):
    """Where the bytes behind a text are read."""

    def get(self, sha256: str) -> bytes:
        """Read bytes back, checked; raises `ArtifactMissing` or `ArtifactDamaged`."""
        ...


class Artifacts(Readable, Protocol):
    """Where bytes live that are too large for a record, addressed by their SHA-256."""

    def put(self, data: bytes) -> str:
        """Store bytes, durably; give their SHA-256 in hexadecimal."""
        ...


class _Staged:
    """Blobs of a value that is not proven yet: kept in memory until it is."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Keep bytes."""
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs.setdefault(sha256, data)
        return sha256

    def get(self, sha256: str) -> bytes:
        """Give them back."""
        return self.blobs[sha256]


#: Stands in a text that holds tags. Quotes inside JSON strings are escaped, so no user text does.
_TAGGED: Final = '"$":'

#: An artifact in the text. Quotes inside JSON strings are escaped, so no user text matches.
_REFERENCE: Final = re.compile(r'\{"\$":"artifact","sha256":"([0-9a-f]{64})","size":(\d+)')
_CARRIED: Final = re.compile(r'"of":"text","refs":\[((?:\["[0-9a-f]{64}",\d+\],?)*)\]\}')
_PAIR: Final = re.compile(r'\["([0-9a-f]{64})",(\d+)\]')


def encode(
    value: Any, artifacts: Artifacts, *, name: str = "result", registry: Registry | None = None
) -> str:
    """Write a value as JSON text that `decode` brings back equal and of the same type.

    Parameters
    ----------
    value : object
        Any value of a covered type.
    artifacts : Artifacts
        Takes blobs and texts over 64 KB; they are stored when this returns.
    name : str
        What errors call the value.
    registry : Registry, optional
        Table of codecs; default: the one that `register_codec` adds to.

    Returns
    -------
    str
        ASCII JSON. Plain trees look like plain JSON, all else is `{"$": tag, ...}`.

    Raises
    ------
    NotRecordable
        Some part does not survive the round trip. Nothing was stored.
    """
    text, _ = _written(value, artifacts, name, registry or default_registry())
    return _carried(text, artifacts)


def round_trip(
    value: Any, artifacts: Artifacts, *, name: str = "result", registry: Registry | None = None
) -> tuple[str, Any]:
    """Write a value as `encode` does, and give what `decode` makes of the text as well.

    The value that was read to be compared is handed on, so that nothing is read twice. What lies
    in artifacts is read from there: what was stored is looked at before it is counted on.

    Parameters
    ----------
    value, artifacts, name, registry
        As for `encode`.

    Returns
    -------
    (text, value)
        The value is an equal one of the same type, and shares nothing that can change with the
        original.

    Raises
    ------
    NotRecordable
        Some part does not survive the round trip. Nothing was stored.
    ArtifactMissing, ArtifactDamaged
        The bytes that were stored are not there.
    """
    rows = registry or default_registry()
    text, again = _written(value, artifacts, name, rows)
    carried = _carried(text, artifacts)
    if again is not DECLINED and not text_refs(carried):
        return carried, again
    del again  # before it is read once more: it may be large
    return carried, decode(carried, artifacts, registry=rows)


def _written(value: Any, artifacts: Artifacts, name: str, rows: Registry) -> tuple[str, Any]:
    """Write a value and prove it; give what was read, or `DECLINED` where nothing had to be."""
    direct = write_direct(value, rows)
    if direct is not None:
        if _TAGGED not in direct:  # JSON needs no proof
            return direct, DECLINED
        again = read_direct(direct, rows, prove=True)
        if again is not DECLINED and _is_same(value, again, direct, rows):
            return direct, again
    staged = _Staged()
    dissected = dissect(value, Trail(name), rows, staged.put)
    text = write_json(to_json(dissected.table))
    try:
        again = _decode(text, staged, rows)
    except Unbuilt as failure:
        trail, kind = dissected.origin(failure.index)
        raise NotRecordable(trail.path(), type_name(kind), _reason(failure.reason)) from failure
    differs = difference(value, again, Trail(name), rows)
    if differs is not None:
        raise NotRecordable(differs.path, differs.found, differs.advice)
    for blob in staged.blobs.values():
        artifacts.put(blob)
    return text, again


def _is_same(value: Any, again: Any, text: str, rows: Registry) -> bool:
    """Say whether a value that was read directly is the one that was written.

    Its typed parts were compared by type and content as they were read, and what JSON carries it
    carries with its type. The whole is equal as Python sees it or, since NaN equals nothing, is
    written as the same text, which holds all that equality looks at.
    """
    try:
        if type(again) is type(value) and again == value:
            return True
    except Exception:  # a signaling NaN compares with nothing
        pass
    return write_direct(again, rows) == text


def _reason(cause: Exception) -> str:
    """Say why a value that was just written could not be read back."""
    advice = getattr(cause, "advice", "")
    why = (
        cause.reason if isinstance(cause, ValueNotLoadable) else f"{type(cause).__name__}: {cause}"
    )
    return f"reading it back failed ({why[:300]})" + (f"; {advice}" if advice else "")


def _carried(text: str, artifacts: Artifacts) -> str:
    """Give a text, or where it is long a reference to the artifact that carries it."""
    if len(text) <= INLINE_LIMIT:
        return text
    data = text.encode()
    refs = [[sha256, size] for sha256, size in text_refs(text)]
    reference = {"$": "artifact", "sha256": artifacts.put(data), "size": len(data), "of": "text"}
    return write_json({**reference, "refs": refs})


def decode(text: str, artifacts: Readable, *, registry: Registry | None = None) -> Any:
    """Read a value back; no code from the text can run.

    Parameters
    ----------
    text : str
        What `encode` gave.
    artifacts : Artifacts
        Where its blobs are.
    registry : Registry, optional
        Table of codecs; default: the one that `register_codec` adds to.

    Returns
    -------
    object
        An equal value of the same type.

    Raises
    ------
    WaitingForClass
        A class of the notebook is not defined yet.
    ValueNotLoadable
        A class changed, a codec is missing, or the text is damaged.
    ArtifactMissing, ArtifactDamaged
        The bytes behind it are gone or not those that were recorded.
    """
    if _TAGGED not in text:  # most texts: nothing but plain JSON
        return _parse(text)
    try:
        return _decode(text, artifacts, registry or default_registry())
    except Unbuilt as failure:
        if isinstance(failure.reason, DurableError):
            raise failure.reason from failure.reason.__cause__
        what = f"value of type {failure.tag}"
        raise ValueNotLoadable(
            what, f"{type(failure.reason).__name__}: {failure.reason}"
        ) from failure.reason


def _decode(text: str, artifacts: Readable, registry: Registry) -> Any:
    """Read a value back, or say which node failed."""
    if _TAGGED not in text:
        return _parse(text)
    direct = read_direct(text, registry)
    if direct is not DECLINED:
        return direct
    tree = _parse(text)
    if isinstance(tree, dict) and tree.get("of") == "text" and tree.get("$") == "artifact":
        text = artifacts.get(str(tree.get("sha256"))).decode()
        direct = read_direct(text, registry)
        if direct is not DECLINED:
            return direct
        tree = _parse(text)
    try:
        table = from_json(tree)
    except ValueError as cause:
        raise TextDamaged(str(cause)) from cause
    return build(table, registry, artifacts.get)


def _parse(text: str) -> Any:
    """Parse JSON, without the constants that JSON does not have."""
    try:
        return read_json(text)
    except (ValueError, RecursionError) as cause:
        raise TextDamaged(str(cause)) from cause


def text_refs(text: str) -> list[tuple[str, int]]:
    """List the artifacts that a text refers to, so that their presence can be checked unread.

    Parameters
    ----------
    text : str
        What `encode` gave.

    Returns
    -------
    list of (str, int)
        SHA-256 and size in bytes, each once, in order of appearance.
    """
    if '{"$":"artifact"' not in text:
        return []
    return list(dict.fromkeys(_references(text)))


def _references(text: str) -> Iterator[tuple[str, int]]:
    """Find references, and those that a carried text lists."""
    for found in _REFERENCE.finditer(text):
        yield found[1], int(found[2])
    carried = _CARRIED.search(text)
    if carried is not None:
        for pair in _PAIR.finditer(carried[1]):
            yield pair[1], int(pair[2])
