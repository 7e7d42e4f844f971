"""The panel where the run is not executed: in a second notebook, and after its block was left."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect
from support.waiting import eventually

OWNER = [
    """\
import os, time, pathlib
open('pid', 'w').write(str(os.getpid()))
os.environ['DURABLE_STORE'] = '../shared-store'
import durable_nb as dnb
run = dnb.open_run('refund-17')""",
    """\
@dnb.step
def refund(order):
    with open('ledger', 'a') as f: f.write(order + '\\n')
    raise TimeoutError('no answer')
try:
    refund('A-17')
except dnb.UnknownOutcome:
    open('stopped', 'w').close()
for _ in range(600):
    time.sleep(0.2)
    if pathlib.Path('go').exists(): break""",
    "print('got', run.get('refund').result)",
]
WATCHER = [
    """\
%load_ext durable_nb
import os
os.environ['DURABLE_STORE'] = '../shared-store'""",
    "%durable panel refund-17",
]


def test_a_second_notebook_watches_a_live_run_and_settles_it(notebook):
    """Its owner blocks in a cell all the while, and answers a click within two seconds."""
    owner = notebook("owner", OWNER)
    owner.run_all(wait=False)
    owner.wait_for("stopped")
    watcher = notebook("watcher", WATCHER)
    watcher.run_all()
    panel = watcher.panel()
    row = panel.locator('tr[data-op="refund#1"]')
    expect(row).to_contain_text("unknown")
    expect(panel.locator(".dnb-notes")).to_contain_text("executed by process")
    expect(panel.locator(".dnb-notes")).to_contain_text("job.ipynb")
    panel.locator(".dnb-history summary").click()
    expect(panel.locator(".dnb-history")).to_contain_text("intended")
    panel.scroll_into_view_if_needed()
    watcher.shot("1-live")

    panel.locator(".dnb-result").fill('{"id": "re_9"}')
    panel.locator(".dnb-evidence").fill("seen in the shop")
    panel.locator(".dnb-confirm").dblclick()
    begun = time.monotonic()
    expect(panel.locator(".dnb-message")).to_contain_text(
        "Settled. Run its cell again, or all cells."
    )
    assert time.monotonic() - begun < 2
    expect(row).to_contain_text("completed")
    expect(panel.locator(".dnb-history")).to_contain_text("seen in the shop")
    watcher.shot("2-settled")

    (owner.folder / "go").touch()
    owner.settle()
    expect(owner.page.locator(".jp-OutputArea").last).to_contain_text("got {'id': 're_9'}")
    assert owner.lines() == ["A-17"]


WORKER = """\
import time
def serve(n):
    with open('ledger', 'a') as f: f.write(f'{n}\\n')
    time.sleep(0.2)
def serve_all(count=600):
    for n in range(count):
        run.step('serve', key=n, effect='none').call(serve, n)
try:
    serve_all()
except dnb.RunPaused as stop:
    print(stop)"""


def test_a_second_notebook_pauses_a_live_run_and_lets_it_go_on(notebook):
    """Its owner blocks in a loop, and stops before its next step within two seconds."""
    opening, watching = (c.replace("refund-17", "refund-19") for c in (OWNER[0], WATCHER[1]))
    owner = notebook("worker", [opening, WORKER])
    owner.run_all(wait=False)
    owner.wait_for("ledger")
    watcher = notebook("pauser", [WATCHER[0], watching])
    watcher.run_all()
    panel = watcher.panel()
    button = panel.locator(".dnb-head button")
    expect(button).to_have_text("Pause")
    panel.scroll_into_view_if_needed()
    button.dblclick()
    begun = time.monotonic()
    expect(panel.locator(".dnb-message")).to_contain_text("paused; what is in flight finishes")
    assert time.monotonic() - begun < 2
    expect(button).to_have_text("Go on")  # once its owner has published that
    expect(panel.locator(".dnb-notes")).to_contain_text("paused: nothing new begins in it")
    watcher.shot("1-paused")
    owner.settle()
    expect(owner.page.locator(".jp-OutputArea").last).to_contain_text("the run is paused")
    served = owner.lines()
    assert len(served) == len(set(served)) < 600

    watcher.page.wait_for_timeout(700)  # what has just changed takes no click
    button.click()
    expect(button).to_have_text("Pause")
    expect(panel.locator(".dnb-notes")).not_to_contain_text("paused")
    watcher.shot("2-goes-on")


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_the_pause_button_stops_the_cell_that_blocks_the_kernel(notebook):
    """As JupyterLab comes, a click is answered beside the cell; it stops before its next step."""
    opening = OWNER[0].replace("refund-17", "refund-20").replace("../shared-store", "store")
    nb = notebook("brake", [opening, "run.panel()", WORKER])
    for cell in (0, 1):
        nb.run_cell(cell)
        nb.settle()
    static = nb.page.locator("details.durable-nb-static")
    nb.run_cell(2)
    nb.wait_for("ledger")
    panel = nb.panel()
    expect(panel.locator(".dnb-status")).to_have_text("running")
    expect(panel.locator(".dnb-part.dnb-incomplete")).to_have_text("1 running")
    panel.locator(".dnb-pause").click()
    expect(panel.locator(".dnb-status")).to_have_text("paused")
    nb.settle()
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("the run is paused")
    served = nb.lines()
    assert len(served) == len(set(served)) < 100

    # the table that is saved says how it is now, and not how it was when it was shown
    expect(static).to_contain_text(f"serve[{served[-1]}]#1")
    assert not static.evaluate("(made) => made.open"), "the live one says the same"
    nb.shot("1-paused")
    nb.kill("ledger")
    expect(panel.locator(".dnb-stale-line")).to_contain_text("the kernel is gone", timeout=6000)
    assert static.evaluate("(made) => made.open")
    expect(panel.locator(".dnb-head button")).to_be_disabled()


BLOCK = """\
import os
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
def refund(order):
    with open('ledger', 'a') as f: f.write(order + '\\n')
    raise TimeoutError('no answer')
with dnb.run('refund-18') as run:
    print('got', run.call(refund, 'A-18'))"""


def test_a_signal_that_leaves_the_runs_block_shows_the_panel_and_a_click_settles_it(notebook):
    """The block closed the run; the panel takes its lease for the moment of the verdict."""
    nb = notebook("block", [BLOCK])
    nb.run_all()
    panel = nb.panel()
    row = panel.locator('tr[data-op="refund#1"]')
    expect(row).to_contain_text("unknown")
    expect(panel.locator(".dnb-notes")).to_contain_text("nobody executes this run now")
    nb.shot("1-left")
    panel.locator(".dnb-result").fill('"re_4"')
    panel.locator(".dnb-evidence").fill("seen in the shop")
    panel.locator(".dnb-confirm").click()
    expect(panel.locator(".dnb-message")).to_contain_text(
        "Settled. Run its cell again, or all cells."
    )
    expect(row).to_contain_text("completed")
    nb.shot("2-settled")

    nb.run_all()
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("got re_4")
    assert nb.lines() == ["A-18"]


KEY = """\
import os
os.environ['DURABLE_STORE'] = 'store'
os.environ['XDG_DATA_HOME'] = os.path.abspath('{user}')
%load_ext durable_nb
%durable run report"""
RICH = """\
%%durable table --effect none
from IPython.display import HTML, Javascript, display
display(HTML('<b class="dnb-test-rich" onclick="alert(1)">total</b><img src=x onerror="alert(2)">'))
display(Javascript('alert(3)'))
total = 3"""


def test_recorded_rich_output_is_shown_to_who_recorded_it_and_as_text_to_others(notebook):
    """A folder from somebody else may hold HTML and scripts; none of them runs here."""
    nb = notebook("signed", [KEY.format(user="ada"), RICH])
    rich = nb.page.locator(".dnb-test-rich")
    nb.run_all()
    nb.restart()
    nb.run_all()
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("from record")
    expect(rich).to_have_count(1)
    assert nb.alerts, "it is this user's own, so it is rich again"
    nb.shot("1-own")

    nb.write(0, KEY.format(user="bob"))
    nb.alerts.clear()
    nb.restart()
    nb.run_all()
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("shown as text")
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("IPython.core.display.HTML")
    expect(rich).to_have_count(0)
    nb.page.wait_for_timeout(500)
    assert nb.alerts == []
    nb.shot("2-of-another")


def test_the_pause_button_works_in_the_kernel_that_takes_the_place_of_a_killed_one(notebook):
    """The server starts it; nothing of the page is loaded anew, and the click is not queued."""
    opening = OWNER[0].replace("refund-17", "refund-21").replace("../shared-store", "store")
    nb = notebook("brake-again", [opening, "run.panel()", WORKER])
    nb.run_all(wait=False)
    nb.kill("ledger")
    nb.revive()
    before = len(nb.lines())
    nb.run_all(wait=False)
    eventually(lambda: len(nb.lines()) > before, 30)
    panel = nb.panel()
    panel.locator(".dnb-pause").click()
    expect(panel.locator(".dnb-status")).to_have_text("paused")
    nb.settle()
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("the run is paused")
    assert len(nb.lines()) < 100
