"""Signatures of what may run code when it is shown: recorded HTML, SVG and JavaScript.

As Jupyter does for notebooks, what this user recorded is told apart from what somebody else put
into a folder by an HMAC with a key of this user's, which never lies in a run's folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_KEY_BYTES: Final = 32


def key_file() -> Path:
    """Give where this user's key is: the user's data folder, by the system's own custom."""
    import platformdirs  # with the first signature, and not with the package

    return platformdirs.user_data_path("durable_nb") / "signing-key"


def sign(context: str, data: Mapping[str, str]) -> str:
    """Sign what was shown.

    Parameters
    ----------
    context : str
        Where it was shown: a run and an operation; a signature holds there and nowhere else.
    data : mapping of str to str
        MIME type to content.

    Returns
    -------
    str
        "" if there is no key and none can be made: it is then shown as plain text.
    """
    key = _key() or _new_key()
    return "" if key is None else _mac(key, context, data)


def is_signed(context: str, data: Mapping[str, str], signature: object) -> bool:
    """Tell whether this user signed it, for this place.

    Parameters
    ----------
    context, data
        As for `sign`.
    signature
        As recorded; anything.
    """
    key = _key()
    if key is None or not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(_mac(key, context, data), signature)


def _mac(key: bytes, context: str, data: Mapping[str, str]) -> str:
    text = json.dumps([context, sorted(data.items())], separators=(",", ":"))
    return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()


def _key() -> bytes | None:
    """Read the key; one that others can read, or could have put there, is none."""
    try:
        fd = os.open(key_file(), os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    except (OSError, RuntimeError):
        return None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        private = stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077
        if not private or found.st_uid != os.getuid():
            return None
        key = file.read(_KEY_BYTES + 1)
    return key if len(key) == _KEY_BYTES else None


def _new_key() -> bytes | None:
    """Make a key, unless another process is first; an existing one is never replaced."""
    path = key_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, part = tempfile.mkstemp(prefix=".signing-", dir=path.parent)  # mode 0600
    except OSError:
        return None
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(OSError):  # it is there already
            os.link(part, path)
    except OSError:
        return None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)
    return _key()
