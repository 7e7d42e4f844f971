"""How the kernel of a supervised run is reached: by nothing that others could take before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TELL = """import os, pathlib
from ipykernel.connect import get_connection_info
pathlib.Path('reached').write_text(get_connection_info())
folder = pathlib.Path(get_connection_info(unpack=True)['ip']).parent
pathlib.Path('mode').write_text(oct(folder.stat().st_mode)[-3:])"""


def test_a_kernel_takes_no_port_and_only_its_user_reaches_it(desk):
    """A port that was free as the kernel was started can be taken as it comes up: it would die."""
    code, document = desk.run(desk.notebook(TELL))

    assert (code, document["end"], document["kernels"]) == (0, "finished", 1)
    reached = json.loads((desk.folder / "reached").read_text())
    assert reached["transport"] == "ipc"
    assert (desk.folder / "mode").read_text() == "700"
    assert not Path(reached["ip"]).parent.exists()


def test_where_no_path_is_short_enough_it_gets_ports(desk, monkeypatch):
    """A socket's path has some hundred bytes; a folder for temporary files may have more."""
    temporary = desk.folder / ("t" * 120)
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))

    code, document = desk.run(desk.notebook(TELL))

    assert (code, document["end"]) == (0, "finished")
    reached = json.loads((desk.folder / "reached").read_text())
    assert (reached["transport"], reached["ip"]) == ("tcp", "127.0.0.1")
