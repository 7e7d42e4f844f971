"""Waiting for what another thread or process brings about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(what: Callable[[], Any], seconds: float = 5) -> Any:
    """Give what is true at last, or fail."""
    limit = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.01)
    return found
