"""What a person does with a fleet, from a shell: real workers, real kernels."""

from __future__ import annotations

import json
import os
import platform
import signal
import time

import pytest
from support.fleet import Yard

KILL = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"

pytestmark = pytest.mark.slow


def _are(state: str, *names: str):
    return lambda rows: all(rows[name]["state"] == state for name in names or rows)


def test_a_notebook_that_is_submitted_is_executed_by_a_worker(yard: Yard, happen: str):
    """Whichever: it has the notebook as it was, and its parameters. Twice is once."""
    path = yard.notebook(happen, "happen(x)", parameters="x = 1")
    yard.submit(path, "-p", "x=7", name="a")
    yard.submit(path, "-p", "x=7", name="a")
    code, _, err = yard.do("submit", path.name, "--run", "a", "-p", "x=8")
    assert (code, "run 'a' is in use, with other parameters" in err) == (1, True), err
    path.unlink()
    assert yard.fleet()["a"]["state"] == "queued"
    code, out, _ = yard.do("fleet")
    assert code == 0
    assert out.splitlines()[1].split()[:2] == ["a", "queued"]

    worker = yard.worker("--once")

    assert worker.ended() == 0, worker.said
    first = f"process {worker.process.pid} on {platform.node()}: 4 slots, for runs of postgresql://"
    assert worker.said.startswith(first)
    assert yard.fleet()["a"]["state"] == "finished", worker.said
    assert yard.effects() == ["7"]
    code, out, _ = yard.do("fleet")
    assert (code, out) == (0, "nothing is to be done\n")
    code, out, _ = yard.do("runs", "--json")
    assert [(row["name"], row["status"]) for row in json.loads(out)] == [("a", "finished")]


def test_what_is_waited_for_takes_no_slot_and_the_run_is_called_back(yard: Yard, happen: str):
    """A timer, a signal, an approval and a doubt, with one slot: another run comes through."""
    timer = yard.notebook(happen, "run.sleep(12)\nhappen('timer')", name="timer")
    sign = yard.notebook(happen, "happen(run.wait_for('go'))", name="sign")
    asked = yard.notebook(happen, "run.approval('ok?')\nhappen('approved')", name="asked")
    doubt = yard.notebook(
        happen, f"%%durable pay --effect external\n{KILL}\nz = 1", "happen('paid')", name="doubt"
    )
    for path in (timer, sign, asked, doubt):
        yard.submit(path, name=path.stem)
    yard.submit(yard.notebook(happen, "happen('last')", name="last"), name="last")

    yard.worker("--slots", 1)

    rows = yard.until(
        lambda rows: (
            [rows[name]["state"] for name in ("sign", "asked", "doubt", "last")]
            == ["waiting", "person needed", "person needed", "finished"]
        )
    )
    assert rows["sign"]["why"] == "it waits for wait_for[go]#1"
    code, out, _ = yard.do("fleet")
    assert code == 3
    assert "see what it asks: durable-nb show asked" in out
    for words in (
        ("signal", "sign", "go", '"signal"'),
        ("approve", "asked", "approval[ok?]#1"),
        ("deny", "doubt", "pay", "--evidence", "the ledger has none"),
    ):
        code, _, err = yard.do(*words)
        assert code in {0, 3}, (words, err)
    yard.until(lambda rows: rows["doubt"]["state"] == "person needed" and _is_tried_again(yard))
    code, _, err = yard.do("confirm", "doubt", "pay", "--evidence", "seen")
    assert code == 0, err
    yard.until(_are("finished"))
    assert sorted(yard.effects()) == ["approved", "last", "paid", "signal", "timer"]


def _is_tried_again(yard: Yard) -> bool:
    """Whether the payment was tried twice: denied once, and in doubt again."""
    _, out, _ = yard.do("history", "doubt", "--json")
    return sum(row["kind"] == "intended" for row in json.loads(out)) == 2


def test_a_run_that_fails_five_times_is_parked_with_its_errors_and_can_be_tried_again(
    yard: Yard, happen: str
):
    """Each error is there; once its notebook is mended it goes on where it was."""
    path = yard.notebook(
        happen, "%%durable first --effect external\nhappen('first')\nz = 1", "1 / 0"
    )
    yard.submit(path)
    yard.worker()

    row = yard.until(_are("parked"))["r"]

    assert (row["failures"], row["why"]) == (5, "cell 4 ended with ZeroDivisionError")
    assert [e["why"] for e in row["errors"]] == [row["why"]] * 5
    assert all(e["lines"][-1] == "ZeroDivisionError: division by zero" for e in row["errors"])
    code, out, _ = yard.do("fleet")
    assert (code, "try it again: durable-nb submit --run r" in out) == (3, True)
    mended = yard.notebook(
        happen, "%%durable first --effect external\nhappen('first')\nz = 1", "happen('mended')"
    )
    yard.submit(mended)
    yard.until(_are("finished"))
    assert yard.effects() == ["first", "mended"]
    yard.do("submit", "--run", "r")
    assert yard.fleet()["r"]["state"] == "finished"


def test_what_a_killed_worker_leaves_is_taken_up_by_another_one(yard: Yard, happen: str):
    """An orphan is seen as one, queued again by itself, and no step is done twice."""
    path = yard.notebook(
        happen,
        "%%durable one --effect external\nhappen('one')\nz = 1",
        "import time\n%durable status\ntime.sleep(1 if __import__('os').path.exists('go') else 600)",
        "%%durable two --effect external\nhappen('two')\ny = 1",
    )
    yard.submit(path)
    first = yard.worker()
    yard.until(lambda rows: yard.effects() == ["one"])
    first.kill()
    (yard.folder / "go").touch()
    yard.until(_are("orphaned"))

    second = yard.worker()

    yard.until(_are("finished"))
    assert yard.effects() == ["one", "two"]
    assert "r: queued again, its worker has said nothing for 5 s" in second.said


def test_a_worker_that_is_told_to_stop_gives_back_what_it_has(yard: Yard, happen: str):
    """At the next step; it takes nothing more, and another one goes on at once."""
    cell = (
        "import time\nfor n in range(40):\n"
        "    run.step(key=n, effect='external').call(happen, n)\n    time.sleep(0.2)"
    )
    yard.submit(yard.notebook(happen, cell))
    yard.submit(yard.notebook(happen, "happen('other')", name="other"), name="other")
    first = yard.worker("--slots", 1)
    yard.until(lambda rows: len(yard.effects()) > 3)

    first.process.send_signal(signal.SIGTERM)

    assert first.ended(30) == 0, first.said
    done = yard.effects()
    assert 3 < len(done) < 40
    rows = yard.fleet()
    assert [rows[n]["state"] for n in ("r", "other")] == ["queued", "queued"]
    assert rows["r"]["why"] == "its worker was told to stop"
    begun = time.monotonic()
    yard.worker("--slots", 2)
    yard.until(lambda rows: len(yard.effects()) > len(done) + 1)
    assert time.monotonic() - begun < 30
    yard.until(_are("finished"))
    assert sorted(yard.effects()) == sorted([*map(str, range(40)), "other"])


def test_a_worker_that_lacks_a_package_or_a_file_parks_the_run_with_the_difference(
    yard: Yard, happen: str
):
    """It says what differs; nothing of the run was begun."""
    path = yard.notebook(happen, "import rich\nhappen(open('data.csv').read())")
    data = yard.folder / "data.csv"
    data.write_text("7")
    yard.submit(path, "--needs", "data.csv", name="file")
    yard.submit(path, name="package")
    other = yard.folder / "other"
    info = other / "rich-1.2.3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rich\nVersion: 1.2.3\n")
    (info / "top_level.txt").write_text("rich\n")
    data.write_text("8")
    paths = yard.environment["PYTHONPATH"]

    worker = yard.worker("--once", PYTHONPATH=f"{other}{os.pathsep}{paths}")

    assert worker.ended() == 0, worker.said
    rows = yard.fleet()
    assert [row["state"] for row in rows.values()] == ["parked", "parked"]
    assert "file data.csv differs" in rows["file"]["why"]
    assert "-> 1.2.3" in rows["package"]["why"]
    assert f"process {worker.process.pid} on " in rows["package"]["why"]
    assert yard.effects() == []
    yard.submit(path, name="package")
    code, _, err = yard.do("submit", "--run", "file", "--any-packages")
    assert code == 0, err
    data.write_text("7")
    assert yard.worker("--once").ended() == 0
    assert yard.effects() == ["7", "7"]


def test_a_worker_goes_on_when_the_server_was_gone(yard: Yard, happen: str, own_cluster):
    """It says that it waits, and what is at work is neither lost nor done twice."""
    cell = (
        "import time\nfor n in range(30):\n"
        "    run.step(key=n, effect='external').call(happen, n)\n    time.sleep(0.2)"
    )
    yard.store = own_cluster.new_database()
    yard.submit(yard.notebook(happen, cell))
    worker = yard.worker("--slots", 2)
    yard.until(lambda rows: len(yard.effects()) > 3)
    own_cluster.stop()
    time.sleep(3)
    own_cluster.start()
    yard.submit(yard.notebook(happen, "happen('later')", name="later"), name="later")

    yard.until(lambda rows: rows["later"]["state"] == "finished")
    rows = yard.until(lambda rows: rows["r"]["state"] in {"finished", "person needed"})

    assert "waits for the database: " in worker.said
    assert "the database is back" in worker.said
    if rows["r"]["state"] == "person needed":  # it was gone between an effect and its record
        _, out, _ = yard.do("show", "r", "--json")
        assert json.loads(out)["counts"]["unknown"] == 1
    else:
        assert sorted(yard.effects()) == sorted([*map(str, range(30)), "later"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("submit", "nothing.ipynb", "--run", "x"), "nothing.ipynb: it is not there"),
        (("submit", "--run", "x"), "has no run 'x'. Nothing was begun. Submit its notebook"),
        (("submit", "job.ipynb", "--run", "a/b"), "'a/b'"),
        (("submit", "job.ipynb", "--run", "x", "-p", "y=1"), "it has no parameter 'y'"),
        (("submit", "job.ipynb", "--run", "x", "--needs", "no.csv"), "it needs no.csv, which is"),
        (("submit", "job.ipynb", "--run", "x", "--store", "here"), "needs a store in PostgreSQL"),
        (("worker", "--store", "here"), "here is a folder"),
        (("fleet", "--store", "here"), "needs a store in PostgreSQL"),
        (("worker", "--store", "postgresql://nobody@127.0.0.1:1/x"), "cannot be reached"),
        (("worker", "--slots", "0"), "at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(yard: Yard, words, says):
    """With what to do instead."""
    yard.notebook("pass", parameters="x = 1")

    code, out, err = yard.do(*words)

    assert (code in {1, 2}, out) == (True, "")
    assert says in " ".join(err.split())
    assert yard.fleet() == {}
    assert not (yard.folder / "here").exists()
