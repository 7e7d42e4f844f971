"""Codec rows for numpy: dtype, shape and raw bytes; never a pickle."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.lib.recfunctions

from durable_nb.values.parts import CannotTake, Codec, Parts, Shape

#: Bytes of a long double of an x86 processor, whose other bytes hold whatever was there before.
_X87: Final = 10
_PADDED: Final = (np.longdouble, np.clongdouble) if np.finfo(np.longdouble).nmant == 63 else ()

_DTYPE_ADVICE: Final = "use a dtype of fixed size, or tolist()"


def _dtype_to_json(dtype: Any) -> Any:
    """Write a dtype as numpy's own file format does, and whether its fields are aligned."""
    if dtype.hasobject or dtype.kind == "T":
        raise CannotTake(f"numpy array of dtype {dtype}", _DTYPE_ADVICE)
    if _has_metadata(dtype):
        raise CannotTake("numpy dtype with metadata", "drop the metadata")
    if dtype.names is None and dtype.subdtype is None:
        if np.dtype(dtype.str) != dtype:  # of another library, whose text says only its size
            raise CannotTake(f"numpy array of dtype {dtype}", "use a dtype of numpy itself")
        return dtype.str
    base, shape = dtype.subdtype or (dtype, ())
    descr = _fields_to_json(base) if base.names is not None else _dtype_to_json(base)
    return [descr, list(shape)] if shape else descr


def _fields_to_json(dtype: Any) -> Any:
    """Write a record dtype: as numpy's file format does where that is all of it, else in full."""
    try:
        descr = _lists(np.lib.format.dtype_to_descr(dtype))
        if repr(dtype_from_json(descr)) == repr(dtype):
            return descr
    except ValueError:  # fields that overlap or stand out of order
        pass
    places = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_dtype_to_json(place[0]) for place in places],
        "offsets": [place[1] for place in places],
        "titles": [place[2] if len(place) > 2 else None for place in places],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _has_metadata(dtype: Any) -> bool:
    """Say whether a dtype or one inside it carries metadata, which no text shows."""
    inner = [field[0] for field in (dtype.fields or {}).values()]
    inner += [dtype.subdtype[0]] if dtype.subdtype else []
    return bool(dtype.metadata) or any(map(_has_metadata, inner))


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
    return (_kind(kind[0]), tuple(kind[1])) if _is_sub_array(kind) else _tuples(kind)


def _is_sub_array(descr: Any) -> bool:
    if not isinstance(descr, list) or len(descr) != 2 or not isinstance(descr[1], list):
        return False
    return all(type(size) is int for size in descr[1])


def _in_full(descr: dict[str, Any]) -> Any:
    """Read a record dtype that was written in full."""
    spec: Any = {key: descr[key] for key in ("names", "offsets", "titles", "itemsize")}
    spec["formats"] = [dtype_from_json(kind) for kind in descr["formats"]]
    return np.dtype(spec, align=descr["aligned"])


def dtype_from_json(descr: Any) -> Any:
    """Read a dtype; anything that holds Python objects is refused."""
    if isinstance(descr, dict):
        dtype: Any = _in_full(descr)
    elif _is_sub_array(descr):
        dtype = np.dtype((dtype_from_json(descr[0]), tuple(descr[1])))
    else:
        dtype = np.lib.format.descr_to_dtype(_tuples(descr))
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
    return Parts({**data, "dtype": _dtype_to_json(value.dtype)}, blob=raw(value))


def raw(value: Any) -> bytes | memoryview:
    """Give the bytes of an array in C order: a view of them where they lie so."""
    if value.nbytes == 0:
        return b""
    if value.dtype.type in _PADDED:
        return _without_padding(value)
    if not value.flags.c_contiguous:
        return bytes(value.tobytes())
    flat: Any = value.reshape(-1)
    return memoryview(flat.view(np.uint8))


def _without_padding(value: Any) -> bytes:
    """Give the bytes of long doubles with zeros where the processor has no bits."""
    single = np.dtype(np.longdouble).itemsize
    cells = np.frombuffer(bytearray(value.tobytes()), "u1").reshape(-1, single)
    unused = slice(_X87, None) if value.dtype.isnative else slice(0, single - _X87)
    cells[:, unused] = 0
    return bytes(cells.tobytes())


def _array_content(value: Any) -> Parts:
    """Digest content and shape; how it lies in memory is no part of it, nor what pads records."""
    parts = _array(value)
    blob = parts.blob
    if value.dtype.names:
        blob = raw(np.lib.recfunctions.repack_fields(value, recurse=True))
    data = {key: parts.data[key] for key in ("shape", "dtype")}
    return Parts(data, parts.items, blob=blob)


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


def _masked(value: Any) -> Parts:
    """Take a masked array: all cells, those under the mask too, the mask and what fills it."""
    if value.baseclass is not np.ndarray:
        raise CannotTake(f"masked array over {value.baseclass.__qualname__}", "use np.asarray")
    mask = None if value.mask is np.ma.nomask else value.mask
    filler = getattr(value, "_fill_value", None)  # `fill_value` would set the default
    inner = {"data": value.data, "mask": mask, "fill": filler}
    return Parts({"hard": value.hardmask}, tuple(inner.values()), Shape.NAMED, tuple(inner))


def _to_masked(parts: Parts) -> Any:
    data, mask, filler = parts.items
    mask = np.ma.nomask if mask is None else mask
    return np.ma.MaskedArray(data, mask, fill_value=filler, hard_mask=parts.data["hard"])


def _scalar(value: Any) -> Parts:
    return Parts({"dtype": _dtype_to_json(value.dtype)}, blob=raw(np.asarray(value)))


def _to_scalar(parts: Parts) -> Any:
    dtype = dtype_from_json(parts.data["dtype"])
    return np.ndarray((), dtype, buffer=bytearray(parts.blob or b""))[()]


def _is_scalar(cls: type) -> bool:
    return issubclass(cls, np.generic) and cls.__module__ == "numpy"


def _is_dtype(cls: type) -> bool:
    return issubclass(cls, np.dtype)


ROWS: Final[tuple[Codec, ...]] = (
    Codec("numpy.ndarray", np.ndarray, _array, _to_array, digested=_array_content, mutable=True),
    Codec("numpy.MaskedArray", np.ma.MaskedArray, _masked, _to_masked, mutable=True),
    Codec("numpy.masked", type(np.ma.masked), lambda v: Parts(), lambda p: np.ma.masked),
    Codec("numpy.scalar", _is_scalar, _scalar, _to_scalar),
    Codec(
        "numpy.dtype",
        _is_dtype,
        lambda v: Parts({"dtype": _dtype_to_json(v)}),
        lambda p: dtype_from_json(p.data["dtype"]),
    ),
)
