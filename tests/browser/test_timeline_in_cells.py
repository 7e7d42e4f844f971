"""A timeline in a cell, in both front ends: by itself, and below the panel's static table."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from support.contrast import ENOUGH, POOR, TEXTS

pytestmark = pytest.mark.parametrize("front", ["lab", "notebook"])

READABLE = 9  #: pixels of the least text

LOAD = """\
import os, time
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('refund-17')
def look_up(order):
    time.sleep(0.1 * len(order))
    return order
def send():
    time.sleep(0.3)
    raise TimeoutError('no answer')
run.step('plan', effect='none').call(time.sleep, 0.3)
with run.step('orders', effect='none') as op:
    if op.needed:
        orders = ['o-1', 'o-12', 'o-123']
        run.map(run.step('look_up', effect='none')(look_up), orders, key=str, limit=2)
        op.result = len(orders)
try:
    run.step('mail').call(send)
except dnb.UnknownOutcome:
    pass"""


def bar(picture: Any, op: str) -> Any:
    return picture.locator(f'a[data-op="{op}"]').first


def unfold(static: Any) -> None:
    """Open the static table, which a panel that lives has folded."""
    folded = static.locator("details.durable-nb-static")
    expect(folded).not_to_have_attribute("open", "")
    folded.locator("summary").first.click()


def under_the_pointer(nb: Any, link: Any) -> Any:
    """Point at a bar, and give what is told of it: its title, and whether it stands out."""
    link.hover()
    return link.evaluate(
        """(link) => ({
            title: link.querySelector('title').textContent,
            outlined: getComputedStyle(link.querySelector('rect')).strokeWidth,
        })"""
    )


def test_a_bar_below_the_static_table_tells_what_it_is_and_leads_to_its_row(notebook):
    """By pointer and by key; also in a page loaded anew, where nothing is alive."""
    nb = notebook("timeline-below", [LOAD, "run.timeline()", "run.panel()"])
    nb.run_all()
    static = nb.page.locator(".durable-nb-status").last
    for when in ("live", "loaded"):
        unfold(static)
        mail = bar(static, "mail#1")
        mail.scroll_into_view_if_needed()
        before = mail.locator("rect").evaluate("(rect) => getComputedStyle(rect).strokeWidth")
        told = under_the_pointer(nb, mail)
        assert told["title"].startswith("mail#1 · attempt 1 · external · ")
        assert told["outlined"] != before
        mail.click()
        expect(static.locator("tr:target")).to_contain_text("mail#1")
        expect(static.locator("tr:target")).to_be_in_viewport()
        bar(static, "orders#1/look_up[o-12]#1").focus()
        nb.page.keyboard.press("Enter")
        expect(static.locator("tr:target")).to_contain_text("look_up[o-12]#1")
        assert nb.page.locator(".jp-Notebook.jp-mod-editMode").count() == 0
        nb.shot(f"{when}")
        if when == "live":
            nb.save()
            nb.open()


def test_a_picture_in_a_cell_can_be_read_in_the_dark_and_in_a_narrow_window(notebook):
    """A click leads to the label of its row; no text is too small, too pale, or cut off."""
    nb = notebook("timeline-cell", [LOAD, "run.timeline()", "run.panel()"])
    for cell in (0, 1):
        nb.run_cell(cell)
        nb.settle()
    picture = nb.page.locator("svg.dnb-timeline").first
    under_the_pointer(nb, bar(picture, "plan#1"))
    bar(picture, "plan#1").click()
    expect(picture.locator("g:target text")).to_contain_text("plan#1")
    nb.run_cell(2)
    nb.settle()
    static = nb.page.locator(".durable-nb-status")
    unfold(static)
    for look in ("1-light", "2-dark"):
        if look == "2-dark":
            nb.narrow()
            nb.theme("JupyterLab Dark")
        for place in (picture, static.locator("svg.dnb-timeline")):
            place.scroll_into_view_if_needed()
            texts = place.evaluate(TEXTS)
            assert len(texts) > 10
            assert [one for one in texts if one["ratio"] < ENOUGH or not one["inside"]] == []
            assert min(one["size"] for one in texts) >= READABLE
        found = static.locator("table").evaluate(POOR, ENOUGH)
        assert found["seen"] > 20
        assert not found["poor"]
        nb.shot(look)
    for wide in (static, static.locator("table")):  # but for the picture, which is scrolled
        right = wide.evaluate("(e) => e.getBoundingClientRect().left + e.scrollWidth")
        assert right <= 600
