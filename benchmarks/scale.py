"""What one PostgreSQL server holds and carries: bytes, transactions, owners at once, many runs.

It is started for this with its default settings, in the temporary folder. A run is one of 50 steps
of effect `none`, each with a nested result of about 500 bytes.

bytes
    Of tables with what belongs to them, after real runs by several owners at once, and after many
    that were made in bulk of one of them.
traffic
    Transactions and write-ahead log, by the server's own counters. Of a step: of 3,000 less that of
    1,000; of a run: of 50 less that of 10; with all that is done beside it. Of an idle owner: of a
    minute less that of none.
owners
    Steps a second of all owners together, each a process of its own on the server's machine, and
    the CPU time that a step takes in the server and in its owner. Beside that, single rows of the
    same bytes that are committed with psycopg and nothing else: what the server carries here.
many
    Opening a run, to the end of a new step in it, and listing, with few runs there and with many.
fleet
    The statements of the fleet's workers, with all these runs given to it (`benchmarks.queued`).
million
    The same numbers multiplied, as each row says.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks import queued
from benchmarks.engines.stores import LARGE, OPERATIONS
from benchmarks.running import Row, parser, program, tell, to_stderr
from benchmarks.server import Cluster, Owners, Traffic, cluster

PAGE: Final = Path(__file__).parents[1] / "docs" / "scale.md"
_BULK: Final = Path(__file__).with_suffix(".sql")
_AT_ONCE: Final = (1, 2, 4, 8)
_FEW, _SOME = 100, 1_000
_STEPS: Final = (1_000, 3_000)
_WHOLE: Final = (10, 50)
_LARGE: Final = 50
_MILLION, _LIVE, _DAYS = 1_000_000, 1_000, 30
_GB: Final = 1e9


def main() -> int:
    """Measure and tell."""
    made = parser(__doc__, rounds=3, page=PAGE)
    made.add_argument("--runs", type=int, default=40_000, help="made in bulk; default: %(default)s")
    made.add_argument("--seconds", type=int, default=8, help="of steady work; default: %(default)s")
    asked = made.parse_args()
    missed = 0
    with cluster() as server, tempfile.TemporaryDirectory(dir=asked.folder) as base:
        bench = _Bench(server, Path(base), asked.rounds, asked.seconds, asked.runs)
        for title, measure in (
            ("Bytes", bench.bytes),
            ("Traffic", bench.traffic),
            ("Owners at once", bench.owners),
            ("Many runs", bench.many),
            ("The fleet", bench.fleet),
            ("A million runs", bench.million),
        ):
            to_stderr(title)
            missed |= tell(title, measure(), asked, also=server.version, page=PAGE)
    return missed


class _Bench:
    """The measurements, each with what the ones before it have found in `found`."""

    def __init__(self, server: Cluster, base: Path, rounds: int, seconds: int, runs: int) -> None:
        self.server, self.base = server, base
        self.rounds, self.seconds, self.runs = rounds, seconds, runs
        self.found: dict[str, float] = {}

    def bytes(self) -> list[Row]:
        """Tell what is on the server's disk."""
        real = self.server.new_database("real")
        with Owners(self.base, real, "whole", 25, 8) as owners:
            owners.results()
        rows = self._sizes("real", "runs by 8 owners at once")
        self._bulk("many", self.runs)
        rows += self._sizes("many", "made in bulk")
        url = self.server.new_database("large")
        program("stores", "large", self._folder(), _LARGE, store=url)
        with self.server.connected("large") as con:
            there = sum(con.execute(f"SELECT {_total(t)}").fetchone()[0] for t in _VALUES)
        means = f"over its own; of {_LARGE} that are random, with their digests and indexes"
        over = there / _LARGE - LARGE
        return [*rows, Row(f"a value of {LARGE:,} bytes", over, "bytes more", means=means)]

    def _sizes(self, database: str, how: str) -> list[Row]:
        with self.server.connected(database) as con:
            con.execute("VACUUM ANALYZE")
            runs = con.execute("SELECT count(*) FROM durable_nb.runs").fetchone()[0]
            records = con.execute("SELECT count(*) FROM durable_nb.records").fetchone()[0]
            size = {
                table: con.execute(f"SELECT {_total(table)}, {_indexes(table)}").fetchone()
                for table in ("records", "mirrors", "runs", "leases", "heartbeats")
            }
            pair = float(con.execute(_PAIR).fetchone()[0])
        one = pair + 2 * size["records"][1] / records
        rest = sum(size[table][0] for table in ("runs", "leases", "heartbeats"))
        whole = sum(total for total, _ in size.values())
        found = {
            "run": whole / runs,
            "index": size["records"][1] / runs,
            "records": records / runs,
        }
        self.found |= {f"{database} {name}": value for name, value in found.items()}
        said = "bulk" if database == "many" else database
        means = f"{runs:,} {how}, {records:,} records, {whole / _GB:.2f} GB"
        return [
            Row(f"{said}: a run", whole / runs, "bytes", means=means),
            Row(
                f"{said}: its records", size["records"][0] / runs, "bytes", means="with their index"
            ),
            Row(f"{said}: of which the index", size["records"][1] / runs, "bytes"),
            Row(
                f"{said}: its mirror",
                size["mirrors"][0] / runs,
                "bytes",
                means="what listings read",
            ),
            Row(f"{said}: its name, lease and heartbeat", rest / runs, "bytes", means="three rows"),
            Row(f"{said}: an operation", one, "bytes", means="its two records and their index"),
        ]

    def traffic(self) -> list[Row]:
        """Tell what is done for a step, and for an owner that does nothing."""
        url = self.server.new_database("traffic")
        program("stores", "whole", self._folder(), 1, store=url)  # makes the tables
        rows: list[Row] = []
        for effect in ("none", "external"):
            rows += _told(self._each(url, effect, _STEPS), f"{effect} step", "")
        run = self._each(url, "whole", _WHOLE)
        rows += _told(run, "a run", f"opened, {OPERATIONS} none steps, closed; its mirror included")
        self.found |= {"run": run.transactions, "run wal": run.wal}
        minute = self._traffic(url, "idle", 60) - self._traffic(url, "idle", 0)
        self.found["minute"] = minute.transactions
        return rows + _told(minute, "idle minute of an owner", "heartbeats, and looks at its inbox")

    def _each(self, url: str, task: str, numbers: tuple[int, int]) -> Traffic:
        """Give what more of it adds, for one."""
        few, many = (self._traffic(url, task, number) for number in numbers)
        return (many - few) / (numbers[1] - numbers[0])

    def _traffic(self, url: str, task: str, number: int) -> Traffic:
        before = self.server.traffic("traffic")
        program("stores", task, self._folder(), number, store=url)
        return self.server.traffic("traffic") - before

    def owners(self) -> list[Row]:
        """Tell how many steps a second are carried."""
        rows: list[Row] = []
        for effect in ("bare", "none", "external"):
            rates: dict[int, list[float]] = {count: [] for count in _AT_ONCE}
            last: dict[int, Mapping[str, float]] = {}
            for _ in range(self.rounds):
                for count in _AT_ONCE:
                    last[count] = self._at_once(effect, count)
                    rates[count].append(last[count]["steps_s"])
            for count in _AT_ONCE:
                seen, rate = last[count], statistics.median(rates[count])
                server_us, owner_us = seen["server_us"], seen["owner_us"]
                means = f"{server_us:.0f} µs of CPU in the server, {owner_us:.0f} in its owner"
                who = "client" if effect == "bare" else "owner"
                name = f"{effect}, {count} {who}{'s' * (count > 1)}"
                unit = "rows/s" if effect == "bare" else "steps/s"
                rows.append(Row(name, rate, unit, means=means))
            if effect == "none":
                self.found |= {
                    name: last[_AT_ONCE[-1]][name]
                    for name in ("server_us", "connections", "backend_mb")
                }
        return [
            *rows,
            Row("connections of an owner", self.found["connections"], "", means="no large values"),
            Row("memory of a connection", self.found["backend_mb"], "MB", means=_OWN),
        ]

    def _at_once(self, effect: str, count: int) -> dict[str, float]:
        url = self.server.new_database("owners")
        with Owners(self.base, url, f"steady-{effect}", self.seconds, count) as owners:
            owners.wait_for("ready")
            before = self.server.cpu_s()
            owners.go_on()
            owners.wait_for("done")
            taken = self.server.cpu_s() - before
            there, memory = self.server.backends("owners")
            owners.go_on()
            results = owners.results()
        steps = sum(found["steps"] for found in results)
        return {
            "steps_s": sum(found["steps_s"] for found in results),
            "server_us": taken / steps * 1e6,
            "owner_us": statistics.mean(found["cpu_us"] for found in results),
            "connections": there / count,
            "backend_mb": memory,
        }

    def many(self) -> list[Row]:
        """Tell what more runs than one cost whoever opens or lists them."""
        few, some = self._bulk("few", _FEW), self._bulk("some", _SOME)
        urls = {_FEW: few, self.runs: self.server.url("many")}
        seen: dict[int, list[Mapping[str, float]]] = {number: [] for number in urls}
        for _ in range(self.rounds):
            for number, url in urls.items():
                seen[number].append(program("stores", "opened", self._folder(), 1, store=url))
        median = {
            number: {name: statistics.median(s[name] for s in all_) for name in all_[0]}
            for number, all_ in seen.items()
        }
        rows = []
        for number, found in median.items():
            rows += [
                Row(f"open one of {number:,}", found["open_ms"], "ms", means="and do a new step"),
                Row(f"close it, of {number:,}", found["close_ms"], "ms"),
                Row(f"names of {number:,}", found["names_s"] * 1e3, "ms"),
            ]
        ratio = median[self.runs]["open_ms"] / median[_FEW]["open_ms"]
        rows.append(Row(f"open one of {self.runs:,} : of {_FEW:,}", ratio, "x", "<= 1.2"))
        for number, url in ((_FEW, few), (_SOME, some)):
            found = program("stores", "listed", self._folder(), 1, store=url)
            rows += [
                Row(f"dnb.runs of {number:,}, first", found["first_s"] * 1e3, "ms", means=_FETCH),
                Row(f"dnb.runs of {number:,}, again", found["again_s"] * 1e3, "ms"),
            ]
        self.found["listed"] = found["again_s"] / _SOME
        return rows

    def fleet(self) -> list[Row]:
        """Tell what the queue costs with all these runs in it."""
        return queued.measure(self.server, "many", self.rounds)

    def million(self) -> list[Row]:
        """Multiply."""
        of = self.found
        run, index = max(of["real run"], of["many run"]), max(of["real index"], of["many index"])
        beats = _LIVE * of["minute"] / 60
        rate = _MILLION * of["run"] / (_DAYS * 86_400)
        steps = _MILLION * OPERATIONS / (_DAYS * 86_400)
        connections, mb = _LIVE * of["connections"], of["backend_mb"]
        return [
            Row("disk", _MILLION * run / _GB, "GB", means=f"{_MILLION:,} x {run:,.0f} bytes"),
            Row(
                "of which the records' index",
                _MILLION * index / _GB,
                "GB",
                means=f"{_MILLION:,} x {index:,.0f}; what is best in memory is its live part",
            ),
            Row(
                "write-ahead log, in all",
                _MILLION * of["run wal"] / _GB,
                "GB",
                means=f"{_MILLION:,} x {of['run wal']:,.0f}",
            ),
            Row(
                f"transactions a second, over {_DAYS} days",
                rate,
                "",
                means=f"{_MILLION:,} x {of['run']:.0f} : {_DAYS * 86_400:,} s",
            ),
            Row(
                "CPU of the server for their steps",
                steps * of["server_us"] / 1e6 * 100,
                "% of a core",
                means=f"{steps:.1f} steps/s x {of['server_us']:.0f} µs",
            ),
            Row(
                f"transactions a second of {_LIVE:,} idle owners",
                beats,
                "",
                means=f"{_LIVE:,} x {of['minute']:.0f} : 60",
            ),
            Row(
                f"connections of {_LIVE:,} owners",
                connections,
                "",
                means=f"{_LIVE:,} x {of['connections']:.0f}; their memory: "
                f"{connections * mb / 1e3:,.1f} GB",
            ),
            Row(
                "listing all of them",
                _MILLION * of["listed"],
                "s",
                means=f"{_MILLION:,} x {of['listed'] * 1e3:.2f} ms: ask the tables instead",
            ),
        ]

    def _bulk(self, database: str, number: int) -> str:
        """Make a store of so many runs, of one that is real."""
        url = self.server.new_database(database)
        program("stores", "whole", self._folder(), 1, store=url)
        with self.server.connected(database) as con:
            like = con.execute("SELECT run FROM durable_nb.runs").fetchone()[0]
            for statement in _BULK.read_text().split(";\n"):
                con.execute(statement, {"first": 1, "last": number, "like": like})
        return url

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.base))


#: A row with its pointer, of those of operations; two of them are one.
_PAIR: Final = (
    "SELECT 2 * avg(pg_column_size(r) + 4) FROM durable_nb.records r "
    "WHERE kind IN ('intended', 'completed')"
)
_VALUES: Final = ("artifacts", "artifact_parts")
_OWN: Final = "its own (USS), after its steps; what the server's processes share is not in it"
_FETCH: Final = "and fetch their mirrors"


def _total(table: str) -> str:
    return f"pg_total_relation_size('durable_nb.{table}')"


def _indexes(table: str) -> str:
    return f"pg_indexes_size('durable_nb.{table}')"


def _told(found: Traffic, what: str, means: str) -> list[Row]:
    return [
        Row(what, found.transactions, "transactions", means=means),
        Row(f"{what}: of which write", found.writing, ""),
        Row(f"{what}: write-ahead log", found.wal, "bytes"),
    ]


if __name__ == "__main__":
    sys.exit(main())
