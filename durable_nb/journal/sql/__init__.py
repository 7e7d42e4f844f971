"""SQL statements, kept apart from the code and loaded by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (\w+)[ \t]*\n", re.MULTILINE)


@cache
def queries(file: str) -> Mapping[str, str]:
    """Load the statements of `<file>.sql`, by name, without their comments.

    Raises
    ------
    ValueError
        If a name occurs twice or a statement has no describing comment.
    """
    text = resources.files(__package__).joinpath(f"{file}.sql").read_text("utf-8")
    parts = _NAME.split(text)
    found: dict[str, str] = {}
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        lines = block.strip().splitlines()
        if name in found or not lines or not lines[0].startswith("--"):
            raise ValueError(f"{file}.sql: {name} is a duplicate or lacks a describing comment")
        found[name] = "\n".join(line for line in lines if not line.startswith("--"))
    return MappingProxyType(found)
