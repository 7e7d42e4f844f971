"""Large values need at most three times their size in memory, on the way in and on the way out."""

from __future__ import annotations

import sys

import pytest
from support.child import Child

#: Builds a value, and tells how far the memory of the process rose above what it held before.
PROGRAM = """
import gc, json, re, sys
from pathlib import Path
import numpy as np, pandas as pd
from durable_nb import values

def memory(key):
    return int(re.search(key + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

def rise(work):
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = memory("VmRSS")
    result = work()
    return result, memory("VmHWM") - before

MB, random = 10**6, np.random.default_rng(0).random
MAKE = {
    "text": lambda: "x" * (200 * MB),
    "text of two bytes a letter": lambda: "\u00e4" * (100 * MB),
    "frame": lambda: pd.DataFrame(random((1_250_000, 10))),
    "frame of one column": lambda: pd.DataFrame({"a": random(12_500_000)}),
    "frame of two dtypes": lambda: pd.DataFrame({n: random(1_250_000) if n % 2 else np.arange(1_250_000) for n in range(10)}),
    "frame of gaps": lambda: pd.DataFrame({"a": pd.array(np.arange(12_500_000), dtype="Int64")}),
    "frame of texts": lambda: pd.DataFrame({"a": [f"text number {n}" for n in range(5_000_000)]}),
    "series": lambda: pd.Series(random(12_500_000)),
    "array": lambda: random(12_500_000),
}
artifacts = values.DiskArtifacts(Path(sys.argv[1]))
small = pd.DataFrame({"a": [1.5], "b": ["x"], "c": pd.array([None], dtype="Int64")})
values.decode(values.encode([small, small["a"]], artifacts), artifacts)  # imports count no more
value = MAKE[sys.argv[2]]()
if isinstance(value, str):
    size = len(value.encode())
else:
    size = int(value.memory_usage(deep=True).sum()) if value.ndim == 2 else value.nbytes
text, written = rise(lambda: values.encode(value, artifacts))
again, read = rise(lambda: values.decode(text, artifacts))
same = value == again if isinstance(value, str) else np.array_equal(value, again) if isinstance(value, np.ndarray) else value.equals(again)
print(json.dumps({"size": size, "written": written / size, "read": read / size, "same": same}))
"""

VALUES = [
    "text",
    "text of two bytes a letter",
    "frame",
    "frame of one column",
    "frame of two dtypes",
    "frame of gaps",
    "frame of texts",
    "series",
    "array",
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("name", VALUES)
def test_large_value_needs_at_most_three_times_its_size(name, tmp_path):
    """Encoding and decoding add less than three times the size of a value to the process."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    facts = Child(program, tmp_path / "artifacts", name).wait().ok().facts
    assert facts["size"] > 90e6
    assert facts["same"]
    assert facts["written"] <= 3, facts
    assert facts["read"] <= 3, facts
