"""The outside ledger: what really happened, one line an effect."""

from __future__ import annotations

import os
from pathlib import Path


class Ledger:
    """An append-only file that the toolkit knows nothing of.

    A line is written with one `write` and is on disk when `add` returns, so that a kill at any
    moment leaves whole lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, what: str, key: str = "") -> None:
        """Let an effect happen."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, f"{what}\t{key}\n".encode())
            os.fsync(fd)
        finally:
            os.close(fd)

    def lines(self) -> list[tuple[str, str]]:
        """Give every effect and the key that it carried, in order."""
        if not self.path.exists():
            return []
        found = [line.split("\t") for line in self.path.read_text().splitlines()]
        return [(what, key) for what, key in found]

    def count(self, what: str) -> int:
        """Count one kind of effect."""
        return sum(1 for name, _ in self.lines() if name == what)

    def keys(self, what: str) -> list[str]:
        """Give the keys that one kind of effect carried."""
        return [key for name, key in self.lines() if name == what]
