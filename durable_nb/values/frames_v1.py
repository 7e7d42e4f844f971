"""Readers of the first form of frames, series and indexes: Parquet that pandas wrote whole."""

from __future__ import annotations

import base64
import io
import re
from typing import Any, Final

import pandas as pd

from durable_nb.values.parquet import footer
from durable_nb.values.parts import Parts

#: The key of Arrow's schema in the metadata of a Parquet file; its value follows as one byte for
#: the field, a length of seven bits a byte, and text in base64.
_SCHEMA: Final = re.compile(rb"ARROW:schema\x18([\x80-\xff]*[\x00-\x7f])", re.DOTALL)
#: Extension types that pandas itself registers, as a schema writes them: length and text.
_OF_PANDAS: Final = re.compile(rb"\x0d\0\0\0pandas\.period\0|\x0f\0\0\0pandas\.interval\0")


def _read(parts: Parts) -> Any:
    """Read the frame of a blob and put back what Parquet dropped."""
    blob = bytes(parts.blob or b"")
    _check(footer(blob))
    frame: Any = pd.read_parquet(io.BytesIO(blob), engine="pyarrow")
    if "freq" in parts.data:
        frame.index.freq = parts.data["freq"]
    return frame


def _check(metadata: bytes) -> None:
    """Refuse extension types of any other library, whose code would run to read them."""
    if metadata.count(b"ARROW:") != len(_SCHEMA.findall(metadata)):
        raise ValueError("a Parquet file whose schema cannot be told")
    schema = b""
    for found in _SCHEMA.finditer(metadata):
        size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[1]))
        schema += base64.b64decode(metadata[found.end() :][:size])
    if schema.count(b"ARROW:extension:name") != len(_OF_PANDAS.findall(schema)):
        raise ValueError("a Parquet file with types of another library")


def to_frame(parts: Parts) -> Any:
    """Read a frame."""
    frame = _read(parts)
    if parts.items:
        (frame.attrs,) = parts.items
    return frame


def to_series(parts: Parts) -> Any:
    """Read a series: a frame of one column."""
    series = _read(parts)["0"]
    series.name, series.attrs = parts.items
    return series


def to_index(parts: Parts) -> Any:
    """Read an index: that of a frame without columns."""
    return _read(parts).index
