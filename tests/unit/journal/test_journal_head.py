from __future__ import annotations

import pytest

from durable_nb.journal.head import SLOT, Head, HeadState


def _state(n):
    return HeadState(n, bytes([n]) * 16)


def test_the_newest_write_is_read(tmp_path):
    """Slots are written in turn, and the newest wins, also in another process's view."""
    head = Head(tmp_path / "head")
    assert head.read() is None
    for n in range(1, 6):
        head.write(_state(n))
        assert head.read() == _state(n)
        assert Head(tmp_path / "head").read() == _state(n)


def test_newest_is_by_write_and_not_by_seq(tmp_path):
    """After an accepted loss the seq goes back, and the head with it."""
    head = Head(tmp_path / "head")
    head.write(_state(9))
    head.write(_state(4))
    again = Head(tmp_path / "head")
    assert again.read() == _state(4)
    again.write(_state(5))
    assert Head(tmp_path / "head").read() == _state(5)


@pytest.mark.parametrize("at", [0, 8, 16, 24, 39, 40, 55])
def test_a_torn_slot_leaves_the_other(tmp_path, at):
    """One flipped byte in the newer slot: the older one is read."""
    path = tmp_path / "head"
    head = Head(path)
    head.write(_state(1))
    head.write(_state(2))
    raw = bytearray(path.read_bytes())
    newer = next(i for i in (0, SLOT) if raw[i + 16] == 2)
    raw[newer + at] ^= 1
    path.write_bytes(raw)
    assert Head(path).read() == _state(1)


def test_an_empty_short_or_foreign_file_is_no_head(tmp_path):
    """It reads as None, and can be written to."""
    path = tmp_path / "head"
    for content in (b"", b"x" * 10, b"y" * 5000):
        path.write_bytes(content)
        head = Head(path)
        assert head.read() is None
        head.write(_state(3))
        assert Head(path).read() == _state(3)
        head.close()
        head.close()


def test_the_file_has_its_full_length_from_the_start(tmp_path):
    """Writing a slot never needs new space on a full disk."""
    head = Head(tmp_path / "head")
    assert (tmp_path / "head").stat().st_size == 2 * SLOT
    head.write(_state(1))
    assert (tmp_path / "head").stat().st_size == 2 * SLOT


def test_a_head_that_is_a_link_is_not_followed(tmp_path):
    """A planted symbolic link makes nothing else be overwritten."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "head").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        Head(tmp_path / "head")
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_look_from_outside_reads_the_newest_and_makes_no_file(tmp_path):
    """A file that is missing stays missing, since that is a finding; a link is not followed."""
    assert Head.look(tmp_path / "head") is None
    assert not (tmp_path / "head").exists()
    head = Head(tmp_path / "head")
    assert Head.look(head.path) is None
    for seq in (7, 5):
        head.write(HeadState(seq, b"d" * 16))
    assert Head.look(head.path) == head.read() == HeadState(5, b"d" * 16)
    head.close()
    (tmp_path / "link").symlink_to(head.path)
    assert Head.look(tmp_path / "link") is None
