"""Loading a long journal: what most rows say is told from their bytes, and no record is made.

An operation of two rows, an intent and a result, says nothing of its run as a whole but its effect
and how long it took. Which rows are of that shape is told by how our own encoder writes them; any
other row, whatever is unusual about it, becomes a record as ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from durable_nb.journal.rows import RawRow, moment_of
from durable_nb.model.outcomes import Effect, Kind
from durable_nb.model.unfolded import Unfolded, first_of, last_of, place_of

#: Gives the rows of these places.
ReadRows = Callable[[Sequence[int]], Sequence[RawRow]]

#: Records up to which an opening folds all: a state that is there is quicker than one to be read.
FEW: Final = 4_096

_INTENDED: Final = str(Kind.INTENDED)
_COMPLETED: Final = str(Kind.COMPLETED)
#: A first attempt, by the first letter of its effect; a generation, or that somebody forgets its
#: key, would stand before the inputs. Within a JSON string a quote is escaped: no user's text looks
#: like a key.
_BEGIN: Final = b'{"effect":"%s","attempt":1,"inputs":'
_BEGINS: Final = tuple(_BEGIN % e.encode() for e in Effect)
_EFFECTS: Final = {ord(e[0]): e for e in Effect}
_LETTER: Final = _BEGIN.index(b"%s")
_WAIT: Final = b'"wait":'
#: A result, how long it took, and nothing that it spent. Before that the preview and files may
#: stand; that it differs from a former result is said of a later generation only.
_RESULT: Final = re.compile(
    rb'\{"result":".*","duration_s":(\d+\.\d+|\d+(?:\.\d+)?e-\d+),'
    rb'"checkpoint_s":[\d.e-]+,"attempt":1\}',
    re.DOTALL,
).fullmatch
#: An opening looks whether its bytes are there; each text of a type of its own has the first.
_TAG: Final = b"$"
_ARTIFACT: Final = rb"\"artifact\""
_PER_S: Final = 10**6


class Sorting:
    """Tells rows apart, taken in order: those that are folded at once, and those that can wait."""

    def __init__(self) -> None:
        self._begun: dict[str, RawRow] = {}
        self._found = Unfolded()
        self._places = self._found.operations.places
        self._folded: set[str] = set()
        self._rows: list[RawRow] = []
        self._again: list[int] = []
        self._last: RawRow | None = None

    def take(self, rows: Sequence[RawRow]) -> None:
        """Take more rows."""
        begun, places, folded, busy = self._begun, self._places, self._folded, 0
        for row in rows:
            seq, op, kind, _, _, body = row
            if kind == _COMPLETED and op in begun:
                found = _RESULT(body)
                if found and not (_TAG in body and _ARTIFACT in body):
                    intent = begun.pop(op)
                    places[op] = place_of(intent[0], seq, _EFFECTS[intent[5][_LETTER]])
                    busy += round(float(found[1]) * _PER_S)
                    self._last = row
                    continue
            elif (
                kind == _INTENDED
                and body.startswith(_BEGINS)
                and _WAIT not in body
                and not (op in begun or op in places or op in folded or "\\" in op)
            ):
                begun[op] = row
                continue
            self._fold(row)
        self._found.busy += busy

    def fold(self, rows: Sequence[RawRow]) -> None:
        """Take more rows, all of which are to be folded."""
        for row in rows:
            self._fold(row)

    def _fold(self, row: RawRow) -> None:
        """Let a row be folded, and so all rows of its operation."""
        op = row[1]
        if op in self._begun:
            self._rows.append(self._begun.pop(op))
        elif op in self._places:
            place = self._found.operations.place(op) or 0
            del self._places[op]
            self._again += (first_of(place), last_of(place))
        self._folded.add(op)
        self._rows.append(row)

    def sorted(self, read: ReadRows) -> tuple[list[RawRow], Unfolded]:
        """Give the rows that are to be folded, in order, and what is known of the others.

        Parameters
        ----------
        read : callable
            Reads rows again, of operations that more was said of later.
        """
        again = read(self._again) if self._again else ()
        for row in again:
            if row[2] == _COMPLETED and (found := _RESULT(row[5])):
                self._found.busy -= round(float(found[1]) * _PER_S)
        rows = [*self._rows, *again, *self._begun.values()]
        rows.sort()
        if self._last is not None:
            self._found.last_seq = self._last[0]
            self._found.updated = moment_of(self._last[3])
        return rows, self._found
