"""Arguments that carry something: a result as JSON or as a Python literal, a function by name."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from durable_nb.values import read_literal


def parse_result(text: str) -> Any:
    """Read a result without running anything: JSON first, else a Python literal.

    Raises
    ------
    click.UsageError
        It is neither; the message shows both forms.
    """
    try:
        return read_literal(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def telling(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse an evidence or a reason that says nothing, such as the `…` of a suggested line."""
    if value and not value.strip(".… \t\n"):
        raise click.BadParameter("say in words how it is known.", param=param)
    return value


def parse_reconcilers(given: Sequence[str]) -> Mapping[str, Callable[[Any], Any]]:
    """Import the reconcilers that were named as `STEP=package.module:function`.

    The current folder is searched last, so that nothing in it shadows an installed module.

    Raises
    ------
    click.UsageError
        One is malformed, or cannot be imported.
    """
    return dict(_reconciler(text) for text in given)


def _reconciler(text: str) -> tuple[str, Callable[[Any], Any]]:
    step, equals, where = text.partition("=")
    if not (step and equals and _address(where)):
        raise click.UsageError(
            f"--reconciler {text!r} is not STEP=package.module:function, as in "
            "--reconciler refund=shop.lookups:find_refund"
        )
    return step, _function(f"--reconciler {text!r}", where, "Nothing was asked", "run.reconcile()")


def parse_undo(text: str) -> Callable[..., Any]:
    """Import the function that takes an effect back, named as `package.module:function`.

    Raises
    ------
    click.UsageError
        It is malformed, or cannot be imported.
    """
    if not _address(text):
        raise click.UsageError(
            f"--with {text!r} is not package.module:function, as in --with shop.undo:refund"
        )
    return _function(f"--with {text!r}", text, "Nothing was called", "run.compensate(op)")


def _address(where: str) -> bool:
    module, colon, path = where.partition(":")
    return bool(module and colon and path)


def _function(said: str, where: str, nothing: str, there: str) -> Callable[..., Any]:
    """Import a function; the current folder is searched last."""
    module, _, path = where.partition(":")
    sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(
            f"{said} cannot be imported: {error}. {nothing}. A function "
            f"that is defined in a notebook is reached from there only: {there}."
        ) from error
    finally:
        sys.path.pop()
    if not callable(found):
        raise click.UsageError(f"{said} names a {type(found).__name__}, no function")
    function: Callable[..., Any] = found
    return function
