"""Many steps at once: commits are shared.

1,000 `none` steps that do nothing, all started at once: awaited with `asyncio.gather`, and from
`run.map` with 32 threads; beside the same number one after the other, and DBOS on SQLite.
"""

from __future__ import annotations

import sys

from benchmarks.running import Row, in_folder, interleaved, parser, tell, to_stderr


def main() -> int:
    """Measure and tell."""
    asked = parser(__doc__, number=1_000).parse_args()
    measures = {
        name: lambda engine=engine, task=task: float(
            in_folder(engine, task, asked.n, asked.folder)["step_us"]
        )
        for name, engine, task in (
            ("one after the other", "ours", "none"),
            ("asyncio", "ours", "gathered"),
            ("32 threads", "ours", "threaded"),
            ("dbos", "dbos", "gathered"),
        )
    }
    found = interleaved(measures, asked.rounds, to_stderr)
    rate = {name: 1e6 / taken for name, taken in found.items()}
    rows = [
        Row("one after the other", rate["one after the other"], "steps/s"),
        Row("asyncio", rate["asyncio"], "steps/s", ">= 10,000"),
        Row("32 threads", rate["32 threads"], "steps/s", ">= 4,000"),
        Row("asyncio : one by one", rate["asyncio"] / rate["one after the other"], "x", ">= 5"),
        Row("32 threads : one by one", rate["32 threads"] / rate["one after the other"], "x"),
    ]
    if "dbos" in rate:
        rows += [
            Row("dbos", rate["dbos"], "steps/s"),
            Row("asyncio : dbos", rate["asyncio"] / rate["dbos"], "x", ">= 5"),
        ]
    return tell("Fan-out", rows, asked)


if __name__ == "__main__":
    sys.exit(main())
