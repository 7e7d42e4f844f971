"""Two tabs of one browser on the same notebook: one kernel, one run, two panels."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

LOAD = """\
import os, pathlib, time
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('refund-17')"""
CHARGE = """\
@dnb.step
def charge():
    open('ledger', 'a').write('charged\\n')
    raise TimeoutError('no answer')"""
BUSY = "open('busy', 'w').close()\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)"
VERDICTS = """\
for n in (1, 2):
    op = f'charge[{n}]#1'
    kinds = list(run.history(op).kind)
    print('verdicts on', n, kinds.count('confirmed'), kinds.count('contested'), run.get(op).result)"""
CELLS = [LOAD, CHARGE, "charge.options(key=1)()", "charge.options(key=2)()", BUSY, VERDICTS]

#: Click at a moment that both pages know.
AT = """(at) => {
    const button = [...document.querySelectorAll('.dnb-panel')].at(-1).querySelector('.dnb-confirm');
    setTimeout(() => button.click(), at - Date.now());
}"""


@pytest.fixture(scope="module")
def subshells() -> str:
    """What is clicked while a cell runs is queued."""
    return "disabled"


def facts(nb: Any) -> Any:
    """Give the facts of the chosen operation."""
    return nb.panel().locator(".dnb-facts")


def row(nb: Any, op: str) -> Any:
    return nb.panel().locator(f'tr[data-op="{op}"]')


def confirm_in_both(first: Any, second: Any) -> None:
    """Fill in both forms, with results that differ, and click both at the same millisecond."""
    for nb, result in ((first, '"first"'), (second, '"second"')):
        nb.panel().locator(".dnb-result").fill(result)
        nb.panel().locator(".dnb-evidence").fill(f"seen from the {result} tab")
        expect(nb.panel().locator(".dnb-confirm")).to_be_enabled()
    soon = first.page.evaluate("() => Date.now() + 300")
    for nb in (first, second):
        nb.page.evaluate(AT, soon)


def test_confirmed_in_two_tabs_at_once_there_is_one_verdict_and_both_show_it(notebook):
    """The second click is refused and noted, the first one's result stands in both tabs."""
    first = notebook("tabs", CELLS)
    for cell in (0, 1, 2):
        first.run_cell(cell)
        first.settle()
    expect(row(first, "charge[1]#1")).to_contain_text("unknown")
    first.save()
    second = notebook("tabs", None)  # what was saved is shown, and its panel is alive
    expect(row(second, "charge[1]#1")).to_contain_text("unknown")
    confirm_in_both(first, second)
    for nb in (first, second):
        expect(row(nb, "charge[1]#1")).to_contain_text("completed")

    # Now the kernel is busy, so that both clicks are on their way before either is answered.
    first.run_cell(3)
    first.settle()
    first.run_cell(4)
    first.wait_for("busy")
    expect(row(second, "charge[2]#1")).to_contain_text("unknown")
    confirm_in_both(first, second)
    for nb in (first, second):
        expect(nb.panel().locator(".dnb-queued")).to_be_visible()
        expect(nb.panel().locator(".dnb-confirm")).to_be_disabled()
    first.shot("1-queued-first")
    second.shot("1-queued-second")
    (first.folder / "go").touch()
    for nb in (first, second):
        expect(row(nb, "charge[2]#1")).to_contain_text("completed")
        expect(nb.panel().locator(".dnb-message")).not_to_be_empty()
    said = [nb.panel().locator(".dnb-message").inner_text() for nb in (first, second)]
    assert sorted("already" in text for text in said) == [False, True], "each hears its own answer"
    assert facts(first).inner_text() == facts(second).inner_text()
    first.shot("2-settled-first")
    second.shot("2-settled-second")

    first.run_cell(5)
    said = first.page.locator(".jp-OutputArea").last
    expect(said).to_contain_text(re.compile("verdicts on 1 1 [01] (first|second)"))
    expect(said).to_contain_text(re.compile("verdicts on 2 1 1 (first|second)"))
    assert first.lines() == ["charged"] * 2


def test_a_tab_without_the_panel_gets_it_with_one_command(notebook):
    """What is not saved is not in the second tab; the panel run there is as alive as the first."""
    cells = ["%load_ext durable_nb", LOAD, CHARGE, "charge()", "%durable panel"]
    first = notebook("unsaved", cells)
    second = notebook("unsaved", None)
    for cell in (0, 1, 2, 3):
        first.run_cell(cell)
        first.settle()
    expect(row(first, "charge#1")).to_contain_text("unknown")
    assert second.page.locator(".dnb-panel").count() == 0
    second.run_cell(4)
    expect(row(second, "charge#1")).to_contain_text("unknown")
    second.shot("1-second")
    second.panel().locator(".dnb-result").fill('"second"')
    second.panel().locator(".dnb-evidence").fill("seen in the shop")
    second.panel().locator(".dnb-confirm").click()
    for nb in (first, second):
        expect(row(nb, "charge#1")).to_contain_text("completed")
        expect(facts(nb)).to_contain_text("second")
    first.shot("2-first")
