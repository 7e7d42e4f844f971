"""What a cell shows is recorded in its final state, while it is shown live."""

from __future__ import annotations

import re
import sys

import pytest

from durable_nb import values
from durable_nb.notebook import outputs
from durable_nb.notebook.outputs import Capture, recorded, settle
from durable_nb.values.signing import key_file

NONE = "%%durable cell --effect none"


def captured(notebook, body: str):
    capture = Capture(notebook.shell)
    notebook.names["capture"] = capture
    done = notebook.ok(f"capture.start()\n{body}\nkept = capture.stop()")
    return notebook.names["kept"], done


def test_streams_are_kept_in_order_and_shown_live(notebook):
    """Consecutive writes to one stream are one output; the two streams stay apart."""
    kept, done = captured(
        notebook, "import sys\nprint('a')\nprint('b')\nprint('c', file=sys.stderr)\nprint('d')"
    )

    assert [(o["name"], o["text"]) for o in kept] == [
        ("stdout", "a\nb\n"),
        ("stderr", "c\n"),
        ("stdout", "d\n"),
    ]
    assert "a\nb" in done.out


def test_a_cleared_output_is_gone_from_the_record(notebook):
    """`clear_output` empties what was noted; with `wait`, once something new comes."""
    kept, _ = captured(
        notebook,
        "from IPython.display import clear_output\nprint('a')\nclear_output()\nprint('b')\n"
        "clear_output(wait=True)",
    )
    assert [o["text"] for o in kept] == ["b\n"]

    kept, _ = captured(notebook, "print('a')\nclear_output(wait=True)\nprint('b')")
    assert [o["text"] for o in kept] == ["b\n"]


def test_an_updated_display_is_kept_as_it_ended(notebook):
    """Updates are folded into the display that they change; those of other cells are not ours."""
    kept, _ = captured(
        notebook,
        "from IPython.display import display\nh = display({'n': 1}, display_id=True)\nprint('x')\n"
        "h.update({'n': 2})\ndisplay('elsewhere', display_id='other', update=True)",
    )

    texts = [o.get("text") or o["data"]["text/plain"] for o in kept]
    assert texts == ["{'n': 2}", "x\n"]


def test_a_progress_bar_is_kept_as_it_ended():
    """A carriage return takes the line back, as it does on the screen."""
    assert settle("1%\r50%\r100%\nok\n") == "100%\nok\n"
    assert settle("abc\rX\n") == "Xbc\n"
    assert settle("a\r\nb") == "a\nb"
    assert settle("plain") == "plain"


def test_of_a_display_what_can_be_shown_again_is_kept_and_of_a_widget_its_text():
    """A widget's model dies with its kernel; types that are of no use without it are not kept."""
    bundle = {
        "text/plain": "t",
        "text/html": "<b>",
        "image/png": b"\x89P",
        "image/svg+xml": "<svg>",
        "application/x-other": "z",
    }

    kept = recorded(bundle)
    assert kept.pop("image/png") == "iVA="
    assert kept == {"text/plain": "t", "text/html": "<b>", "image/svg+xml": "<svg>"}
    widget = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "w", "text/html": "<x>"}
    assert recorded(widget) == {"text/plain": "w"}


@pytest.mark.slow
def test_a_long_stream_keeps_head_and_tail_and_counts_what_is_between(notebook):
    """The record of a chatty cell stays small, and says what it left out."""
    kept, _ = captured(notebook, "for i in range(40000): print(f'{i:05}')")

    text = kept[0]["text"]
    assert len(text) < 2 * outputs.KEPT + 200
    assert text.startswith("00000\n00001\n")
    assert text.endswith("39999\n")
    lost = 40000 * 6 - 2 * outputs.KEPT
    assert f"{lost:,} bytes are not in the record" in text
    kept, _ = captured(notebook, "for i in range(40000): print('ä' * 5)")
    lost = (40000 * 6 - 2 * outputs.KEPT) * 11 // 6
    found = int(re.search(r"([\d,]+) bytes are not", kept[0]["text"])[1].replace(",", ""))
    assert abs(found - lost) < 12, "bytes, not characters"


def test_large_displays_are_cut_to_their_text(notebook, monkeypatch):
    """Past the limit for displays, a cell keeps text only, and says so."""
    monkeypatch.setattr(outputs, "KEPT_DISPLAYS", 100)
    kept, _ = captured(
        notebook,
        "from IPython.display import display, HTML\ndisplay(HTML('<b>' + 'x' * 200))\n",
    )

    assert list(kept[0]["data"]) == ["text/plain"]
    assert "are not in the record" in kept[0]["data"]["text/plain"]


def test_everything_patched_is_as_before_afterwards(notebook):
    """Noting leaves no trace in IPython or the streams, also after a failure."""
    shell = notebook.shell
    before = [
        vars(shell.display_pub).get("publish"),
        vars(shell.displayhook).get("write_format_data"),
        sys.stdout.write,
    ]
    notebook.ok("%durable run job")
    notebook.run(f"{NONE}\n1 / 0")

    after = [
        vars(shell.display_pub).get("publish"),
        vars(shell.displayhook).get("write_format_data"),
        sys.stdout.write,
    ]
    assert after == before


@pytest.mark.slow
def test_a_replay_shows_the_recorded_output_marked(opened):
    """The mark is one stable line without times; HTML that this user recorded is HTML again."""
    body = (
        "print('hello')\nfrom IPython.display import display, HTML\n"
        "display(HTML('<script>alert(1)</script>'))\nx = 1\nx + 1"
    )
    opened.ok(f"{NONE}\n{body}")

    shown = opened.ok(f"{NONE}\n{body}")

    lines = shown.out.splitlines()
    assert lines[0] == "↺ cell · from record (attempt 1) · x"
    assert lines[1] == "hello"
    assert "<IPython.core.display.HTML object>" in lines
    assert lines[-1] == "2"
    assert "script" not in shown.out
    assert shown.displays[0]["text/html"] == "<script>alert(1)</script>"
    assert [list(data) for data in shown.displays] == [["text/plain", "text/html"], ["text/plain"]]


RICH = """\
from IPython.display import display, HTML, SVG, Javascript, Markdown
display(HTML('<script>alert(1)</script>'), Javascript('alert(2)'), Markdown('<i>3</i>'))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(4)</script></svg>'))"""


def rich_of(shown) -> set[str]:
    return {mime for data in shown.displays for mime in data} - {"text/plain"}


@pytest.mark.parametrize("how", ["another user's key", "no key", "a key that others can read"])
def test_rich_output_that_this_user_did_not_sign_is_shown_as_plain_text(
    opened, how, tmp_path, monkeypatch
):
    """HTML, SVG, JavaScript and Markdown from somebody else's record run nothing."""
    mine = {"text/html", "image/svg+xml", "application/javascript", "text/markdown"}
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "mine"))
    assert rich_of(opened.ok(f"{NONE}\n{RICH}")) == mine
    assert rich_of(opened.ok(f"{NONE}\n{RICH}")) == mine, "it is this user's own"
    assert key_file().stat().st_mode & 0o777 == 0o600
    if how == "a key that others can read":
        key_file().chmod(0o640)
    else:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
        assert how == "no key" or values.sign("x", {})
    assert key_file().exists() is (how != "no key")

    shown = opened.ok(f"{NONE}\n{RICH}")

    assert rich_of(shown) == set()
    assert "<IPython.core.display.HTML object>" in shown.out
    assert "shown as text: this user did not record it" in shown.out


def test_a_signature_holds_for_what_was_signed_and_where():
    """Neither changed content nor another run or operation can use it."""
    data = {"text/html": "<b>", "text/plain": "b"}
    signature = values.sign("run/cell#1", data)

    assert values.is_signed("run/cell#1", data, signature)
    assert not values.is_signed("run/cell#2", data, signature)
    assert not values.is_signed("run/cell#1", {**data, "text/html": "<i>"}, signature)
    assert not values.is_signed("run/cell#1", {"text/html": "<b>"}, signature)
    for forged in ("", None, 5, "\ud800", signature[:-1] + "x"):
        assert not values.is_signed("run/cell#1", data, forged)


@pytest.mark.slow
def test_output_inside_a_capture_of_the_cell_itself_is_not_recorded(opened):
    """What the cell keeps from the screen was not shown, so a replay does not show it."""
    body = (
        "from IPython.utils.capture import capture_output\n"
        "with capture_output() as c:\n    print('hidden')\nprint('seen')\ndel c"
    )
    opened.ok(f"{NONE}\n{body}")

    shown = opened.ok(f"{NONE}\n{body}")

    assert "hidden" not in shown.out
    assert "seen" in shown.out


@pytest.mark.slow
def test_what_a_terminal_prints_for_a_display_is_noted_once(opened, capsys):
    """A terminal shows displays and results on stdout; they are outputs, and no stream beside."""
    body = "from IPython.display import display\ndisplay({'n': 1})\nprint('text')\n1 + 1"
    opened.shell.run_cell(f"{NONE}\n{body}", store_history=True)

    assert "{'n': 1}\ntext\n" in capsys.readouterr().out
    kept = opened.names["run"].get("cell#1").result["outputs"]
    assert [o.get("text") or o["data"]["text/plain"] for o in kept] == ["{'n': 1}", "text\n", "2"]
