"""What both identity tables share: what steps and cells reach, and how a change of it shows."""

from __future__ import annotations

from typing import NamedTuple

#: A part of a notebook that the step, or the cell, reaches.
REACHED = """\
LIMIT = 3


class Client:
    def __init__(self, name):
        self.name = name


class Logger:
    def __init__(self, name):
        self.name = name


client = Client("a")


def helper(x):
    "Help."
    return x
"""


class Row(NamedTuple):
    """What the next kernel has instead, and which changes have to be named."""

    before: str = ""
    after: str = ""
    noticed: tuple[str, ...] = ()
    inputs: tuple[object, object] = (1, 1)


#: Nothing is noticed, so that the record replays.
REPLAYS: tuple[str, ...] = ()
CODE = ("code of the step",)

#: Rows that hold for steps and cells alike.
SHARED = {
    "nothing": Row(),
    "quotes": Row("LIMIT, 'a'", 'LIMIT, "a"'),
    # docstrings count: agent frameworks hand them to the model as the description of a tool
    "docstring of a helper": Row("Help.", "Help!", ("helper helper changed",)),
    "body": Row("LIMIT, 'a'", "LIMIT, 'b'", CODE),
    "a helper's body": Row("    return x\n", "    return x + 0\n", ("helper helper changed",)),
    "a constant": Row("LIMIT = 3", "LIMIT = 4", ("constant LIMIT: 3 -> 4",)),
    # of a client or logger only the type counts: what it holds is its own
    "a client or logger reached by the function": Row('Client("a")', 'Client("b")'),
    "another type of client or logger": Row(
        'client = Client("a")',
        'client = Logger("a")',
        ("class Client is gone", "type of client: Client -> Logger", "class Logger is new"),
    ),
}
