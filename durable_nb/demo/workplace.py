"""Where the demo works, and where its notebook is."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from durable_nb.demo.problems import DemoFailed, FolderInUse

NOTEBOOK = "refund_agent.ipynb"
INTERRUPTED_EXIT = 128  #: plus the signal's number, as shells do


def find_notebook() -> Path:
    """Find the agent's notebook: inside an installed package, else in the checkout."""
    here = Path(__file__).resolve().parent
    places = (here / NOTEBOOK, here.parents[1] / "notebooks" / NOTEBOOK)
    for path in places:
        if path.is_file():
            return path
    raise DemoFailed(f"{NOTEBOOK} in {places[0].parent}", "it is not there", str(here))


@contextlib.contextmanager
def work_folder(keep: str | Path | None) -> Iterator[Path]:
    """Give a folder for the length of a demo; it stays if wanted, or if the demo failed."""
    if keep is not None:
        folder = Path(keep).expanduser().resolve()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FolderInUse(str(folder))
        folder.mkdir(parents=True, exist_ok=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="durable-demo-"))
    try:
        with termination_unwinds():
            yield folder
    except DemoFailed:
        raise
    except BaseException:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if keep is None:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def termination_unwinds() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does, so that nothing is left running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(INTERRUPTED_EXIT + number)

    before = {n: signal.signal(n, leave) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
