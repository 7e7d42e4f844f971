"""A JupyterLab of our own, and a Chromium that looks at it, for as long as a benchmark runs."""

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
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_KERNEL: Final = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
_READY: Final = f"""() => {{
    const k = {_KERNEL};
    return Boolean(k) && k.status === 'idle' && k.connectionStatus === 'connected';
}}"""
_START_S: Final = 120


class Page:
    """A notebook that is open in the browser.

    Attributes
    ----------
    page : playwright.sync_api.Page
        The page.
    received : int
        Bytes that its kernel has sent it so far, over the socket that all messages share.
    """

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.received, self._url = page, 0, url
        page.on("websocket", self._listen)
        self.load()

    def _listen(self, socket: Any) -> None:
        if "/channels" in socket.url:
            socket.on("framereceived", self._count)

    def _count(self, payload: str | bytes) -> None:
        self.received += len(payload.encode() if isinstance(payload, str) else payload)

    def load(self) -> None:
        """Load the page, anew if it is there."""
        self.page.goto(self._url)
        self.page.wait_for_function("() => window.jupyterapp?.restored", timeout=_START_S * 1000)
        self.page.evaluate("async () => { await jupyterapp.restored; }")
        self.wait_for_kernel()

    def wait_for_kernel(self) -> None:
        """Wait until it has nothing to do."""
        self.page.wait_for_function(_READY, timeout=_START_S * 1000)

    def restart(self) -> None:
        """Restart the kernel."""
        self.page.evaluate(f"async () => {{ await {_KERNEL}.restart(); }}")
        self.wait_for_kernel()

    def run(self, number: int) -> None:
        """Run one cell, and do not wait for it."""
        self.page.evaluate(
            """(n) => {
                const notebook = jupyterapp.shell.currentWidget.content;
                notebook.deselectAll(); notebook.activeCellIndex = n;
                window.asked = performance.now();
                jupyterapp.commands.execute('notebook:run-cell');
            }""",
            number,
        )

    def run_to_end(self, number: int, seconds: float) -> None:
        """Run one cell, and wait until it has ended."""
        self.run(number)
        self.page.wait_for_timeout(500)
        self.page.wait_for_function(
            f"() => {_KERNEL}.status === 'idle' && "
            "![...document.querySelectorAll('.jp-InputArea-prompt')]"
            ".some((p) => p.textContent.includes('[*]'))",
            timeout=seconds * 1000,
        )


@contextlib.contextmanager
def lab(cells: Sequence[str]) -> Iterator[Page]:
    """Open a notebook of these cells in a JupyterLab with settings of its own."""
    import nbformat
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "work").mkdir()
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, root / "work/job.ipynb")
        with _server(root) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
            try:
                page = browser.new_page(viewport={"width": 1280, "height": 1100})
                yield Page(page, f"{url}/doc/tree/job.ipynb?reset")
            finally:
                browser.close()


@contextlib.contextmanager
def _server(root: Path) -> Iterator[str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "DURABLE"))}
    env |= {f"JUPYTER_{n}_DIR": str(root / n.lower()) for n in ("CONFIG", "DATA", "RUNTIME")}
    source = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env |= {"PYTHONPATH": os.pathsep.join(source), "IPYTHONDIR": str(root / "ipython")}
    quiet = root / "config/lab/user-settings/@jupyterlab/apputils-extension"
    quiet.mkdir(parents=True)  # no question about news in front of the panel
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    words = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--allow-root"]
    words += [f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="]
    words += ["--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={root / 'work'}"]
    url, log = f"http://127.0.0.1:{port}", root / "lab.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            words, cwd=root / "work", env=env, stdout=out, stderr=out, start_new_session=True
        )
        try:
            _wait_for(url, process, log)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + _START_S
    while time.monotonic() < ends and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/api/status") as answer:
            json.load(answer)
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")
