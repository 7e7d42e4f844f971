"""Approvals and signals in a real JupyterLab: asked in a cell, decided with a click."""

from __future__ import annotations

from playwright.sync_api import expect

LOAD = """\
import os
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('mails')"""
STEPS = """\
@dnb.step
def collect():
    with open('ledger', 'a') as f: f.write('collect\\n')
    return 40
@dnb.step
def send(count):
    with open('ledger', 'a') as f: f.write(f'send {count}\\n')"""
ASK = "count = collect()\nsaid = run.approval('Send them?', {'to': count})\nsend(count)"
PANEL = "run.panel()"
WAIT = "got = await run.wait_for('paid')"
SHOW = "print('why:', said['reason'], 'paid:', got)"


def test_a_wait_is_decided_with_a_click_also_while_its_cell_awaits(notebook):
    """Cases 3, 76 and 77: killed while it waits, approved in the next kernel; a signal is sent."""
    nb = notebook("waits", [LOAD, STEPS, ASK, PANEL, WAIT, SHOW])
    nb.run_all()
    expect(nb.panel()).to_contain_text("waits for approval")
    nb.kill(lambda: True)
    nb.restart()
    nb.run_all()

    panel = nb.panel()
    panel.locator(".dnb-reject").click()
    expect(panel.locator(".dnb-message")).to_contain_text("say why not")
    panel.locator(".dnb-reason").fill("the list is right")
    panel.scroll_into_view_if_needed()
    nb.shot("1-asked")
    panel.locator(".dnb-approve").click()
    expect(panel.locator(".dnb-message")).to_contain_text("approved")
    assert nb.lines() == ["collect"]

    nb.run_all(wait=False)
    panel = nb.panel()
    expect(panel).to_contain_text("waits for a signal")
    panel.locator(".dnb-value").fill('{"usd": 5}')
    nb.shot("2-awaited")
    panel.locator(".dnb-signal").click(click_count=2)
    nb.settle()
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text(
        "why: the list is right paid: {'usd': 5}"
    )
    assert nb.lines() == ["collect", "send 40"]
