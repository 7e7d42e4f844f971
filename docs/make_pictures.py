"""Make the pictures of README and docs, from a real JupyterLab in a real Chromium.

Run it from the repository: ``.venv/bin/python docs/make_pictures.py``. It plays the browser test
that kills a kernel inside a refund, and keeps its screenshot of the panel.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOTS = ROOT / "tests" / "browser" / "shots"

#: Picture of the docs -> the screenshot it is, of the test named by its first word.
PICTURES = {"panel.png": "confirm-1-unknown.png"}

for picture, shot in PICTURES.items():
    test = shot.partition("-")[0]
    tests = "tests/browser/test_panel_in_jupyterlab.py"
    command = [sys.executable, "-m", "pytest", "-q", "-n0", tests, "-k", test]
    subprocess.run(command, cwd=ROOT, check=True)
    shutil.copyfile(SHOTS / shot, ROOT / "docs" / picture)
    size = (ROOT / "docs" / picture).stat().st_size
    print(f"docs/{picture}: {size:,} bytes")
    if size > 200_000:
        raise SystemExit(f"docs/{picture} is too large for a README")
