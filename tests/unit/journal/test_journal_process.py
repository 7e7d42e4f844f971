"""What is known of this process without asking the system."""

import os
import threading

import pytest

from durable_nb.journal import THIS, deferred_interrupts
from durable_nb.journal.interrupts import _state


def in_child(look):
    """Run a function in a forked child, and give what it says."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, repr(look()).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read()


def test_a_forked_child_knows_its_own_number():
    """What the parent looked up is looked up anew."""
    assert THIS.pid == os.getpid()
    assert in_child(lambda: (THIS.pid == os.getpid(), os.getppid())) == f"(True, {os.getpid()})"


@pytest.mark.parametrize("by", ["main", "thread"])
def test_in_a_forked_child_the_thread_that_forked_holds_interrupts_back(by):
    """Whichever it was: Python runs signal handlers in it from then on."""

    def look():
        with deferred_interrupts():
            inside = _state.depth
        return inside, _state.depth

    said = []
    if by == "main":
        said.append(in_child(look))
    else:
        thread = threading.Thread(target=lambda: said.append(in_child(look)))
        thread.start()
        thread.join(10)
    assert said == ["(1, 0)"]
