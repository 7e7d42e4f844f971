from __future__ import annotations

import json
import os
import signal
import threading
import time

import pytest

from durable_nb.journal import deferred_interrupts

#: One signal each time that the main thread is armed, at a random moment of its commits.
INTERRUPTED = """
import json, random
random.seed(7)
rounds, outer = int(sys.argv[2]), sys.argv[3] == "outer"
journal = opened()
armed = threading.Event()

def interrupter():
    while True:
        armed.wait()
        armed.clear()
        time.sleep(random.uniform(0, 0.003))
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupter, daemon=True).start()
tried, acknowledged = [0], []

def work():
    while True:
        if outer:
            with deferred_interrupts():
                tried[0] += 1
                (record,) = journal.append([draft(tried[0])])
                acknowledged.append(record.seq)
        else:
            tried[0] += 1
            (record,) = journal.append([draft(tried[0])])
            acknowledged.append(record.seq)

others = 0
for _ in range(rounds):
    try:
        armed.set()
        work()
    except KeyboardInterrupt:
        pass
    except Exception as error:
        others += 1
        say("unexpected", repr(error))
        break
say(json.dumps({"tried": tried[0], "acknowledged": acknowledged, "others": others}))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds", [100, pytest.param(1000, marks=pytest.mark.slow)], ids=["100", "1000"]
)
def test_interrupts_neither_double_nor_lose_an_acknowledged_record(start, opened, rounds):
    """However often SIGINT hits a commit, the journal holds what was acknowledged, once each."""
    child = start(INTERRUPTED, str(rounds), "outer")
    out, err = child.process.communicate(timeout=120)
    said = json.loads(out.splitlines()[-1]), err

    journal = opened()
    on_disk = [r.body["n"] for r in journal.load()]

    assert said[0]["others"] == 0, out
    assert said[0]["acknowledged"] == list(range(1, len(on_disk) + 1))
    assert on_disk == list(range(1, said[0]["tried"] + 1))
    assert journal.lost is None


@pytest.mark.slow
def test_an_interrupted_append_alone_is_committed_or_never_begun(start, opened):
    """Without a fold to protect, an interrupt still never leaves half or two of a record."""
    child = start(INTERRUPTED, "100", "bare")
    out, _ = child.process.communicate(timeout=120)
    said = json.loads(out.splitlines()[-1])
    on_disk = [r.body["n"] for r in opened().load()]
    assert said["others"] == 0, out
    assert len(set(on_disk)) == len(on_disk)
    assert set(said["acknowledged"]) <= set(range(1, len(on_disk) + 1))
    assert set(on_disk) <= set(range(1, said["tried"] + 1))


def _interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # lets the handler run


def test_an_interrupt_comes_after_the_block():
    """The block runs to its end, then KeyboardInterrupt is raised."""
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        _interrupt()
        done.append("end")
    assert done == ["end"]


def test_nested_blocks_wait_for_the_outermost():
    """Re-entrant: an inner end delivers nothing."""
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        with deferred_interrupts():
            _interrupt()
        done.append("between")
    assert done == ["between"]


def test_somebody_elses_handler_is_called_with_the_signal():
    """ipykernel's or asyncio's handler gets (signum, frame) afterwards, and is back in place."""
    seen = []

    def handler(signum, frame):
        seen.append((signum, frame is not None))

    before = signal.signal(signal.SIGINT, handler)
    try:
        with deferred_interrupts():
            _interrupt()
            assert seen == []
        assert seen == [(signal.SIGINT, True)]
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_interrupt_stays_ignored():
    """Where SIGINT is ignored (nohup), nothing is swapped or delivered."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_interrupts():
            _interrupt()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_the_block_installs_stays():
    """What the block does to SIGINT on purpose is not undone."""
    seen = []
    before = signal.getsignal(signal.SIGINT)

    def handler(signum, frame):
        seen.append(signum)

    try:
        with deferred_interrupts():
            signal.signal(signal.SIGINT, handler)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_of_the_block_is_kept_beside_the_interrupt():
    """The interrupt comes on top; the error is its context."""
    with pytest.raises(KeyboardInterrupt) as caught, deferred_interrupts():
        _interrupt()
        raise ValueError("first")
    assert isinstance(caught.value.__context__, ValueError)


def test_outside_the_main_thread_nothing_happens():
    """Signal handlers belong to the main thread: elsewhere the block is just a block."""
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with deferred_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_block_is_cheap():
    """It is paid on every record: microseconds, where a commit takes 600."""
    begun = time.perf_counter()
    for _ in range(10_000):
        with deferred_interrupts():
            pass
    assert (time.perf_counter() - begun) / 10_000 < 50e-6
