"""What is slow, and what gets on, is left to go on."""

from __future__ import annotations

import json
import os
import time

import pytest

pytestmark = pytest.mark.slow

#: So long, in seconds, no thread of the kernel does anything.
HELD_S = 10
#: A step of 20 s, in the middle of which it holds the interpreter until the test lets go: a read
#: that does not give it away. The ticks show that no other thread gets on.
WORK = """import ctypes, os, pathlib, threading, time

def tick():
    while True:
        with open('ticks', 'a') as ticks: ticks.write('.')
        time.sleep(0.05)

def work():
    threading.Thread(target=tick, daemon=True).start()
    time.sleep(5)
    with open('go') as go:
        pathlib.Path('held').touch()
        ctypes.PyDLL(None).read(go.fileno(), ctypes.create_string_buffer(1), 1)
    time.sleep(5)
    return 'worked'

print(run.step('work', effect='none').call(work))"""


def test_a_kernel_that_is_slow_but_healthy_is_never_taken_for_dead(desk):
    """One kernel does a step of 20 s, of which it holds the interpreter for 10; nobody takes it."""
    notebook = desk.notebook(WORK)
    ticks = desk.folder / "ticks"
    os.mkfifo(desk.folder / "go")
    go = os.open(desk.folder / "go", os.O_RDWR)  # for both, so that it waits for nobody
    child = desk.start("run", notebook.name, "--run", "r", "--json")
    try:
        while not (desk.folder / "held").exists():
            assert child.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)  # until it does read
        since, seen = time.monotonic(), ticks.stat().st_size
        looks = desk.start("runs", "--json")
        takes = desk.start("resume", "--all", "--json")
        out, err = looks.communicate(timeout=60)
        assert [row["status"] for row in json.loads(out)] == ["open"], err
        out, err = takes.communicate(timeout=60)
        assert (takes.returncode, json.loads(out)) == (0, []), err
        code, out, err = desk.do("resume", "r")
        assert (code, out) == (1, "")
        assert f"supervisor process {child.pid}" in err
        time.sleep(max(0.0, since + HELD_S - time.monotonic()))
        assert 1 < seen == ticks.stat().st_size, "the interpreter was held all the while"
        os.write(go, b".")
        out, err = child.communicate(timeout=60)
    finally:
        os.close(go)
        child.kill()
    said = json.loads(out)
    assert (child.returncode, said["end"]) == (0, "finished"), err
    assert (said["kernels"], said["deaths"]) == (1, 0)
    assert desk.cells()[-1].outputs[0].text == "worked\n"


def test_a_cell_that_gets_on_from_kernel_to_kernel_is_no_crash_loop(desk, happen):
    """It is in four kernels that die, and each of them has done one more of its steps."""
    work = """%%durable all_of_it
import os, pathlib, signal
for n in range(5):
    run.step('act', effect='none', key=n).call(happen, n)
    if not pathlib.Path(f'seen-{n}').exists() and n < 4:
        pathlib.Path(f'seen-{n}').touch()
        os.kill(os.getpid(), signal.SIGKILL)"""
    notebook = desk.notebook(happen, work)

    code, said = desk.run(notebook)

    assert (code, said["end"], said["deaths"]) == (0, "finished", 4), said
