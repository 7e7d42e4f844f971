"""What a cell shows is recorded in its final state, while it is shown live."""

from __future__ import annotations

import sys

from durable_nb.notebook import outputs
from durable_nb.notebook.outputs import Capture, recorded, settle

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


def test_of_a_display_text_html_and_png_are_kept_and_of_a_widget_its_text():
    """A widget's model dies with its kernel; scripts and other types are not kept."""
    bundle = {
        "text/plain": "t",
        "text/html": "<b>",
        "image/png": b"\x89P",
        "image/svg+xml": "<svg>",
    }

    assert recorded(bundle) == {"text/plain": "t", "text/html": "<b>", "image/png": "iVA="}
    widget = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "w", "text/html": "<x>"}
    assert recorded(widget) == {"text/plain": "w"}


def test_a_long_stream_keeps_head_and_tail_and_counts_what_is_between(notebook):
    """The record of a chatty cell stays small, and says what it left out."""
    kept, _ = captured(notebook, "for i in range(40000): print(f'{i:05}')")

    text = kept[0]["text"]
    assert len(text) < 2 * outputs.KEPT + 200
    assert text.startswith("00000\n00001\n")
    assert text.endswith("39999\n")
    lost = 40000 * 6 - 2 * outputs.KEPT
    assert f"{lost:,} characters are not in the record" in text


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


def test_a_replay_shows_the_recorded_output_marked_and_no_html_of_it(opened):
    """The mark is one stable line without times; HTML from a record is not shown as HTML."""
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
    assert [list(data) for data in shown.displays] == [["text/plain"], ["text/plain"]]
    kept = opened.names["run"].get("cell#1").result["outputs"]
    assert kept[1]["data"]["text/html"] == "<script>alert(1)</script>"


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


def test_what_a_terminal_prints_for_a_display_is_noted_once(opened, capsys):
    """A terminal shows displays and results on stdout; they are outputs, and no stream beside."""
    body = "from IPython.display import display\ndisplay({'n': 1})\nprint('text')\n1 + 1"
    opened.shell.run_cell(f"{NONE}\n{body}", store_history=True)

    assert "{'n': 1}\ntext\n" in capsys.readouterr().out
    kept = opened.names["run"].get("cell#1").result["outputs"]
    assert [o.get("text") or o["data"]["text/plain"] for o in kept] == ["{'n': 1}", "text\n", "2"]
