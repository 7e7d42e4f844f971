"""Where the time of a fan-out goes: what bounds it where a goal of `benchmarks.fanout` is missed.

1,000 async `none` steps that do nothing, all started at once, in one process. The first rows are
measured as they are; the parts are shares of a profile (cProfile), which makes small functions
look dearer than they are.

CPU
    Processor time of the process by the clock: 100 % is a core that never waits, so that nothing
    but less work makes it faster.
without the package
    The same function with the tasks and futures that a step has, and nothing recorded.
garbage
    Python's collector, which looks through what a thousand steps have in flight.
"""

from __future__ import annotations

import sys

from benchmarks.running import Row, in_folder, interleaved, parser, tell, to_stderr

#: Part of the package, or of Python -> what it does for a step.
PARTS = {
    "body": "the benchmark's own function",
    "asyncio": "tasks, futures and callbacks of the event loop",
    "duckdb": "writing the rows, and their commit",
    "engine": "place, facets, what it may do, entering and leaving, interrupts held back",
    "journal": "encoding and hashing two records, giving them their places",
    "model": "folding them, and what the run has spent",
    "values": "inputs digested and previewed; the result written, checked, looked at for secrets",
    "other": "the standard library",
}


def main() -> int:
    """Measure and tell."""
    asked = parser(__doc__, number=1_000).parse_args()
    last: dict[str, dict[str, float]] = {}

    def of(task: str, what: str) -> float:
        if what == "step_us":
            engine = "profiled" if task == "gathered" else "ours"
            last[task] = in_folder(engine, task, asked.n, asked.folder)
        return last[task][what]

    names = [("gathered", n) for n in ("step_us", "cpu", "bare_us", "garbage_us", *PARTS)]
    names += [("threaded", n) for n in ("step_us", "cpu")]
    measures = {" ".join(name): lambda name=name: of(*name) for name in names}
    found = interleaved(measures, asked.rounds, to_stderr)
    rows = [
        Row("a step", found["gathered step_us"], "µs"),
        Row("its CPU", 100 * found["gathered cpu"], "% of the time", means="of one core"),
        Row(
            "without the package", found["gathered bare_us"], "µs a step",
            means="tasks and futures of the event loop, and the function",
        ),
        Row("garbage", found["gathered garbage_us"], "µs a step", means="Python's collector"),
        *(
            Row(name, 100 * found[f"gathered {name}"], "% of the profile", means=means)
            for name, means in PARTS.items()
        ),
        Row("a step in 32 threads", found["threaded step_us"], "µs"),
        Row(
            "its CPU in 32 threads", 100 * found["threaded cpu"], "% of the time",
            means="of one core: the interpreter lets one thread go on at a time",
        ),
    ]  # fmt: skip
    return tell("Where the time of a fan-out goes", rows, asked)


if __name__ == "__main__":
    sys.exit(main())
