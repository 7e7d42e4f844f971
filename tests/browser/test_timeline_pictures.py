"""A run's picture as a real Chromium draws it: a file by itself, in light and in dark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.child import Child
from support.contrast import ENOUGH, TEXTS

import durable_nb as dnb

SHOTS = Path(__file__).parent / "shots"

#: A kernel of a refund agent; it kills itself where it is told to.
AGENT = """\
import os, signal, sys, time
import durable_nb as dnb

run = dnb.open_run("refund-17", store=sys.argv[1])


def here(place):
    if place == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)


def look_up(order):
    time.sleep(0.25 + 0.07 * len(order))
    return order


def shaky():
    raise ConnectionError("the shop is away")


run.step("plan", effect="none").call(time.sleep, 0.5)
with run.step("orders", effect="none") as op:
    if op.needed:
        orders = ["o-1", "o-12", "o-123", "o-1234"]
        run.map(run.step("look_up", effect="none")(look_up), orders, key=str, limit=2)
        here("orders")
        run.step("choose", effect="none").call(time.sleep, 0.4)
        op.result = orders[0]
try:
    run.step("shop", effect="none").call(shaky)
except ConnectionError:
    pass
with run.step("refund", key="o-1") as op:
    if op.needed:
        time.sleep(0.4)
        here("refund")
        op.result = {"id": "re_1"}
run.step("receipt", effect="none").call(time.sleep, 0.6)
with run.step("mail", inputs={"to": "ada@example.org"}) as op:
    if op.needed:
        time.sleep(0.3)
        here("mail")
        op.result = "sent"
"""


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the picture of a run of which three kernels were killed, the last in a mail."""
    folder = tmp_path_factory.mktemp("timeline")
    (folder / "agent.py").write_text(AGENT)
    run = None
    for where in ("orders", "refund", "mail"):
        assert Child(folder / "agent.py", folder / "store", where).wait().killed
        run = run or dnb.watch("refund-17", store=folder / "store")
        if where == "orders":
            time_goes_by()
        if where == "refund":
            run.confirm("refund[o-1]#1", {"id": "re_1"}, evidence="seen in the shop")
    assert run is not None
    return run.timeline().save(folder / "run.svg")


def time_goes_by() -> None:
    time.sleep(6)  # longer than anybody would call a moment: it is cut short in the picture


@pytest.fixture(params=["light", "dark"])
def page(browser: Any, picture: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = browser.new_context(
        color_scheme=request.param, viewport={"width": 960, "height": 600}, device_scale_factor=1.5
    )
    page = context.new_page()
    page.goto(f"file://{picture}")
    page.scheme = request.param
    try:
        yield page
    finally:
        context.close()


def test_the_file_stands_by_itself_in_light_and_in_dark(page: Any) -> None:
    """All texts can be read on the ground that they have, stay inside, and do not overlap."""
    texts = page.locator("svg").evaluate(TEXTS)
    assert len(texts) > 15
    assert [one for one in texts if one["ratio"] < ENOUGH or not one["inside"]] == []
    for n, one in enumerate(texts):
        for other in texts[n + 1 :]:
            beside = one["right"] <= other["left"] or other["right"] <= one["left"]
            apart = one["bottom"] - 3 <= other["top"] or other["bottom"] - 3 <= one["top"]
            assert beside or apart, (one, other)
    SHOTS.mkdir(exist_ok=True)
    page.locator("svg").screenshot(path=SHOTS / f"timeline-{page.scheme}.png")


def test_a_click_on_a_bar_leads_to_the_label_of_its_row(page: Any) -> None:
    """Which is underlined then, without a script."""
    page.locator('a[data-op="mail#1"] rect').first.click()
    label = page.locator("g:target text")
    assert label.text_content().startswith("? mail#1")
    assert "underline" in label.evaluate("e => getComputedStyle(e).textDecoration")
