"""The resume panel: a run as a live table, in which what is unknown is settled with a click."""

from __future__ import annotations

from durable_nb.engine.watched import Watched
from durable_nb.journal import Place, Store


def show(place: Place, *, stopped: bool = False, notebook: str = "") -> None:
    """Show a run: a static table that outlives the kernel, and below it the live one.

    Parameters
    ----------
    place : Place
        Where it is. Whoever holds it; shown again, it is the same widget in another place.
    stopped : bool
        Whether a cell has stopped because of it: the page says so, as long as it stands elsewhere.
    notebook : str
        Which notebook that is, where it is known.
    """
    # widgets take a third of a second to import, and most kernels never show one
    from durable_nb.notebook.panel.panel import show as show_live

    show_live(Watched(place), stopped=stopped, notebook=notebook)


def show_runs(store: Store) -> None:
    """Show all runs of a store: a static table, and below it a live one.

    Parameters
    ----------
    store : Store
        Which.
    """
    from durable_nb.notebook.panel.overview import show_runs as show_live

    show_live(store)


__all__ = ["show", "show_runs"]
