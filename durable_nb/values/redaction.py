"""Known shapes of secrets, taken out of whatever is shown or stored as text."""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "[redacted]"

#: A name that says its value is secret; it ends in the word, so `max_tokens=5` is none.
_SECRET_NAME = (
    r"(?:password|passwd|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|secret[_-]?key|private[_-]?key|credential|credentials|authorization|cookie)"
)
_QUOTE = r"\\{0,3}[\"']"

#: Shapes, and what stands in their place. All repetitions are bounded or over one class of
#: characters, so that time grows in line with the text.
_SHAPES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----.*?"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----|\Z)",
            re.DOTALL,
        ),
        MARK,
    ),
    (
        re.compile(r"(?i)(\bauthorization\b[\"']?\s{0,3}[:=]\s{0,3}[\"']?)[^\"'\r\n,;}]+"),
        rf"\1{MARK}",
    ),
    (re.compile(r"(?i)\b(bearer\s{1,3})[A-Za-z0-9._~+/=-]{6,}"), rf"\1{MARK}"),
    (re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{4,}"), MARK),
    (re.compile(r"(?<![A-Za-z0-9])(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{6,}"), MARK),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), MARK),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{16,}"), MARK),
    (re.compile(r"\bgithub_pat_[A-Za-z0-9_]{16,}"), MARK),
    (re.compile(r"\bglpat-[A-Za-z0-9_-]{16,}"), MARK),
    (re.compile(r"\bxox[a-z]-[A-Za-z0-9-]{8,}"), MARK),
    (re.compile(r"\bhf_[A-Za-z0-9]{20,}"), MARK),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"), MARK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MARK),
    (
        re.compile(
            r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:)[^\s/]{1,500}@"
        ),
        rf"\1{MARK}@",
    ),
    (
        re.compile(
            rf"(?i)(?<![\w-])((?:[\w.-]{{0,40}}[._-])?{_SECRET_NAME}(?:{_QUOTE})?\s{{0,3}}[:=]\s{{0,3}})"
            rf"(?!\s|None\b|null\b|\[redacted)"
            r"(b?\"(?:[^\"\\]|\\.)*\"?|b?'(?:[^'\\]|\\.)*'?|\\+\"[^\"]*\"?|[^\s,;&)}\]]+)"
        ),
        rf"\1{MARK}",
    ),
)


#: Any shape above contains one of these; most texts contain none and are left after one search.
_HINT: Final = re.compile(
    r"(?i)private key|passw|pwd|passphrase|secret|token|key|credential|authorization|cookie|bearer"
    r"|sk-|[srp]k_|akia|asia|gh[pousr]_|github_pat|glpat|xox|hf_|eyj|aiza|://"
)


def redact(text: str) -> str:
    """Replace known shapes of secrets by `[redacted]`.

    Parameters
    ----------
    text : str
        Any text; time is linear in its length.

    Returns
    -------
    str
        The text without API keys, bearer tokens, private keys, URL passwords and the values of
        names such as `password`.
    """
    if _HINT.search(text) is None:
        return text
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text
