"""Text in a picture: escaped whatever it holds, and cut where there is no room."""

from __future__ import annotations

from hashlib import sha256
from html import escape
from typing import Final
from unicodedata import east_asian_width
from urllib.parse import quote

#: Width of a character as a share of the font's size: what a wide sans-serif font has.
_WIDE: Final = 0.58


def shown(value: object) -> str:
    """Show a text that XML can carry: control and invisible characters as escapes."""
    text = "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in str(value))
    return escape(text, quote=True)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def width_of(text: str, size: float) -> float:
    """Estimate how wide a text is, in pixels, without a font to measure it in."""
    return size * _WIDE * sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def fitted(text: str, size: float, room: float, *, tail: int = 0) -> str:
    """Cut a text to the room that it has, with an ellipsis; "" where there is none for that.

    So many characters of its end stay, for keys often differ only there.
    """
    if width_of(text, size) <= room:
        return text
    end = f"…{text[-tail:]}" if tail else "…"
    text = text[:-tail] if tail else text
    while text and width_of(f"{text}{end}", size) > room:
        text = text[:-1]
    return f"{text}{end}" if text else ""


def tag_of(shown: object) -> str:
    """Give what tells the pictures and tables of a page apart, by what they show."""
    return sha256(repr(shown).encode("utf-8", "backslashreplace")).hexdigest()[:8]


def anchor(run: str, op: str, tag: str) -> str:
    """Give the id of the element that shows an operation, and so what a link to it names.

    It has letters, digits and ``-._`` only, which are the same in an id and in an address.

    Parameters
    ----------
    run, op : str
        Which operation.
    tag : str
        From `tag_of`: a page may show an operation more than once, as it was then and is now, and
        a link leads to what stands beside it.
    """
    return f"op-{_plain(run)}-{_plain(op)}-{tag}"


def _plain(text: str) -> str:
    safe = quote(text, safe="", errors="backslashreplace")
    return safe.replace("_", "_5F").replace("~", "_7E").replace("%", "_")
