"""What the notebook side costs, in a real IPython shell without a front end.

load
    ``import durable_nb`` beyond IPython and duckdb, and ``%load_ext durable_nb``.
empty cell
    A `%%durable` cell with nothing to save, beside the same cell without it, and a bare commit.
frame
    A `%%durable` cell that makes a frame of float64, and its restore in a new process.
mirror
    Steps a second while the mirror and the heartbeat run, beside the same without them.
"""

from __future__ import annotations

import sys

from benchmarks.running import Row, in_folder, interleaved, parser, tell, to_stderr


def main() -> int:
    """Measure and tell."""
    made = parser(__doc__, rounds=5)
    made.add_argument("--mb", type=int, default=100, help="size of the frame; default: %(default)s")
    asked = made.parse_args()

    def of(task: str, what: str, number: int = 300) -> float:
        return float(in_folder("cells", task, number, asked.folder)[what])

    found = interleaved(
        {
            "import": lambda: of("imports", "s"),
            "load": lambda: of("loads", "s"),
            "empty": lambda: of("empty", "extra_us"),
            "commit": lambda: float(in_folder("files", "duckdb", 300, asked.folder)["step_us"]),
            "save": lambda: of("frame", "save_s", asked.mb),
            "restore": lambda: of("frame", "restore_s", asked.mb),
            "with": lambda: of("mirrored", "steps_s", 4_000),
            "without": lambda: of("unmirrored", "steps_s", 4_000),
        },
        asked.rounds,
        to_stderr,
    )
    ratio = found["empty"] / found["commit"]
    lost = 100 * (1 - found["with"] / found["without"])
    rows = [
        Row("import, beyond IPython and duckdb", found["import"], "s", "<= 0.15"),
        Row("%load_ext", found["load"], "s", means="in an empty store"),
        Row("empty %%durable cell, over a plain one", found["empty"], "µs"),
        Row("the same : one bare commit", ratio, "x", "<= 3"),
        Row(f"save a frame of {asked.mb} MB", found["save"], "s"),
        Row(f"restore it, {asked.mb} MB", found["restore"], "s"),
        Row("mirror and heartbeat", lost, "% of throughput", "<= 3"),
    ]
    return tell("Notebook", rows, asked)


if __name__ == "__main__":
    sys.exit(main())
