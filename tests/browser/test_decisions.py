"""What a person decides with a click, in both front ends: approvals, signals, changes, forks."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.parametrize("front", ["lab", "notebook"])

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
    nb.revive()
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


def test_a_run_is_forked_from_where_a_person_looks(notebook):
    """By keyboard and click: a taken name is refused where it is typed, and the rest is said."""
    taken = f"{LOAD}\nother = dnb.open_run('mails-fork')\nother.close()"
    report = "run.step('report', effect='none').call(str, count)"
    open_it = "fork = dnb.open_run('what-if')"
    nb = notebook("forked", [taken, STEPS, "count = collect()", report, "run.panel()", open_it])
    for cell in range(5):
        nb.run_cell(cell)
        nb.settle()
    panel = nb.panel()
    panel.locator('tr[data-op="report#1"]').click()
    panel.locator(".dnb-fork-ask").click()
    name = panel.locator(".dnb-new-name")
    expect(name).to_be_focused()
    expect(name).to_have_value("mails-fork")
    panel.locator(".dnb-fork-do").click()
    expect(panel.locator(".dnb-message")).to_contain_text("there is a run 'mails-fork'")
    name.fill("what-if")
    panel.locator(".dnb-fork .dnb-reason").fill("a kinder letter")
    name.press("Enter")
    expect(panel.locator(".dnb-message")).to_contain_text("run what-if is a fork of mails")
    expect(panel.locator(".dnb-forked")).to_contain_text('run = dnb.open_run("what-if")')
    panel.locator(".dnb-forked").scroll_into_view_if_needed()
    nb.shot("1-said")
    nb.run_cell(5)
    nb.settle()
    said = "a fork of mails at report#1: 1 completed, 0 incomplete, 0 unknown"
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text(said)
    assert nb.lines() == ["collect"]


ASSUMED = """\
import os, time
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
PROMPT = 'Refund what was paid twice.'
run = dnb.open_run('letters', facets={'prompt': PROMPT}, budget={'usd': 1})
time.sleep(0.2)"""
DECIDE = """\
with run.step('decide', effect='none') as op:
    if op.needed:
        time.sleep(0.3)
        op.spend(usd=0.25, tokens=1200)
        op.result = 'refund'"""


def test_a_changed_prompt_is_shown_before_and_after_and_the_record_kept(notebook):
    """The header says what it has cost of what, and which kernels there were; why says the rest."""
    nb = notebook("changed", [ASSUMED, DECIDE, "run.panel()"])
    nb.run_all()
    expect(nb.panel().locator(".dnb-spending")).to_have_text("$0.25, 1,200 tokens")
    expect(nb.panel().locator(".dnb-budget")).to_contain_text("$0.25 of $1.00")
    nb.command("notebook:clear-all-cell-outputs")
    nb.restart()
    nb.write(0, ASSUMED.replace("paid twice", "broken"))
    for cell in (0, 1):
        nb.run_cell(cell)
        nb.settle()
    panel = nb.panel()
    expect(panel.locator(".dnb-status")).to_have_text("waits for you")
    expect(panel.locator(".dnb-kernels")).to_contain_text("1 kernel before this one")
    why = panel.locator(".dnb-why")
    expect(why).to_contain_text("stopped: keep its record, or do it again?")
    expect(why.locator(".dnb-before")).to_contain_text("Refund what was paid twice.")
    expect(why.locator(".dnb-after")).to_contain_text("Refund what was broken.")
    panel.scroll_into_view_if_needed()
    nb.shot("1-asked")
    panel.locator(".dnb-keep").click()
    expect(panel.locator(".dnb-message")).to_contain_text("its recorded result is used")
    nb.run_cell(1)
    nb.settle()
    nb.run_cell(2)
    nb.settle()
    expect(nb.panel().locator(".dnb-saved")).to_contain_text("and $0.25 saved by 1 replay")
    nb.panel().locator('tr[data-op="decide#1"]').click()
    expect(nb.panel().locator(".dnb-why .dnb-after")).to_contain_text("Refund what was broken.")
