"""Identity of operations: `parent/name[key]#n`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

_ESCAPED: Final = {c: f"%{ord(c):02X}" for c in "%/[]#"}
_PART: Final = re.compile(r"^(?P<name>[^/\[\]#]*)(?:\[(?P<key>[^/\[\]#]*)\])?#(?P<n>[1-9][0-9]*)$")


def escape(text: str) -> str:
    """Percent-escape what has a meaning in an identity, and control characters."""
    if text.isalnum() and text.isascii():
        return text
    return "".join(
        _ESCAPED.get(c) or (f"%{ord(c):02X}" if c < " " or c == "\x7f" else c) for c in text
    )


def unescape(text: str) -> str:
    """Undo `escape`."""
    if "%" not in text:
        return text
    return re.sub(r"%([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), text)


def identity(parent: str, name: str, key: str | None, n: int) -> str:
    """Build an identity.

    Parameters
    ----------
    parent : str
        The parent's identity; "" at the root of a run.
    name, key : str
        As the user gave them; escaped here.
    n : int
        Occurrence of that name (and key) under that parent, from 1.
    """
    own = escape(name) if key is None else f"{escape(name)}[{escape(key)}]"
    return f"{parent}/{own}#{n}" if parent else f"{own}#{n}"


@dataclass(frozen=True, slots=True)
class Place:
    """An identity taken apart: `name` and `key` are as the user wrote them."""

    parent: str
    name: str
    key: str | None
    n: int


def named(op: str) -> str:
    """Give an identity without key and occurrence, as it stands: ``parent/name``."""
    parent, slash, own = op.rpartition("/")
    return f"{parent}{slash}{own.partition('#')[0].partition('[')[0]}"


def is_within(op: str, outer: str) -> bool:
    """Tell whether an identity is that operation or branch itself, or below it."""
    return op == outer or op.startswith(f"{outer}/")


def parse(op: str) -> Place:
    """Take an identity apart; `ValueError` if it is none."""
    parent, _, own = op.rpartition("/")
    found = _PART.match(own)
    if found is None:
        raise ValueError(f"{op!r} is not an operation id (parent/name[key]#n)")
    key = found["key"]
    return Place(
        parent, unescape(found["name"]), None if key is None else unescape(key), int(found["n"])
    )


def is_id(text: str) -> bool:
    """Tell whether a text is the identity of an operation."""
    return all(_PART.match(part) for part in text.split("/"))


def idempotency_key(run_id: str, op: str, generation: int) -> str:
    """Derive the key that an effect carries: stable over attempts, kernels and a denial.

    It changes with the generation, which invalidate and rerun raise: otherwise the provider would
    hand back the old effect.
    """
    digest = hashlib.sha256(f"{run_id}\n{op}\n{generation}".encode("utf-8", "surrogatepass"))
    return f"dnb-{digest.hexdigest()[:32]}"
