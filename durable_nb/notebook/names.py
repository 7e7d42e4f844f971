"""The names of a notebook before and after a cell, and what of them a record has to keep."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from durable_nb import values
from durable_nb.notebook import grafts, graph
from durable_nb.notebook.errors import NamesNotRecordable, SharedWithEarlierCell
from durable_nb.notebook.source import Facts, is_toolkit

#: IPython's own names, besides those with underscores.
_OWN: Final = frozenset({"In", "Out", "exit", "quit", "get_ipython"})
_UNDERSCORES: Final = re.compile(r"_+|_i+|_i?\d+|_[oid]h|__\w+__")

#: Version of the record of a cell, and the key that marks it as one.
FORMAT: Final = "durable_cell"
VERSION: Final = 1

_MISSING: Final = object()


def is_own(name: str) -> bool:
    """Tell whether a name is IPython's or Python's own."""
    return name in _OWN or _UNDERSCORES.fullmatch(name) is not None


def user_names(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Give the names that are the user's."""
    return {name: value for name, value in namespace.items() if not is_own(name)}


# -- before --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Before:
    """The names as they stood before the cell ran.

    Attributes
    ----------
    names : Mapping
        Name to object; holding the objects keeps their identities theirs.
    digests : Mapping
        Digests of those that the cell may change in place.
    unwatched : tuple of str
        Names that it reads and that have no digest.
    """

    names: Mapping[str, Any]
    digests: Mapping[str, str]
    unwatched: tuple[str, ...]


def look(namespace: Mapping[str, Any], facts: Facts) -> Before:
    """Take the names, and a digest of whatever the cell could change in place."""
    names = user_names(namespace)
    reached = set(names) if facts.source.blind else _reached(facts.source.reads, namespace)
    digests: dict[str, str] = {}
    unwatched = []
    for name in sorted(reached & set(names)):
        value = names[name]
        if graph.is_atom(value) or is_toolkit(value):
            continue
        digest = grafts.digest_of(value)
        if digest.startswith("none:"):
            unwatched.append(name)
        else:
            digests[name] = digest
    return Before(names, digests, tuple(unwatched))


def _reached(reads: Iterable[str], namespace: Mapping[str, Any]) -> set[str]:
    """Follow names through the notebook's own functions, which may change what they name."""
    reached: set[str] = set()
    todo = list(reads)
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        value = namespace.get(name)
        if isinstance(value, FunctionType) and value.__globals__ is namespace:
            todo += _code_names(value.__code__)
    return reached


def _code_names(code: CodeType) -> list[str]:
    inner = [n for c in code.co_consts if isinstance(c, CodeType) for n in _code_names(c)]
    return [*code.co_names, *inner]


# -- after ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Left:
    """What a cell left behind, sorted by how a replay brings it back.

    Attributes
    ----------
    names : dict
        Values to record, as one value, so that shared references survive.
    deleted : list of str
        Names that are gone.
    modules, references : dict
        Names bound to modules, and to what an import finds (`module:qualname`).
    grafted : list of str
        Those of `names` that hold an `Alias` for an object of an earlier cell.
    dropped : list of str
        Names that are not kept: left out by `--out`, or already left by their `with`.
    changed : list of str
        Objects of earlier cells that were changed in place, among `names` or `dropped`.
    searched : bool
        Whether the notebook was small enough to look for what is shared with earlier cells.
    """

    names: dict[str, Any] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    grafted: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    searched: bool = True

    def record(
        self, facts: Facts, outputs: list[Any], unwatched: tuple[str, ...]
    ) -> dict[str, Any]:
        """Give the plain dict that is the operation's result."""
        return {
            FORMAT: VERSION,
            "names": self.names,
            "deleted": self.deleted,
            "modules": self.modules,
            "references": self.references,
            "changed": [name for name in self.changed if name in self.names],
            "grafted": self.grafted,
            "defines": list(facts.defines),
            "dropped": self.dropped,
            "unwatched": list(unwatched),
            "outputs": outputs,
        }


def difference(
    cell: str,
    before: Before,
    namespace: Mapping[str, Any],
    facts: Facts,
    only: tuple[str, ...] | None,
) -> Left:
    """Compare the names after a cell with those before it.

    Parameters
    ----------
    cell : str
        The cell's name, for errors.
    before : Before
        From `look`, before the body ran.
    namespace : Mapping
        The user's names now.
    facts : Facts
        What the syntax says: a name that the cell binds counts as its own even where the value is
        the same object as before, as after a failed attempt.
    only : tuple of str or None
        The names of `--out`.

    Raises
    ------
    NamesNotRecordable, SharedWithEarlierCell
        Nothing of the names is kept.
    """
    after, left = user_names(namespace), Left()
    binds = {n for n in facts.source.binds if not is_own(n)}
    bound = {
        name: value
        for name, value in after.items()
        if name in binds or before.names.get(name, _MISSING) is not value
    }
    left.changed = [
        name
        for name, digest in before.digests.items()
        if name in after and name not in bound and grafts.digest_of(after[name]) != digest
    ]
    left.deleted = sorted((set(before.names) | binds) - set(after))
    wanted = bound | {name: after[name] for name in left.changed}
    if only is not None:
        missing = {n: "the cell did not leave this name behind" for n in only if n not in after}
        if missing:
            raise NamesNotRecordable(cell, [n for n in only if n in after], missing)
        left.deleted = []
        left.dropped = sorted(set(wanted) - set(only) - set(facts.defines))
        wanted = {name: after[name] for name in only}
    bad = _sort(wanted, facts, left, only)
    if bad:
        unfit = classify(cell, left.names)
        bad |= unfit.bad if unfit else {}
        raise NamesNotRecordable(cell, sorted(set(left.names) - set(bad)), bad)
    _separate(cell, before, after, left)
    return left


def _sort(
    wanted: Mapping[str, Any], facts: Facts, left: Left, only: tuple[str, ...] | None
) -> dict[str, str]:
    """Put each name where it belongs; give those that have no place, with why."""
    bad = {}
    for name, value in sorted(wanted.items()):
        if is_toolkit(value) or name in facts.defines or _is_imported(name, value, facts):
            continue
        if isinstance(value, ModuleType):
            left.modules[name] = value.__name__
        elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            found = _reference(value)
            if found:
                left.references[name] = found
            else:
                bad[name] = _why_not_defined(value, facts.refused.get(name, ""))
        elif name in facts.source.managed and only is None and classify(name, {name: value}):
            left.dropped.append(name)  # `with open(...) as f`: it is closed by now
        else:
            left.names[name] = value
    return bad


def _is_imported(name: str, value: Any, facts: Facts) -> bool:
    """Tell whether a replay gets this name from the cell's own import statements."""
    if name in facts.imports:
        return True
    stars = (sys.modules.get(module) for module in facts.stars)
    return any(getattr(module, name, _MISSING) is value for module in stars)


def _reference(value: Any) -> str | None:
    """Say where an import finds this very object."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module == "__main__":
        return None
    address = f"{module}:{value.__qualname__}"
    try:
        return address if _resolve(address) is value else None
    except (ImportError, AttributeError):
        return None


def _resolve(address: str) -> Any:
    module, _, qualname = address.partition(":")
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _why_not_defined(value: Any, why: str) -> str:
    what = "a class" if isinstance(value, type) else "a function"
    why = why or "it was not made by a plain definition at the top level of this cell"
    return f"{what}, and a replay cannot define it again: {why}. Give it a cell of its own"


def _separate(cell: str, before: Before, after: Mapping[str, Any], left: Left) -> None:
    """Point to earlier cells' objects instead of copying them; refuse what cannot be pointed to."""
    earlier = {
        name: value
        for name, value in after.items()
        if name in before.names and name not in left.names and not is_toolkit(value)
    }
    try:
        found = grafts.cut(left.names, [n for n in left.changed if n in left.names], earlier)
    except (graph.TooLarge, RecursionError):
        left.searched = False
        return
    if found.refused:
        raise SharedWithEarlierCell(cell, found.refused)
    left.names, left.grafted = found.names, found.grafted


def classify(cell: str, names: Mapping[str, Any]) -> NamesNotRecordable | None:
    """Find out which names cannot be recorded, each on its own; `None` if each of them can."""
    good, bad = [], {}
    for name, value in sorted(names.items()):
        try:
            values.encode(value, _Nowhere(), name=name)
        except Exception as problem:  # whatever a user's class raises is a reason to list it
            found = getattr(problem, "found", "") or f"{type(problem).__name__}: {problem}"
            path = getattr(problem, "path", name)
            bad[name] = found if path == name else f"{path} is a {found}"
        else:
            good.append(name)
    return NamesNotRecordable(cell, good, bad) if bad else None


class _Nowhere:
    """Takes artifacts of a trial encoding, and keeps none."""

    def put(self, data: bytes) -> str:
        return "0" * 64

    def get(self, sha256: str) -> bytes:
        raise values.ArtifactMissing(sha256)


# -- back again ----------------------------------------------------------------------------


def is_record(result: Any) -> bool:
    """Tell whether a recorded result is what a cell left behind, and not a person's verdict."""
    return isinstance(result, dict) and FORMAT in result


def put_back(namespace: MutableMapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """Give a namespace what a cell left behind; the names that came back.

    Raises
    ------
    ValueNotLoadable
        An alias leads nowhere, or to something that is no longer equal.
    """
    found: dict[str, Any] = {}
    for name, module in record["modules"].items():
        found[name] = importlib.import_module(module)
    for name, address in record["references"].items():
        found[name] = _resolve(address)
    recorded, changed = record["names"], record["changed"]
    namespace.update(found)
    for name in changed:
        grafts.change_in_place(namespace, name, recorded[name])
    for name, value in recorded.items():
        back = namespace[name] if name in changed else value
        namespace[name] = grafts.graft(name, back, namespace) if name in record["grafted"] else back
    for name in record["deleted"]:
        namespace.pop(name, None)
    return sorted({*found, *recorded})
