"""The package works from its built wheel, outside of the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command, cwd, **extra):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DURABLE_STORE")}
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        **extra,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_what_is_not_code(wheel):
    """SQL, the tickets, the notebook and the type marker travel with the package."""
    names = zipfile.ZipFile(wheel).namelist()
    assert "durable_nb/demo/refund_agent.ipynb" in names
    assert "durable_nb/py.typed" in names
    assert any(n.endswith(".sql") for n in names)
    assert any(n.endswith("tickets.csv") for n in names)
    assert not [n for n in names if n.startswith(("tests/", "notebooks/"))]


def test_the_demo_runs_from_the_installed_wheel(wheel, tmp_path):
    """`pip install dist/*.whl` in a fresh environment, then the demo, in an empty folder."""
    venv, work = tmp_path / "venv", tmp_path / "work"
    work.mkdir()
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    run(venv / "bin" / "pip", "install", "-q", f"{wheel}[demo]", cwd=work, timeout=600)

    out = run(venv / "bin" / "durable-nb", "demo", "--json", cwd=work, timeout=180)

    found = json.loads(out.strip().splitlines()[-1])
    assert found["kills"] == 3
    assert found["refunds"]["duplicates"] == found["mails"]["duplicates"] == 0
    assert found["refunds"]["applied"] == found["refunds"]["expected"] > 0
    assert found["mails"]["applied"] == found["mails"]["expected"] > 0
    assert found["unknown_settled"] == {"reconciler": 1, "person": 1}
    assert found["naive"]["refund_duplicates"] >= 1
    assert list(work.iterdir()) == []
