"""What an owner publishes: as much as changed, and all of it to who reads."""

import shutil
import sys
import threading
import time
import warnings
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.child import Bench
from support.ticks import Ticks

import durable_nb as dnb
from durable_nb import values
from durable_nb.engine import publishing
from durable_nb.engine.context import OPEN
from durable_nb.engine.published import published
from durable_nb.journal import FolderPlace, segments
from durable_nb.journal.errors import MirrorSkipped
from durable_nb.journal.mirror import Mirror, query
from durable_nb.journal.segments import MIRROR_FILE, Sealed, numbers_in, path_of


def told(status):
    """Give all that a status says of operations, by id."""
    return {
        v.id: {**v.as_dict(), "seq": v.last_seq, "in": dict(v.inputs), "out": v.outside_s}
        for v in status.views
    }


def publish(run, seal=5):
    """Publish, with segments of a few rows."""
    run.publisher.seal = seal
    run.publisher.publish()


def assert_seen(run):
    """A reader sees exactly what the owner sees."""
    there, here = published(run.place), run.status_view()
    assert told(there) == told(here)
    assert there.counts == here.counts
    assert there.to_text() == here.to_text()
    assert there.at_least == here.at_least
    (row,) = query(run.folder.parent, "SELECT * FROM runs").to_dict("records")
    assert {outcome: row[outcome] for outcome in here.counts} == dict(here.counts)
    assert row["usd"] == (
        pytest.approx(here.usd) if here.usd is not None else pytest.approx(row["usd"], nan_ok=True)
    )


def sealed(folder):
    return Sealed.of(Mirror.tail(folder)[1])


def act(n):
    return n


def fill(run, n, start=0, publish_each=4):
    """Do steps, and publish every few."""
    for k in range(start, start + n):
        run.step("act", effect="none", key=str(k)).call(act, k)
        if k % publish_each == 0:
            publish(run)
    publish(run)


# -- the layout ----------------------------------------------------------------------------------


def test_rows_are_sealed_once_and_their_files_never_change(open_run):
    """A publication writes the tail, and a new segment when there are many rows."""
    with open_run() as run:
        fill(run, 20)
        before = {n: path_of(run.folder, n).read_bytes() for n in numbers_in(run.folder)}
        assert len(before) >= 2
        fill(run, 20, start=20)
        assert {n: path_of(run.folder, n).read_bytes() for n in before} == before
        assert len(Mirror.tail(run.folder)[0]) <= 6
        assert_seen(run)


def test_a_publication_makes_rows_of_what_changed_only(open_run, monkeypatch):
    """However many operations there are, those that rest are not looked at."""
    with open_run() as run:
        fill(run, 30)
        made = []
        real = publishing.mirror_row
        monkeypatch.setattr(
            publishing,
            "mirror_row",
            lambda run, state, **how: made.append(state.id) or real(run, state, **how),
        )
        run.step("one", effect="none").call(act, 1)
        publish(run)
        assert made == ["one#1"]


def test_counts_are_right_after_sealed_operations_are_invalidated(open_run):
    """What is taken back after it was sealed is shown as it is now."""
    with open_run() as run:
        fill(run, 20)
        run.invalidate("act[3]#1", "wrong")
        publish(run)
        assert published(run.place).counts["incomplete"] == 1
        assert_seen(run)
    with open_run() as run:
        run.step("act", effect="none", key="3").call(act, 3)
        publish(run)
        assert published(run.place).counts == {"completed": 20, "incomplete": 0, "unknown": 0}
        assert_seen(run)


@pytest.mark.slow
def test_a_reopened_run_goes_on_from_the_segments_that_are_there(open_run):
    """The next owner writes no row again that did not change, and tells what it replayed itself."""
    with open_run() as run:
        fill(run, 20)
    before = {n: path_of(run.folder, n).stat().st_ino for n in numbers_in(run.folder)}
    with open_run() as run:
        publish(run)
        assert {n: path_of(run.folder, n).stat().st_ino for n in numbers_in(run.folder)} == before
        assert_seen(run)
        assert {v.source for v in published(run.place).views} == {""}
        for k in range(12):
            run.step("act", effect="none", key=str(k)).call(act, k)
        publish(run)
        assert published(run.place).restored == 12
        assert_seen(run)
        fill(run, 10, start=20)
        assert_seen(run)
        assert numbers_in(run.folder)[: len(before)] == sorted(before)


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["gone", "short", "foreign", "no tail", "bad tail"])
def test_segments_that_do_not_fit_are_made_anew_and_removed(open_run, harm):
    """An owner that finds anything else than what the tail says begins anew."""
    with open_run() as run:
        fill(run, 20)
    first, tail = path_of(run.folder, sealed(run.folder).first), run.folder / MIRROR_FILE
    if harm == "gone":
        first.unlink()
    elif harm == "short":
        first.write_bytes(first.read_bytes()[:-1])
    elif harm == "no tail":
        tail.unlink()
    elif harm == "bad tail":
        tail.write_bytes(b"no Parquet")
    else:
        rows, meta = Mirror.read(run.folder)
        Mirror(run.folder).publish(rows, {**meta, "run_id": "other"}, sealed(run.folder))
    last = max(numbers_in(run.folder))
    with open_run() as run:
        publish(run)
        assert min(numbers_in(run.folder)) > last
        assert_seen(run)


@pytest.mark.slow
def test_a_damaged_segment_is_skipped_and_named(open_run):
    """Readers leave its operations out; the counts of the run stay whole; verify says what to do."""
    with open_run() as run:
        fill(run, 20)
    bad = path_of(run.folder, sealed(run.folder).first)
    raw = bad.read_bytes()
    bad.write_bytes(raw[:4] + b"\xff" * 60 + raw[64:])
    with pytest.warns(MirrorSkipped, match=bad.name):
        rows, _ = Mirror.read(run.folder)
    assert 0 < len(rows) < 20
    with pytest.warns(MirrorSkipped, match=bad.name):
        frame = query(run.folder.parent, "SELECT completed FROM runs")
    assert list(frame["completed"]) == [20]
    with pytest.warns(MirrorSkipped, match=bad.name):
        assert len(query(run.folder.parent, "SELECT * FROM operations")) == len(rows)
    notes = [f for f in dnb.verify("r", store=run.folder.parent).findings if f.kind == "mirror"]
    assert [f.where for f in notes] == [bad.name]
    bad.unlink()
    with open_run() as run:
        publish(run)
        assert_seen(run)


@pytest.mark.slow
def test_what_pins_have_retired_is_not_shown_from_old_segments(open_run):
    """A row of a retired operation may lie in a segment; no reader shows it."""
    with open_run() as run, run.pinned("turns", 0) as loop:
        for turn in range(3):
            fill(run, 8)
            loop.pin(turn)
            publish(run)
            assert_seen(run)
    assert numbers_in(run.folder)


# -- readers and writers at once -----------------------------------------------------------------


@pytest.mark.slow
def test_a_reader_during_sealing_sees_one_publication_or_the_next(open_run):
    """Whatever the owner writes meanwhile, there is each operation once, and none is missing."""
    problems, stop = [], threading.Event()

    def read(folder):
        low = 0
        while not stop.is_set():
            rows, meta = Mirror.read(folder)
            ids = [row["id"] for row in rows]
            counts = [int(meta[outcome]) for outcome in ("completed", "incomplete")]
            if not len(set(ids)) == len(ids) == sum(counts) or len(ids) < low:
                problems.append((low, len(ids), counts))
            low = len(ids)

    with warnings.catch_warnings():
        warnings.simplefilter("error", MirrorSkipped)
        with open_run() as run:
            run.step("act", effect="none", key="first").call(act, 0)
            publish(run)
            readers = [threading.Thread(target=read, args=(run.folder,)) for _ in range(1)]
            for reader in readers:
                reader.start()
            for k in range(60):
                run.step("act", effect="none", key=str(k)).call(act, k)
                publish(run)
            stop.set()
            for reader in readers:
                reader.join()
    assert not problems
    assert len(numbers_in(run.folder)) > 5


def test_two_owners_after_one_another_under_a_reader(open_run, monkeypatch):
    """Whoever has read the tail of an owner before one that begins anew looks once more."""
    with open_run() as run:
        run.publisher.seal = 5
        fill(run, 30)
    folder, real, begun = run.folder, segments.read, []

    def read(path):
        if path.name != MIRROR_FILE and not begun:
            begun.append(path)
            tail = real(folder / MIRROR_FILE)
            segments.write(folder / MIRROR_FILE, tail[0], {**tail[1], "run_id": "another"})
            with open_run() as run:
                publish(run)
            assert not path.exists()
        return real(path)

    monkeypatch.setattr(segments, "read", read)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MirrorSkipped)
        assert len(Mirror.read(folder)[0]) == 30
    assert begun


KILLED_BETWEEN = """
from support.inside import *
from durable_nb.journal import Mirror

def act(n):
    return n

run = dnb.open_run("r", store=store)
run.publisher.seal = 5
step = dnb.step(effect="none")(act)
for n in range(8):
    step(n)
run.publisher.publish()
real = Mirror.publish
Mirror.publish = lambda *a, **k: die()
for n in range(8, 16):
    step(n)
run.publisher.publish()
"""


@pytest.mark.slow
def test_an_owner_killed_between_a_segment_and_the_tail_leaves_the_last_mirror(tmp_path):
    """The segment is read by nobody, and the next owner publishes everything."""
    bench = Bench(tmp_path)
    assert bench.run(KILLED_BETWEEN).killed
    folder = bench.store / "r"
    orphan = sealed(folder).next
    assert orphan in numbers_in(folder)
    assert len(Mirror.read(folder)[0]) == 8
    with dnb.run("r", store=bench.store) as run:
        publish(run)
        assert_seen(run)
        assert len(published(FolderPlace(folder)).views) == 16


# -- pace, locks and previews --------------------------------------------------------------------


def test_the_next_publication_waits_66_times_as_long_as_one_computed(tmp_path, monkeypatch):
    """So that publishing costs at most 3 % of a run's throughput."""
    tick, begun = Ticks(), []
    monkeypatch.setattr(publishing, "_computed", lambda: run.clock.monotonic())

    class Slow(dict):
        """Takes a second of the run's own clock to be looked at."""

        def items(self):
            begun.append(run.clock.monotonic())
            tick(1)
            return super().items()

    with tick.open(tmp_path) as run:
        run.reconcilers = Slow(run.reconcilers)
        for n in range(200):
            run.step("act", effect="none", key=str(n)).call(act, n)
            tick(1)
            run.publisher.keep_up()
        run.reconcilers = {}
    assert len(begun) > 2
    assert all(later - earlier >= 67 for earlier, later in pairwise(begun))


@pytest.mark.slow
def test_making_rows_and_writing_them_holds_no_lock_of_the_run(open_run):
    """Whoever commits or replays does not wait for a publication."""
    waited = []
    with open_run() as run:
        fill(run, 3)
        real, free = Mirror.publish, threading.Event()

        def slow(self, *args, **kwargs):
            free.set()
            time.sleep(0.3)
            real(self, *args, **kwargs)

        Mirror.publish = slow
        try:
            run.invalidate("act[1]#1", "x")
            thread = threading.Thread(target=run.publisher.publish)
            thread.start()
            free.wait()
            began = time.monotonic()
            run.step("two", effect="none").call(act, 2)
            waited.append(time.monotonic() - began)
            thread.join()
        finally:
            Mirror.publish = real
    assert waited[0] < 0.2


def test_a_step_gets_its_turn_while_rows_are_made(open_run, monkeypatch):
    """A publication gives way every few rows, however long Python would let it go on."""
    made, seen, every = [], set(), sys.getswitchinterval()
    real = publishing.mirror_row
    monkeypatch.setattr(
        publishing, "mirror_row", lambda *args, **how: made.append(1) or real(*args, **how)
    )
    with open_run() as run:
        for n in range(100):
            run.step("act", effect="none").call(act, n)
        for _ in range(20):  # on a busy machine this thread may be late each time of one
            made.clear()
            thread = threading.Thread(target=publishing.Publisher(run).keep_up)
            sys.setswitchinterval(10)
            try:
                thread.start()
                while thread.is_alive():
                    seen.add(len(made))
                    time.sleep(0)
            finally:
                sys.setswitchinterval(every)
                thread.join()
            if len(seen & set(range(1, 100))) >= 3:
                return
    pytest.fail(f"rows made when others had their turn: {sorted(seen)}")


@pytest.mark.slow
@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.sampled_from(
            ["it's", 'a "b"', "\\", "sk-ant-api03-" + "a" * 40, "password=hunter22", "é"]
        ),
        st.text(st.characters(codec="ascii"), max_size=900),
    )
)
@settings(max_examples=300, deadline=None)
def test_a_preview_made_from_the_text_is_the_one_made_of_the_value(value):
    """Where the text tells enough, it tells the same."""
    text = values.encode(value, None)
    assert values.preview_of_text(text) in (None, values.preview(values.decode(text, None)))


# -- random histories ----------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
EFFECTS = st.sampled_from(["none", "idempotent", "external"])
ACTS = st.one_of(
    st.tuples(st.just("do"), NAMES, EFFECTS, st.sampled_from([1, "x", [1, 2], (1,), None, 1e300])),
    st.tuples(st.just("fail"), NAMES, EFFECTS, st.none()),
    st.tuples(st.just("invalidate"), st.integers(0, 30)),
    st.tuples(st.just("settle"), st.integers(0, 30)),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("crash")),
    st.tuples(st.just("signal"), NAMES),
    st.tuples(st.just("pin")),
    st.tuples(st.just("publish")),
)


class _Oops(Exception):
    pass


def perform(run, what, rest):
    """Do one thing that a person or a program may do; what is refused is no matter."""
    frame = run.status_view().views
    if what in ("do", "fail"):
        name, effect, value = rest

        def body():
            if what == "fail":
                raise _Oops(name)
            return value

        ttl = {"key_ttl": 3600.0} if effect == "idempotent" else {}
        run.step(name, effect=effect, **ttl).call(body)
    elif what == "invalidate" and frame:
        v = frame[rest[0] % len(frame)]
        run.invalidate(v, "x", effect="stands" if v.effect == "external" else None)
    elif what == "settle" and run.unknown():
        doubt = run.unknown()[rest[0] % len(run.unknown())]
        (run.confirm if rest[0] % 2 else run.deny)(doubt)
    elif what == "signal":
        run.wait_for(rest[0])


@given(st.lists(ACTS, min_size=5, max_size=40))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.slow
def test_readers_see_what_the_owner_sees_after_any_history(tmp_path_factory, acts):
    """At each publication, of any mixture of new, failed, retired, settled and replayed steps."""
    store = tmp_path_factory.mktemp("any")

    def opened():
        OPEN._reached.clear()
        run = dnb.run("r", store=store)
        run.publisher.seal = 5
        run.__enter__()
        return run, run.pinned("turns", 0).__enter__() if len(acts) % 2 else None

    run, loop = opened()
    try:
        for what, *rest in acts:
            if what in ("reopen", "crash"):
                if loop is not None:
                    loop.__exit__(None, None, None)
                aside = store.parent / f"{store.name}-aside"
                shutil.copytree(store / "r", aside)
                run.__exit__(None, None, None)
                if what == "crash":  # the mirror is as old as a killed owner leaves it
                    for path in (store / "r").glob("operations*.parquet"):
                        path.unlink()
                    for path in aside.glob("operations*.parquet"):
                        shutil.copy(path, store / "r")
                shutil.rmtree(aside)
                run, loop = opened()
            elif what == "pin" and loop is not None:
                try:
                    loop.pin(1)
                except (dnb.DurableError, dnb.DurableSignal):
                    pass
            elif what == "publish":
                publish(run)
                assert_seen(run)
            else:
                try:
                    perform(run, what, rest)
                except (dnb.DurableError, dnb.DurableSignal, _Oops):
                    pass
        publish(run)
        assert_seen(run)
    finally:
        for left in OPEN.all():
            left.close()
        shutil.rmtree(store)
