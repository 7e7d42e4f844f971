"""The panel's texts can be read in each of JupyterLab's themes."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect
from support.contrast import ENOUGH, POOR

THEMES = ["JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"]

LOAD = """\
import os, pathlib, time
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('refund-17')
@dnb.step(effect='none')
def plan(order):
    return {'order': order, 'cents': 4250}
@dnb.step(effect='none')
def wait():
    while not pathlib.Path('go').exists(): time.sleep(0.05)
pathlib.Path('started').mkdir()
def send(n):
    pathlib.Path('started', str(n)).touch()
    while len(list(pathlib.Path('started').iterdir())) < 2: time.sleep(0.01)
    raise TimeoutError('no answer')"""
CELLS = [LOAD, "run.panel()", "plan('A-17'); wait()", "run.map(send, [1, 2], key=str)"]


class Look:
    """Looks at one panel in all themes, and keeps what cannot be read."""

    def __init__(self, nb: Any) -> None:
        self.nb, self.poor = nb, []

    def at(self, state: str) -> None:
        for theme in THEMES:
            self.nb.theme(theme)
            panel = self.nb.panel()
            found = panel.evaluate(POOR, ENOUGH)
            assert found["seen"] > 20
            self.poor += [
                f"{state}, {theme}: {one['ratio']:.2f} {one['text']!r} ({one['name']})"
                for one in found["poor"]
            ]
            panel.scroll_into_view_if_needed()
            self.nb.shot(f"{state}-{theme.rpartition(' ')[2].lower()}")


def test_every_text_of_the_panel_has_contrast_enough_in_every_theme(notebook):
    """At least 4.5 to 1, whatever the panel shows: live, in doubt, settled, refused, stale."""
    nb = notebook("themes", CELLS)
    look = Look(nb)
    for cell in (0, 1):
        nb.run_cell(cell)
        nb.settle()
    nb.run_cell(2)
    expect(row(nb, "wait#1")).to_contain_text("running")
    look.at("1-live")
    (nb.folder / "go").touch()
    nb.settle()

    nb.run_cell(3)
    nb.settle()
    panel = nb.panel()
    expect(panel.locator(".dnb-bar")).to_contain_text("2 unknown")
    look.at("2-unknown")
    panel.locator(".dnb-confirm").click()
    expect(panel.locator(".dnb-message")).to_contain_text("Nothing was recorded")
    look.at("3-refused")
    panel.locator(".dnb-evidence").fill("no such charge")
    panel.locator(".dnb-deny").click()
    expect(panel.locator(".dnb-message")).to_contain_text("denied")
    panel.locator("tr[data-op]", has_text="incomplete").click()
    panel.locator(".dnb-folded summary").click()
    look.at("4-denied")

    row(nb, "plan#1").click()
    panel.locator(".dnb-ask").click()
    expect(panel.locator(".dnb-cascade")).to_contain_text("Reason")
    panel.locator(".dnb-history summary").click()
    expect(panel.locator(".dnb-history")).to_contain_text("intended")
    look.at("5-detail")

    nb.kill("started")
    expect(panel.locator(".dnb-stale-line")).to_be_visible(timeout=20_000)
    nb.page.locator(".jp-Dialog button").click()  # "the kernel appears to have died"
    look.at("6-stale")
    assert not look.poor, "\n".join(look.poor)


def row(nb: Any, op: str) -> Any:
    return nb.panel().locator(f'tr[data-op="{op}"]')
