"""A run's picture in a notebook: as a line magic, and below the static table."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from durable_nb.engine.picture.text import anchor
from durable_nb.notebook.display import status_html


@pytest.fixture
def run(notebook):
    notebook.ok("%durable run job")
    notebook.ok("%%durable plan --effect none\nx = 1")
    assert not notebook.run("%%durable pay\ny = 1 / 0").ok
    return notebook.names["run"]


@pytest.mark.slow
def test_the_magic_shows_the_picture_with_a_text_that_stays_the_same(notebook, run):
    """As HTML and as SVG for those who show these, and as a line without times for all others."""
    for line in ("%durable timeline", "%durable timeline job"):
        (shown,) = notebook.ok(line).displays
        assert shown["text/plain"] == (
            "timeline of run job · 2 operations in 2 attempts · 1 kernel · 1 unknown"
        )
        ElementTree.fromstring(shown["image/svg+xml"])
        assert "<svg" in shown["text/html"]
        assert "<script" not in shown["text/html"]


@pytest.mark.slow
def test_below_the_static_table_each_bar_leads_to_its_row(notebook, run):
    """The panel's static form has the picture, whose links are the ids of the table's rows."""
    shown = next(d for d in notebook.ok("%durable panel").displays if "text/html" in d)
    page = shown["text/html"]
    assert page.count("<svg") == 1
    links = set(re.findall(r'href="#([^"]+)"', page))
    (tag,) = {link.rpartition("-")[2] for link in links}
    assert links == {anchor("job", "plan#1", tag), anchor("job", "pay#1", tag)}
    assert " href=" not in page  # JupyterLab's own handling of links fails at one in an SVG
    assert links <= set(re.findall(r'<tr id="([^"]+)"', page))
    assert len(re.findall(r' id="op-', page)) == 2
    assert "<svg" not in status_html(run.status_view())
