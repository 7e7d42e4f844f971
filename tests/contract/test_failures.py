"""What survives kills, forks, interrupts and failed commits, whatever keeps the records."""

from __future__ import annotations

import time

import duckdb
import psycopg
import pytest
from support.journals import draft, numbers

from durable_nb.model.errors import JournalUnwritable, RunHeld


def _after(owned, error):
    """Make the next commit raise this after it has committed."""
    storage = owned.journal._storage
    commit = storage.commit

    def landed(rows, before):
        del storage.commit
        commit(rows, before)
        raise error

    storage.commit = landed


def test_what_was_acknowledged_outlives_a_kill(kept, opened, start):
    """SIGKILL in the middle of appending: every acknowledged record is there, batches are whole."""
    child = start(
        """
        journal = own(place, lease_s=1).journal
        n = 0
        while True:
            journal.append([draft(n + i) for i in range(7)])
            n += 7
            say(n)
        """
    )
    said = int(child.first_line())
    time.sleep(0.1)
    ended = child.kill()
    said = max([said, *map(int, ended.out.split()[:-1])])
    there = numbers(opened(kept, lease_s=1, wait=20))
    assert there == list(range(len(there)))
    assert len(there) >= said
    assert len(there) % 7 == 0


def test_lazy_records_are_durable_after_a_second(kept, opened, start):
    """A kill 1.5 s after a lazy append loses nothing."""
    child = start(
        """
        owned = own(place, lease_s=1)
        owned.journal.append([draft(1)], lazy=True)
        say(owned.journal.durable_seq)
        time.sleep(1.5)
        say("ready")
        time.sleep(60)
        """
    )
    assert child.first_line() == "0\n"
    assert child.first_line() == "ready\n"
    child.kill()
    assert numbers(opened(kept, lease_s=1, wait=20)) == [1]


def test_a_forked_child_is_refused_and_its_end_does_no_harm(kept, opened, start):
    """The child of a fork may not write, and its parent goes on over the same connection."""
    child = start(
        """
        import gc
        from durable_nb.model.errors import RunHeld
        owned = own(place)
        owned.lease.start_heartbeat()
        owned.journal.append([draft(1)])
        pid = os.fork()
        if pid == 0:
            for refused in (lambda: owned.journal.append([draft(9)]), owned.journal.load, owned.journal.close):
                try:
                    refused()
                except RunHeld:
                    print("refused", flush=True)
            owned.lease.release()
            del owned
            gc.collect()
            sys.exit(0)
        os.waitpid(pid, 0)
        owned.journal.append([draft(2)])
        owned.lease.beat()
        say("held", owned.lease.held)
        owned.close()
        """
    )
    assert child.wait().ok().out.split("\n")[:-1] == ["refused"] * 3 + ["held True"]
    assert numbers(opened(kept)) == [1, 2]


def test_interrupts_neither_double_nor_lose_an_acknowledged_record(kept, opened, start):
    """However often SIGINT hits a commit, the journal holds what was acknowledged, once each."""
    child = start(
        """
        import json, random
        from durable_nb.journal import deferred_interrupts
        random.seed(7)
        owned = own(place)
        armed = threading.Event()

        def interrupter():
            while True:
                armed.wait()
                armed.clear()
                time.sleep(random.uniform(0, 0.003))
                os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupter, daemon=True).start()
        tried, acknowledged = 0, []
        for _ in range(60):
            try:
                armed.set()
                while True:
                    with deferred_interrupts():
                        tried += 1
                        acknowledged += [r.seq for r in owned.journal.append([draft(tried)])]
            except KeyboardInterrupt:
                pass
        say(json.dumps({"tried": tried, "acknowledged": acknowledged}))
        owned.close()
        """
    )
    facts = child.wait().ok().facts
    there = numbers(opened(kept))
    assert there == list(range(1, facts["tried"] + 1))
    assert facts["acknowledged"] == there


@pytest.mark.parametrize("kind", ["failure", "interrupt"])
def test_a_commit_that_failed_but_landed_counts_once(kept, opened, kind):
    """Whatever came instead of an answer: what is on record is acknowledged, and not repeated."""
    owned = opened(kept)
    lost = psycopg.OperationalError if " " in kept else duckdb.IOException
    _after(owned, lost("the answer got lost") if kind == "failure" else SystemExit(3))
    if kind == "failure":
        assert [r.seq for r in owned.journal.append([draft(1), draft(2)])] == [1, 2]
    else:
        with pytest.raises(SystemExit):
            owned.journal.append([draft(1), draft(2)])
    assert owned.journal.append([draft(3)])[0].seq == 3
    assert numbers(owned) == [1, 2, 3]


def test_an_append_from_inside_a_commit_is_refused_instead_of_waiting_for_itself(kept, opened):
    """A signal handler that records while its own thread commits gets an error, not a hang."""
    owned = opened(kept)
    storage = owned.journal._storage
    commit = storage.commit

    def handler(rows, before):
        del storage.commit
        for lazy in (False, True):
            with pytest.raises(JournalUnwritable, match="inside its own commit"):
                owned.journal.append([draft(2)], lazy=lazy)
        commit(rows, before)

    storage.commit = handler
    assert owned.journal.append([draft(1)])[0].seq == 1
    assert numbers(owned) == [1]


def test_another_process_is_told_who_holds_the_run(kept, opened, start):
    """The refusal names the process, whatever keeps the lease."""
    child = start("own(place); say('has it'); time.sleep(60)")
    assert child.first_line() == "has it\n"
    with pytest.raises(RunHeld, match=f"process {child.pid} "):
        opened(kept)
    child.kill()
