"""Forking: a new run whose beginning is what another one has on record, up to an operation.

What is copied happened once, in the original: it replays in the fork and is not done again. What
the fork does itself carries keys of its own, and effects outside need a grant of their own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from durable_nb import values
from durable_nb.engine import settle
from durable_nb.engine.permits import OUTSIDE
from durable_nb.engine.recorded import Recorded, refs_of
from durable_nb.journal import Store
from durable_nb.journal import folder as folders
from durable_nb.journal.rows import Row
from durable_nb.journal.seed import Seed
from durable_nb.journal.transplant import renumbered
from durable_nb.model.errors import VerdictRefused
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import RUN, Record
from durable_nb.model.state import OperationState

#: Records of the run that speak of the original itself: its birth, its owners, its folder, its
#: supervisor, and whether a person wants it to stand still.
_ITS_OWN: Final = frozenset(
    {
        Kind.BORN,
        Kind.FORKED,
        Kind.OPENED,
        Kind.CLOSED,
        Kind.FAILED,
        Kind.FINISHED,
        Kind.ADOPTED,
        Kind.PAUSED,
        Kind.UNPAUSED,
        Kind.DIED,
        Kind.SUBMITTED,
    }
)
#: Records of the run that came from outside at their moment: a fork of an earlier one awaits them.
_SENT: Final = frozenset({Kind.SIGNALLED, Kind.CONTESTED})


@dataclass(frozen=True, slots=True)
class Forked:
    """A new run, and what it has from the one that it is a fork of.

    Attributes
    ----------
    name : str
        Of the new run.
    folder : Path or None
        Where it is; `None` in a database.
    of : str
        The run that it is a fork of.
    at : str
        The operation that it was forked at, which is still to be done; "" where all was copied.
    operations : tuple of str
        What was copied.
    effects : tuple of str
        The completed external ones among them, which are not repeated.
    unknown : tuple of str
        The unknown ones among them, which stay unknown in the fork until they are settled there.
    elsewhere : str
        The store, where it is not that of the original.
    """

    name: str
    folder: Path | None
    of: str
    at: str
    operations: tuple[str, ...]
    effects: tuple[str, ...]
    unknown: tuple[str, ...]
    elsewhere: str = ""

    def to_text(self) -> str:
        """Render as stable plain text: what was copied, what is not repeated, and how to go on."""
        place = f", as it stood before {self.at}" if self.at else ""
        quoted = partial(json.dumps, ensure_ascii=False)
        more = f", store={quoted(self.elsewhere)}" if self.elsewhere else ""
        return "\n".join(
            [
                f"run {self.name} is a fork of {self.of}{place}",
                f"  copied: {_named(self.operations)}",
                f"  effects outside that are not repeated: {_named(self.effects)}",
                f"  unknown, in the fork too, until settled there: {_named(self.unknown)}",
                "Effects outside of its own are refused until they are granted in it:",
                f'    run.grant("{OUTSIDE}", by="...", reason="...")',
                "Go on with it:",
                f"    run = dnb.open_run({quoted(self.name)}{more})",
            ]
        )

    __str__ = to_text

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `fork --json`."""
        return {
            **asdict(self),
            "folder": None if self.folder is None else str(self.folder),
            **{name: list(getattr(self, name)) for name in ("operations", "effects", "unknown")},
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Forked:
        """Make it from what the owner of the original tells."""
        lists = {name: tuple(told[name]) for name in ("operations", "effects", "unknown")}
        folder = None if told["folder"] is None else Path(told["folder"])
        return cls(**{**told, "folder": folder, **lists})


def _named(ops: tuple[str, ...]) -> str:
    return ", ".join(ops) or "nothing"


def fork(
    source: Recorded, name: str, at: object, root: Store | None = None, *, reason: str = ""
) -> Forked:
    """Make a new run from what is on record of another one, which stays as it is.

    Parameters
    ----------
    source : Recorded
        The original.
    name : str
        Of the new run.
    at : object
        A view, an id, a unique name or a row number; `None` copies all.
    root : Store, optional
        The store of the new run; default: the original's.
    reason : str
        Kept in the history.

    Returns
    -------
    Forked

    Raises
    ------
    BadName, OperationMissing, NotTrusted
        Nothing was made.
    VerdictRefused
        There is a run of that name, or nothing of the original is on record. Nothing was made.
    """
    folders.check_name(name)
    if not source.fold.born:
        why = "nothing is on record of it."
        raise VerdictRefused(f"run {source.name!r}", "fork", why)
    state = None if at is None else settle.find(source, at)[0]
    here = source.place.store
    root = here if root is None else root
    root.prepare()
    kept = list(prefix(source.records, source.fold, state))
    begun = _beginning(source, name, state, reason)

    def rows(identity: list[int] | None) -> list[Row]:
        born, forked = begun
        more = {} if identity is None else {"folder_id": identity}
        return renumbered([born, forked._replace(body={**forked.body, **more}), *kept])

    seed = Seed(
        rows=rows,
        named={sha256 for sha256, _ in refs_of(kept)},
        artifacts=source.artifacts,
        store=here,
        run=source.name,
        taken=partial(_taken, source.name, name, root),
    )
    root.plant(name, seed)
    fold = Fold.whole([*begun, *kept])
    ended = {s.id: (s.effect, s.outcome(source.now)) for s in fold.ordered()}
    happened, doubt = (Effect.EXTERNAL, Outcome.COMPLETED), Outcome.UNKNOWN
    return Forked(
        name=name,
        folder=root.place(name).folder,
        of=source.name,
        at="" if state is None else state.id,
        operations=tuple(ended),
        effects=tuple(op for op, how in ended.items() if how == happened),
        unknown=tuple(op for op, (_, outcome) in ended.items() if outcome is doubt),
        elsewhere="" if root == here else root.shown,
    )


def _taken(of: str, name: str, root: Store) -> VerdictRefused:
    """Say that a name is taken: a fork never replaces anything."""
    why = f"there is a run {name!r} in {root.shown} already. Give it another name."
    return VerdictRefused(f"run {of!r}", "fork", why)


def prefix(records: tuple[Record, ...], fold: Fold, at: OperationState | None) -> Iterator[Record]:
    """Give the records that come before an operation: what it may have depended on.

    Parameters
    ----------
    records : tuple of Record
        Of the original.
    fold : Fold
        The same, folded.
    at : OperationState or None
        The operation; without one, all are given.

    Yields
    ------
    Record
        What holds for the whole run; and, whole, the operations that were begun before: they
        did happen, even if they ended later. Of what the operation is in, only what came before
        it began, so that it is entered again.
    """
    for record in records:
        if record.op == RUN:
            sent = record.kind in _SENT and at is not None and record.seq > at.first_seq
            own = record.kind in _ITS_OWN or sent
            if not own and (shared := _without_grant(record)):
                yield shared
        elif at is None:
            yield record
        else:
            above = at.id.startswith(f"{record.op}/")
            begun = record.seq if above else fold.operations[record.op].first_seq
            if begun < at.first_seq:
                yield record


def _without_grant(record: Record) -> Record | None:
    """Take out of a grant what a fork has to be granted itself; `None` if nothing is left."""
    if record.kind is not Kind.GRANTED or OUTSIDE not in (record.body.get("scopes") or ()):
        return record
    scopes = [scope for scope in record.body["scopes"] if scope != OUTSIDE]
    body = {name: v for name, v in record.body.items() if name != "scopes"}
    body |= {"scopes": scopes} if scopes else {}
    return record._replace(body=body) if scopes or body.get("budget") else None


def _beginning(
    source: Recorded, name: str, at: OperationState | None, reason: str
) -> tuple[Record, Record]:
    """Give the records of the fork's own birth, under the first epoch of its original."""
    fold, terms = source.fold, dict(source.fold.born.get("terms") or {})
    if terms.get("scopes"):
        terms["scopes"] = [scope for scope in terms["scopes"] if scope != OUTSIDE]
    born = {
        **fold.born,
        "run_id": uuid.uuid4().hex,
        "name": name,
        "salt": fold.salt,
        "terms": terms,
    }
    forked = {
        "of": source.name,
        "of_id": fold.run_id,
        "at": "" if at is None else at.id,
        "seq": fold.last_seq if at is None else at.first_seq,
        "terms": _said_since(source.records),
        "actor": settle.actor(),
        "reason": values.redact(reason),
    }
    epoch = source.records[0].epoch
    return (
        Record(1, RUN, Kind.BORN, source.now, epoch, born),
        Record(2, RUN, Kind.FORKED, source.now, epoch, forked),
    )


def _said_since(records: tuple[Record, ...]) -> dict[str, Any]:
    """Give the terms that later kernels of the original said: version, facets, packages."""
    terms: dict[str, Any] = {}
    for record in records:
        if record.op == RUN and record.kind in {Kind.FORKED, Kind.OPENED}:
            terms |= record.body.get("terms") or {}
    return terms
