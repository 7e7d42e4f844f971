"""The source of a function that is running: its syntax tree, a digest of it, the names it reads."""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import functools
import hashlib
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, Final

from durable_nb import values

#: Longest source that is kept to be shown, in characters.
SHOWN: Final = 2000

#: Stands for the name of a class that only the running code knows: `cls.n`, `type(self).n`.
CLASS: Final = "<class>"

#: What is remembered of each; beyond that all of it is looked up again.
_KEPT_CODES: Final = 4096
_KEPT_FILES: Final = 256

_FUTURES: Final = sum(getattr(__future__, f).compiler_flag for f in __future__.all_feature_names)

#: Instructions that look a name up outside of the function, bind one there, or go on by a dot.
_READS: Final = frozenset(
    {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_DEREF", "LOAD_CLASSDEREF",
     "LOAD_FROM_DICT_OR_DEREF"}
)  # fmt: skip
_DOTS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"})
#: Instructions that leave what was loaded where it is: the second is for `a.b += 1`.
_PASSES: Final = frozenset({"EXTENDED_ARG", "COPY"})
_BINDS_GLOBAL: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_BINDS: Final = frozenset({"STORE_NAME", "DELETE_NAME"})

Chain = tuple[str, ...]
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Reads:
    """The names that some code reads from outside of itself; plain data.

    Attributes
    ----------
    chains : tuple of tuple of str
        Names with the attributes that follow them by dots, in the order of the code.
    assigned : tuple of str
        Names outside of itself that it binds: globals, and variables of an enclosing function.
    attributes : tuple of tuple of str
        Attributes that it assigns, by dots from a name; from `CLASS` where it is of some class.
    imports : tuple of str
        Modules that it imports itself.
    early : tuple of str
        Of a cell: names that it reads before it binds them.
    """

    chains: tuple[Chain, ...] = ()
    assigned: tuple[str, ...] = ()
    attributes: tuple[Chain, ...] = ()
    imports: tuple[str, ...] = ()
    early: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Own:
    """What a function's or cell's own source says; plain data.

    Attributes
    ----------
    digest : str
        ``ast:`` of the syntax tree; ``bytecode:`` where no source is to be had.
    shown : str
        The source for people, redacted, at most `SHOWN` characters.
    reads : Reads
        What it reads.
    literals : tuple of str
        Parameters whose default is a literal constant, which the syntax tree says already.
    """

    digest: str
    shown: str
    reads: Reads
    literals: tuple[str, ...] = ()


def syntax_text(tree: ast.AST) -> str:
    """Give a syntax tree as text: what comments, blank lines and quote style do not change.

    Empty fields are left out: a later Python has more of them, and a digest must not change with
    the interpreter.
    """
    if isinstance(tree, ast.Constant):
        return f"{type(tree.value).__name__}:{tree.value!r}"
    said = ((name, getattr(tree, name, None)) for name in tree._fields)
    fields = [f"{name}={_field_text(value)}" for name, value in said if value not in (None, [])]
    return f"{type(tree).__name__}({', '.join(fields)})"


def _field_text(value: object) -> str:
    if isinstance(value, ast.AST):
        return syntax_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_field_text, value))}]"
    return repr(value)


def digest_text(text: str) -> str:
    """Digest a text: 32 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def shown_source(tree: ast.AST) -> str:
    """Write a syntax tree as source for people."""
    text = values.redact(ast.unparse(tree))
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


# -- of a code object -------------------------------------------------------------------------

#: id of a code object -> itself and what is known of it. Equal code objects may differ in what
#: the syntax alone says (annotations), so equality is not enough; holding them keeps ids theirs.
_codes: Final[dict[int, tuple[CodeType, Own]]] = {}


def own(code: CodeType) -> Own:
    """Say what a function's own source is; decorators do not count.

    The source on disk or in the notebook may be newer than the code that runs. It is taken only
    where it compiles to this very code; else the bytecode is what counts.
    """
    known = _codes.get(id(code))
    if known is not None:
        return known[1]
    found = _look(code)
    if len(_codes) >= _KEPT_CODES:
        _codes.clear()
    _codes[id(code)] = (code, found)
    return found


def _look(code: CodeType) -> Own:
    reads = reads_of_code(code)
    node = _node_of(code)
    if node is None:
        shown = f"{code.co_qualname}, of which there is no source"
        return Own(f"bytecode:{digest_text(_bytecode(code))}", shown, reads)
    bare = _undecorated(node)
    digest = f"ast:{digest_text(syntax_text(bare))}"
    reads = replace(reads, attributes=_once(_assigned(node)))
    return Own(digest, shown_source(bare), reads, tuple(_literals(node)))


def class_node(cls: type, code: CodeType) -> ast.ClassDef | None:
    """Find the statement that defines a class, given the code of one of its methods."""
    source = _source(code)
    name, qualname = cls.__name__, cls.__qualname__
    method = None if source is None else source.find(code)
    if source is None or method is None:
        return None
    for known, node in source.nodes:
        if known == qualname and isinstance(node, ast.ClassDef) and node.name == name:
            inside = node.lineno <= method.lineno <= (node.end_lineno or node.lineno)
            bare = _undecorated(node)
            if inside and isinstance(bare, ast.ClassDef):
                return bare
    return None


def _undecorated(node: Any) -> ast.AST:
    bare: ast.AST = copy.copy(node)  # the tree of the file is kept, and asked again
    if hasattr(bare, "decorator_list"):
        bare.decorator_list = []
    return bare


def _literals(node: _Function) -> Iterator[str]:
    args = node.args
    placed = [*args.posonlyargs, *args.args]
    last = placed[len(placed) - len(args.defaults) :]
    pairs = [*zip(last, args.defaults, strict=True)]
    for arg, default in [*pairs, *zip(args.kwonlyargs, args.kw_defaults, strict=True)]:
        if isinstance(default, ast.Constant):
            yield arg.arg


# -- files and cells ---------------------------------------------------------------------------


#: The fields of statements that hold statements, or parts of a statement that hold some.
_BLOCKS: Final = ("body", "handlers", "orelse", "finalbody", "cases")


class _Source:
    """One file or cell: its tree, and the code that it compiles to."""

    def __init__(self, text: str, flags: int) -> None:
        tree = ast.parse(text)
        # An await outside of functions is what IPython allows.
        flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        top = compile(text, "<source>", "exec", flags=flags, dont_inherit=True)
        self.codes: dict[str, list[CodeType]] = {}
        for code in _all_codes(top):
            self.codes.setdefault(code.co_qualname, []).append(code)
        children = ast.iter_child_nodes if "lambda" in text else _statements
        self.nodes: list[tuple[str, ast.AST]] = list(_qualified(tree, "", children))

    def find(self, code: CodeType) -> _Function | None:
        """Find the function whose code this is."""
        same = _bytecode(code)
        lines = code.co_firstlineno
        rivals = sorted(
            (c for c in self.codes.get(code.co_qualname, ()) if _bytecode(c) == same),
            key=lambda c: (abs(c.co_firstlineno - lines), not _same_place(c, code)),
        )
        for rival in rivals:
            nodes = [n for q, n in self.nodes if q == code.co_qualname and _begins(n, rival)]
            if len(nodes) > 1:
                nodes = [n for n in nodes if _spans(n, rival)]
            if len(nodes) == 1 and isinstance(nodes[0], _Function):
                return nodes[0]
        return None


_sources: Final[dict[tuple[str, int], tuple[list[str], _Source | None]]] = {}


def _source(code: CodeType) -> _Source | None:
    """Parse the file or cell that a code object says it comes from."""
    name, flags = code.co_filename, code.co_flags & _FUTURES
    linecache.checkcache(name)
    lines = linecache.getlines(name)
    known = _sources.get((name, flags))
    if known is not None and known[0] is lines:
        return known[1]
    try:
        made = _Source("".join(lines), flags) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        made = None
    if len(_sources) >= _KEPT_FILES:
        _sources.clear()
    if lines:
        _sources[name, flags] = (lines, made)
    return made


def _node_of(code: CodeType) -> _Function | None:
    source = _source(code)
    return None if source is None else source.find(code)


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


def _qualified(
    node: ast.AST, prefix: str, children: Callable[[ast.AST], Iterator[ast.AST]]
) -> Iterator[tuple[str, ast.AST]]:
    """Give all functions and classes with the qualified names that Python gives them."""
    for inner in children(node):
        if isinstance(inner, _Function | ast.ClassDef):
            name = f"{prefix}{getattr(inner, 'name', '<lambda>')}"
            yield name, inner
            below = f"{name}." if isinstance(inner, ast.ClassDef) else f"{name}.<locals>."
            for part in children(inner):
                # what stands beside the body is evaluated outside: defaults, decorators, bases
                is_body = part in _body(inner)
                holder = ast.Module([part], [])  # type: ignore[list-item]  # any node will do
                yield from _qualified(holder, below if is_body else prefix, children)
        else:
            yield from _qualified(inner, prefix, children)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Give what is in a statement but expressions, where those hold no function: a fifth."""
    for name in _BLOCKS:
        yield from getattr(node, name, ())


def _body(node: Any) -> list[ast.AST]:
    return node.body if isinstance(node.body, list) else [node.body]


def _begins(node: Any, code: CodeType) -> bool:
    decorators = getattr(node, "decorator_list", ())
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return bool(first == code.co_firstlineno)


def _spans(node: ast.AST, code: CodeType) -> bool:
    """Tell several lambdas of a line apart: the body ends where the code does."""
    if not isinstance(node, ast.Lambda):
        return False
    body = node.body
    return (body.end_lineno, body.end_col_offset) == _end(code)


def _end(code: CodeType) -> tuple[int, int]:
    places = [(p[1], p[3]) for p in code.co_positions() if p[1] is not None and p[3] is not None]
    return max(((line, column) for line, column in places if line and column), default=(0, 0))


def _same_place(one: CodeType, other: CodeType) -> bool:
    return _end(one) == _end(other)


def _bytecode(code: CodeType) -> str:
    """Describe a code object by what it does: without places, and without the hash seed."""
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = [_constant(c) for c in code.co_consts]
    handlers = code.co_exceptiontable.hex()
    return f"{code.co_code.hex()}|{handlers}|{shape}|{names}|{constants}"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _bytecode(value)
    if type(value) is frozenset:
        return f"frozenset:{sorted(map(_constant, value))}"
    if type(value) is tuple:
        return f"tuple:{[_constant(item) for item in value]}"
    return f"{type(value).__name__}:{value!r}"


# -- names --------------------------------------------------------------------------------------


def reads_of_code(code: CodeType) -> Reads:
    """Say which names a function, with all functions inside it, reads from outside."""
    noted = _Noted()
    for inner in _all_codes(code):
        noted.scan(inner, outer=frozenset(code.co_freevars), is_cell=False)
    noted.chains += [(name,) for name in code.co_freevars]
    return noted.reads(frozenset())


def own_of_cell(tree: ast.Module, more: ast.Module | None = None) -> Own:
    """Say what the source of a cell is, and which names it reads and does not bind.

    Parameters
    ----------
    tree : ast.Module
        The body of the cell.
    more : ast.Module, optional
        Python that stands in its magics as text; it only adds names.
    """
    noted = _Noted()
    for part in [tree] if more is None or not more.body else [tree, more]:
        top = _compiled(part)
        for code in _all_codes(top):
            noted.scan(code, outer=frozenset(), is_cell=code is top)
    binds = frozenset(noted.binds)
    digest = f"ast:{digest_text(syntax_text(tree))}"
    reads = replace(noted.reads(binds), attributes=_once(_assigned(tree)))
    return Own(digest, shown_source(tree), reads)


def _compiled(part: ast.Module) -> CodeType:
    """Compile a tree; one with parts that stand nowhere as a copy in which they do."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        top = compile(part, "<cell>", "exec", flags=flags, dont_inherit=True)
    except TypeError:  # "required field lineno missing"
        placed = ast.fix_missing_locations(copy.deepcopy(part))
        top = compile(placed, "<cell>", "exec", flags=flags, dont_inherit=True)
    assert isinstance(top, CodeType)
    return top


class _Noted:
    """Collects names from instructions."""

    def __init__(self) -> None:
        self.chains: list[Chain] = []
        self.assigned: list[str] = []
        self.imports: list[str] = []
        self.binds: list[str] = []
        self.early: list[str] = []

    def scan(self, code: CodeType, *, outer: frozenset[str], is_cell: bool) -> None:
        """Note what one code object reads and binds outside of itself."""
        steps = list(dis.get_instructions(code))
        mine = {step.argval for step in steps if step.opname in _BINDS}
        chain: list[str] | None = None
        for step in steps:
            op, name = step.opname, step.argval
            if chain is not None and op in _DOTS:
                chain.append(name)
                continue
            if chain is not None and op not in _PASSES:
                self.chains.append(tuple(chain))
                chain = None
            if op in _READS:
                foreign = name in outer if "DEREF" in op else (is_cell or name not in mine)
                chain = [name] if foreign else None
                if is_cell and op == "LOAD_NAME" and name not in self.binds:
                    self.early.append(name)
            elif op in _BINDS_GLOBAL:
                (self.assigned if not is_cell else self.binds).append(name)
                self.binds.append(name)
            elif op in _BINDS and is_cell:
                self.binds.append(name)
            elif op == "STORE_DEREF" and name in outer:
                self.assigned.append(name)
            elif op == "IMPORT_NAME":
                self.imports.append(name)
        if chain is not None:
            self.chains.append(tuple(chain))

    def reads(self, binds: frozenset[str]) -> Reads:
        """Give what was noted, each thing once, in the order of the code."""
        return Reads(
            _once(c for c in self.chains if c[0] not in binds),
            _once(self.assigned),
            (),
            _once(self.imports),
            _once(name for name in self.early if name in binds),
        )


def _assigned(tree: ast.AST) -> Iterator[Chain]:
    """Give the attributes that some source assigns, but for those of local objects like `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            dots, holder = [node.attr], node.value
            while isinstance(holder, ast.Attribute) and holder.attr != "__class__":
                dots.insert(0, holder.attr)
                holder = holder.value
            if isinstance(holder, ast.Name) and holder.id != "cls":
                yield (holder.id, *dots)
            else:
                yield (CLASS, *dots)


def _once(found: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(found))


# -- functions ----------------------------------------------------------------------------------


def innermost(fn: Callable[..., Any]) -> Any:
    """Take off what is wrapped around a function: partials, methods, steps, decorators."""
    while True:
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "__func__", None)
        if isinstance(fn, functools.partial):
            inner = fn.func
        if inner is None:
            return fn
        fn = inner


def code_of(fn: Callable[..., Any]) -> str | None:
    """Digest a function's own code by its syntax tree; `None` where there is no Python code.

    Comments, blank lines and quote style do not count. Docstrings do: agent frameworks hand them
    to the model as a tool's description. Decorators do not: their options are not the body.
    """
    code = getattr(innermost(fn), "__code__", None)
    return own(code).digest if isinstance(code, CodeType) else None
