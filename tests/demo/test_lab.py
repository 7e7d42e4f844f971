"""`durable-nb demo --lab`, with a real JupyterLab that no browser looks at."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from urllib.parse import urlsplit

import psutil
import pytest

from durable_nb.demo.lab import LOG, run_lab
from durable_nb.demo.problems import LabNotStarted
from durable_nb.demo.workplace import NOTEBOOK

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def read_until(terminal, word, seconds=90):
    """Read a terminal until it shows a word."""
    text, deadline = "", time.monotonic() + seconds
    while word not in text:
        assert time.monotonic() < deadline, text
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536).decode()
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def rest_of(terminal, seconds):
    """Read what a terminal still shows, in the given time, after the line that was read last."""
    text, deadline = "", time.monotonic() + seconds
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536).decode()
    return text.partition("\n")[2]


@pytest.mark.slow
def test_the_advice_is_the_last_that_a_person_reads_and_its_address_is_the_notebooks(tmp_path):
    """JupyterLab's log does not scroll it away; one Ctrl-C ends JupyterLab and both servers."""
    terminal, far = pty.openpty()
    code = "from durable_nb.demo.lab import run_lab; run_lab(arguments=['--no-browser'])"
    demo = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=far, stdout=far, stderr=far
    )
    os.close(far)
    try:
        said = read_until(terminal, "Ctrl-C here ends")
        assert rest_of(terminal, 3) == ""

        url = urlsplit(re.search(r"http://\S+", said)[0])
        assert url.path == f"/lab/tree/{NOTEBOOK}"
        here = f"{url.scheme}://{url.netloc}/api/contents/{NOTEBOOK}?{url.query}"
        with DIRECT.open(here, timeout=30) as answer:  # the path is what JupyterLab will open
            assert json.load(answer)["path"] == NOTEBOOK
        assert "[I " in (tmp_path / "durable-demo" / LOG).read_text()

        below = psutil.Process(demo.pid).children(recursive=True)
        assert len(below) >= 3  # JupyterLab and the two servers
        for process in (demo, *(p for p in below if "jupyterlab" in p.cmdline())):
            process.send_signal(signal.SIGINT)  # as a terminal does: to its whole group
        demo.wait(timeout=60)
        assert psutil.wait_procs(below, timeout=10)[1] == []
    finally:
        for process in psutil.Process(demo.pid).children() if demo.poll() is None else ():
            process.kill()
        demo.kill()
        os.close(terminal)


@pytest.mark.slow
def test_jupyterlab_that_does_not_start_is_reported_with_its_words(tmp_path):
    """What it said last is in the error; nothing waits for it."""
    with pytest.raises(LabNotStarted, match="no_such_option") as failed:
        run_lab(folder=tmp_path / "lab", arguments=["--LabApp.no_such_option", "--bad-flag=="])

    assert failed.value.log == str(tmp_path / "lab" / LOG)
