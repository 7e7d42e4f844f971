"""The panel of 20,000 operations in both front ends: with the keyboard, narrow, dark, reloaded."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.parametrize("front", ["lab", "notebook"])

MANY = 20_000
DOUBTS = 8
#: What is in the page at most, of however many rows.
BOUND = 100

MADE = f"""\
import os, sys, threading
os.environ['DURABLE_STORE'] = sys.argv[1]
import durable_nb as dnb
def work(n):
    return n
begun = threading.Barrier({DOUBTS})  # the first that fails stops those that have not begun
def pay(n):
    begun.wait()
    raise TimeoutError('no answer')
run = dnb.open_run('long')
run.map(run.step('work', effect='none')(work), range({MANY - DOUBTS}), key=str)
try:
    run.map(pay, range({DOUBTS}), key=str)
except BaseException as stop:
    print(type(stop).__name__)
run.close()"""
OPEN = """\
import os
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('long', adopt='abandoned')"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the run, which a process of its own has made."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "made.py").write_text(MADE)
    command = [sys.executable, str(folder / "made.py"), str(folder / "store")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert made.stdout.split()[-1] == "UnknownOutcome"
    return folder / "store"


@pytest.fixture
def long(notebook: Callable[..., Any], made: Path) -> Callable[..., Any]:
    """Open a copy of the run in a notebook, and show its panel."""

    def opened(name: str, *cells: str) -> Any:
        nb = notebook(name, [OPEN, "run.panel()", *cells])
        shutil.copytree(made, nb.folder / "store")
        for cell in (0, 1):
            nb.run_cell(cell)
            nb.settle()
        expect(rows(nb).first).to_be_visible()
        nb.panel().scroll_into_view_if_needed()
        return nb

    return opened


def rows(nb: Any) -> Any:
    return nb.panel().locator("tbody tr[data-op]")


def visible(nb: Any) -> list[str]:
    """Give the rows that a person sees, whole."""
    return nb.panel().evaluate(
        """(panel) => {
            const frame = panel.querySelector('.dnb-frame').getBoundingClientRect();
            const head = panel.querySelector('thead th').getBoundingClientRect().bottom;
            return [...panel.querySelectorAll('tr[data-op]')].filter((tr) => {
                const { top, bottom } = tr.getBoundingClientRect();
                return top >= head - 1 && bottom <= frame.bottom + 1;
            }).map((tr) => tr.dataset.op);
        }"""
    )


def active(nb: Any) -> str:
    """Give the row that a screen reader is told of."""
    return (
        nb.panel()
        .locator("[role=grid]")
        .evaluate(
            "(grid) => document.getElementById(grid.getAttribute('aria-activedescendant')).dataset.op"
        )
    )


def scroll(nb: Any, share: float) -> None:
    nb.panel().locator(".dnb-frame").evaluate(
        "(frame, share) => { frame.scrollTop = share * frame.scrollHeight; }", share
    )
    nb.page.wait_for_timeout(200)


def listed(nb: Any) -> int:
    """Give how many rows the table says that it has, its heading left out."""
    return int(nb.panel().locator("[role=grid]").get_attribute("aria-rowcount")) - 1


def test_of_20000_operations_only_those_in_view_are_in_the_page(long):
    """Wherever it is scrolled to; and the static table above is short, and says so."""
    nb = long("bounded")
    assert listed(nb) == MANY
    for share, first in ((0, 0), (0.5, MANY // 2), (1, MANY)):
        scroll(nb, share)
        assert nb.panel().locator("tr").count() < BOUND
        seen = visible(nb)
        assert len(seen) > 8
        index = int(
            nb.panel().locator(f'tr[data-op="{seen[0]}"]').get_attribute("aria-rowindex") or 0
        )
        assert abs(index - first) < 20
    assert seen[-1].startswith("pay[")
    nb.shot("1-end")
    static = nb.page.locator(".durable-nb-status")
    expect(static).to_contain_text(f"{MANY - 100:,} operations are not listed here")
    assert static.locator("tr").count() <= 101
    assert nb.page.locator(".jp-mod-outputsScrolled").count() == 0  # no frame around the frame
    assert static.evaluate("(e) => e.clientHeight") < 1100


def test_it_is_sorted_by_its_headings_and_filtered_by_text_and_outcome(long):
    """By click and by key; the tree's order comes back; filters hold together."""
    nb = long("sorted")
    panel = nb.panel()
    tree = visible(nb)
    heading = panel.locator("th", has_text="outcome")
    heading.locator("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert visible(nb)[0].startswith("pay[")
    nb.shot("1-by-outcome")
    heading.locator("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert visible(nb)[0] == tree[0]
    heading.locator("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "none")
    assert visible(nb) == tree

    panel.locator(".dnb-search").fill("[1234")
    expect(panel.locator(".dnb-count")).to_have_text("11 of 20,000")
    assert listed(nb) == 11
    assert all(re.match(r"work\[1234\d?\]#1$", op) for op in visible(nb))
    nb.shot("2-filtered")
    panel.locator(".dnb-filter", has_text="unknown").click()
    expect(panel.locator(".dnb-none")).to_have_text("none of these")
    panel.locator(".dnb-search").fill("IT MAY have")  # of the note, in whatever case
    assert listed(nb) == DOUBTS
    panel.locator(".dnb-search").press("Escape")
    assert listed(nb) == DOUBTS
    panel.locator(".dnb-filter", has_text="all").click()
    assert listed(nb) == MANY


def test_a_doubt_is_found_and_confirmed_with_the_keyboard_alone(long):
    """From the filter into the table, into the form, and back; what has the focus keeps it."""
    nb = long("keys", "run.step('new', effect='none').call(lambda: 1)")
    panel, keys = nb.panel(), nb.page.keyboard
    panel.locator("[role=grid]").focus()
    keys.press("End")
    assert active(nb) == visible(nb)[-1]  # in whatever order their threads began
    last = panel.locator(f'tr[data-op="{active(nb)}"]')
    expect(last).to_have_attribute("aria-rowindex", str(MANY + 1))
    keys.press("Home")
    keys.press("PageDown")
    keys.press("ArrowDown")
    keys.press("ArrowUp")
    assert active(nb) in visible(nb)
    keys.press("/")
    keys.type("pay[1")
    keys.press("ArrowDown")
    expect(rows(nb)).to_have_count(1)
    keys.press("Enter")
    expect(panel.locator(".dnb-title code")).to_have_text("pay[1]#1")
    nb.shot("1-chosen")
    expect(panel.locator(".dnb-confirm")).to_be_enabled()
    keys.press("Tab")  # why
    keys.press("Tab")
    keys.type("seen in the shop")
    keys.press("Tab")
    keys.type('"pay_1"')
    keys.press("Tab")
    keys.press("Enter")
    expect(panel.locator(".dnb-message")).to_contain_text(
        "Settled. Run its cell again, or all cells."
    )
    expect(panel.locator('tr[data-op="pay[1]#1"]')).to_contain_text("completed")
    keys.press("Escape")
    expect(panel.locator("[role=grid]")).to_be_focused()
    assert nb.page.locator(".jp-Notebook.jp-mod-editMode").count() == 0
    nb.shot("2-confirmed")


def test_it_is_whole_in_a_page_that_is_loaded_anew_and_where_a_patch_was_missed(long):
    """It gets all rows at once, goes on with patches, and asks where one is missing."""
    missed = (
        "from durable_nb.notebook.panel.panel import panel_of\n"
        "from durable_nb.engine.watched import Watched\n"
        "panel_of(Watched(run.place))._sent.version += 1"
    )
    nb = long("loaded", missed)
    nb.save()
    nb.open()
    expect(rows(nb).first).to_be_visible()
    assert listed(nb) == MANY
    doubt = nb.panel().locator(".dnb-title code").inner_text()
    nb.panel().locator(".dnb-evidence").fill("no such payment")
    nb.panel().locator(".dnb-deny").click()
    expect(nb.panel().locator(".dnb-message")).to_contain_text("denied")
    expect(nb.panel().locator(".dnb-title code")).not_to_have_text(doubt)

    nb.run_cell(2)
    nb.settle()
    doubt = nb.panel().locator(".dnb-title code").inner_text()
    expect(nb.panel().locator(".dnb-deny")).to_be_enabled()
    nb.panel().locator(".dnb-evidence").fill("no such payment")
    nb.panel().locator(".dnb-deny").click()
    expect(nb.panel().locator(".dnb-title code")).not_to_have_text(doubt)
    nb.panel().locator(".dnb-search").fill(doubt)
    expect(nb.panel().locator(f'tr[data-op="{doubt}"]')).to_contain_text("incomplete")


def test_it_fits_a_narrow_window_also_in_the_dark(long):
    """At 600 px nothing of it is cut off, and outcome, name and duration have room."""
    nb = long("narrow")
    nb.narrow()
    nb.theme("JupyterLab Dark")
    panel = nb.panel()
    panel.scroll_into_view_if_needed()
    nb.page.wait_for_timeout(500)
    nb.shot("1-dark")
    for part in (".dnb-panel", ".dnb-frame", ".dnb-detail"):
        found = nb.page.locator(part).last.evaluate(
            "(part) => [part.scrollWidth - part.clientWidth, part.getBoundingClientRect().right]"
        )
        assert found[0] <= 1
        assert found[1] <= 600
    for name, least in (("outcome", 80), ("operation", 120), ("duration", 60)):
        box = panel.locator("th", has_text=name).bounding_box()
        assert box is not None
        assert box["width"] >= least
    expect(panel.locator("th", has_text="attempt")).to_be_hidden()
    assert nb.panel().locator("tr").count() < BOUND
