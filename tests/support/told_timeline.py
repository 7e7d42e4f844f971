"""Records as a run would have written them, at times that a test chooses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Record
from durable_nb.model.timeline import Timeline, timeline_of

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)


class Told:
    """A run that is told record by record; `at` moves its clock, in seconds since its birth."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epoch, self.now = 0, 0.0
        self.add(RUN, Kind.BORN, run_id="0" * 32, name="r")

    def at(self, seconds: float) -> Told:
        self.now = seconds
        return self

    def add(self, op: str, kind: Kind, **body: Any) -> Told:
        moment = BIRTH + timedelta(seconds=self.now)
        self.records.append(Record(len(self.records) + 1, op, kind, moment, self.epoch, body))
        return self

    def open(self, role: str = "runner") -> Told:
        self.epoch += 1
        return self.add(RUN, Kind.OPENED, role=role)

    def close(self, kind: Kind = Kind.CLOSED, role: str = "runner", **body: Any) -> Told:
        return self.add(RUN, kind, role=role, **body)

    def begin(self, op: str, effect: str = "none", attempt: int = 1, **body: Any) -> Told:
        return self.add(op, Kind.INTENDED, effect=effect, attempt=attempt, **body)

    def end(self, op: str, kind: Kind = Kind.COMPLETED, **body: Any) -> Told:
        result = {"result": "1"} if kind is Kind.COMPLETED else {}
        return self.add(op, kind, **result, **body)

    def step(self, op: str, begin: float, end: float, **body: Any) -> Told:
        return self.at(begin).begin(op, **body).at(end).end(op)

    def timeline(self, **facts: Any) -> Timeline:
        now = BIRTH + timedelta(seconds=self.now)
        return timeline_of("r", self.records, now=now, **facts)


def many(count: int, *, steps: int = 10) -> Timeline:
    """A long run: turns of a loop with some steps each, in four kernels, of which three died."""
    told, at, done = Told(), 0.0, 0
    told.open()
    while done < count:
        turn = f"loop#1/turn#{done // steps + 1}"
        told.at(at).begin(turn)
        for n in range(1, steps):
            effect = "external" if n == 3 else "none"
            told.step(f"{turn}/act#{n}", at + 0.01, at + 0.11, effect=effect)
            at += 0.12
        told.end(turn)
        at, done = at + 0.05, done + steps
        if done % (count // 4) < steps and done < count:
            told.at(at).begin(f"loop#1/mail#{done}", effect="external")
            told.at(at + 9).add(RUN, Kind.DIED, reason="signal 9, in mail")
            at += 20_000
            told.at(at).open(role="operator").end(
                f"loop#1/mail#{done}", Kind.CONFIRMED, actor="ada"
            )
            told.close(role="operator")
            told.at(at + 5).open()
            at += 6
    return told.at(at).close().timeline()
