"""What the guide says of a fleet: its commands are done, and print what stands there."""

from __future__ import annotations

import re
import shlex

import pytest
from support.desk import REPOSITORY
from support.fleet import Yard

pytestmark = pytest.mark.slow

_SECTION = re.compile(r"^### A fleet$(.*?)^### ", re.M | re.S)
#: Whatever differs from one time to the next.
_TIMES = re.compile(r"\b\d+ s\b")


def _transcript() -> list[tuple[str, str]]:
    """Give the commands of the section, each with what it prints."""
    section = _SECTION.search((REPOSITORY / "docs" / "guide.md").read_text("utf-8"))
    assert section is not None
    (block,) = re.findall(r"^```\n(\$ .*?)^```", section[1], re.M | re.S)
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_the_guide_prints_what_happens(yard: Yard):
    """Submitted, its kernel killed in a refund, settled, finished."""
    yard.notebook(
        "import os, signal, pathlib",
        "def refund(order):\n    if order == 'o-2':\n        os.kill(os.getpid(), signal.SIGKILL)",
        "for order in ('o-1', 'o-2', 'o-3'):\n"
        "    run.step('refund', key=order, effect='external').call(refund, order)",
        parameters="day = None",
        name="refunds",
    )
    commands = _transcript()
    assert [shlex.split(line)[1] for line, _ in commands] == ["submit", "fleet", "confirm"]
    for line, says in commands:
        words = shlex.split(line)[1:]
        if words[0] == "fleet":
            worker = yard.worker()
            yard.until(lambda rows: rows["refunds-17"]["state"] == "person needed")
        _, out, err = yard.do(*words)
        assert _TIMES.sub("4 s", out).splitlines() == says.splitlines(), err
    yard.until(lambda rows: rows["refunds-17"]["state"] == "finished")
    told = [said.partition(": ")[2] for said in worker.said.splitlines()[1:]]
    assert [said for said in told if "kernel" not in said] == [
        "begins", "person needed (refund[o-2]#1 happened?)", "begins", "finished",
    ]  # fmt: skip
