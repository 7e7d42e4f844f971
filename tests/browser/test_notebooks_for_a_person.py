"""The notebooks as a person meets them in JupyterLab: opened, run, and killed or clicked."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.waiting import eventually

from durable_nb.demo import ledger, servers
from durable_nb.demo.tickets import read_tickets
from durable_nb.demo.workplace import find_notebook

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def cell_that_holds(nb, text):
    """Find a cell by its text: its place, and what it shows."""
    cells = nb.page.locator(".jp-Notebook .jp-Cell")
    sources = nb.page.evaluate(
        "() => jupyterapp.shell.currentWidget.content.widgets.map((w) => w.model.sharedModel.source)"
    )
    number = next(n for n, source in enumerate(sources) if text in source)
    return number, cells.nth(number).locator(".jp-OutputArea")


@pytest.fixture
def agent(notebook):
    """The refund agent, with no servers but those that it starts by itself."""
    nb = notebook("opened", find_notebook())
    yield nb
    servers.stop(nb.folder / servers.FOLDER)


def test_the_refund_agent_gives_a_person_the_time_to_kill_it_and_says_which_process(agent):
    """Opened without the demo: the first cell's number is the kernel's; killed, it goes on."""
    nb = agent
    done = nb.folder / servers.FOLDER / "ledger.jsonl"
    nb.run_all(wait=False)
    _, first = cell_that_holds(nb, "os.getpid()")
    expect(first).to_contain_text("this kernel is process", timeout=60_000)
    pid = int(re.search(r"this kernel is process (\d+)", first.inner_text())[1])
    assert pid == nb.kernel_pid()
    eventually(lambda: ledger.read(done), 60)
    nb.page.wait_for_timeout(8_000)  # a person reads, goes to a terminal, and types
    os.kill(pid, signal.SIGKILL)
    assert len(ledger.read(done)) < len(read_tickets())

    # nobody is left who could say so, and the line under the cell says it by itself
    line = nb.page.locator(".durable-nb-progress").first
    line.scroll_into_view_if_needed()
    shown = "(line) => getComputedStyle(line.querySelector('.durable-nb-late'), '::after').fontSize"
    assert line.evaluate(shown) == "0px"
    eventually(lambda: line.evaluate(shown) != "0px", 10)
    nb.shot("1-gone")
    nb.revive()
    nb.run_all(wait=False)
    _, opened = cell_that_holds(nb, "import durable_nb as dnb")
    expect(opened).to_contain_text("resumed run refunds", timeout=60_000)
    nb.kill(lambda: True)
    nb.revive()

    number, _ = cell_that_holds(nb, "import durable_nb as dnb")
    nb.write(number, 'import durable_nb as dnb\nrun = dnb.open_run("refunds", fresh="finished")')
    nb.run_cell(number)
    nb.settle()
    _, opened = cell_that_holds(nb, "import durable_nb as dnb")
    expect(opened).to_contain_text("resumed run refunds")  # it was cut off, and is not begun anew
    nb.write(number, "import durable_nb as dnb\nrun.finish()")
    nb.run_cell(number)
    nb.settle()
    before = len(ledger.read(done))
    nb.write(number, 'import durable_nb as dnb\nrun = dnb.open_run("refunds", fresh="finished")')
    nb.run_all(wait=False)
    first_order = read_tickets()[0].order  # another run: the first customer, once more
    eventually(lambda: first_order in [e.same for e in ledger.read(done)[before:]], 60)
    expect(opened).to_contain_text("the one before it is kept as .refunds.old-1")


@pytest.mark.parametrize(
    ("name", "button", "shown"),
    [("approvals", ".dnb-approve", "approved by"), ("pause", ".dnb-unpause", "order 6")],
)
def test_the_last_cell_really_stops_and_goes_on_after_a_click(notebook, name, button, shown):
    """What the pages on stops invite to: a real stop, a panel, a click, the cell once more."""
    nb = notebook(f"yours-{name}", NOTEBOOKS / f"{name}.ipynb")
    nb.run_all()
    last = nb.page.locator(".jp-Notebook .jp-Cell").count() - 1
    output = nb.page.locator(".jp-Notebook .jp-Cell").nth(last).locator(".jp-OutputArea").first
    expect(output).to_contain_text("run the cell again")
    assert shown not in output.inner_text()

    panel = nb.panel()
    panel.scroll_into_view_if_needed()
    nb.shot("1-stopped")
    panel.locator(button).first.click()
    expect(panel.locator(button)).to_have_count(0)
    nb.run_cell(last)
    nb.settle()
    expect(output).to_contain_text(shown)
