"""Codec rows for numpy: dtype, shape and raw bytes; never a pickle."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from durable_nb.values.parts import CannotTake, Codec, Parts


def _dtype_to_json(dtype: Any) -> Any:
    """Write a dtype as numpy's own file format does."""
    if dtype.hasobject or dtype.kind == "T":
        raise CannotTake(f"numpy array of dtype {dtype}", "use a dtype of fixed size, or tolist()")
    if dtype.metadata:
        raise CannotTake("numpy dtype with metadata", "drop the metadata")
    return _lists(np.lib.format.dtype_to_descr(dtype))


def _lists(descr: Any) -> Any:
    """Turn tuples into lists, which JSON has; a descr nests no deeper than its dtype."""
    return [_lists(part) for part in descr] if isinstance(descr, (list, tuple)) else descr


def _tuples(descr: Any) -> Any:
    """Turn the fields of a descr back into tuples."""
    if isinstance(descr, str):
        return descr
    fields = []
    for name, kind, *shape in descr:
        title = tuple(name) if isinstance(name, list) else name
        fields.append((title, _kind(kind), *(tuple(size) for size in shape)))
    return fields


def _kind(kind: Any) -> Any:
    """Read the dtype of a field; a sub-array is `[dtype, [shape]]`, a record a list of fields."""
    if isinstance(kind, list) and len(kind) == 2 and isinstance(kind[1], list) and _sizes(kind[1]):
        return (_kind(kind[0]), tuple(kind[1]))
    return _tuples(kind)


def _sizes(value: list[Any]) -> bool:
    return all(type(size) is int for size in value)


def dtype_from_json(descr: Any) -> Any:
    """Read a dtype; anything that holds Python objects is refused."""
    dtype = np.lib.format.descr_to_dtype(_kind(descr))
    if dtype.hasobject:
        raise ValueError("a dtype of Python objects")
    return dtype


def _array(value: Any) -> Parts:
    """Take an array: object arrays by element, all others as raw bytes in C order."""
    data: dict[str, Any] = {"shape": list(value.shape)}
    if value.flags.f_contiguous and not value.flags.c_contiguous:
        data["order"] = "F"
    if not value.flags.writeable:
        data["readonly"] = True
    if value.dtype == object and value.dtype.kind == "O":
        return Parts({**data, "dtype": "O"}, tuple(value.ravel().tolist()))
    return Parts({**data, "dtype": _dtype_to_json(value.dtype)}, blob=value.tobytes())


def _array_content(value: Any) -> Parts:
    """Digest content and shape; how it lies in memory is no part of it."""
    parts = _array(value)
    data = {key: parts.data[key] for key in ("shape", "dtype")}
    return Parts(data, parts.items, blob=parts.blob)


def _to_array(parts: Parts) -> Any:
    shape = tuple(parts.data["shape"])
    if parts.data["dtype"] == "O":
        array = np.empty(len(parts.items), dtype=object)
        for place, item in enumerate(parts.items):
            array[place] = item
        array = array.reshape(shape)
    else:
        dtype = dtype_from_json(parts.data["dtype"])
        # bytearray: np.frombuffer over bytes would give an array that cannot be written to.
        array = np.ndarray(shape, dtype, buffer=bytearray(parts.blob or b""))
    if parts.data.get("order") == "F":
        array = np.asfortranarray(array)
    if parts.data.get("readonly"):
        array.flags.writeable = False
    return array


def _scalar(value: Any) -> Parts:
    return Parts({"dtype": _dtype_to_json(value.dtype)}, blob=value.tobytes())


def _to_scalar(parts: Parts) -> Any:
    dtype = dtype_from_json(parts.data["dtype"])
    return np.ndarray((), dtype, buffer=bytearray(parts.blob or b""))[()]


def _is_scalar(cls: type) -> bool:
    return issubclass(cls, np.generic) and cls.__module__ == "numpy"


def _is_dtype(cls: type) -> bool:
    return issubclass(cls, np.dtype)


ROWS: Final[tuple[Codec, ...]] = (
    Codec("numpy.ndarray", np.ndarray, _array, _to_array, digested=_array_content, mutable=True),
    Codec("numpy.scalar", _is_scalar, _scalar, _to_scalar),
    Codec(
        "numpy.dtype",
        _is_dtype,
        lambda v: Parts({"dtype": _dtype_to_json(v)}),
        lambda p: dtype_from_json(p.data["dtype"]),
    ),
)
