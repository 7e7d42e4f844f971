"""A real JupyterLab and Notebook 7 with real kernels, and a real Chromium that looks at them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHOTS = Path(__file__).parent / "shots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

#: Front end -> where it shows a notebook. One server has them all, and each test its `front`:
#: ``pytest.mark.parametrize("front", ["lab", "notebook"])`` looks at the same in both.
FRONTS = {"lab": "/doc/tree/{}?reset", "notebook": "/notebooks/{}"}
#: Where the server keeps what a person has set, of all front ends.
SETTINGS = "config/lab/user-settings/@jupyterlab/apputils-extension"

#: How often the server looks whether a kernel is dead, to start it again. (3 s as it comes.)
LOOK_S = 0.5

#: In a page: the kernel of the notebook in front.
KERNEL = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
READY = f"""() => {{
    const k = {KERNEL};
    return Boolean(k) && k.status === 'idle' && k.connectionStatus === 'connected';
}}"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these take long and need a browser; each worker starts one server for its share."""
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker(pytest.mark.slow)
        if CHROMIUM is None:  # CI installs it, and as root nothing may be skipped there
            item.add_marker(pytest.mark.skip(reason="needs chromium: apt-get install chromium"))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until(true: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    """Wait for something that a process brings about."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = true()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(what)


class Lab:
    """One server, whose root holds a folder for each test."""

    def __init__(self, root: Path, variables: Mapping[str, str]) -> None:
        self.root, self.url = root, f"http://127.0.0.1:{free_port()}"
        # of the kernels, which others may else take a port of; the path of a socket must be short
        self._sockets = tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True)
        work = root / "work"
        work.mkdir()
        self.work = work
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JUPYTER", "PYTEST", "DURABLE"))
        }
        env |= {
            "PYTHONPATH": str(REPOSITORY),
            "IPYTHONDIR": str(root / "ipython"),
            "HOME": str(root / "home"),
            **{f"JUPYTER_{n}_DIR": str(root / n.lower()) for n in ("CONFIG", "DATA")},
            "JUPYTER_RUNTIME_DIR": self._sockets.name,
            **variables,
        }
        (root / "home").mkdir()
        quiet = root / SETTINGS
        quiet.mkdir(parents=True)  # no question about news in front of the panel
        (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--allow-root",
            f"--port={self.url.rpartition(':')[2]}", "--ServerApp.port_retries=0",
            "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
            f"--KernelRestarter.time_to_dead={LOOK_S}", "--KernelManager.transport=ipc",
            "--LabApp.expose_app_in_browser=True",
            "--JupyterNotebookApp.expose_app_in_browser=True",
            f"--ServerApp.root_dir={work}",
        ]  # fmt: skip
        self.log = (root / "lab.log").open("w")
        self._ending = ThreadPoolExecutor(4)
        self._ended: list[Future[None]] = []
        self.process = subprocess.Popen(
            command, cwd=work, env=env, stdout=self.log, stderr=self.log, start_new_session=True
        )
        try:
            wait_until(self._answers, "JupyterLab", 90)
        except TimeoutError:
            self.stop()
            raise AssertionError((root / "lab.log").read_text()[-3000:]) from None

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError((self.root / "lab.log").read_text()[-3000:])
        with contextlib.suppress(OSError):
            return bool(self.get("/api/status"))
        return False

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=5) as answer:
            return json.load(answer)

    def forget_theme(self) -> None:
        """Have the next page in the theme that it comes in."""
        (self.root / SETTINGS / "themes.jupyterlab-settings").unlink(missing_ok=True)

    def answer_clicks(self, subshells: str) -> None:
        """Set for the pages to come where a click is answered while a cell runs."""
        said = json.dumps({"commsOverSubshells": subshells})
        (self.root / SETTINGS / "kernels-settings.jupyterlab-settings").write_text(said)

    def end_kernels(self) -> None:
        """End all kernels, of which some take their time; nobody waits for it."""
        self._ended += [
            self._ending.submit(self._end, kernel["id"]) for kernel in self.get("/api/kernels")
        ]

    def _end(self, kernel: str) -> None:
        request = urllib.request.Request(f"{self.url}/api/kernels/{kernel}", method="DELETE")
        try:
            urllib.request.urlopen(request, timeout=20).close()
        except urllib.error.HTTPError as problem:
            if problem.code != HTTPStatus.NOT_FOUND:  # it may have ended by itself
                raise

    def stop(self) -> None:
        self._ending.shutdown()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        self._sockets.cleanup()
        for ended in self._ended:
            ended.result()


class Notebook:
    """A notebook that is open in the browser, in a folder of its own.

    It is made of cells, or it is a copy of a file, or it is what another page has open already.
    """

    def __init__(
        self, lab: Lab, page: Any, front: str, name: str, cells: list[str] | Path | None
    ) -> None:
        name = name if front == "lab" else f"{name}-in-{front}"
        self.lab, self.page, self.front, self.name = lab, page, front, name
        self.folder = lab.work / name
        self.file = self.folder / (cells.name if isinstance(cells, Path) else "job.ipynb")
        if cells is not None:
            self.folder.mkdir()
            self._write(cells)
        self.alerts: list[str] = []
        page.on("dialog", self._dismiss)
        self.open()

    def _write(self, cells: list[str] | Path) -> None:
        if isinstance(cells, Path):
            shutil.copyfile(cells, self.file)
            return
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.file)

    def _dismiss(self, dialog: Any) -> None:
        self.alerts.append(dialog.message)
        dialog.dismiss()

    def open(self) -> None:
        """Open it, or load the page again."""
        self.page.goto(self.lab.url + FRONTS[self.front].format(f"{self.name}/{self.file.name}"))
        self.page.wait_for_function("() => window.jupyterapp?.restored", timeout=60_000)
        self.page.evaluate("async () => { await jupyterapp.restored; }")
        self.page.wait_for_function(READY, timeout=60_000)

    def command(self, command: str) -> None:
        """Give the front end a command; it is not awaited here, for it may hang."""
        self._give(f"jupyterapp.commands.execute('{command}')")

    def _give(self, asked: str) -> None:
        self.page.evaluate(
            f"""() => {{
                const given = (window.dnbGiven = {{ done: false }});
                {asked}.finally(() => (given.done = true));
            }}"""
        )

    def run_all(self, *, wait: bool = True) -> None:
        """Run all cells, as the menu does."""
        self.command("notebook:run-all-cells")
        if wait:
            self.settle()

    def settle(self, seconds: float = 60) -> None:
        """Wait until the last command has come to its end, and no cell runs or waits."""
        self.page.wait_for_function(
            f"""() => {{
                const k = {KERNEL};
                const busy = document.querySelectorAll('.jp-InputArea-prompt');
                return k && k.status === 'idle' && (window.dnbGiven?.done ?? true)
                    && ![...busy].some((p) => p.textContent.includes('[*]'));
            }}""",
            timeout=seconds * 1000,
        )

    def run_cell(self, number: int) -> None:
        """Run one cell, by its place in the notebook."""
        self.page.evaluate(
            """(n) => {
                const notebook = jupyterapp.shell.currentWidget.content;
                notebook.deselectAll(); notebook.activeCellIndex = n;
            }""",
            number,
        )
        self.command("notebook:run-cell")

    def save(self) -> None:
        """Save the notebook, with what it shows."""
        self.command("docmanager:save")
        self.page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")

    def theme(self, name: str) -> None:
        """Change to a theme, and wait until it is there."""
        self.page.evaluate(
            "(theme) => { jupyterapp.commands.execute('apputils:change-theme', { theme }); }", name
        )
        self.page.wait_for_function("(t) => document.body.dataset.jpThemeName === t", arg=name)
        self.page.wait_for_function("() => !document.querySelector('#jupyterlab-splash')")

    def narrow(self) -> None:
        """Make the window narrow, as beside another one."""
        self.page.set_viewport_size({"width": 600, "height": 900})
        self.page.wait_for_timeout(300)

    def write(self, number: int, source: str) -> None:
        """Change a cell's text."""
        self.page.evaluate(
            """([n, s]) => jupyterapp.shell.currentWidget.content.widgets[n].model
                .sharedModel.setSource(s)""",
            [number, source],
        )

    def wait_for(self, file: str) -> None:
        """Wait until the notebook's kernel has written a file."""
        wait_until((self.folder / file).exists, file)

    def kernel_pid(self) -> int:
        """Find the kernel's process from outside: its command line names the kernel's id."""
        file = f"kernel-{self.page.evaluate(f'() => {KERNEL}.id')}.json"

        def found() -> int | None:
            for process in psutil.process_iter(["cmdline"]):
                if any(word.endswith(file) for word in process.info["cmdline"] or ()):
                    return int(process.pid)
            return None

        return int(wait_until(found, "the kernel's process"))

    def kill(self, inside: str | Callable[[], Any]) -> None:
        """SIGKILL the kernel as soon as a file, or the world, says that it is where it has to be."""
        there = (self.folder / inside).exists if isinstance(inside, str) else inside
        wait_until(there, f"the kernel to be inside {inside}", 60)
        pid = self.kernel_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "the kernel's end")

    def restart(self) -> None:
        """Restart the kernel from the page, as a person does, with the question answered."""
        self._give(f"{KERNEL}.restart()")
        self.page.wait_for_function("() => window.dnbGiven.done", timeout=60_000)
        self.page.wait_for_function(READY, timeout=60_000)

    def revive(self) -> None:
        """After a kill, wait for the new kernel that the server starts, and take note of it."""
        self.page.locator(".jp-Dialog button").click()  # "the kernel appears to have died"
        self.page.wait_for_function(READY, timeout=60_000)

    def panel(self) -> Any:
        """Give the last panel on the page."""
        found = self.page.locator(".dnb-panel").last
        found.wait_for(timeout=30_000)
        return found

    def lines(self, file: str = "ledger") -> list[str]:
        return read(self.folder / file).splitlines()

    def shot(self, name: str) -> None:
        """Keep a picture, for a person to look at."""
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{self.name}-{name}.png")


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(scope="module")
def variables() -> Mapping[str, str]:
    """Give what is added to the kernels' environment; a module may say otherwise."""
    return {}


@pytest.fixture(scope="module")
def subshells() -> str:
    """Give JupyterLab's setting of where a click is answered while a cell runs.

    As it comes: at once, beside the cell. "disabled", as older ones: when the cell has ended.
    """
    return "perCommTarget"


@pytest.fixture
def front() -> str:
    """Give the front end that the test's notebooks are opened in."""
    return "lab"


@pytest.fixture(scope="session")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Lab]]:
    """Start a server for each set of variables, once a worker: each takes seconds."""
    running: dict[tuple[tuple[str, str], ...], Lab] = {}

    def lab_of(variables: Mapping[str, str]) -> Lab:
        settings = tuple(sorted(variables.items()))
        if settings not in running:
            running[settings] = Lab(tmp_path_factory.mktemp("lab"), variables)
        return running[settings]

    try:
        yield lab_of
    finally:
        for lab in running.values():
            lab.stop()


@pytest.fixture(scope="module")
def lab(labs: Callable[..., Lab], variables: Mapping[str, str], subshells: str) -> Lab:
    """Give the server for a module's tests; each test has a folder of its own in it."""
    lab: Lab = labs(variables)
    lab.answer_clicks(subshells)
    return lab


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Iterator[Any]:
    """Give a browser that knows nothing of an earlier page."""
    browser = chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give where a worker's browser keeps the code of the front ends, as a person's does.

    To compile it anew would take a quarter of the time in which a page opens.
    """
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def context(chromium: Any, profile: Path) -> Iterator[Any]:
    """Give the browser for a module's notebooks."""
    context = chromium.launch_persistent_context(
        profile, executable_path=CHROMIUM, args=FLAGS, viewport={"width": 1280, "height": 1100}
    )
    context.set_default_timeout(30_000)
    try:
        yield context
    finally:
        context.close()


@pytest.fixture
def notebook(
    lab: Lab, context: Any, front: str
) -> Iterator[Callable[[str, list[str] | Path | None], Notebook]]:
    """Open notebooks, each in a page of its own; kernels end with the test."""
    from playwright.sync_api import expect

    lab.forget_theme()
    expect.set_options(timeout=20_000)  # to wait for, on a busy machine; what is promised is timed
    try:
        yield lambda name, cells: Notebook(lab, context.new_page(), front, name, cells)
    finally:
        for page in context.pages[1:]:  # the first one is the browser's own
            page.close()
        lab.end_kernels()
