"""The resume panel: a run as a live table, in which what is unknown is settled with a click."""

from __future__ import annotations

from durable_nb.engine.trajectory import Trajectory


def show(run: Trajectory) -> None:
    """Show a run: a static table that outlives the kernel, and below it the live one.

    Parameters
    ----------
    run : Trajectory
        An open run. Shown again, it is the same widget in another place.
    """
    # widgets take a third of a second to import, and most kernels never show one
    from durable_nb.notebook.panel.panel import show as show_live

    show_live(run)


__all__ = ["show"]
