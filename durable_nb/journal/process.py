"""The process that runs this: looked up once, and anew in a forked child; a call takes longer."""

from __future__ import annotations

import os
import threading
from typing import Final


class Process:
    """What of this process only a fork changes.

    Attributes
    ----------
    pid : int
        Its number.
    main : int or None
        The thread in which Python runs signal handlers, as `threading.get_ident` tells it.
    """

    __slots__ = ("main", "pid")

    def __init__(self) -> None:
        self.look()

    def look(self) -> None:
        """Look both up."""
        self.pid, self.main = os.getpid(), threading.main_thread().ident


#: This one.
THIS: Final = Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THIS.look)
