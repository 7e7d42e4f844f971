"""Make the pictures of README and docs, in a real Chromium, and of a real JupyterLab.

Run it from the repository: ``.venv/bin/python docs/make_pictures.py``. It plays the browser tests
that kill kernels inside a refund, and keeps their screenshots of the panel and of the timeline; or
only those tests that it is given.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOTS = ROOT / "tests" / "browser" / "shots"

#: Test -> its file, and picture of the docs -> the screenshot that it is.
PICTURES = {
    "settled_by_asking": (
        "test_refund_agent.py",
        {"panel-light.png": "agent-1-unknown.png", "panel-dark.png": "agent-1-unknown-dark.png"},
    ),
    "by_itself": (
        "test_timeline_pictures.py",
        {name: name for name in ("timeline-light.png", "timeline-dark.png")},
    ),
}

for test in sys.argv[1:] or PICTURES:
    file, pictures = PICTURES[test]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", f"tests/browser/{file}", "-k", test]
    subprocess.run(command, cwd=ROOT, check=True)
    for picture, shot in pictures.items():
        shutil.copyfile(SHOTS / shot, ROOT / "docs" / picture)
        size = (ROOT / "docs" / picture).stat().st_size
        print(f"docs/{picture}: {size:,} bytes")
        if size > 200_000:
            raise SystemExit(f"docs/{picture} is too large for a README")
