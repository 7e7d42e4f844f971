"""The resume panel in a real JupyterLab: real clicks, real kernels, real kills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

LOAD = """\
import os
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('refund-17')"""
STEPS = """\
import time, pathlib
dying = not pathlib.Path('refunding').exists()
@dnb.step(effect='none')
def plan(order):
    return {'order': order, 'cents': 4250}
@dnb.step
def refund(plan, *, idempotency_key):
    with open('ledger', 'a') as f: f.write(f"{plan['order']} {plan['cents']}\\n")
    open('refunding', 'w').close()
    time.sleep(120 if dying else 0)
    return {'id': 're_1'}
@dnb.step(effect='none')
def report(refund):
    return f"refunded as {refund['id']}" """
BOTTOM = "(e) => e.closest('.jp-WindowedPanel-outer').scrollTo(0, 1e6)"
WORK = "p = plan('A-17')\nr = refund(p)"
REPORT = "report(r)"
REFUND = [LOAD, STEPS, WORK, REPORT]


@pytest.fixture(scope="module")
def subshells() -> str:
    """What is clicked while a cell runs is queued."""
    return "disabled"


def killed_in_the_refund(notebook: Callable[..., Any], name: str) -> Any:
    """Run all, SIGKILL inside the refund, restart from the page, run all again."""
    nb = notebook(name, REFUND)
    nb.run_all(wait=False)
    nb.kill("refunding")
    nb.revive()
    nb.run_all()
    return nb


def row(nb: Any, op: str) -> Any:
    return nb.panel().locator(f'tr[data-op="{op}"]')


def test_an_unknown_refund_is_confirmed_with_a_click(notebook):
    """After the kill the row is unknown; a click with value and evidence completes it."""
    nb = killed_in_the_refund(notebook, "confirm")
    expect(row(nb, "refund#1")).to_contain_text("unknown")
    nb.panel().scroll_into_view_if_needed()
    nb.shot("1-unknown")

    panel = nb.panel()
    panel.locator(".dnb-result").fill('{"id": "re_0"}')
    panel.locator(".dnb-evidence").fill("seen in the shop")
    panel.locator(".dnb-confirm").click()
    expect(panel.locator(".dnb-message")).to_contain_text(
        "Settled. Run its cell again, or all cells."
    )
    expect(row(nb, "refund#1")).to_contain_text("completed")
    nb.shot("2-confirmed")
    nb.run_all()

    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("refunded as re_0")
    assert nb.lines() == ["A-17 4250"]


def test_a_refund_that_did_not_happen_is_denied_with_a_click(notebook):
    """A kill before the effect, denied: the cell does it, and there is one effect in all."""
    late = STEPS.replace(
        "    with open('ledger', 'a')",
        "    open('refunding', 'w').close()\n    time.sleep(120 if dying else 0)\n"
        "    with open('ledger', 'a')",
    )
    nb = notebook("deny", [LOAD, late, WORK, REPORT])
    nb.run_all(wait=False)
    nb.kill("refunding")
    nb.revive()
    nb.run_all()
    panel = nb.panel()
    panel.locator(".dnb-evidence").fill("the shop has no such refund")
    panel.locator(".dnb-deny").click()
    expect(panel.locator(".dnb-message")).to_contain_text("denied")
    expect(row(nb, "refund#1")).to_contain_text("incomplete")
    nb.shot("1-denied")
    assert nb.lines() == []
    nb.run_all()

    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("refunded as re_1")
    assert nb.lines() == ["A-17 4250"]


CONTAINER = "%load_ext durable_nb"
TURN = "%%durable turn\nr = refund(plan('A-17'))"


def test_an_invalidation_shows_its_cascade_first_and_asks_what_becomes_of_the_effect(notebook):
    """Dependants are listed before anything is recorded; without a fate it is refused."""
    steps = STEPS.replace("dying = not", "dying = False and not")
    nb = notebook("invalidate", [LOAD, CONTAINER, steps, TURN, REPORT, "%durable panel"])
    nb.run_all()
    assert nb.lines() == ["A-17 4250"]
    panel = nb.panel()
    row(nb, "turn#1").click()
    panel.locator(".dnb-ask").click()
    cascade = panel.locator(".dnb-cascade")
    expect(cascade).to_contain_text("turn#1/refund#1")
    expect(cascade).to_contain_text(
        "began later, and is checked when it is reached again: report#1"
    )
    panel.locator(".dnb-reason").fill("wrong amount")
    cascade.scroll_into_view_if_needed()
    nb.shot("1-cascade")
    panel.locator(".dnb-invalidate").click()
    expect(panel.locator(".dnb-message")).to_contain_text("say what becomes of it")
    expect(row(nb, "turn#1")).to_contain_text("completed")

    panel.locator("input[value=compensated]").check()
    panel.locator(".dnb-invalidate").click()
    expect(panel.locator(".dnb-message")).to_contain_text(
        "Settled. Run its cell again, or all cells."
    )
    expect(row(nb, "turn#1/refund#1")).to_contain_text("incomplete")
    nb.shot("2-invalidated")
    nb.run_all()
    expect(row(nb, "turn#1/refund#1")).to_contain_text("completed")
    assert nb.lines() == ["A-17 4250"] * 2


CHARGE = """\
import asyncio, time
@dnb.step
def charge():
    open('ledger', 'a').write('charged\\n')
    raise TimeoutError('no answer')"""
VERDICTS = """\
kinds = run.history().kind.value_counts()
print('verdicts:', kinds.get('confirmed', 0), kinds.get('contested', 0))"""


def confirm(nb: Any, clicks: int = 2) -> None:
    """Fill in the form of the last panel, and click as fast as a browser can."""
    panel = nb.panel()
    panel.locator(".dnb-result").fill("{'id': 'ch_1'}")
    panel.locator(".dnb-evidence").fill("seen in the shop")
    panel.locator(".dnb-confirm").click(click_count=clicks)


def test_case_76_and_77_however_often_and_whenever_it_is_clicked_there_is_one_verdict(notebook):
    """A double click, a click in a blocking cell and one in an awaiting cell: one verdict each."""
    keyed = [f"charge.options(key={n})()" for n in (1, 2, 3)]
    busy = ["time.sleep(3)", "await asyncio.sleep(3)"]
    nb = notebook("clicks", [LOAD, CHARGE, *keyed, *busy, VERDICTS])
    for cell in (0, 1, 2):
        nb.run_cell(cell)
        nb.settle()
    confirm(nb)
    expect(row(nb, "charge[1]#1")).to_contain_text("completed")

    nb.run_cell(3)
    nb.settle()
    expect(row(nb, "charge[2]#1")).to_contain_text("unknown")
    nb.run_cell(5)
    nb.page.wait_for_timeout(500)
    confirm(nb)
    expect(nb.panel().locator(".dnb-queued")).to_be_visible()
    expect(nb.panel().locator(".dnb-confirm")).to_be_disabled()
    expect(nb.page.locator(".dnb-panel").first.locator(".dnb-confirm")).to_be_disabled()
    nb.shot("1-queued")
    nb.settle()
    expect(row(nb, "charge[2]#1")).to_contain_text("completed")

    nb.run_cell(4)
    nb.settle()
    nb.run_cell(6)
    nb.page.wait_for_timeout(500)
    confirm(nb)
    nb.settle()
    expect(row(nb, "charge[3]#1")).to_contain_text("completed")

    nb.run_cell(7)
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("verdicts: 3 0")
    assert nb.lines() == ["charged"] * 3


LOSE = """\
from durable_nb.engine.watched import Watched
from durable_nb.notebook.panel.panel import panel_of
panel, lost = panel_of(Watched(run.place)), []
handle = panel._handle
def lossy(click):
    if click['action'] == 'confirm' and not lost:
        lost.append(click)
    else:
        handle(click)
panel._handle = lossy"""


def test_a_click_that_gets_lost_is_sent_again(notebook):
    """And counts once: what comes a second time is answered once."""
    nb = notebook("lost", [LOAD, CHARGE, "charge()", LOSE, "print('lost', len(lost))", VERDICTS])
    for cell in range(4):
        nb.run_cell(cell)
        nb.settle()
    confirm(nb, clicks=1)
    expect(row(nb, "charge#1")).to_contain_text("completed")
    for cell in (4, 5):
        nb.run_cell(cell)
        nb.settle()
    expect(nb.page.locator(".jp-OutputArea").nth(4)).to_contain_text("lost 1")
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("verdicts: 1 0")


PAIR = """\
def send(n):
    pathlib.Path('started', str(n)).touch()
    while len(list(pathlib.Path('started').iterdir())) < 2: time.sleep(0.01)
    raise TimeoutError('no answer')
import pathlib, time; pathlib.Path('started').mkdir()
run.map(send, [1, 2], key=str)"""


def test_a_double_click_does_not_hit_the_next_doubt_that_comes_under_the_pointer(notebook):
    """Once one is settled the panel shows the next, which takes no click for a moment."""
    nb = notebook("pair", [LOAD, PAIR])
    nb.run_all()
    panel = nb.panel()
    expect(panel.locator(".dnb-bar")).to_contain_text("2 unknown")
    first = panel.locator(".dnb-title code").inner_text()
    panel.locator(".dnb-evidence").fill("no such charge")
    panel.locator(".dnb-deny").click()
    expect(panel.locator(".dnb-title code")).not_to_have_text(first)
    panel.locator(".dnb-deny").click(force=True)
    nb.page.wait_for_timeout(1500)
    expect(panel.locator(".dnb-bar")).to_contain_text("1 unknown")
    expect(panel.locator(".dnb-message")).to_contain_text("denied")  # the second was none
    panel.locator(".dnb-deny").click()
    expect(panel.locator(".dnb-message")).to_contain_text("say how you know")
    expect(panel.locator(".dnb-bar")).to_contain_text("1 unknown")
    panel.locator(".dnb-evidence").fill("no such charge either")
    panel.locator(".dnb-deny").click()
    expect(panel.locator(".dnb-bar")).to_contain_text("2 incomplete")


def test_a_stop_is_said_where_it_is_out_of_sight_and_what_a_form_lacks_at_its_buttons(notebook):
    """Not while it is seen, nor once it was; put away it stays away, until a cell stops again.

    What its form lacks is said at its buttons, the field is marked and has the focus, and nothing
    was recorded; once settled, it is said above.
    """
    far = "\n".join(f"# line {n}" for n in range(80))
    nb = notebook("notice", [LOAD, CHARGE, "charge()", far])
    for cell in (0, 1, 2):
        nb.run_cell(cell)
        nb.settle()
    notice = nb.page.locator(".dnb-notice")
    expect(nb.panel()).to_be_in_viewport()
    nb.page.wait_for_timeout(2000)
    assert notice.count() == 0
    nb.page.locator(".jp-Cell").first.evaluate(BOTTOM)
    nb.page.wait_for_timeout(2000)
    assert notice.count() == 0, "who has seen the panel knows"

    nb.run_all()
    nb.page.locator(".jp-Cell").first.evaluate(BOTTOM)
    expect(notice).to_contain_text(
        "run refund-17 in job.ipynb has stopped: charge#1 may have happened"
    )
    notice.get_by_label("close").click()
    nb.page.wait_for_timeout(2000)
    assert notice.count() == 0

    # what its form lacks is said at its buttons, and waits to be written
    panel = nb.panel()
    message, evidence = panel.locator(".dnb-message"), panel.locator(".dnb-evidence")
    panel.locator(".dnb-confirm").click()
    expect(message).to_contain_text("say how you know that it happened")
    expect(message).to_contain_text(". Result: say what the step returned")
    expect(panel.locator(".dnb-question")).to_have_text("Did charge#1 happen? ")
    expect(panel.locator(".dnb-buttons:has(.dnb-confirm) + .dnb-message")).to_have_count(1)
    expect(evidence).to_be_focused()
    expect(evidence).to_have_attribute("aria-invalid", "true")
    nb.page.keyboard.type("seen")
    expect(evidence).not_to_have_attribute("aria-invalid", "true")
    panel.locator(".dnb-confirm").click()
    expect(message).to_contain_text("say what the step returned")
    expect(panel.locator(".dnb-result")).to_be_focused()
    nb.page.keyboard.type("{not json")
    panel.locator(".dnb-confirm").click()
    expect(message).to_contain_text("neither JSON nor a Python literal")
    nb.shot("1-refused")
    panel.locator(".dnb-result").fill("null")
    panel.locator(".dnb-confirm").click()
    expect(message).to_contain_text("confirmed")
    expect(panel.locator(".dnb-detail .dnb-message")).to_have_count(0)
    expect(panel.locator(".dnb-message")).to_have_count(1)


def test_a_kernel_that_is_gone_in_the_middle_of_a_step_is_said_where_its_panel_is_out_of_sight(
    notebook,
):
    """With what was under way and what to do; it goes once the panel is seen."""
    far = "\n".join(f"# line {n}" for n in range(80))
    nb = notebook("gone", [LOAD, STEPS, "run.panel()", far, WORK])
    nb.run_all(wait=False)
    expect(nb.panel().locator(".dnb-now")).to_contain_text("refund#1")
    nb.page.locator(".jp-Cell").first.evaluate(BOTTOM)
    nb.kill("refunding")
    notice = nb.page.locator(".dnb-notice")
    expect(notice).to_contain_text(
        "run refund-17 has lost its kernel while refund#1 was under way. Run all cells: it goes on",
        timeout=15_000,
    )
    nb.shot("1-gone")
    nb.page.locator(".jp-Dialog button").click()  # "the kernel appears to have died"
    notice.locator(".dnb-notice-show").click()
    expect(nb.panel().locator(".dnb-stale-line")).to_be_in_viewport()
    expect(notice).to_have_count(0)


def test_case_75_after_the_kernel_died_the_panel_says_so_and_the_static_table_outlives_it(notebook):
    """The widget is marked stale; after a reload the table is there, one command brings it back."""
    nb = notebook("stale", [LOAD, CHARGE, "charge()", "run.panel()"])
    for cell in (0, 1, 2):
        nb.run_cell(cell)
        nb.settle()
    expect(row(nb, "charge#1")).to_contain_text("unknown")
    nb.save()
    nb.kill("ledger")
    stale = nb.panel().locator(".dnb-stale-line")
    expect(stale).to_be_visible(timeout=15_000)
    expect(stale).to_contain_text("run all cells again. Then `run.panel()` or `%durable panel`")
    expect(nb.panel().locator(".dnb-status")).to_have_text("stale")
    expect(nb.panel().locator(".dnb-confirm")).to_be_disabled()
    nb.page.locator(".jp-Dialog button").click()  # "the kernel appears to have died"
    nb.panel().locator(".dnb-history summary").click()
    expect(nb.panel().locator(".dnb-history")).to_contain_text("there is nobody to ask")
    nb.shot("1-stale")

    nb.open()
    static = nb.page.locator(".durable-nb-status")
    expect(static).to_contain_text("charge#1")
    expect(static).to_contain_text("unknown")
    nb.shot("2-reloaded")
    nb.run_cell(0)
    nb.settle()
    nb.run_cell(3)
    nb.settle()
    expect(row(nb, "charge#1")).to_contain_text("unknown")
    expect(nb.panel().locator(".dnb-stale-line")).to_be_hidden()
    nb.shot("3-rebuilt")


HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ATTACK = f"""\
evil = {HOSTILE!r}
@dnb.step(effect='none', key=evil, name=evil)
def look(given):
    return [evil, given]
look(evil)
@dnb.step
def send(given):
    raise ValueError(evil)
send(evil)"""


#: As hostile as the name of a folder can be.
EVIL_RUN = "<img src=x onerror=alert(3)><script>alert(4)"


def test_html_and_script_in_a_run_are_shown_as_text(notebook):
    """In names of run and steps, keys, inputs, results and errors, in widget and static table."""
    nb = notebook("hostile", [LOAD.replace("refund-17", EVIL_RUN), ATTACK])
    nb.run_all()
    panel, static = nb.panel(), nb.page.locator(".durable-nb-status").last
    first = panel.locator("tr[data-op]").first
    expect(panel.locator(".dnb-run")).to_have_text(f"run {EVIL_RUN}")
    expect(static).to_contain_text(f"run {EVIL_RUN}")
    expect(first).to_contain_text("<img")
    first.click()
    expect(panel.locator(".dnb-facts")).to_contain_text("<script>alert(2)</script>")
    panel.locator(".dnb-history summary").click()
    expect(panel.locator(".dnb-history")).to_contain_text("intended")
    expect(static).to_contain_text("<script>")
    panel.scroll_into_view_if_needed()
    nb.shot("1-text")
    row(nb, "send#1").click()
    expect(panel.locator(".dnb-facts")).to_contain_text(f"ValueError: {HOSTILE}")
    for shown in (panel, static):
        assert shown.locator("img, script").count() == 0
    assert nb.alerts == []


BREAK = """\
from durable_nb.notebook.panel.panel import panel_of
table = panel_of(run).table
table.patch = {'base': table.whole()['version'], 'version': 10**6}
@dnb.step(effect='none')
def add(a, b): return a + b
add(1, 2)"""


def test_what_fails_in_the_front_end_is_shown_in_the_panel_and_fails_no_step(notebook):
    """A patch that cannot be read is a line in the panel; the cell's step goes on."""
    nb = notebook("broken", [LOAD, "run.panel()", BREAK])
    nb.run_all()
    expect(nb.panel().locator(".dnb-message")).to_contain_text("the panel's display failed")
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("3")
    expect(row(nb, "add#1")).to_contain_text("completed")


ASKED = """\
import pathlib
@dnb.step(on_change='ask')
def price(cents):
    return cents
price(100)
def look_up(op):
    there = pathlib.Path('there').exists()
    return dnb.Happened({'id': 'm_1'}, 'in the outbox') if there else None
@dnb.step(reconcile=look_up)
def mail(to):
    raise TimeoutError('no answer')"""


def test_check_now_asks_the_reconciler_and_keep_answers_a_change(notebook):
    """Undecided stays unknown; found is settled; a changed input keeps its record."""
    nb = notebook("asked", [LOAD, ASKED, "mail('ann')", "%load_ext durable_nb"])
    for cell in (0, 1, 2):
        nb.run_cell(cell)
        nb.settle()
    panel = nb.panel()
    panel.locator(".dnb-check").click()
    expect(panel.locator(".dnb-message")).to_contain_text("could not tell")
    expect(row(nb, "mail#1")).to_contain_text("unknown")
    (nb.folder / "there").touch()
    panel.locator(".dnb-check").click()
    expect(panel.locator(".dnb-message")).to_contain_text(
        "Settled. Run its cell again, or all cells."
    )
    expect(row(nb, "mail#1")).to_contain_text("completed")

    nb.write(1, ASKED.replace("price(100)", "print('price', price(200))"))
    nb.run_cell(1)
    nb.settle()
    panel = nb.page.locator(".dnb-panel").first
    expect(panel.locator('tr[data-op="price#1"]')).to_contain_text("changed: keep or rerun?")
    expect(panel.locator(".dnb-facts")).to_contain_text("cents")
    panel.scroll_into_view_if_needed()
    nb.shot("1-changed")
    panel.locator(".dnb-keep").click()
    expect(panel.locator(".dnb-message")).to_contain_text("kept; its recorded result is used")
    nb.run_cell(1)
    nb.settle()
    expect(nb.page.locator(".jp-OutputArea").nth(1)).to_contain_text("price 100")
