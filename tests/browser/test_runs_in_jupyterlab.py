"""All runs of a store in a real JupyterLab: seen, opened, and settled from there."""

from __future__ import annotations

from playwright.sync_api import expect

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


def test_a_run_in_doubt_is_found_opened_and_settled_with_the_keyboard(notebook):
    """It stands first; Enter opens its panel below; once settled, nobody is asked any more."""
    nb = notebook("runs", [MAKE, "dnb.panel()"])
    nb.run_all()
    runs = nb.page.locator(".dnb-runs").last
    rows = runs.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("night-2")
    expect(rows.first).to_contain_text("pay#1 may have happened: confirm or deny")
    expect(runs.locator(".dnb-elapsed")).to_have_text("2 runs, 1 waiting for you")
    nb.shot("1-overview")

    rows.first.focus()
    nb.page.keyboard.press("Enter")

    panel = nb.page.locator(".dnb-panel:not(.dnb-runs)").last
    expect(panel.locator(".dnb-run")).to_have_text("run night-2")
    panel.locator(".dnb-result").fill("null")
    panel.locator(".dnb-evidence").fill("seen in the shop")
    panel.locator(".dnb-confirm").click()
    expect(panel.locator(".dnb-message")).to_contain_text("confirmed")
    expect(runs.locator(".dnb-elapsed")).to_have_text("2 runs")
    nb.shot("2-settled")


def test_one_run_is_counted_as_one(notebook):
    """And not as one of several."""
    nb = notebook("run", [MAKE.partition("def pay")[0], "dnb.panel()"])
    nb.run_all()
    expect(nb.page.locator(".dnb-runs .dnb-elapsed").last).to_have_text("1 run")
