"""Values: as recorded text and back, their digests and previews, and large ones on disk."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from durable_nb.values.digests import digest
from durable_nb.values.errors import (
    ArtifactDamaged,
    ArtifactMissing,
    ArtifactStoreDamaged,
    NotDigestible,
    TextDamaged,
    ValueNotLoadable,
    WaitingForClass,
)
from durable_nb.values.failures import describe_error, rebuild_error
from durable_nb.values.literals import read_literal, write_literal
from durable_nb.values.parts import Codec
from durable_nb.values.previews import one_line, preview, preview_of_text
from durable_nb.values.redaction import redact, redact_tokens
from durable_nb.values.registry import Registry, default_registry, register_codec
from durable_nb.values.secrets import find_secret
from durable_nb.values.signing import is_signed, sign
from durable_nb.values.text import Artifacts, decode, encode, round_trip, text_refs

if TYPE_CHECKING:
    from durable_nb.values.artifacts import DiskArtifacts, mend_index

__all__ = [
    "ArtifactDamaged",
    "ArtifactMissing",
    "ArtifactStoreDamaged",
    "Artifacts",
    "Codec",
    "DiskArtifacts",
    "NotDigestible",
    "Registry",
    "TextDamaged",
    "ValueNotLoadable",
    "WaitingForClass",
    "decode",
    "default_registry",
    "describe_error",
    "digest",
    "encode",
    "find_secret",
    "is_signed",
    "mend_index",
    "one_line",
    "preview",
    "preview_of_text",
    "read_literal",
    "rebuild_error",
    "redact",
    "redact_tokens",
    "register_codec",
    "round_trip",
    "sign",
    "text_refs",
    "write_literal",
]


def __getattr__(name: str) -> Any:
    """Bring diskcache and sqlite3 where they are used first: opening a run does."""
    if name not in {"DiskArtifacts", "mend_index"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module("durable_nb.values.artifacts"), name)
    return found
