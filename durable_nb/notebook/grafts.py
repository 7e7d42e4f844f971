"""Objects that a cell shares with earlier cells: recorded as where they are, not as a copy.

A record holds what a cell left behind as one value. Where that value holds an object of an earlier
cell, it is cut off and replaced by an `Alias`, the path to it; a replay grafts the object back on,
once it has seen that it is still equal. What cannot be cut (a part of somebody's own class, of a
set, of a key) is refused by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from durable_nb import values
from durable_nb.notebook import graph

#: Types that a replay changes in place, as the cell did, so that all names for them see it.
_IN_PLACE: Final = (list, dict, set, bytearray, deque)

Owners = Mapping[int, tuple[str, graph.Path | None]]


@dataclass(frozen=True, slots=True)
class Alias:
    """Stands in a record for an object that the namespace has already.

    Attributes
    ----------
    name, path
        Where it is.
    digest : str
        What it was like; "" for an object that the same record changes.
    """

    name: str
    path: tuple[Any, ...]
    digest: str


def _to_list(alias: Alias) -> list[Any]:
    return [alias.name, [list(step) for step in alias.path], alias.digest]


def _from_list(parts: list[Any]) -> Alias:
    name, path, digest = parts
    return Alias(name, tuple(tuple(step) for step in path), digest)


values.register_codec("notebook.alias", Alias, 1, _to_list, _from_list)


def digest_of(value: Any) -> str:
    """Give a digest, or a text that says that there is none."""
    try:
        return values.digest(value)
    except Exception as problem:  # a user's class may raise anything when it is looked at
        return f"none: {type(problem).__name__}"


# -- cutting ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """Names with aliases in them.

    Attributes
    ----------
    names : dict
        What to record.
    grafted : list of str
        Those that hold an alias.
    refused : dict
        Names that share what cannot be cut off, to what that is.
    """

    names: dict[str, Any]
    grafted: list[str]
    refused: dict[str, str]


def cut(names: Mapping[str, Any], changed: list[str], earlier: Mapping[str, Any]) -> Cut:
    """Replace what belongs to earlier cells by where it is.

    Parameters
    ----------
    names : Mapping
        What the cell leaves behind.
    changed : list of str
        Those of them whose object is an earlier cell's, and was changed in place.
    earlier : Mapping
        Names of earlier cells that the cell leaves as they were.

    Raises
    ------
    graph.TooLarge
        The namespace cannot be searched.
    """
    mine = {id(value) for _, _, value in graph.walk(names)}
    owners: dict[int, tuple[str, graph.Path | None]] = {}
    roots: dict[int, str] = {}
    for name in changed:
        roots.setdefault(id(names[name]), name)
    owners.update({key: (name, ()) for key, name in roots.items()})
    refused: dict[str, str] = {}
    companions: dict[str, Any] = {}
    for name, path, value in graph.walk(earlier, not_into=roots) if mine else ():
        root = roots.get(id(value))
        if root is not None and not _can_change_in_place(value):
            if path == ():
                companions[name] = Alias(root, (), "")
            else:
                refused[root] = graph.spelled(name, path)
        elif id(value) in mine:
            owners.setdefault(id(value), (name, path))
    knife = _Knife(owners, set(roots))
    made = {n: knife.cut(v, is_root=roots.get(id(v)) == n) for n, v in names.items()}
    others = {n: v for n, v in made.items() if n not in changed}
    for name, _, value in graph.walk(others):
        if id(value) in owners:
            refused.setdefault(name, graph.spelled(*owners[id(value)]))
    for name, _, value in graph.walk({n: made[n] for n in changed}):
        if id(value) in owners and id(value) not in roots:
            refused.setdefault(name, graph.spelled(*owners[id(value)]))
    made |= companions
    grafted = sorted({n for n in made if made[n] is not names.get(n)})
    return Cut(made, grafted, refused)


class _Knife:
    """Copies the containers on the way to an alias, and nothing else."""

    def __init__(self, owners: Owners, roots: set[int]) -> None:
        self._owners, self._roots = owners, roots
        self._memo: dict[int, Any] = {}

    def cut(self, value: Any, *, is_root: bool = False) -> Any:
        """Give the value with aliases in it; itself, if it holds none."""
        if graph.is_atom(value):
            return value
        key = id(value)
        if key in self._owners and not is_root:
            name, path = self._owners[key]
            if path is None:
                return value  # nowhere to point to: it is refused
            return Alias(name, path, "" if key in self._roots else digest_of(value))
        if key in self._memo:
            return self._memo[key]
        kind = type(value)
        self._memo[key] = value
        made: Any = value
        if kind is list:
            made = [self.cut(part) for part in value]
        elif kind is tuple:
            made = tuple(self.cut(part) for part in value)
        elif kind is dict:
            made = {k: self.cut(part) for k, part in value.items()}
        if made is not value and _same_parts(made, value):
            made = value
        self._memo[key] = made
        return made


def _same_parts(one: Any, other: Any) -> bool:
    pairs = zip(one.values(), other.values(), strict=True) if isinstance(one, dict) else None
    return all(a is b for a, b in (pairs or zip(one, other, strict=True)))


def _can_change_in_place(value: Any) -> bool:
    return type(value) in _IN_PLACE or _has_plain_state(value)


def _has_plain_state(value: Any) -> bool:
    """Tell whether all there is to an object is its `__dict__`."""
    kind = type(value)
    return (
        kind.__module__ == "__main__"
        and kind.__bases__ == (object,)
        and "__slots__" not in vars(kind)
    )


# -- grafting -----------------------------------------------------------------------------


def change_in_place(namespace: MutableMapping[str, Any], name: str, value: Any) -> None:
    """Give an object of an earlier cell its recorded state; bind it anew where that cannot be."""
    there: Any = namespace.get(name)
    if type(there) is not type(value) or not _can_change_in_place(value):
        namespace[name] = value
    elif isinstance(there, dict | set):
        there.clear()
        there.update(value)
    elif isinstance(there, list | bytearray):
        there[:] = value
    elif isinstance(there, deque):
        there.clear()
        there.extend(value)
    else:
        vars(there).clear()
        vars(there).update(vars(value))


def graft(name: str, value: Any, namespace: Mapping[str, Any]) -> Any:
    """Put the objects of earlier cells back where a record has aliases for them.

    Raises
    ------
    ValueNotLoadable
        One is gone, or no longer equal to what it was.
    """
    seen: set[int] = set()

    def put(part: Any) -> Any:
        if isinstance(part, Alias):
            return _follow(name, part, namespace)
        if id(part) in seen:
            return part
        seen.add(id(part))
        if type(part) is list:
            _fill(part, range(len(part)), put)
        elif type(part) is dict:
            _fill(part, list(part), put)
        elif type(part) is tuple:
            made = tuple(map(put, part))
            return part if _same_parts(made, part) else made
        return part

    return put(value)


def _fill(container: Any, keys: Any, put: Callable[[Any], Any]) -> None:
    for key in keys:
        made = put(container[key])
        if made is not container[key]:
            container[key] = made


def _follow(name: str, alias: Alias, namespace: Mapping[str, Any]) -> Any:
    where = graph.spelled(alias.name, alias.path)
    try:
        value = graph.follow(namespace, alias.name, alias.path)
    except (LookupError, AttributeError, TypeError):
        reason = f"it is or holds {where}, which is not there now"
    else:
        if not alias.digest or digest_of(value) == alias.digest:
            return value
        reason = f"it is or holds {where}, which is no longer equal to what it was"
    raise values.ValueNotLoadable(f"name {name}", reason, f"run the cell that makes {alias.name}")
