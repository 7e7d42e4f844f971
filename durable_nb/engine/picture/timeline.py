"""`run.timeline()`: a picture of a run that shows itself in a notebook, and can be saved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durable_nb.engine.picture.svg import line_of, svg_of
from durable_nb.model.timeline import Bar, Timeline

if TYPE_CHECKING:
    from datetime import datetime

    from durable_nb.engine.views import OperationView, StatusView


@dataclass(frozen=True, repr=False)
class TimelinePicture:
    """A picture of a run: its operations as bars, the kernels that executed it as bands.

    Shown as SVG in a notebook. Hover tells what a bar is, and a click leads to its operation.

    Attributes
    ----------
    data : Timeline
        What it shows: ``run, length, bars, bands, verdicts``, in seconds since the run's birth.
    """

    data: Timeline

    @cached_property
    def svg(self) -> str:
        """The picture as one ``svg`` element, without scripts; a file of it stands by itself."""
        return svg_of(self.data)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, over one that is there.

        Parameters
        ----------
        path : path
            Such as ``"run.svg"``.

        Returns
        -------
        Path
            Of the file.
        """
        found = Path(path)
        found.write_text(self.svg, encoding="utf-8")
        return found

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `timeline --json`."""
        return self.data.as_dict()

    def to_text(self) -> str:
        """Say what is in it, without times."""
        return f"timeline of {line_of(self.data)}"

    __str__ = __repr__ = to_text

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg}</div>'


def picture_of_status(status: StatusView) -> TimelinePicture:
    """Draw what a status shows of a run: the last attempt of each operation, and no kernels.

    Parameters
    ----------
    status : StatusView
        As the owner published it: it does not tell more.
    """
    begun = [view for view in status.views if view.started is not None]
    moments = [at for view in begun for at in (view.started, view.ended) if at is not None]
    born = status.born or min(moments, default=None)
    end = max([*moments, *([status.updated] if status.updated else [])], default=None)

    def since(at: datetime | None) -> float:
        return 0.0 if at is None or born is None else max(0.0, (at - born).total_seconds())

    holders = {view.parent for view in begun}
    length = since(end)
    bars = [_bar(view, since(view.started), since(view.ended or end), holders) for view in begun]
    return TimelinePicture(
        Timeline(
            run=status.run,
            length=length,
            bars=tuple(sorted(bars, key=lambda bar: bar.begin)),
            born="" if born is None else born.isoformat(),
            note="from its mirror: last attempts, no kernels",
        )
    )


def _bar(view: OperationView, begin: float, end: float, holders: set[str]) -> Bar:
    going = view.live or view.waits
    ended = "" if going else view.outcome if view.outcome == "completed" else "raised"
    if view.ended is None and not going:
        ended = "cut"
    return Bar(
        op=view.id,
        effect=view.effect,
        attempt=view.attempt,
        depth=view.id.count("/"),
        kernel=0,
        begin=begin,
        end=max(begin, end),
        outcome=view.outcome,
        ended=ended,
        wait=view.wait,
        holds=view.id in holders,
    )
