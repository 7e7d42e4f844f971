"""All runs of a store in both front ends: seen, opened, and settled from there."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from support.contrast import ENOUGH, POOR

pytestmark = pytest.mark.parametrize("front", ["lab", "notebook"])

MAKE = """\
import os
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
with dnb.open_run('night-1') as run:
    run.step('plan', effect='none').call(lambda: 1)
    run.finish()
def pay():
    raise ConnectionError('no answer')
with dnb.open_run('night-2') as run:
    try:
        run.step('pay', effect='external').call(pay)
    except dnb.UnknownOutcome:
        pass
"""


def tab_to(nb: Any, there: str) -> None:
    """Press Tab until what matches has the focus."""
    for _ in range(30):
        nb.page.keyboard.press("Tab")
        if nb.page.evaluate("(there) => document.activeElement.matches(there)", there):
            return
    raise AssertionError(f"Tab does not come to {there}")


def in_command_mode(nb: Any) -> bool:
    """Say whether no key went to the notebook, which would begin to edit a cell."""
    return nb.page.locator(".jp-Notebook.jp-mod-editMode").count() == 0


def test_a_run_in_doubt_is_found_opened_and_settled_with_the_keyboard(notebook):
    """It stands first; Enter opens its panel below; once settled, nobody is asked any more."""
    nb = notebook("runs", [MAKE, "dnb.panel()"])
    nb.run_all()
    runs = nb.page.locator(".dnb-runs").last
    rows = runs.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("night-2")
    expect(rows.first).to_contain_text("pay#1 may have happened: confirm or deny")
    expect(runs.locator(".dnb-elapsed")).to_have_text(
        "2 runs, 1 waiting for you; choose one: its panel opens below"
    )
    nb.shot("1-overview")

    rows.last.focus()
    nb.page.keyboard.press("ArrowUp")
    expect(rows.first).to_be_focused()
    nb.page.keyboard.press("Enter")

    panel = nb.page.locator(".dnb-panel:not(.dnb-runs)").last
    expect(panel.locator(".dnb-run")).to_have_text("run night-2")
    expect(rows.first).to_be_focused()
    tab_to(nb, ".dnb-evidence")
    nb.page.keyboard.type("seen in the shop")
    tab_to(nb, ".dnb-result")
    nb.page.keyboard.type("null")
    tab_to(nb, ".dnb-confirm")
    nb.page.keyboard.press("Enter")
    expect(panel.locator(".dnb-message")).to_contain_text("confirmed")
    expect(runs.locator(".dnb-elapsed")).to_have_text("2 runs; choose one: its panel opens below")
    expect(runs.locator("tbody")).to_contain_text("1 so far")  # how much is to come is not known
    expect(runs.locator("tbody")).to_contain_text("1 of 1")  # of the one that is finished
    static = nb.page.locator(".durable-nb-runs details")  # which says so, too, where it is saved
    expect(static).not_to_contain_text("confirm or deny")
    assert not static.evaluate("(made) => made.open")
    assert in_command_mode(nb)
    nb.shot("2-settled")

    settled = runs.locator('tr[aria-expanded="true"]')
    settled.dblclick()  # which is one click: it closes, and does not open again
    expect(panel).to_have_count(0)
    expect(settled).to_have_count(0)
    rows.first.click()
    expect(panel).to_have_count(1)
    expect(panel.locator(".dnb-message")).to_be_empty()  # what was said of a click is over
    nb.kill(lambda: True)
    expect(runs.locator(".dnb-stale-line")).to_contain_text("the kernel is gone")


def test_it_can_be_read_in_the_dark_in_a_narrow_window_and_in_a_page_loaded_anew(notebook):
    """What waits for a person is seen without scrolling; live again, it opens a run."""
    nb = notebook("glance", [MAKE, "dnb.panel()"])
    nb.run_all()
    expect(nb.page.locator(".dnb-runs tbody tr")).to_have_count(2)
    nb.save()
    nb.open()
    nb.narrow()
    nb.theme("JupyterLab Dark")
    runs, static = nb.page.locator(".dnb-runs"), nb.page.locator(".durable-nb-runs")
    expect(runs.locator("tbody tr")).to_have_count(2)
    expect(static.locator("details")).not_to_have_attribute("open", "")
    static.locator("summary").click()
    runs.scroll_into_view_if_needed()
    for shown in (runs, static):
        found = shown.evaluate(POOR, ENOUGH)
        assert found["seen"] > 10
        assert not found["poor"]
        asked = shown.locator("td", has_text="may have happened").bounding_box()
        assert asked is not None
        assert asked["x"] + asked["width"] <= 600
        assert asked["width"] >= 90
        assert shown.evaluate("(e) => e.scrollWidth <= e.clientWidth")
        for word in ("run", "status", "night-1", "waiting", "finished"):  # none broken in two
            lines = shown.get_by_text(word, exact=True).evaluate(
                "(e) => "
                "{ const words = document.createRange(); words.selectNodeContents(e);"
                " return words.getClientRects().length; }"
            )
            assert lines == 1
    frame = runs.locator(".dnb-frame")
    assert frame.evaluate("(e) => e.scrollWidth <= e.clientWidth")
    nb.shot("1-dark")
    runs.locator("tbody tr").first.click()
    panel = nb.page.locator(".dnb-panel:not(.dnb-runs)")
    expect(panel.locator(".dnb-run")).to_have_text("run night-2")
    nb.shot("2-opened")


LOSE = """\
from durable_nb.notebook.panel import overview
table, lost = next(iter(overview._shown.values())).table, []
hears = table._handle_custom_msg
def lossy(content, buffers):
    if lost: hears(content, buffers)
    else: lost.append(content)
table._handle_custom_msg = lossy"""


def test_one_run_is_counted_as_one_and_opens_even_where_the_first_click_gets_lost(notebook):
    """It is asked for again until it is there."""
    nb = notebook("run", [MAKE.partition("def pay")[0], "dnb.panel()", LOSE, "print(lost)"])
    for cell in range(3):
        nb.run_cell(cell)
        nb.settle()
    runs = nb.page.locator(".dnb-runs")
    expect(runs.locator(".dnb-elapsed")).to_have_text("1 run; choose one: its panel opens below")
    runs.locator("tbody tr").click()
    panel = nb.page.locator(".dnb-panel:not(.dnb-runs)")
    expect(panel.locator(".dnb-run")).to_have_text("run night-1")
    nb.run_cell(3)
    expect(nb.page.locator(".jp-OutputArea").last).to_contain_text("[{'open': 'night-1'}]")
