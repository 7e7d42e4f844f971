"""How `%%durable` becomes a guarded cell: two stages of IPython's own pipeline, both without state.

1. `rewrite`, an input transformer: the line ``%%durable ARGS`` becomes one marker line, so that all
   line numbers stay true and IPython goes on with its own work on the rest of the cell.
2. `Wrapper`, a syntax-tree transformer: the body below the marker is wrapped in
   ``with cell: if cell.needed: <body>``, and its last expression handed to the display hook.

It fails closed. The marker is a call of a cell magic that only raises, so a body whose marker the
second stage did not replace does not run, whatever went wrong before.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

from IPython.core.error import InputRejected
from IPython.core.inputtransformer2 import make_tokens_by_line

from durable_nb.notebook.definitions import find
from durable_nb.notebook.source import CELL, Facts, Source

_FIRST: Final = re.compile(r"%%durable(?=\s|$)(?P<args>.*)")
_MAGIC: Final = re.compile(r"%%(?P<name>\w+)")
_FUTURE: Final = re.compile(r"\s*from\s+__future__\s+import\b")

#: What a body is put into, as its `pass`.
_GUARD: Final = f"""\
with __import__('durable_nb.notebook.opening', fromlist=['_']).open_cell() as {CELL}:
    if {CELL}.needed: pass
    else: {CELL}.restore()
"""

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


# -- stage 1: text --------------------------------------------------------------------------


def rewrite(lines: list[str]) -> list[str]:
    """Turn a `%%durable` line into the marker; any other cell is returned as it came.

    Never raises: IPython runs input transformers also to see whether a cell is complete. What is
    wrong becomes a line that raises when it is run.
    """
    first = next((i for i, line in enumerate(lines) if not _is_blank(line)), None)
    if first is None:
        return lines
    found = _FIRST.match(lines[first])
    if found is None:
        if _MAGIC.match(lines[first]):  # another magic: its body may not even be Python
            return lines
        return _misplaced(lines) or lines
    args, below = found["args"].strip(), lines[first + 1 :]
    if set(args.split()) & {"--help", "-h"}:
        return [_marker(args)]
    if all(map(_is_blank, below)):
        return _refusal("the cell below %%durable is empty. Nothing was run or recorded.")
    magic = _magic_below(below)
    if magic is not None:
        return _refusal(_why_no_magic(magic))
    hoisted, below = _hoist(below)
    return [*lines[:first], f"{hoisted}{_marker(args)}\n", *below]


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _marker(args: str) -> str:
    return f"get_ipython().run_cell_magic('durable', {args!r}, None)"


def _refusal(message: str) -> list[str]:
    call = f"__import__('IPython.core.error', fromlist=['_']).UsageError({message!r})"
    return [f"raise {call}\n"]


def _magic_below(lines: list[str]) -> str | None:
    """Find a `%%magic` that begins a statement; text inside strings is none."""
    rows = {i for i, line in enumerate(lines) if _MAGIC.match(line)}
    if not rows:
        return None
    for tokens in make_tokens_by_line(lines):
        start = next((t.start for t in tokens if t.string.strip()), None)
        if start is not None and start[1] == 0 and start[0] - 1 in rows:
            found = _MAGIC.match(lines[start[0] - 1])
            return found["name"] if found else None
    return None


def _why_no_magic(magic: str) -> str:
    if magic == "durable":
        return (
            "a cell has one %%durable line, and it is the first. Nothing was run or recorded. "
            "Split the cell in two."
        )
    return (
        f"%%{magic} cannot stand under %%durable: it would hide a failure from the record. "
        f"Nothing was run or recorded. Put %{magic} (one %) before the statement that it is for."
    )


def _misplaced(lines: list[str]) -> list[str] | None:
    """Refuse a cell in which `%%durable` comes after code, where it would guard nothing."""
    if not any(map(_FIRST.match, lines)) or _magic_below(lines) != "durable":
        return None
    return _refusal(
        "%%durable has to be the first line of its cell, before any code. Nothing was run or "
        "recorded. Move the line to the top."
    )


def _hoist(lines: list[str]) -> tuple[str, list[str]]:
    """Take `from __future__` lines out, which have to come before the marker."""
    if not any(map(_FUTURE.match, lines)):
        return "", lines
    hoisted, left = "", list(lines)
    for tokens in make_tokens_by_line(lines):
        words = [t.string for t in tokens if t.string.strip() and not t.string.startswith("#")]
        if words[:3] != ["from", "__future__", "import"] or ";" in words:
            continue
        hoisted += " ".join(words) + "; "
        for row in range(tokens[0].start[0] - 1, tokens[-1].end[0]):
            if row < len(left) and left[row].strip():
                left[row] = "\n"
    return hoisted, left


# -- stage 2: syntax tree ---------------------------------------------------------------------


class Wrapper(ast.NodeTransformer):
    """Wraps the body of a cell that has the marker; leaves every other tree alone."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def visit(self, node: ast.AST) -> Any:
        """Wrap a module; a failure rejects the cell, so that IPython keeps this transformer."""
        if not isinstance(node, ast.Module):
            return node
        try:
            return wrap(node, self._shell.user_ns, self._shell.ast_node_interactivity)
        except Exception as problem:
            raise InputRejected(
                f"%%durable could not wrap this cell ({type(problem).__name__}: {problem}). "
                "Nothing was run or recorded."
            ) from problem


def wrap(module: ast.Module, namespace: Mapping[str, Any], interactivity: str) -> ast.Module:
    """Replace the marker and what follows it by the guarded body.

    Parameters
    ----------
    module : ast.Module
        A cell, as IPython parsed it.
    namespace : Mapping
        The user's names, to tell harmless decorators by what they stand for.
    interactivity : str
        IPython's `ast_node_interactivity`: which expressions are displayed.
    """
    at = _marker_index(module)
    if at is None:
        return module
    marker = module.body[at]
    body = [s for s in module.body[at + 1 :] if not isinstance(s, ast.Global)]
    found = find(body, namespace)
    facts = Facts(Source.of(body), found.names, found.refused, found.imports, found.stars)
    guarded = _guard(_args(marker) or "", facts, is_async=_needs_async(body))
    for node in ast.walk(guarded):
        ast.copy_location(node, marker)
    branch = guarded.body[0]
    assert isinstance(branch, ast.If)
    branch.body = _displaying(body, interactivity) or [ast.copy_location(ast.Pass(), marker)]
    branch.orelse[:0] = copy.deepcopy(found.early)
    branch.orelse += copy.deepcopy(found.late)
    # the last statement is what IPython may compile in its displaying mode: not the whole body
    module.body[at:] = [guarded, ast.copy_location(ast.Pass(), marker)]
    return module


def _marker_index(module: ast.Module) -> int | None:
    for i, statement in enumerate(module.body):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            continue
        return i if _args(statement) is not None else None
    return None


def _args(statement: ast.stmt) -> str | None:
    """Give the arguments in a marker; `None` for any other statement."""
    match statement:
        case ast.Expr(
            ast.Call(
                func=ast.Attribute(
                    value=ast.Call(func=ast.Name("get_ipython")), attr="run_cell_magic"
                ),
                args=[ast.Constant("durable"), ast.Constant(str(args)), ast.Constant(None)],
            )
        ):
            return args
    return None


def _guard(args: str, facts: Facts, *, is_async: bool) -> ast.With | ast.AsyncWith:
    guarded = ast.parse(_GUARD).body[0]
    assert isinstance(guarded, ast.With)
    opening = guarded.items[0].context_expr
    assert isinstance(opening, ast.Call)
    # one constant each: as source, the facts would be most of the tree of a small cell. A tuple
    # of constants is one, as the documentation of `ast.Constant` says; only its type does not
    known: Any = facts.packed()
    opening.args = [ast.Constant(args), ast.Constant(known)]
    return ast.AsyncWith(guarded.items, guarded.body) if is_async else guarded


def _needs_async(body: list[ast.stmt]) -> bool:
    """Ask the compiler whether the body awaits; what does not compile is shown by IPython."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        code = compile(ast.Module(body, []), "<cell>", "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _displaying(body: list[ast.stmt], interactivity: str) -> list[ast.stmt]:
    """Hand to the display hook what IPython would hand to it."""
    shown = list(body)
    if not shown or interactivity == "none":
        return shown
    if interactivity == "all":
        return [_show(s, deep=True) for s in shown]
    if interactivity == "last":
        return [*shown[:-1], _show(shown[-1], deep=True)]
    if interactivity == "last_expr_or_assign":
        target = _assigned(shown[-1])
        if target is not None:
            name = ast.copy_location(ast.Name(target, ast.Load()), shown[-1])
            shown.append(ast.copy_location(ast.Expr(name), name))
    return [*shown[:-1], _show(shown[-1], deep=False)]


def _assigned(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return name
    return None


def _show(statement: ast.stmt, *, deep: bool) -> ast.stmt:
    if isinstance(statement, ast.Expr):
        return _Display().visit_Expr(statement)
    if not deep:
        return statement
    shown: ast.stmt = _Display().visit(statement)
    return shown


class _Display(ast.NodeTransformer):
    """Turns expression statements into display calls, as the interactive compile mode does."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        template = ast.parse("__import__('sys').displayhook(None)", mode="eval").body
        assert isinstance(template, ast.Call)
        for part in ast.walk(template):
            ast.copy_location(part, node.value)
        template.args = [node.value]
        return ast.copy_location(ast.Expr(template), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, _SCOPES) else super().generic_visit(node)
