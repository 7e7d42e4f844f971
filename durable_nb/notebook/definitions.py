"""Which imports, functions and classes of a cell a replay may simply define again.

Functions and classes are not values. A replay runs their definitions anew, from the cell's own
source, where that does nothing but define: bound once, and nothing called in decorators, defaults,
bases and class bodies except what is known to be harmless.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from durable_nb.notebook.source import bindings

#: Packages whose functions only build things when a definition calls them.
_HARMLESS_PACKAGES: Final = frozenset(
    {
        "abc", "attr", "attrs", "collections", "contextlib", "dataclasses", "durable_nb", "enum",
        "functools", "pydantic", "re", "types", "typing", "typing_extensions",
    }
)  # fmt: skip
_HARMLESS_BUILTINS: Final = frozenset(
    {
        "bool", "bytes", "classmethod", "complex", "dict", "float", "frozenset", "int", "len",
        "list", "object", "property", "range", "set", "slice", "staticmethod", "str", "super",
        "tuple", "type",
    }
)  # fmt: skip
#: Decorators that Python itself puts on a property.
_ACCESSORS: Final = frozenset({"setter", "getter", "deleter"})

_Def = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a replay defines again.

    Attributes
    ----------
    early : list
        Imports, and definitions that need no value of this cell: before the values come back,
        because these may be instances of them.
    late : list
        Definitions that read a value of this cell when they are made.
    names : tuple of str
        The functions and classes among them.
    refused : Mapping
        Function or class to why it is not among them.
    imports : tuple of str
        Names that only the imports among them bind.
    stars : tuple of str
        Modules that they import with a star.
    """

    early: list[ast.stmt]
    late: list[ast.stmt]
    names: tuple[str, ...]
    refused: Mapping[str, str]
    imports: tuple[str, ...]
    stars: tuple[str, ...]


def find(body: Sequence[ast.stmt], namespace: Mapping[str, Any]) -> Definitions:
    """Pick the definitions at the top level of a cell that a replay may run again."""
    counts: dict[str, int] = {}
    for name, _ in bindings(body):
        counts[name] = counts.get(name, 0) + 1
    harmless = _Harmless(body, namespace)
    early: list[ast.stmt] = []
    late: list[ast.stmt] = []
    names: list[str] = []
    refused: dict[str, str] = {}
    defined = {n for s in body for n in _defines(s)}
    values = set(counts) - defined - {n for s in body for n in _imports(s)}
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            early.append(statement)
        for name in _defines(statement):
            why = "" if counts[name] == 1 else "it is bound more than once"
            why = why or harmless.objection(statement)
            if why:
                refused[name] = why
                values.add(name)
                continue
            uses = {n.id for part in _evaluated(statement) for n in _names(part)}
            if uses & values:
                values.add(name)
                late.append(statement)
            else:
                early.append(statement)
            names.append(name)
    imported = [n for s in body for n in _imports(s)]
    only = sorted({n for n in imported if n != "*" and counts[n] == imported.count(n)})
    stars = [
        s.module for s in body if isinstance(s, ast.ImportFrom) and s.module and "*" in _imports(s)
    ]
    return Definitions(early, late, tuple(names), refused, tuple(only), tuple(stars))


def _defines(statement: ast.stmt) -> list[str]:
    """Name the function or class that a statement defines; `f = lambda` is one."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [statement.name]
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
            return [name]
    return []


def _imports(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [name for name, _ in bindings([statement])]
    return []


def _names(node: ast.AST) -> list[ast.Name]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]


def _evaluated(node: ast.AST) -> list[ast.AST]:
    """Give what Python evaluates while it makes a function or class."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts: list[ast.AST | None] = [*node.decorator_list, node.returns]
            return [p for p in (*parts, *_arguments(node.args)) if p is not None]
        case ast.ClassDef():
            keywords = [k.value for k in node.keywords]
            return [*node.decorator_list, *node.bases, *keywords, *_class_body(node)]
        case ast.Assign(value=ast.Lambda() as function):
            return [p for p in _arguments(function.args) if p is not None]
    return [node]


def _class_body(node: ast.ClassDef) -> list[ast.AST]:
    parts: list[ast.AST] = []
    for statement in node.body:
        parts += _evaluated(statement) if isinstance(statement, _Def) else [statement]
    return parts


def _arguments(args: ast.arguments) -> list[ast.AST | None]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    annotations = [a.annotation for a in every if a is not None]
    return [*args.defaults, *args.kw_defaults, *annotations]


class _Harmless:
    """Judges by syntax, imports and what the names stand for now."""

    def __init__(self, body: Sequence[ast.stmt], namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._imported: dict[str, str] = {}
        for statement in body:
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._imported[name] = alias.name
            elif isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    self._imported[alias.asname or alias.name] = statement.module or ""

    def objection(self, statement: ast.stmt) -> str:
        """Say why defining this again could do something; "" if it cannot."""
        decorators = getattr(statement, "decorator_list", [])
        for decorator in decorators:
            if not self._callable(decorator):
                return f"its decorator @{ast.unparse(decorator)} may do more than define it"
        if isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                why = self._of_class_statement(inner)
                if why:
                    return why
        for part in _evaluated(statement):
            if part not in decorators:
                why = self._of_expression(part)
                if why:
                    return why
        return ""

    def _of_class_statement(self, statement: ast.stmt) -> str:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self.objection(statement)
            case ast.Pass() | ast.Assign() | ast.AnnAssign() | ast.Expr():
                return ""  # their expressions are judged as part of the class
        return f"its body runs code ({type(statement).__name__.lower()} statement)"

    def _of_expression(self, part: ast.AST) -> str:
        for node in ast.walk(part):
            if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
                return f"defining it runs {ast.unparse(node)}"
            if isinstance(node, ast.Call) and not self._callable(node.func):
                return f"defining it calls {ast.unparse(node.func)}()"
        return ""

    def _callable(self, node: ast.expr) -> bool:
        """Tell whether calling this is known to be harmless."""
        if isinstance(node, ast.Call):
            return self._callable(node.func) and not any(
                self._of_expression(a) for a in [*node.args, *(k.value for k in node.keywords)]
            )
        if isinstance(node, ast.Attribute) and node.attr in _ACCESSORS:
            return True
        root: ast.expr = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        if root.id in self._imported:
            return self._imported[root.id].partition(".")[0] in _HARMLESS_PACKAGES
        if root.id in self._namespace:
            return _package(self._resolve(node)) in _HARMLESS_PACKAGES
        return root.id in _HARMLESS_BUILTINS and hasattr(builtins, root.id)

    def _resolve(self, node: ast.expr) -> Any:
        """Find what a dotted name stands for, through plain namespaces only."""
        if isinstance(node, ast.Subscript):
            return self._resolve(node.value)
        if isinstance(node, ast.Attribute):
            holder = self._resolve(node.value)
            if _package(holder) == "durable_nb":
                return holder  # run.step and step.options belong to what they hang on
            return getattr(holder, "__dict__", {}).get(node.attr)
        return self._namespace.get(node.id) if isinstance(node, ast.Name) else None


def _package(value: Any) -> str:
    """Name the package that a callable, its module or its class comes from."""
    if value is None:
        return ""
    kind = type(value).__module__
    if isinstance(value, ModuleType):
        owner = value.__name__
    elif kind.startswith("durable_nb."):
        owner = kind
    else:
        owner = getattr(value, "__module__", None) or kind
    return str(owner).partition(".")[0]
