"""What a reconciler may answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Happened:
    """The effect happened.

    Attributes
    ----------
    result : Any
        What the step would have returned; replay returns it.
    evidence : str
        What was seen, for the history.
    """

    result: Any
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The outside knows nothing of the effect.

    It counts only `settle_after` seconds after the attempt could last have been alive, since a
    request under way can still arrive.
    """

    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nothing can be told; the operation stays unknown."""

    reason: str = ""
