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
    sys.path.append(os.getcwd())
    try:
        return dict(_reconciler(text) for text in given)
    finally:
        sys.path.pop()


def _reconciler(text: str) -> tuple[str, Callable[[Any], Any]]:
    step, equals, where = text.partition("=")
    module, colon, path = where.partition(":")
    if not (step and equals and module and colon and path):
        raise click.UsageError(
            f"--reconciler {text!r} is not STEP=package.module:function, as in "
            "--reconciler refund=shop.lookups:find_refund"
        )
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(
            f"--reconciler {text!r} cannot be imported: {error}. Nothing was asked. A function "
            "that is defined in a notebook is reached from there only: run.reconcile()."
        ) from error
    if not callable(found):
        raise click.UsageError(f"--reconciler {text!r} names a {type(found).__name__}, no function")
    return step, found
