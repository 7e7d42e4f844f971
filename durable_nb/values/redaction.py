"""Known shapes of secrets, taken out of whatever is shown or stored as text.

Two kinds: tokens that tell by their shape what they are (`sk-…`, a private key, a URL with a
password), and values beside a name that says so (`password=…`). Every repetition is bounded,
possessive, or consumes what it read, so that time grows in line with the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MARK: Final = "[redacted]"


def _begin(text: str = "", word: str = "A-Za-z0-9") -> str:
    r"""Match a text where a token can begin, text first: `re` then looks for that alone.

    A token begins not within a word (`task-…`; `word` are its characters), but right after an
    escape in a `repr` (`\\nsk-…`) and after a terminal's colour code.
    """
    before = (rf"(?<![{word}]{text})", rf"(?<=\\[nrt]{text})", rf"(?<=\[[0-9]m{text})")
    return rf"{text}(?:{'|'.join(before)}|(?<=\[[0-9][0-9]m{text}))"


#: The same where the text is one of several.
_START: Final = _begin()

#: What a bearer token is made of, but for digits.
_B: Final = "[A-Za-z._~+/=-]"
#: What the parts of a signed one (`eyJ…`) are made of: one start for one run of these.
_W: Final = "A-Za-z0-9_-"

#: (Texts of which one is in every such token, the shape, what stands in its place.)
_TOKENS: Final[tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]] = tuple(
    (hints, re.compile(shape), instead)
    for hints, shape, instead in (
        # a capital or a digit early on: "sk-learn" and the locale "sk-SK" are none
        (
            ("sk-",),
            rf"{_begin('sk-')}(?!learn\b)(?=[a-z_-]{{0,24}}[A-Z0-9])[A-Za-z0-9_-]{{4,}}",
            MARK,
        ),
        (("sk-",), r"sk-(?:ant|proj|or-v1|svcacct|admin)-[A-Za-z0-9_-]{20,}", MARK),
        (
            ("_live_", "_test_"),
            rf"{_START}[srp]k_(?:live|test)_(?=[A-Za-z]{{0,24}}[0-9])[A-Za-z0-9]{{6,}}",
            MARK,
        ),
        (("whsec_",), r"whsec_[A-Za-z0-9+/]{16,}", MARK),
        (("AKIA", "ASIA"), r"(?<![A-Z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])", MARK),
        (
            ("gh", "github_pat_"),
            r"g(?:h[pousr]_[A-Za-z0-9]{16,}|ithub_pat_[A-Za-z0-9_]{16,})",
            MARK,
        ),
        (("glpat-",), r"glpat-[A-Za-z0-9_-]{16,}", MARK),
        (("xox", "xapp-"), r"(?:xox[abcdeprs]|xapp)-[A-Za-z0-9-]{8,}", MARK),
        (("hooks.slack.com",), r"(hooks\.slack\.com/services/)[A-Za-z0-9/]{8,}", rf"\1{MARK}"),
        (("hf_", "gsk_"), rf"{_START}(?:hf|gsk)_[A-Za-z0-9]{{20,}}", MARK),
        (("xai-", "pplx-", "tvly-"), rf"{_START}(?:xai|pplx|tvly)-[A-Za-z0-9-]{{20,}}", MARK),
        (("npm_", "pypi-"), rf"{_START}(?:npm_[A-Za-z0-9]{{30,}}|pypi-[A-Za-z0-9_-]{{40,}})", MARK),
        (
            ("AIza", "ya29.", "GOCSPX-"),
            r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}",
            MARK,
        ),
        (
            (".eyJ",),
            _begin("eyJ", _W) + rf"[{_W}]{{8,}}+\.eyJ[{_W}]{{8,}}+(?:\.[{_W}]*+)?",
            MARK,
        ),
        (("://",), r"(://[^\s/:@\"'<>]{0,200}:)[^\s/\"'<>]{1,500}@", rf"\1{MARK}@"),
        # a digit, or more than a word is long: "bearer authentication" is prose
        (
            ("earer", "EARER"),
            rf"((?:[Bb]earer|BEARER)\s{{1,3}})(?={_B}{{0,40}}[0-9]|{_B}{{16}})[0-9{_B[1:]}{{6,}}",
            rf"\1{MARK}",
        ),
    )
)

#: One look for the texts of which one is in every token, which is fastest in a short text.
_ANY_HINT: Final = re.compile(
    "|".join(re.escape(hint) for hint in ("PRIVATE KEY", *(h for row in _TOKENS for h in row[0])))
)
_SHORT: Final = 60
#: The rows by each of their texts: one flat loop takes a third less than one in another.
_BY_HINT: Final = tuple((hint, *row[1:]) for row in _TOKENS for hint in row[0])

_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----")
#: Longest private key, in characters, and what one is made of where its end is not there.
_KEY_LIMIT: Final = 20_000
_KEY_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s]|\\{1,3}[nr])*+")

#: Names whose value is secret; a name is redacted if it *ends* in one, so `max_tokens=5` is none.
_WORDS: Final = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "key", "credential", "signature",
)  # fmt: skip
_ANY_WORD: Final = re.compile("|".join(_WORDS))
_NAME: Final = (
    r"passwords?|passwd|passphrase|pwd|secrets?|token|credentials?|x-amz-signature"
    r"|(?:api|account|shared|signing|encryption|secret|private)[_-]?keys?"
    r"|access[_-]?keys?(?:[_-]?id)?"
)
_QUOTE: Final = r"\\{0,3}[\"']"
_QUOTED: Final = r"b?\"(?:[^\"\\\n]|\\.)*+\"?|b?'(?:[^'\\\n]|\\.)*+'?"
_NAMED: Final = re.compile(
    rf"(?i)({_NAME})(\d{{0,2}}(?:{_QUOTE})?\s{{0,3}}(?:[=!:]=|=>|[:=])\s{{0,3}})(?!\s)"
    rf"({_QUOTED}|\\+[\"'][^\"'\n]*+[\"']?|\{{[^{{}}\n]{{0,2000}}\}}?|\[[^\[\]\n]{{0,2000}}\]?"
    r"|[^\s,;&)}\]]+)"
)
#: A name of any of these, whole: for values that stand beside their name and not in one text.
_SECRET_NAME: Final = re.compile(rf"(?i)(?:.*[\W_])?(?:{_NAME})\d{{0,2}}|.*[a-z](?:{_NAME})")

#: Header lines and header pairs; a whole line is secret.
_HEADER: Final = re.compile(
    rf"(?i)((?:authorization|cookie)(?:{_QUOTE})?\s{{0,3}}[:=]\s{{0,3}}(?:b?{_QUOTE})?)"
    r"([^\"'\r\n\\}]{1,4000})"
)
_PAIR: Final = re.compile(
    r"(?i)([\"'](?:(?:proxy-)?authorization|(?:[a-z]+-){0,3}api-key|(?:set-)?cookie)[\"']"
    rf"\s{{0,3}},\s{{0,3}})({_QUOTED})"
)
_FLAG: Final = re.compile(
    r"(?i)(--(?:[a-z]{1,20}-){0,2}(?:password|token|secret|api-key)\s{1,3})([^\s\"'-][^\s\"']*)"
)
_SCHEME: Final = re.compile(r"(?i)(?:basic|bearer|token|digest|negotiate|apikey|aws4)\b")

#: What stands beside such a name and is no secret.
_ORDINARY: Final = frozenset(
    {
        "none", "null", "true", "false", "nan", "undefined", "empty", "required", "missing",
        "invalid", "expired", "optional", "unknown", "wrong", "incorrect", "str", "string", "int",
        "bool", "bytes", "any", "secretstr", "hidden", "omitted", "removed", "the", "a", "is",
        "not", "must", "should", "cannot",
    }
)  # fmt: skip
#: Placeholders, and code that would fetch one.
_PLACEHOLDER: Final = re.compile(
    r"\$\{?\w+\}?|<[\w -]*>?|\{[\"']type[\"'].*|\{\w*\}?|%\(?\w+\)?s?|[*.x…]+"
    r"|\[redacted.*|[A-Za-z_][A-Za-z_.]*[(\[].*",
    re.DOTALL,
)
#: What makes of `…token` a credential; `eos_token` and the token of a log are none.
_CREDENTIAL: Final = re.compile(
    r"(?i)(?:access|auth|bearer|refresh|session|bot|api|id|secret|security|csrf|github|gitlab|slack"
    r"|hf|user|client|personal|login|private|_auth)[_-]?\Z"
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
        names such as `password`. Done twice, it changes nothing more.
    """
    text = redact_tokens(text)
    low = text.lower()
    if "authorization" in low or "cookie" in low:
        text = _HEADER.sub(_header, _PAIR.sub(rf"\1{MARK}", text))
    if _ANY_WORD.search(low) is not None:
        if "--" in text:
            text = _FLAG.sub(rf"\1{MARK}", text)
        text = _NAMED.sub(_named, _PAIR.sub(rf"\1{MARK}", text))
    return text


def redact_tokens(text: str) -> str:
    """Replace only what tells by its own shape that it is a secret, whatever stands beside it."""
    if len(text) < _SHORT and _ANY_HINT.search(text) is None:
        return text
    if "PRIVATE KEY" in text:
        text = _without_private_keys(text)
    for hint, shape, instead in _BY_HINT:
        if hint in text:
            text = shape.sub(instead, text)
    return text


def is_secret_name(name: str) -> bool:
    """Tell whether a name says that its value is secret, as `db_password` and `apiKey` do."""
    return _is_secret_name(name[-80:])


@lru_cache(4096)  # the same few keys and columns come again and again
def _is_secret_name(end: str) -> bool:
    return _SECRET_NAME.fullmatch(end) is not None and (
        not end.lower().endswith("token") or _CREDENTIAL.search(end[:-5]) is not None
    )


def _without_private_keys(text: str) -> str:
    """Replace private keys, also one whose end was cut off."""
    parts: list[str] = []
    at, end, more = 0, None, True
    for begin in _KEY_BEGINS.finditer(text):
        if begin.start() < at:
            continue
        if more and (end is None or end.start() < begin.end()):
            end = _KEY_ENDS.search(text, begin.end())
            more = end is not None
        parts.append(text[at : begin.start()] + MARK)
        if end is not None and 0 <= end.start() - begin.end() <= _KEY_LIMIT:
            at = end.end()
        else:
            body = _KEY_BODY.match(text, begin.end())
            at = body.end() if body else begin.end()
    return "".join([*parts, text[at:]])


def _header(found: re.Match[str]) -> str:
    """Redact a header's value, unless it is prose about one."""
    said, value = found[1], found[2]
    if MARK in value and not value.replace(MARK, "").strip(" ;,."):
        return found[0]
    if "cookie" in said.lower():
        secret = "=" in value
    else:
        secret = _SCHEME.match(value) is not None or any(c.isdigit() for c in value.split(" ")[0])
    return said + MARK if secret else found[0]


def _named(found: re.Match[str]) -> str:
    """Redact a value beside a name that says it is secret."""
    name, between, value = found[1], found[2], found[3]
    before = found.string[max(0, found.start() - 20) : found.start()]
    return found[0] if _is_ordinary(before, name.lower(), value) else f"{name}{between}{MARK}"


def _is_ordinary(before: str, name: str, value: str) -> bool:
    """Tell whether what stands beside a name is no secret after all."""
    bare = value.lstrip("b") if value[:2] in ("b'", 'b"') else value
    inner = bare.strip("\\\"'.:")
    quoted = bare[:1] in "\\\"'"
    if not inner or inner.lower() in _ORDINARY or _PLACEHOLDER.fullmatch(inner):
        return not (quoted and inner[:1] in "[{" and len(inner) > 40)
    if not quoted and inner.lower().endswith(name) and inner.replace(".", "_").isidentifier():
        return True  # api_key=self.api_key, in the source line of a traceback
    if name == "pwd" and inner[:1] in "/~":
        return True  # the working directory
    if name == "token" and not _CREDENTIAL.search(before):
        long = len(inner) >= 16 or (len(inner) >= 8 and any(c.isdigit() for c in inner))
        return not long or any(c.isspace() for c in inner)
    return name.endswith("s") and inner.isdigit()  # passwords: 3
