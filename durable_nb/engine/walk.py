"""The walk from a function through all that it reaches."""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

from durable_nb import values
from durable_nb.engine import constants, syntax
from durable_nb.engine.class_source import (
    class_node,
    described,
    is_generated,
    is_machinery,
    members,
)
from durable_nb.engine.constants import Held, NotPlain
from durable_nb.engine.unwrap import (
    NOTEBOOKS,
    called,
    dict_of,
    functions,
    has_code,
    inside,
    is_under,
    prefix,
    prefix_of_class,
    ref,
    type_text,
)
from durable_nb.model.facets import Part

#: What a name stands for that is not there.
MISSING: Final = object()

#: Names of modules and notebooks that are Python's or IPython's own, whatever they hold.
_OWN: Final = re.compile(r"__\w+__|_+|_i+|_i?\d+|_[oid]h|exit|quit|get_ipython")
#: IPython's history, which is its own as long as it has the type that IPython gives it.
_HISTORY: Final[Mapping[str, type]] = {"In": list, "Out": dict}

#: Items of a list or dict of functions (a table of tools) that are followed.
_ITEMS: Final = 200

_INSTALLED: Final = "installed code"
_ASSIGNED: Final = "assigned by the code itself"


_Get = Callable[..., Any]
_Ref = Callable[[], Any]


@dataclass(slots=True)
class Checks:
    """Everything that was looked at, in a form that is quick to compare.

    Attributes
    ----------
    same, weak, kinds : list
        Where (the `get` of a namespace, a name) what was found: the same object; the same object,
        held weakly; an object of the same type, held weakly.
    codes : list
        Functions, held weakly, with their code and defaults.
    held : Held
        Containers.
    digests, large : list
        Values to digest again; where data is that was too large, and why.
    """

    same: list[tuple[_Get, str, Any]] = field(default_factory=list)
    weak: list[tuple[_Get, str, _Ref]] = field(default_factory=list)
    kinds: list[tuple[_Get, str, _Ref]] = field(default_factory=list)
    codes: list[tuple[_Ref, CodeType, Any]] = field(default_factory=list)
    held: Held = field(default_factory=Held)
    digests: list[tuple[Any, str]] = field(default_factory=list)
    large: list[tuple[_Get, str, str]] = field(default_factory=list)


class _Variable:
    """A variable of an enclosing function, looked up like a namespace."""

    def __init__(self, cell: CellType) -> None:
        self.cell = cell

    def get(self, name: str, default: Any) -> Any:
        """Give what it holds."""
        try:
            return self.cell.cell_contents
        except ValueError:  # not assigned yet
            return default


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value was found.

    Attributes
    ----------
    names : Any
        Has `get`: a namespace, the names of a class, a variable.
    name : str
        The name there.
    label : str
        What people call it.
    kind : str
        First word of its part: constant, default, argument.
    owner : type or None
        The class whose names these are.
    """

    names: Any
    name: str
    label: str
    kind: str = "constant"
    owner: type | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Tell places apart; equal as long as the walk holds what it looked into."""
        names = self.owner or self.names  # the names of a class are another object each time
        return (id(names.cell) if type(names) is _Variable else id(names), self.name)

    @property
    def part(self) -> str:
        return f"{self.kind} {self.label}"


class Walk:
    """One walk: collects parts, what is not watched, and what to check next time."""

    def __init__(self, working: str) -> None:
        self._working = working
        self._parts: dict[str, Part] = {}
        self._unwatched: dict[str, str] = {}
        self._seen: dict[int, Any] = {}
        self._todo: list[Callable[[], None]] = []
        self._values: list[tuple[_Place, Any]] = []
        self._places: dict[tuple[int, str], _Place] = {}
        self._assigned: set[tuple[int, str]] = set()
        self._attributes: set[str] = set()
        self.checks = Checks()

    def result(self) -> tuple[Mapping[str, Part], Mapping[str, str]]:
        """Walk to the end; give the parts and what is not watched, by name."""
        while self._todo:
            self._todo.pop(0)()
        for place, value in self._values:  # now that all assignments are known
            self._of_value(place, value)
        return dict(sorted(self._parts.items())), dict(sorted(self._unwatched.items()))

    def add(self, name: str, part: Part) -> None:
        """Add a part; another one of the same name gets a number, in the order of the code."""
        number, free = 1, name
        while free in self._parts and self._parts[free].digest != part.digest:
            number += 1
            free = f"{name} ({number})"
        self._parts[free] = part

    def leave(self, name: str, why: str) -> None:
        """Note that something is not watched."""
        self._unwatched.setdefault(name, values.one_line(why))

    def _is_new(self, thing: Any) -> bool:
        if id(thing) in self._seen:
            return False
        self._seen[id(thing)] = thing
        return True

    # -- functions and cells ------------------------------------------------------------------

    def of_cell(
        self, own: syntax.Own, namespace: Mapping[str, Any], inputs: frozenset[str]
    ) -> None:
        """Begin with a cell."""
        self.add("code", Part(own.digest, own.shown))
        for name in own.reads.early:
            if name in namespace and name not in inputs and not is_own(name, namespace):
                self.leave(name, f"{_ASSIGNED}, after it was read")
        self._follow(own.reads, namespace, {}, "", inputs)

    def of_function(self, fn: FunctionType, part: str = "", *, follow: bool = True) -> None:
        """Follow a function; `part` is the name that its own code gets, if any."""
        if not self._is_new(fn):
            return
        code = fn.__code__
        own = syntax.own(code)
        if part:
            self.add(part, Part(own.digest, own.shown))
        self.checks.codes.append((weakref.ref(fn), code, fn.__defaults__))
        if not follow:
            return
        before = prefix(fn.__globals__)
        self._of_defaults(fn, own, before)
        outer = before + code.co_qualname.rpartition(".<locals>.")[0]
        cells = {
            name: _Place(_Variable(cell), name, f"{outer}.{name}".lstrip("."))
            for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True)
        }
        self._follow(own.reads, fn.__globals__, cells, before)

    def _of_defaults(self, fn: FunctionType, own: syntax.Own, before: str) -> None:
        """Take defaults by value, unless the source says it all."""
        code, given = fn.__code__, fn.__defaults__ or ()
        placed = code.co_varnames[: code.co_argcount]
        pairs = dict(zip(placed[len(placed) - len(given) :], given, strict=True))
        for names in (pairs, fn.__kwdefaults__ or {}):
            for name in names:
                if name not in own.literals:
                    label = f"{before}{code.co_qualname}.{name}"
                    self.of_place(_Place(names, name, label, "default"))

    def _follow(
        self,
        reads: syntax.Reads,
        namespace: Mapping[str, Any],
        cells: Mapping[str, _Place],
        before: str,
        inputs: frozenset[str] = frozenset(),
    ) -> None:
        for name in reads.assigned:
            self._assigned.add(cells[name].key if name in cells else (id(namespace), name))
        heads = {chain[0] for chain in reads.chains}
        for head, *dots in reads.attributes:
            if head == syntax.CLASS:
                self._attributes.add(dots[-1])
            elif head in heads:
                place = cells.get(head) or _Place(namespace, head, head)
                self._assign(place.names.get(head, MISSING), dots)
        for name in reads.imports:
            self.leave(f"module {name or '.'}", "imported where it is used")
        for name, *dots in reads.chains:
            if name in inputs or is_own(name, namespace):
                continue
            self.of_place(cells.get(name) or _Place(namespace, name, before + name), dots)

    def _assign(self, holder: Any, dots: list[str]) -> None:
        """Note that an attribute is assigned, of a module or class."""
        while len(dots) > 1 and issubclass(type(holder), ModuleType | type):
            holder = dict_of(holder).get(dots.pop(0), MISSING)
        if issubclass(type(holder), type):
            self._assigned.add((id(holder), dots[0]))
        elif issubclass(type(holder), ModuleType):
            self._assigned.add((id(dict_of(holder)), dots[0]))

    # -- what a name stands for ---------------------------------------------------------------

    def of_place(self, place: _Place, dots: list[str] | None = None) -> None:
        """Follow a name, through modules of the user's own by dots."""
        dots = list(dots or ())
        while True:
            value = place.names.get(place.name, MISSING)
            if not issubclass(type(value), ModuleType):
                break
            self._check_weakly(place, value)
            inside = dict_of(value)
            called = str(inside.get("__name__", place.name))
            if not self.is_ours(inside):
                self.leave(f"module {called}", _INSTALLED)
                return
            if not dots:
                self.leave(f"module {called}", "used as a whole")
                return
            name = dots.pop(0)
            place = _Place(inside, name, f"{called}.{name}")
        if place.key in self._places:
            return
        self._places[place.key] = place
        if value is MISSING:
            self.checks.same.append((place.names.get, place.name, MISSING))
            if place.name not in vars(builtins):
                self.leave(place.label, "not defined")
            return
        try:
            self._of_object(place, value)
        except Exception as problem:  # a class whose metaclass or codec raises
            self._by_type(place, value, f"cannot be looked at ({type(problem).__name__})")

    def _of_object(self, place: _Place, value: Any) -> None:
        """Sort what a name stands for: code to follow, or a value to look at in the end."""
        kind = type(value)
        if has_code(value) or issubclass(kind, type) or kind is BuiltinFunctionType:
            self._check_weakly(place, value)
            if not self.of_code(value, place.label):
                self._by_name(place, value)
        else:
            if self.is_our_class(kind):
                self.of_class(kind)
            self._values.append((place, value))

    def of_code(self, value: Any, label: str, part: str = "") -> bool:
        """Follow code of the user's own; False for a function or class that is installed."""
        if issubclass(type(value), type):
            if self.is_our_class(value):
                self.of_class(value, part)
                return True
            return False
        followed = False
        for inner in inside(value):
            if type(inner) is FunctionType:
                if not self.is_ours(inner.__globals__):
                    continue
                name = part or f"helper {prefix(inner.__globals__)}{inner.__code__.co_qualname}"
                self._todo.append(functools.partial(self.of_function, inner, name))
                followed = True
            else:
                followed |= self.of_code(inner, label, part)
            part = ""  # only the first one is the function itself
        if type(value) is MethodType:
            self._of_instance(value.__self__, label)
        if issubclass(type(value), functools.partial):
            self.of_arguments(value)
        return followed

    def _of_instance(self, owner: Any, label: str) -> None:
        """Take an object whose method is called by its class."""
        kind = owner if issubclass(type(owner), type) else type(owner)
        if self.is_our_class(kind):
            self.of_class(kind)
        if kind is not owner:
            self.leave(f"{label}.__self__", type_text(kind))

    def of_arguments(self, given: functools.partial[Any]) -> None:
        """Take the arguments of a partial by value."""
        placed = {str(number): value for number, value in enumerate(given.args)}
        for names in (placed, given.keywords):
            for name in names:
                self.of_place(_Place(names, name, f"{name} of partial", "argument"))

    # -- classes ------------------------------------------------------------------------------

    def of_class(self, cls: type, part: str = "") -> None:
        """Follow a class: its own source, its bases, what its methods read, its attributes."""
        if not self._is_new(cls):
            return
        label = prefix_of_class(cls) + cls.__qualname__
        inner = list(members(cls))
        node = class_node(cls, inner)
        if node is None:
            text = "\n".join(described(cls, inner))
            made = Part(f"class:{syntax.digest_text(text)}", values.redact(text)[: syntax.SHOWN])
        else:
            digest = f"ast:{syntax.digest_text(syntax.syntax_text(node))}"
            made = Part(digest, syntax.shown_source(node))
        self.add(part or f"class {label}", made)
        for base in (*type.__dict__["__bases__"].__get__(cls), type(cls)):
            if self.is_our_class(base):
                self.of_class(base)
        names = dict_of(cls)
        for name, value in inner:
            place = _Place(names, name, f"{label}.{name}", owner=cls)
            self._of_member(cls, place, value)

    def _of_member(self, cls: type, place: _Place, value: Any) -> None:
        code = functions(value)
        if not code:
            if not is_machinery(cls, place.name, value):
                self.of_place(place)
            return
        self._check_weakly(place, value)
        for fn in code:
            own_name = fn.__code__.co_qualname.startswith(f"{cls.__qualname__}.")
            name = "" if own_name else f"helper {fn.__code__.co_qualname}"
            if self.is_ours(fn.__globals__) and not is_generated(fn):
                self._todo.append(functools.partial(self.of_function, fn, name))

    # -- values -------------------------------------------------------------------------------

    def _of_value(self, place: _Place, value: Any) -> None:
        """Take plain data by value, all else by type."""
        by_class = place.owner is not None and place.name in self._attributes
        if by_class or place.key in self._assigned:
            self._check_kind(place, value)
            self.leave(place.label, _ASSIGNED)
            return
        try:
            plain = constants.look(value)
        except NotPlain as problem:
            if type(value) in (list, tuple, dict) and not str(problem).startswith("larger"):
                self._of_table(place, value)
            elif constants.is_taken(type(value)):  # what is in there may change, and then count
                self.checks.large.append((place.names.get, place.name, str(problem)))
            self._by_type(place, value, str(problem))
            return
        except Exception as problem:  # a codec or a class that raises when it is looked at
            self._by_type(place, value, f"cannot be looked at ({type(problem).__name__})")
            return
        self.checks.same.append((place.names.get, place.name, value))
        if plain.held is None:
            self.checks.digests.append((value, plain.digest))
        else:
            self.checks.held.join(plain.held)
        self.add(place.part, Part(plain.digest, values.preview(value, name=place.name)))

    def _of_table(self, place: _Place, value: Any) -> None:
        """Follow the functions in a list or dict of them; what else is in there is not watched."""
        self.checks.same.append((place.names.get, place.name, value))
        items = list(value.values()) if type(value) is dict else list(value)
        self.checks.held.add(value)
        for item in items[:_ITEMS]:
            self.of_code(item, place.label)
        while self._todo:
            self._todo.pop(0)()

    def _by_type(self, place: _Place, value: Any, why: str = "") -> None:
        self._check_kind(place, value)
        kind = type_text(type(value))
        self.add(f"type of {place.label}", Part(f"type:{syntax.digest_text(kind)}", kind))
        plain_why = f"holds a {kind}"
        self.leave(place.label, kind if not why or why == plain_why else f"{kind}, {why}")

    def _by_name(self, place: _Place, value: Any) -> None:
        """Take installed functions and classes by name."""
        name = called(value)
        self.add(f"type of {place.label}", Part(f"type:{syntax.digest_text(name)}", name))
        self.leave(place.label, f"{name}, {_INSTALLED}")

    # -- checks -------------------------------------------------------------------------------

    def _check_weakly(self, place: _Place, value: Any) -> None:
        self.checks.weak.append((place.names.get, place.name, ref(value)))

    def _check_kind(self, place: _Place, value: Any) -> None:
        self.checks.kinds.append((place.names.get, place.name, weakref.ref(type(value))))

    # -- whose code ---------------------------------------------------------------------------

    def is_ours(self, namespace: Mapping[str, Any]) -> bool:
        """Tell whether a namespace is a notebook's, or a module's under the working folder."""
        name, file = namespace.get("__name__"), namespace.get("__file__")
        if name is None or name in NOTEBOOKS:
            return True
        if str(name).partition(".")[0] == "durable_nb":
            return False
        if not isinstance(file, str):
            return name not in sys.modules  # made by hand; what is imported and has no file is C
        return is_under(file, self._working)

    def is_our_class(self, cls: type) -> bool:
        """Tell whether a class is defined in the user's own code."""
        name = type.__dict__["__module__"].__get__(cls)
        if name in NOTEBOOKS:
            return True
        module = sys.modules.get(name) if isinstance(name, str) else None
        return module is not None and self.is_ours(dict_of(module))


def root_of_call(walk: Walk, fn: Any) -> None:
    """Begin a walk with what is called: its own code is the part ``code``, whoever wrote it."""
    kind = type(fn)
    if issubclass(kind, type):
        walk.of_code(fn, fn.__qualname__, "code")
        return
    if not has_code(fn):  # an object that can be called
        call = inspect.getattr_static(kind, "__call__", None)
        if type(call) is FunctionType:
            walk.of_function(call, "code", follow=walk.is_ours(call.__globals__))
            if walk.is_our_class(kind):
                walk.of_class(kind)
            walk.leave("self", type_text(kind))
        return
    first = functions(fn)
    if first:
        walk.of_function(first[0], "code", follow=walk.is_ours(first[0].__globals__))
    walk.of_code(fn, "self")


def is_own(name: str, namespace: Mapping[str, Any]) -> bool:
    """Tell whether a name is Python's or IPython's own."""
    if name in _HISTORY:
        return type(namespace.get(name)) is _HISTORY[name]
    return _OWN.fullmatch(name) is not None
