"""The line under a plain agent's long cell, in both front ends: one, updated, and there to stay."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from support.contrast import ENOUGH, POOR

pytestmark = pytest.mark.parametrize("front", ["lab", "notebook"])

LOAD = """\
import os, pathlib, time
os.environ['DURABLE_STORE'] = 'store'
import durable_nb as dnb
run = dnb.open_run('agent')"""
AGENT = """\
for n in range(3):
    with run.step('think', key=n, effect='none') as op:
        if op.needed:
            while not pathlib.Path(f'go-{n}').exists(): time.sleep(0.05)
            op.spend(usd=0.04)
            op.result = n
print('all thought')"""
LINE = r"^this cell: step {} · {} completed{} · 0:\d\d{}$"


def test_a_long_cell_has_one_line_that_tells_how_far_it_is(notebook):
    """Updated in place while it works; what it said last is there also in a page loaded anew."""
    nb = notebook("progress", [LOAD, AGENT])
    nb.run_cell(0)
    nb.settle()
    nb.run_cell(1)
    line = nb.page.locator(".durable-nb-progress")
    money = ""
    for n in range(3):
        now = re.escape(f" · think[{n}]#1")
        expect(line).to_have_text(re.compile(LINE.format(n + 1, n, money, now)))
        assert line.count() == 1
        if n == 1:
            nb.shot("1-at-work")
        (nb.folder / f"go-{n}").touch()
        money = rf" · \${0.04 * (n + 1):.2f} in this run so far"
    nb.settle()
    expect(line).to_have_text(re.compile(LINE.format(3, 3, money, "")))
    output = nb.page.locator(".jp-OutputArea").last
    expect(output).to_contain_text("all thought")
    said = line.inner_text()

    nb.theme("JupyterLab Dark")
    nb.narrow()
    found = line.evaluate(POOR, ENOUGH)
    assert found["seen"] == 1
    assert not found["poor"]
    box = line.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 600
    assert line.evaluate("(line) => line.scrollWidth <= line.clientWidth")
    nb.shot("2-dark")

    nb.save()
    nb.open()
    expect(line).to_have_text(said)
