"""What a cell's source says before it runs: names, container or opaque, and its code digest."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, Final

from durable_nb.engine import syntax

#: Name that the cell object has for a moment, between `with` and `if`.
CELL: Final = "__durable_cell__"

#: Line magics whose argument is Python that runs in the notebook's own namespace.
_PYTHON_MAGICS: Final = frozenset({"time", "timeit", "prun", "memit", "mprun", "lprun"})

#: Calls through which a cell can read and bind names that its syntax does not show.
_BLIND: Final = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr"})

_NONE: Final = syntax.Own("", "", syntax.Reads())

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Source:
    """The body of a cell, looked at as syntax; plain data, so that the cell itself can carry it.

    Attributes
    ----------
    reads : tuple of str
        Names that occur anywhere in it, nested functions included.
    binds : tuple of str
        Names that it binds or deletes at its top level.
    managed : tuple of str
        Names that only `with ... as name` binds: what they hold has been left already.
    imports_toolkit : bool
        It imports `durable_nb`.
    blind : bool
        It can read and bind names that the syntax does not show (`exec`, `%run`, ...).
    own : syntax.Own
        What it is, and what it reads from outside of itself.
    """

    reads: tuple[str, ...]
    binds: tuple[str, ...]
    managed: tuple[str, ...]
    imports_toolkit: bool
    blind: bool
    own: syntax.Own

    @classmethod
    def of(cls, body: list[ast.stmt]) -> Source:
        """Look at the body of a cell, after IPython has turned its magics into calls."""
        tree = ast.Module(body, [])
        inner = [*body, *_inside_magics(tree)]
        counts: dict[str, int] = {}
        managed: dict[str, int] = {}
        for name, by_with in bindings(inner):
            counts[name] = counts.get(name, 0) + 1
            managed[name] = managed.get(name, 0) + by_with
        nodes = [node for statement in inner for node in ast.walk(statement)]
        reads = {node.id for node in nodes if isinstance(node, ast.Name)}
        return cls(
            reads=tuple(sorted(reads)),
            binds=tuple(sorted(counts)),
            managed=tuple(sorted(n for n, times in counts.items() if managed[n] == times)),
            imports_toolkit=any(map(_imports_toolkit, nodes)),
            blind=any(map(_is_blind, nodes)),
            own=_own(tree),
        )

    def is_container(self, namespace: Mapping[str, Any]) -> bool:
        """Tell whether the cell names the run, a step or the toolkit, so that its steps count.

        This is read from the source, before the intent, and never from when a crash came.
        """
        return self.imports_toolkit or any(
            is_toolkit(namespace[name]) for name in self.reads if name in namespace
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the syntax says of a cell.

    Attributes
    ----------
    source : Source
        Its body.
    defines : tuple of str
        Functions and classes that a replay defines again from the cell's source.
    refused : Mapping
        Functions and classes that it does not, to why.
    imports, stars : tuple of str
        Names that nothing but its top-level imports binds, and modules imported with a star: a
        replay runs these imports again.
    """

    source: Source
    defines: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    stars: tuple[str, ...] = ()

    def packed(self) -> tuple[Any, ...]:
        """Give it as one constant of Python's own, which can stand in a syntax tree."""
        source, own = self.source, self.source.own
        bare = tuple(getattr(source, f.name) for f in fields(source))[:-1]
        reads = tuple(getattr(own.reads, f.name) for f in fields(own.reads))
        carried = (own.digest, own.shown, reads)
        refused = tuple(self.refused.items())
        return (bare, carried, self.defines, refused, self.imports, self.stars)

    @classmethod
    def unpacked(cls, packed: tuple[Any, ...]) -> Facts:
        """Undo `packed`."""
        bare, (digest, shown, reads), defines, refused, *others = packed
        own = syntax.Own(digest, shown, syntax.Reads(*reads))
        return cls(Source(*(*bare, own)), defines, dict(refused), *others)


def _own(tree: ast.Module) -> syntax.Own:
    """Look at what the cell is; one that does not compile says so itself, a moment later."""
    try:
        return syntax.own_of_cell(tree, ast.Module(_inside_magics(tree), []))
    except SyntaxError:
        return _NONE


def is_toolkit(value: Any) -> bool:
    """Tell whether a value is the toolkit's own: a run, a step, the module or one of its parts."""
    if isinstance(value, ModuleType):
        owner = value.__name__
    else:
        owner = type(value).__module__
        if owner in ("builtins", "functools") or isinstance(value, type):
            owner = getattr(value, "__module__", None) or ""
    return owner == "durable_nb" or str(owner).startswith("durable_nb.")


def bindings(body: Sequence[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Give each top-level binding or deletion of a name, and whether `with ... as` makes it."""
    stack = list(reversed(body))
    while stack:
        node = stack.pop()
        yield from _bound_here(node)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if isinstance(item.optional_vars, ast.Name):
                    yield item.optional_vars.id, True
            stack += [item.context_expr for item in node.items]
            stack += [
                item.optional_vars
                for item in node.items
                if item.optional_vars is not None and not isinstance(item.optional_vars, ast.Name)
            ]
            stack += node.body
        elif isinstance(node, _Scope):
            # inside, only a `global` declaration reaches the top level
            for inner in ast.walk(node):
                if isinstance(inner, ast.Global):
                    yield from ((name, False) for name in inner.names)
        elif isinstance(node, _Comprehension):
            walrus = (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            yield from ((n.target.id, False) for n in walrus)
        else:
            stack += reversed(list(ast.iter_child_nodes(node)))


def _bound_here(node: ast.AST) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id, False
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, False
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], False
    elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name, False
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest, False


def _inside_magics(tree: ast.Module) -> list[ast.stmt]:
    """Parse the Python that `%time` and its like are given as text."""
    found: list[ast.stmt] = []
    for node in ast.walk(tree):
        match _magic(node):
            case name, line if name in _PYTHON_MAGICS:
                words = line.split()
                while words and words[0].startswith("-"):
                    words.pop(0)
                try:
                    found += ast.parse(" ".join(words)).body
                except SyntaxError:  # the magic will say so itself
                    continue
    return found


def _magic(node: ast.AST) -> tuple[str, str] | None:
    """Give name and line of a `%magic`, as IPython writes it."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name("get_ipython")), attr="run_line_magic"),
            args=[ast.Constant(str(name)), ast.Constant(str(line))],
        ):
            return name, line
    return None


def _imports_toolkit(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == "durable_nb" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] == "durable_nb"
    return False


def _is_blind(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == "*" for alias in node.names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        magic = _magic(node)
        if magic is not None:
            return magic[0] not in _PYTHON_MAGICS
        return False
    return isinstance(node, ast.Name) and node.id in _BLIND
