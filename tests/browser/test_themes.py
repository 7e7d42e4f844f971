"""The panel's texts can be read in each of JupyterLab's themes."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

THEMES = ["JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"]
ENOUGH = 4.5  #: WCAG 2.2, 1.4.3 (AA): the least contrast ratio of normal text

#: Contrast ratios by WCAG: the browser's own canvas mixes what is transparent. What is disabled
#: is exempt there.
POOR = """(panel, enough) => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
    const paint = canvas.getContext('2d', { willReadFrequently: true });
    const lay = (colour, alpha = 1) => {
        paint.globalAlpha = alpha;
        paint.fillStyle = colour;
        paint.fillRect(0, 0, 1, 1);
        return paint.getImageData(0, 0, 1, 1).data;
    };
    const luminance = ([r, g, b]) => {
        const [R, G, B] = [r, g, b].map((x) => x / 255).map(
            (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * R + 0.7152 * G + 0.0722 * B;
    };
    const ratio = (element, colour) => {
        const around = [];
        for (let e = element; e; e = e.parentElement) around.unshift(getComputedStyle(e));
        let ground = lay('white'), alpha = 1;
        for (const style of around) {
            ground = lay(style.backgroundColor);
            alpha *= Number(style.opacity);
        }
        const [a, b] = [luminance(ground), luminance(lay(colour, alpha))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    const found = [];
    const look = (element, colour, text) => found.push(
        { text: text.trim(), name: element.className, ratio: ratio(element, colour) });
    const texts = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, text = texts.currentNode.data;
        if (!text.trim() || !element.checkVisibility() || element.matches(':disabled *')) continue;
        look(element, getComputedStyle(element).color, text);
    }
    for (const input of panel.querySelectorAll('input[placeholder], textarea')) {
        if (!input.checkVisibility() || input.matches(':disabled')) continue;
        look(input, getComputedStyle(input).color, input.value || 'typed');
        look(input, getComputedStyle(input, '::placeholder').color, input.placeholder);
    }
    return { seen: found.length, poor: found.filter((one) => !(one.ratio >= enough)) };
}"""

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
            change_theme(self.nb, theme)
            panel = self.nb.panel()
            found = panel.evaluate(POOR, ENOUGH)
            assert found["seen"] > 20
            self.poor += [
                f"{state}, {theme}: {one['ratio']:.2f} {one['text']!r} ({one['name']})"
                for one in found["poor"]
            ]
            panel.scroll_into_view_if_needed()
            self.nb.shot(f"{state}-{theme.rpartition(' ')[2].lower()}")


def change_theme(nb: Any, theme: str) -> None:
    nb.page.evaluate(
        "(theme) => { jupyterapp.commands.execute('apputils:change-theme', { theme }); }", theme
    )
    nb.page.wait_for_function("(t) => document.body.dataset.jpThemeName === t", arg=theme)
    nb.page.wait_for_function("() => !document.querySelector('#jupyterlab-splash')")


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
