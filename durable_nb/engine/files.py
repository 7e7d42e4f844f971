"""Declared files, as parts of what a result depends on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from durable_nb.model.facets import Part


def file_part(path: str | os.PathLike[str]) -> Part:
    """Give the content of a file, or of a folder, as a part."""
    place = Path(path)
    if place.is_dir():
        inner = sorted(p for p in place.rglob("*") if p.is_file())
        lines = [f"{p.relative_to(place)}\0{file_part(p).digest}" for p in inner]
        digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
        return Part(digest, f"folder of {len(inner)} files, sha256 {digest[:12]}…")
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        return Part("missing", "missing")
    digest = hashlib.sha256(data).hexdigest()
    return Part(digest, f"{len(data):,} bytes, sha256 {digest[:12]}…")
