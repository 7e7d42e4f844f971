"""Make the pictures of README and docs, in a real Chromium, and of a real JupyterLab.

Run it from the repository: ``.venv/bin/python docs/make_pictures.py``. It plays the browser tests
that kill kernels inside a refund, and keeps their screenshots of the panel and of the timeline.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOTS = ROOT / "tests" / "browser" / "shots"

#: Picture of the docs -> the screenshot it is, and the test that makes it: its file, and its name.
PICTURES = {
    "panel.png": ("confirm-1-unknown.png", "test_panel_in_jupyterlab.py", "confirm"),
    "timeline-light.png": ("timeline-light.png", "test_timeline_pictures.py", "itself and light"),
    "timeline-dark.png": ("timeline-dark.png", "test_timeline_pictures.py", "itself and dark"),
}

for picture in sys.argv[1:] or PICTURES:
    shot, file, test = PICTURES[picture]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", f"tests/browser/{file}", "-k", test]
    subprocess.run(command, cwd=ROOT, check=True)
    shutil.copyfile(SHOTS / shot, ROOT / "docs" / picture)
    size = (ROOT / "docs" / picture).stat().st_size
    print(f"docs/{picture}: {size:,} bytes")
    if size > 200_000:
        raise SystemExit(f"docs/{picture} is too large for a README")
