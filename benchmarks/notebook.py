"""What the notebook side costs, in a real IPython shell without a front end.

load
    ``import durable_nb`` beyond IPython and duckdb, compiled as an installation is, and
    ``%load_ext durable_nb``.
empty cell
    A `%%durable` cell with nothing to save, beside the same cell without it, and beside a bare
    commit between them.
frame
    A `%%durable` cell that makes a frame of float64, and its restore in a new process.
mirror
    Steps a second while the mirror and the heartbeat run, beside the same without them; and the
    CPU time of their threads, which a busy machine does not blur. A publication that has computed
    for 0.2 s is followed by 13 s of rest, so it takes 20,000 steps to see what that comes to.
"""

from __future__ import annotations

import sys

from benchmarks.running import Row, in_folder, interleaved, parser, tell, to_stderr


def main() -> int:
    """Measure and tell."""
    made = parser(__doc__, rounds=5)
    made.add_argument("--mb", type=int, default=100, help="size of the frame; default: %(default)s")
    asked = made.parse_args()

    last: dict[str, float] = {}

    def of(task: str, what: str, number: int = 300) -> float:
        last.update(in_folder("cells", task, number, asked.folder))
        return last[what]

    found = interleaved(
        {
            "import": lambda: of("imports", "s"),
            "load": lambda: of("loads", "s"),
            "empty": lambda: of("empty", "extra_us"),
            "commit": lambda: last["commit_us"],  # measured between the cells
            "save": lambda: of("frame", "save_s", asked.mb),
            "restore": lambda: last["restore_s"],
            "with": lambda: of("mirrored", "steps_s", 20_000),
            "aside": lambda: last["aside"],
            "without": lambda: of("unmirrored", "steps_s", 20_000),
        },
        asked.rounds,
        to_stderr,
    )
    ratio = found["empty"] / found["commit"]
    lost = 100 * (1 - found["with"] / found["without"])
    rows = [
        Row("import, beyond IPython and duckdb", found["import"], "s", "<= 0.15"),
        Row("%load_ext", found["load"], "s", means="in an empty store; modules are compiled anew"),
        Row("empty %%durable cell, over a plain one", found["empty"], "µs"),
        Row("one bare DuckDB commit", found["commit"], "µs", means="between these cells"),
        Row("empty cell : bare commit", ratio, "x", "<= 3"),
        Row(f"save a frame of {asked.mb} MB", found["save"], "s"),
        Row(f"restore it, {asked.mb} MB", found["restore"], "s"),
        Row("mirror and heartbeat", lost, "% of throughput", "<= 3"),
        Row("their threads", 100 * found["aside"], "% CPU of the run's time", "<= 3"),
    ]
    return tell("Notebook", rows, asked)


if __name__ == "__main__":
    sys.exit(main())
