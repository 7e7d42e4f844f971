"""The notebook wing: durable cells, magics, and how a run is shown in a notebook."""

from __future__ import annotations

from IPython.utils.text import SList

from durable_nb.notebook.hooks import surroundings
from durable_nb.values import register_codec

# `files = !ls` binds IPython's own kind of list
register_codec("ipython.slist", SList, 1, list, SList)

__all__ = ["surroundings"]
