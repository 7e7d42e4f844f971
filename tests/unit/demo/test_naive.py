"""The agent that remembers nothing."""

import os
from pathlib import Path

import pytest

from durable_nb.demo import ledger, naive, servers
from durable_nb.demo.ledger import Count, What
from durable_nb.demo.problems import KernelTrouble
from durable_nb.demo.tickets import read_tickets

kernels = pytest.importorskip("durable_nb.demo.kernels", exc_type=ImportError)

pytestmark = pytest.mark.slow  # each starts a kernel or two


def test_agent_without_a_journal_pays_twice_after_a_kill(tmp_path):
    """Killed after the second refund and run again from the top, it pays both again."""
    orders = [ticket.order for ticket in read_tickets()]
    with servers.running(tmp_path) as at:
        place = kernels.AfterEffect(at, What.REFUND, orders[2:3])
        environment = {**os.environ, **at.variables()}
        first = kernels.execute(naive.notebook(), tmp_path, environment, place)
        between = ledger.count(ledger.read(Path(at.ledger)), What.REFUND)
        second = kernels.execute(naive.notebook(), tmp_path, environment)
        after = ledger.count(ledger.read(Path(at.ledger)), What.REFUND)

    assert (first.ending, first.place) == (kernels.Ending.KILLED, orders[2])
    assert second.ending is kernels.Ending.FINISHED
    assert between == Count(2, 0)
    assert after.duplicates == 2


def test_kernel_that_fails_is_told_from_one_that_was_killed(tmp_path):
    """A cell that raises ends the pass as stopped, with its error's name and lines."""
    broken = naive.notebook()
    broken.cells[1].source = "raise LookupError('nobody is here')"
    with servers.running(tmp_path) as at:
        done = kernels.execute(broken, tmp_path, {**os.environ, **at.variables()})

    assert (done.ending, done.error) == (kernels.Ending.STOPPED, "LookupError")
    assert any("nobody is here" in line for line in done.lines)
    assert done.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(done.pid, 0)


def test_kernel_that_dies_by_itself_is_an_error(tmp_path):
    """A death that nobody here caused is not counted as a kill."""
    dying = naive.notebook()
    dying.cells[1].source = "import os; os._exit(3)"
    with servers.running(tmp_path) as at, pytest.raises(KernelTrouble):
        kernels.execute(dying, tmp_path, {**os.environ, **at.variables()})
