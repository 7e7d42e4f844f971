"""A notebook whose steps reach things, and what differs between two looks at it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from durable_nb.model.facets import FacetSet, Part

#: A notebook of two cells; each row of the tables edits it.
NOTEBOOK = """\
LIMIT = 3
NAMES = {"a": [1, 2]}


class Base:
    def scale(self):
        return 2


class Tool(Base):
    kind = "tool"

    def use(self, x):
        return deep(x) * self.scale()


def deep(x):
    return x + 1


def helper(x):
    return deep(x)


def step(x):
    "Say it."
    first = 'a'
    return helper(x) + LIMIT + len(NAMES) + Tool().use(x), first
"""


def module(working: Path, source: str, name: str) -> Any:
    """Write and import a module of the user's."""
    (working / f"{name}.py").write_text(textwrap.dedent(source))
    import importlib

    importlib.invalidate_caches()
    return importlib.import_module(name)


def differences(old: FacetSet, new: FacetSet) -> set[str]:
    """Name the parts that differ."""
    both = {**old.parts, **new.parts}
    return {n for n in both if old.parts.get(n) != new.parts.get(n)}


def changed(old: FacetSet, new: FacetSet) -> set[str]:
    """Name the parts whose digests differ."""
    names = {*old.parts, *new.parts}
    gone = Part("", "")
    return {n for n in names if old.parts.get(n, gone).digest != new.parts.get(n, gone).digest}
