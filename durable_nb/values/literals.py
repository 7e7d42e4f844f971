"""Values that a person types: JSON, else a Python literal; nothing is run to read one."""

from __future__ import annotations

import ast
import json
from typing import Any, Final

from durable_nb.values.digests import digest

FORMS: Final = """\
Give it as JSON:             '{"id": "re_1", "ok": true}'
or as a Python literal:      "{'id': 're_1', 'when': (2026, 5)}"
A text needs quotes of its own: '"sent"'"""


def read_literal(text: str) -> Any:
    """Read a value that was typed: JSON first, else a Python literal.

    Raises
    ------
    ValueError
        It is neither, or has the `...` of a suggested line in it; the message shows both forms.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        tree = ast.parse(text.strip(), mode="eval")
        if any(isinstance(n, ast.Constant) and n.value is Ellipsis for n in ast.walk(tree)):
            raise ValueError("a line was run as it was shown, with its `...` in place")
        return ast.literal_eval(tree)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(
            f"RESULT is neither JSON nor a Python literal. Nothing was recorded.\n{FORMS}"
        ) from None


def write_literal(value: object) -> str:
    """Write a value so that `read_literal` gives it back.

    Raises
    ------
    ValueError
        It is no plain data.
    """
    text = repr(value)
    if digest(read_literal(text)) != digest(value):
        raise ValueError(f"a {type(value).__name__} cannot be written as a literal")
    return text
