"""Counting what really happened."""

import json

from durable_nb.demo import ledger
from durable_nb.demo.ledger import Count, Entry, What
from durable_nb.demo.result import DemoResult, Naive, Settled, Tally


def refund(number, order, amount=5.0, key=None):
    return Entry(f"re_{number}", What.REFUND, "t", {"order": order, "amount": amount}, key)


def mail(number, to, text):
    return Entry(f"ma_{number}", What.MAIL, "t", {"to": to, "text": text})


def test_what_is_written_is_read_again(tmp_path):
    """A ledger gives back its entries in order."""
    entries = [refund(1, "A-1", key="k"), mail(2, "a@b", "Grüße\nfrom here")]
    for entry in entries:
        ledger.append(tmp_path / "ledger", entry)

    assert ledger.read(tmp_path / "ledger") == entries


def test_missing_ledger_is_empty(tmp_path):
    """Nothing has happened yet."""
    assert ledger.read(tmp_path / "ledger") == []


def test_half_written_line_is_not_read(tmp_path):
    """A reader that comes in the middle of a write sees whole lines only."""
    path = tmp_path / "ledger"
    ledger.append(path, refund(1, "A-1"))
    with path.open("a") as file:
        file.write('{"id": "re_2", "wh')

    assert len(ledger.read(path)) == 1


def test_duplicates_are_counted_by_what_they_do_not_by_their_key():
    """A second refund of an order is a duplicate under any key, with any amount."""
    entries = [
        refund(1, "A-1", key="k1"),
        refund(2, "A-1", key="k2"),
        refund(3, "A-2"),
        refund(4, "A-1", amount=4.0),
        mail(5, "a@b", "x"),
        mail(6, "c@d", "x"),
        mail(7, "a@b", "y"),
    ]

    assert ledger.count(entries, What.REFUND) == Count(4, 2)
    assert ledger.count(entries, What.MAIL) == Count(3, 1)


def test_result_is_one_line_of_json():
    """`--json` prints exactly the agreed names."""
    result = DemoResult(3, Tally(8, 8, 0), Tally(14, 14, 0), Settled(1, 1), 1, Naive(10, 16), 12.5)
    line = result.line()

    assert "\n" not in line
    assert json.loads(line) == {
        "kills": 3,
        "refunds": {"expected": 8, "applied": 8, "duplicates": 0},
        "mails": {"expected": 14, "applied": 14, "duplicates": 0},
        "unknown_settled": {"reconciler": 1, "person": 1},
        "model_calls_repeated": 1,
        "naive": {"refund_duplicates": 10, "mail_duplicates": 16},
        "seconds": 12.5,
    }
