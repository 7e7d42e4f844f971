"""Which packages are installed: on record for information, and told where they differ."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Final

#: How many differences one line lists.
_LISTED: Final = 5
#: The folder name of an installed distribution: NAME-VERSION.dist-info (PEP 376, PEP 491).
_FOLDER: Final = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)(-[^/]*)?\.(dist|egg)-info$")


def installed() -> dict[str, str]:
    """Give name to version of what is installed, and of Python; names as PEP 503 writes them.

    From the names of folders alone: reading the metadata of some hundred packages would take
    longer than opening a run.
    """
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = [entry.name for entry in os.scandir(folder or ".")]
        except OSError:  # a zip file, or nothing
            continue
        for name in sorted(names):
            match = _FOLDER.match(name)
            if match is not None:
                found.setdefault(_plain(match["name"]), match["version"])
    return {"python": platform.python_version(), **dict(sorted(found.items()))}


def providing(modules: Iterable[str]) -> dict[str, str]:
    """Give name to version of the packages that modules come from, and of Python.

    Parameters
    ----------
    modules : iterable of str
        Top-level names. One that no package provides, such as a file beside the notebook, is
        left out.
    """
    from importlib import metadata  # reads all packages: only where that is asked

    sources = metadata.packages_distributions()
    # An editable install does not list its modules; most packages are called like them.
    names = {_plain(name) for module in modules for name in sources.get(module, (module,))}
    known = installed()
    found = {name: known[name] for name in sorted(names) if name in known}
    return {"python": platform.python_version(), **found}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """List what differs: ``pandas 2.2.3 -> 2.3.0``."""
    return [
        f"{name} {before.get(name, 'not there')} -> {after.get(name, 'not there')}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def in_a_line(found: list[str]) -> str:
    """Show the first few of them."""
    more = len(found) - _LISTED
    return ", ".join(found[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
