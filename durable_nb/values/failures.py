"""Errors as text, and back where that needs no pickle and no code of the error's own."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Mapping
from typing import Any, Final

from durable_nb.model import control, errors
from durable_nb.values.lookup import class_address
from durable_nb.values.parts import type_name
from durable_nb.values.plain import is_plain_scalar
from durable_nb.values.redaction import redact

#: Longest message and traceback that are kept, in characters.
MESSAGE_LIMIT: Final = 2_000
TRACEBACK_LIMIT: Final = 8 * 1024

#: Where this package's own errors are: their construction is known to do nothing but construct.
_OURS: Final = frozenset({errors.__name__, control.__name__})


def describe_error(error: BaseException) -> dict[str, Any]:
    """Describe an error as plain data, redacted.

    Parameters
    ----------
    error : BaseException
        Any error; its `__str__` may itself raise.

    Returns
    -------
    dict
        `type` (qualified name), `class` (where it is found), `message`, `traceback` (at most 8 KB,
        the end is kept), and `args` where the class takes them back and nothing is lost.
    """
    kind = type(error)
    described: dict[str, Any] = {
        "type": type_name(kind),
        "class": class_address(kind),
        "message": _cut(redact(_message(error)), MESSAGE_LIMIT),
        "traceback": _cut(redact(_traceback(error)), TRACEBACK_LIMIT),
    }
    args = [redact(arg) if type(arg) is str else arg for arg in _call_args(error)]
    rebuilt = _rebuilt(kind, args)
    if rebuilt is not None and _message(rebuilt) == described["message"]:
        described["args"] = args
    return described


def rebuild_error(described: Mapping[str, Any]) -> BaseException | None:
    """Make the error again, of its original class.

    Parameters
    ----------
    described : Mapping
        What `describe_error` gave.

    Returns
    -------
    BaseException or None
        None where the class is not defined now, has an `__init__` of its own, or takes other
        arguments. Nothing is imported and nothing unpickled.
    """
    args = described.get("args")
    if not isinstance(args, list):
        return None
    module, _, qualname = str(described.get("class", "")).partition(":")
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
    error = _rebuilt(found, args)
    if error is None or _message(error) != described.get("message"):
        return None
    return error


def _rebuilt(kind: Any, args: list[Any]) -> BaseException | None:
    """Call a class that makes itself as a builtin error does, or is ours; check what comes out."""
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        return None
    builtin = isinstance(kind.__init__, types.WrapperDescriptorType) and isinstance(
        kind.__new__, types.BuiltinFunctionType
    )
    module = kind.__module__
    ours = module in _OURS and vars(sys.modules[module]).get(kind.__name__) is kind
    if type(kind) is not type or not (builtin or ours) or not all(map(_is_scalar, args)):
        return None
    try:
        error = kind(*args)
    except Exception:  # it wants other arguments: the text is all there is
        return None
    whole = type(error) is kind and _call_args(error) == args
    return error if whole else None


def _is_scalar(value: Any) -> bool:
    """Say whether a value is a scalar, long texts included."""
    return type(value) is str or is_plain_scalar(value)


def _call_args(error: BaseException) -> list[Any]:
    """Give the arguments that make an error; OSError keeps its file name elsewhere."""
    args = list(error.args)
    if isinstance(error, OSError) and error.filename is not None and len(args) == 2:
        args.append(error.filename)
        if error.filename2 is not None:
            args += [None, error.filename2]
    return args


def _message(error: BaseException) -> str:
    """Give the text of an error, whatever its `__str__` does."""
    try:
        return str(error)[: 8 * MESSAGE_LIMIT]
    except Exception as failure:
        return f"<no text: its __str__ raised {type(failure).__name__}>"


def _traceback(error: BaseException) -> str:
    """Write the traceback, whatever the errors in it do."""
    try:
        return "".join(traceback.format_exception(error))[-16 * TRACEBACK_LIMIT :]
    except Exception as failure:
        return f"<no traceback: writing it raised {type(failure).__name__}>"


def _cut(text: str, limit: int) -> str:
    """Keep the end, where an error says what it is."""
    return text if len(text) <= limit else "…" + text[-(limit - 1) :]
