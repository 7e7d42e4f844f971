"""A store whose records were partitioned, as the page on scale says, is the same store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.journals import draft, numbers
from support.postgres import connected

from durable_nb.journal.postgres import Server, prepare
from durable_nb.model.errors import StaleOwner

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def _said() -> str:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if "PARTITION BY HASH" in block]
    return found


def test_what_the_page_says_partitions_the_records_and_runs_go_on(cluster, opened):
    """Nothing is lost, the epoch still fences, and new records are in the partitions."""
    url = cluster.new_database()
    prepare(Server(url))
    for n in range(20):
        owned = opened(f"{url} r{n}")
        owned.journal.append([draft(1), draft(2)])
        owned.close()
    with connected(url) as con:
        con.execute(_said())  # type: ignore[call-overload]
        kept = con.execute(
            "SELECT tableoid::regclass::text, count(*) FROM durable_nb.records GROUP BY 1"
        )
        assert sum(count for _, count in kept.fetchall()) == 40

    first = opened(f"{url} r3", lease_s=1.0)
    first.journal.append([draft(3)])
    with connected(url) as con:
        con.execute("UPDATE durable_nb.leases SET epoch = epoch + 1 WHERE released IS NULL")
        with pytest.raises(StaleOwner):
            first.journal.append([draft(4)])
        con.execute("UPDATE durable_nb.leases SET released = now() WHERE released IS NULL")
    assert numbers(opened(f"{url} r3")) == [1, 2, 3]
    with connected(url) as con:
        used = con.execute("SELECT count(DISTINCT tableoid), count(*) FROM durable_nb.records")
        partitions, rows = used.fetchone()
        assert partitions > 5
        assert rows == 41
    assert prepare(Server(url)) > 0
