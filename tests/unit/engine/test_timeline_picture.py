"""The picture of a timeline: geometry, cuts, what is merged, and what no text can do in it."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from support.told_timeline import Told, many

import durable_nb as dnb
from durable_nb.engine import verbs
from durable_nb.engine.picture.rows import (
    MOST_LANES,
    MOST_ROWS,
    THIN,
    look_of,
    rows_of,
)
from durable_nb.engine.picture.scale import clock, scale_of, span
from durable_nb.engine.picture.svg import LABELS, WIDTH, line_of, svg_of
from durable_nb.engine.picture.text import anchor, fitted, shown, tag_of, width_of
from durable_nb.engine.picture.timeline import TimelinePicture
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN

SVG = "{http://www.w3.org/2000/svg}"


def drawn(timeline, **how):
    return ElementTree.fromstring(svg_of(timeline, **how))


def classes(root, tag="rect"):
    return [e.get("class") for e in root.iter(f"{SVG}a") for e in e.iter(f"{SVG}{tag}")]


# -- seconds to pixels -------------------------------------------------------------------------


def test_without_a_pause_seconds_are_drawn_evenly():
    """The first is at the left edge, the last at the right one, and the rest between."""
    scale = scale_of(Told().open().step("a#1", 0, 10).close().timeline(), 100, 300)
    assert [scale.x(at) for at in (-1, 0, 2.5, 5, 10, 11)] == [100, 100, 150, 200, 300, 300]
    assert scale.idle == ()


def test_a_long_pause_is_cut_short_and_the_rest_keeps_one_scale():
    """Two stretches of equal length are equally wide, whatever lies between."""
    told = Told().open().step("a#1", 0, 60).step("b#1", 20_060, 20_120).close()
    scale = scale_of(told.timeline(), 0, 800)
    (gap,) = scale.idle
    assert (gap.begin, gap.end) == (60, 20_060)
    assert gap.right - gap.left == 30
    assert scale.x(60) - scale.x(0) == pytest.approx(scale.x(20_120) - scale.x(20_060))
    assert scale.x(20_120) == pytest.approx(800)


def test_a_wait_is_a_pause_although_a_bar_is_there():
    """A night in which an approval is awaited, inside of a step as well, is cut short."""
    told = Told().open().at(0).begin("a#1").at(10).begin("a#1/approval[x]#1", wait="approval")
    told.at(30_000).end("a#1/approval[x]#1", Kind.APPROVED).at(30_010).end("a#1").close()
    (gap,) = scale_of(told.timeline(), 0, 800).idle
    assert (gap.begin, gap.end) == (10, 30_000)


def test_what_works_for_long_is_no_pause():
    """A step of hours is drawn as long as it is."""
    told = Told().open().step("a#1", 0, 1).step("b#1", 1, 20_000).step("c#1", 20_000, 20_001)
    assert scale_of(told.close().timeline(), 0, 800).idle == ()


def test_many_pauses_leave_room_for_what_happened():
    """However many are cut short, most of the width shows work."""
    told = Told().open()
    for n in range(150):
        told.step(f"a#{n + 1}", n * 5000, n * 5000 + 10)
    scale = scale_of(told.close().timeline(), 0, 800)
    assert len(scale.idle) == 149
    assert sum(piece.right - piece.left for piece in scale.idle) <= 0.35 * 800 + 1e-6


def test_short_steps_with_short_pauses_are_not_cut_to_pieces():
    """What nobody would call idle stays as it is."""
    told = Told().open()
    for n in range(50):
        told.step(f"a#{n + 1}", n * 1.0, n * 1.0 + 0.001)
    assert scale_of(told.close().timeline(), 0, 800).idle == ()


def test_ticks_are_round_and_keep_apart():
    """Their labels do not touch, and each piece begins with its own time."""
    told = Told().open().step("a#1", 0, 95).step("b#1", 7300, 7395).close()
    ticks = scale_of(told.timeline(), 0, 800).ticks()
    assert [t.text for t in ticks if t.x < 380] == ["0 s", "30 s", "1 min"]
    assert "2 h 1 min 40 s" in [t.text for t in ticks]
    for a, b in pairwise(ticks):
        assert a.x + width_of(a.text, 11) / 2 < b.x - width_of(b.text, 11) / 2


def test_a_moment_without_length_is_drawn():
    """A run in which no time has passed has a picture."""
    timeline = Told().open().begin("a#1").end("a#1").timeline()
    assert classes(drawn(timeline)) == ["done"]
    assert drawn(Told().timeline()) is not None


@pytest.mark.parametrize(
    ("seconds", "step", "text"),
    [
        (0, 1, "0 s"),
        (2.5, 0.5, "2.5 s"),
        (59.96, 0.1, "1 min"),
        (90, 30, "1 min 30 s"),
        (3600, 60, "1 h"),
        (90061, 1, "1 d 1 h 1 min 1 s"),
        (90061, 86400, "1 d 1 h"),
    ],
)
def test_the_runs_own_clock(seconds, step, text):
    """It shows no more than lies between two ticks."""
    assert clock(seconds, step) == text


def test_how_long_something_took():
    """Three digits, in the unit that a person would take."""
    assert [span(s) for s in (0.0031, 2.5, 61, 7265)] == [
        "3.1 ms",
        "2.5 s",
        "1 min 1 s",
        "2 h 1 min",
    ]


# -- rows --------------------------------------------------------------------------------------


def rows(timeline, wide=740):
    return rows_of(timeline.bars, scale_of(timeline, 0, wide))


def test_few_operations_have_a_row_each_below_their_parents():
    """A label is the identity below the parent that has a row; else it is whole."""
    told = Told().open().step("plan#1", 0, 1).at(1).begin("act#1").step("act#1/mail[a]#1", 1, 2)
    told.end("act#1").step("loop#1/turn#1", 2, 3).step("act#1/mail[b]#1", 3, 4).close()
    found = [(row.label, row.depth, row.operations) for row in rows(told.timeline())]
    assert found == [
        ("plan#1", 0, 1),
        ("act#1", 0, 1),
        ("mail[a]#1", 1, 1),
        ("mail[b]#1", 1, 1),
        ("loop#1/turn#1", 0, 1),
    ]


def test_many_operations_share_rows_by_name():
    """Keys and occurrences do not count, at any level."""
    told = Told().open()
    for n in range(60):
        told.at(n).begin(f"turn#{n + 1}").step(f"turn#{n + 1}/act[k{n}]#1", n, n + 0.5)
        told.end(f"turn#{n + 1}")
    found = [(row.label, row.depth, row.operations) for row in rows(told.close().timeline())]
    assert found == [("turn", 0, 60), ("act", 1, 60)]


def test_more_names_than_rows_share_the_last_one():
    """Nothing is left out."""
    told = Told().open()
    for n in range(MOST_ROWS + 30):
        told.step(f"n{n}#1", n, n + 1)
    found = rows(told.close().timeline())
    assert len(found) == MOST_ROWS
    assert (found[-1].label, found[-1].operations) == ("… 31 more names", 31)
    assert sum(row.operations for row in found) == MOST_ROWS + 30


def test_one_of_a_kind_keeps_its_identity_among_many():
    """And a wait looks like one, also once it has its answer."""
    told = Told().open().at(0).begin("approval[x]#1", wait="approval")
    told.at(1).end("approval[x]#1", Kind.APPROVED, actor="ada")
    for n in range(60):
        told.step(f"turn#{n + 1}", n + 1, n + 2)
    found = [(row.label, row.looks) for row in rows(told.close().timeline())]
    assert found == [("approval[x]#1", {"waits"}), ("turn", {"done"})]


def test_what_runs_at_the_same_time_is_drawn_side_by_side():
    """Attempts of one row that overlap have lanes of their own, up to a few."""
    told = Told().open()
    for n in range(60):
        told.at(n).begin(f"a#{n + 1}").at(n + 0.5)
        if n:
            told.end(f"a#{n}")
    (row,) = rows(told.at(99).end("a#60").close().timeline())
    assert row.lanes == 2
    wide = Told().open()
    for n in range(60):
        wide.at(n).begin(f"a#{n + 1}")
    (row,) = rows(wide.timeline(executing=True, live=frozenset(f"a#{n + 1}" for n in range(60))))
    assert row.lanes == MOST_LANES


def test_thin_bars_in_a_row_are_one_and_a_doubt_among_them_is_what_it_looks_like():
    """It says how many they are, leads to the one in doubt, and stands for each attempt once."""
    told = Told().open()
    for n in range(1000):
        told.at(n).begin(f"a#{n + 1}", "external").at(n + 0.3)
        told.end(f"a#{n + 1}") if n != 500 else told.end("a#501", Kind.RAISED)
    timeline = told.close().timeline()
    (row,) = rows(timeline, 100)
    assert sum(len(one.bars) for one in row.drawn) == 1000
    assert len(row.drawn) <= 100 / THIN
    doubtful = [one for one in row.drawn if one.look == "unknown"]
    assert [one.chief.op for one in doubtful] == ["a#501"]
    assert len(doubtful[0].bars) > 1
    text = svg_of(timeline)
    assert "attempts drawn as one: 1 unknown" in text
    assert 'data-op="a#501"' in text


@pytest.mark.slow
@pytest.mark.parametrize("wide_apart", [False, True])
def test_twenty_thousand_operations_are_a_picture_of_bounded_size(wide_apart):
    """Two megabytes hold it, also where no bar is thin and identities are long and foreign."""
    if wide_apart:
        told = Told().open()
        for n in range(20_000):
            name = f"{'ünïcödé' * 12}{n % 40}[{n}]#1"
            told.at(n / 500).begin(name, "external").at(n / 500 + 0.002)
            told.end(name, Kind.RAISED if n % 3 else Kind.COMPLETED)
        timeline = told.close().timeline()
    else:
        timeline = many(20_000)
    assert timeline.operations >= 20_000
    text = svg_of(timeline)
    assert len(text.encode()) < 2_000_000
    found = rows(timeline)
    assert len(found) <= MOST_ROWS
    assert sum(len(one.bars) for row in found for one in row.drawn) == len(timeline.bars)
    ElementTree.fromstring(text)


@pytest.mark.slow
def test_the_work_grows_with_the_operations_and_not_with_their_square():
    """Ten times the operations are looked up about ten times as often."""
    import sys

    def calls(count):
        timeline, found = many(count), 0

        def seen(frame, event, arg):
            nonlocal found
            found += event == "call"

        sys.setprofile(seen)
        try:
            svg_of(timeline)
        finally:
            sys.setprofile(None)
        return found

    assert calls(4000) < 15 * calls(400)


# -- what is drawn -----------------------------------------------------------------------------


def killed():
    told = Told().open().step("plan#1", 0, 5).at(6).begin("mail#1", "external")
    told.at(9).open("operator").add(RUN, Kind.DIED, reason="signal 9, at 120 MB, in mail#1")
    return told.close(role="operator")


def test_a_kill_is_marked_with_what_is_known_of_it():
    """A cross, a line through all rows, and a title with signal and memory."""
    root = drawn(killed().timeline())
    (mark,) = [g for g in root.iter(f"{SVG}g") if g.get("class") == "killed"]
    assert mark.get("data-kernel") == "1"
    assert "signal 9, at 120 MB, in mail#1" in mark.find(f"{SVG}title").text
    assert {p.get("class") for p in mark.iter(f"{SVG}path")} == {"kill", "cross"}
    assert "kernel killed" in "".join(root.itertext())
    told = Told().open().step("plan#1", 0, 5).close()
    assert "killed" not in svg_of(told.timeline())


def test_a_doubt_strikes():
    """It has a pattern, a sign beside it and in its label, and is wide enough to be seen."""
    told = Told().open().step("plan#1", 0, 5).at(5).begin("mail#1", "external")
    root = drawn(told.at(90_000).open().close().timeline())
    (bar,) = [
        r
        for r in root.iter(f"{SVG}rect")
        if r.get("class") == "unknown" and "y" in r.attrib and float(r.get("x")) > 50
    ]
    assert float(bar.get("width")) >= 7
    assert bar.get("fill").startswith("url(#u-")
    assert [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "q"] == ["?"]
    assert [t.text for t in root.iter(f"{SVG}tspan")] == ["? "]


def test_a_replaying_kernel_is_pale_until_it_does_something_new():
    """And says how many it took from the record, where it lived to tell."""
    told = killed().at(100).open().step("mail#1", 104, 110, attempt=2)
    told.at(110).close(saved={"operations": 1})
    root = drawn(told.timeline())
    (pale,) = [
        r for r in root.iter(f"{SVG}rect") if r.get("class") == "replay" and r.get("y") != "1"
    ]
    assert float(pale.get("width")) > 50
    assert "kernel 2 · 1 from record" in "".join(root.itertext())


def test_a_pause_is_marked_with_its_length():
    """Hatched, and what it stands for is written in it or in its title."""
    told = Told().open().step("a#1", 0, 60).step("b#1", 20_060, 20_120).close()
    root = drawn(told.timeline())
    (gap,) = [g for g in root.iter(f"{SVG}g") if g.get("class") == "idle"]
    assert gap.find(f"{SVG}title").text == "5 h 33 min in which nothing happened"


def test_everything_a_run_says_is_text_and_no_markup():
    """Neither names, keys, actors nor reasons of a death can add an element, a script or a break."""
    evil = "</title><script>alert(1)</script>\"'&\x1b\x00\ud800\u202e<![CDATA["
    told = Told().open().at(1).begin(f"{evil}#1", "external").at(2).open("operator")
    told.add(RUN, Kind.DIED, reason=evil).end(f"{evil}#1", Kind.CONFIRMED, actor=evil)
    timeline = told.close(role="operator").timeline()
    plain = drawn(
        Told()
        .open()
        .at(1)
        .begin("a#1", "external")
        .at(2)
        .open("operator")
        .add(RUN, Kind.DIED, reason="r")
        .end("a#1", Kind.CONFIRMED, actor="b")
        .close(role="operator")
        .timeline()
    )
    for within in (False, True):
        root = drawn(timeline, within=within)
        assert [e.tag for e in root.iter()] == [e.tag for e in plain.iter()]
        assert not [a for e in root.iter() for a in e.attrib if a.startswith("on")]
        text = svg_of(timeline, within=within)
        assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff\u202e]", text)
        text.encode("utf-8")


def test_a_text_fits_or_ends_with_an_ellipsis():
    """Wide characters count twice, and where nothing fits there is nothing."""
    assert fitted("mail#1", 11, 100) == "mail#1"
    assert fitted("m" * 100, 11, 100).endswith("…")
    assert width_of(fitted("漢" * 100, 11, 100), 11) <= 100
    assert len(fitted("漢" * 100, 11, 100)) < len(fitted("m" * 100, 11, 100))
    assert fitted("mail", 11, 2) == ""
    assert shown("a\x1bb<") == "a\\x1bb&lt;"
    told = Told().open().step(f"{'n' * 300}#1", 0, 1).close()
    (label,) = [t for t in drawn(told.timeline()).iter(f"{SVG}text") if t.get("class") == "m"]
    assert 100 < width_of(label.text, 11) <= LABELS - float(label.get("x"))
    assert label.text.endswith("…nnnnnn#1")  # keys often differ only at their end
    assert fitted("charge[a-name@example.com]#1", 11, 120, tail=8) == "charge[a-…e.com]#1"


def test_a_kernel_is_named_where_its_name_can_be_read():
    """Not in the stretch that is cut short, where it was opened long before it did something."""
    told = Told().open().step("a#1", 0, 20).close().at(4_000).open().step("b#1", 40_000, 40_060)
    timeline = told.close().timeline()
    root = drawn(timeline)
    (gap,) = [piece for piece in scale_of(timeline, LABELS, WIDTH - 22).idle if piece.end > 30_000]
    (name,) = [t for t in root.iter(f"{SVG}text") if (t.text or "").startswith("kernel 2")]
    assert float(name.get("x")) > gap.right
    order = [e for e in root.iter() if e is name or e.get("class") == "idle"]
    assert order[-1] is name, "what hatches is drawn before"


def test_a_bar_leads_to_its_operation():
    """In a page that shows operations to theirs, and in a file to the label of the row."""
    timeline = killed().timeline()
    tag = tag_of(timeline)
    for within in (True, False):
        root = drawn(timeline, within=within)
        links = {
            a.get("data-op"): a.get("{http://www.w3.org/1999/xlink}href")
            for a in root.iter(f"{SVG}a")
        }
        assert links == {op: f"#{anchor('r', op, tag)}" for op in ("plan#1", "mail#1")}
        targets = {g.get("id") for g in root.iter(f"{SVG}g")} - {None}
        assert targets == (set() if within else {href[1:] for href in links.values()})


def test_each_operation_has_an_anchor_of_its_own():
    """Whatever its name, it is the same in an id and in an address, and nobody else's."""
    ops = ["a_5B1#1", "a[1#1", "a_1#1", "a-1#1", "a~#1", "a%7E#1", "ä#1", "\ud800#1", "\\ud800#1"]
    found = {anchor("r", op, "0") for op in ops}
    found |= {anchor("r_", "a", "0"), anchor("r", "_a", "0")}
    assert all(re.fullmatch(r"op-[A-Za-z0-9._-]+", one) for one in found)
    assert len(found) >= len(ops) + 1  # a lone surrogate is shown as what it is escaped to


def test_pictures_of_one_page_do_not_share_patterns_nor_targets():
    """Each names its own, so that hiding one takes nothing from another, and no link leaves it."""
    a, b = killed().timeline(), killed().at(99).open().timeline(executing=True)
    named = [set(re.findall(r'id="([ugw]-\w+)"', svg_of(t))) for t in (a, b)]
    assert len(named[0]) == 3
    assert not named[0] & named[1]
    assert set(re.findall(r"url\(#([^)]+)\)", svg_of(a))) <= named[0]
    targets = [set(re.findall(r'<g id="([^"]+)"', svg_of(t))) for t in (a, b)]
    assert len(targets[0]) == 2
    assert not targets[0] & targets[1]


def test_it_prints_without_times(tmp_path):
    """The same two lines of words whenever it is printed; the file is the picture."""
    picture = TimelinePicture(killed().timeline())
    assert str(picture) == repr(picture)
    assert str(picture) == (
        "timeline of run r · 2 operations in 2 attempts · 1 kernel, 1 killed · 1 unknown"
    )
    later = Told().at(3).open().step("plan#1", 77, 500).at(600).begin("mail#1", "external")
    assert str(TimelinePicture(later.timeline())) == str(picture)
    saved = picture.save(tmp_path / "run.svg")
    assert saved.read_text("utf-8") == picture.svg == picture._repr_svg_()
    assert picture.svg in picture._repr_html_()
    assert look_of(picture.data.bars[1]) == "unknown"
    assert line_of(picture.data) in picture.svg


def test_what_is_too_large_to_hand_on_is_refused_by_its_owner(tmp_path, monkeypatch):
    """As an audit trail is; whoever asked then draws the mirror."""
    monkeypatch.setattr(verbs, "AUDIT_LIMIT", 100)
    with dnb.run("r", store=tmp_path) as run:
        run.step("plan", effect="none").call(str, "x")
        with pytest.raises(ValueError, match=r"the timeline has .* bytes.*run\.timeline\(\)"):
            verbs.perform(run, "timeline", "", {})
        assert run.timeline().data.operations == 1
