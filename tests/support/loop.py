"""A batch loop in memory: plan, writer, limit, lease and output, and kills between any two steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.core.batches import (
    Allotment,
    Batch,
    Counts,
    Doubt,
    Note,
    Planned,
    Setup,
    Size,
    Tally,
    window,
)
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError
from airflow_provider_orderedkafka.spark.application.batch_loop import BatchLoop, Run, Work
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState
from support.plain import plain_range

PARTITION = TopicPartition("orders", 0)
SETUP = Setup("direct", 1, "key", None, None, "")


def place(offset: int) -> Place:
    return Place(Offsets({PARTITION: offset}), Floor(offset))


def a_range(end: int = 30, rows_left: int | None = None, *, start: int = 0, revision: int = 0) -> Range:
    return plain_range(
        id=f"r{revision + 1}",
        ledger_revision=revision,
        topics={"orders": "id"},
        start=place(start),
        end=place(end),
        planned_at=1_000_000,
        cluster_id="c",
        batch_offsets=10,
        rows_left=rows_left,
    )


@dataclass(frozen=True)
class Before:
    """What an earlier try has left."""

    doubt: Doubt | None = None


@dataclass
class Output:
    """An output in memory, whose rows are known by their identity."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    later: dict[str, str] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)

    def noted(self, batch: Batch, attempt: int, _keep: object) -> Note:
        ends = Offsets({TopicPartition("out", 0): len(self.rows)})
        return Note(batch.number, attempt, batch.start, batch.end, ends, {"out": "id"})

    def joined(self, note: Note) -> Note:
        return note.joined(Offsets(), self.later, "")

    def before(self, note: Note) -> "Before":
        return Before(self.doubts.pop(0) if self.doubts else None)


@dataclass
class Writer:
    """Writes there; a failure comes after half of the rows."""

    output: Output = field(default_factory=Output)
    failures: list[BaseException] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)
    setup: Setup = SETUP

    def write(self, batch: Batch, note: Note, before: Before | None) -> Tally:
        assert note.batch == batch.number
        there = set(self.output.rows[note.outputs[TopicPartition("out", 0)] :]) if before else set()
        if before:
            self.replays.append(batch.number)
        rows = [(batch.number, row) for row in range(batch.end.offsets.since(batch.start.offsets))]
        missing = [row for row in rows if row not in there]
        if self.failures:
            self.output.rows += missing[: len(missing) // 2]
            raise self.failures.pop(0)
        self.output.rows += missing
        return Tally(rows_read=len(rows), rows_emitted=len(rows), replayed=len(rows) - len(missing))


class Limit:
    """One row for each offset."""

    asked: list[int]

    def __init__(self) -> None:
        self.asked = []

    def allot(self, batch: Batch, left: int) -> Allotment | None:
        self.asked.append(batch.number)
        offsets = batch.end.offsets.since(batch.start.offsets)
        if offsets <= left:
            return None
        return Allotment(batch.number, (left,), place(batch.start.offsets[PARTITION] + left), None)

    def cut(self, batch: Batch, allotment: Allotment) -> Batch:
        return replace(batch, end=allotment.end)


@dataclass
class Lease:
    attempt: int = 1
    error: Exception | None = None

    def check(self) -> None:
        if self.error:
            raise self.error


def in_turn(planned: Sequence[Planned], loop: BatchLoop) -> None:
    """Hand over the batches of a window as they come; what Spark's query does."""
    for each in planned:
        loop.take(each)


@dataclass
class Plan:
    """Batches of so many offsets, so many at a time; what was begun ends where that was written down."""

    loaded: Range
    checkpoint: Checkpoint
    offsets: int = 10
    at_once: int = 20
    windows: list[list[int]] = field(default_factory=list)
    truncated: DataLossError | None = None

    def window(self, number: int, start: Place) -> list[Planned]:
        ends, last = [], self.loaded.end.offsets[PARTITION]
        begun = self.checkpoint.note(number) or self.checkpoint.allotment(number)
        at = start.offsets[PARTITION]
        while at < last and len(ends) < self.at_once:
            at = begun.end.offsets[PARTITION] if begun and not ends else min(at + self.offsets, last)
            ends.append(place(at))
        found = window(self.loaded, number, start, ends, Size(self.offsets))
        self.windows += [[each.batch for each in found]] if found else []
        return found

    def check_logs(self) -> None:
        if self.truncated:
            raise self.truncated

    def marked(self, place: Place) -> Place:
        return place


@dataclass
class World:
    """A range of three batches; each `loop` is another attempt on the same checkpoint. It is its loops' host, too."""

    checkpoint: Checkpoint
    loaded: Range
    plan: Plan
    writer: Writer = field(default_factory=Writer)
    limit: Limit = field(default_factory=Limit)
    lease: Lease = field(default_factory=Lease)
    counted: list[Counts] = field(default_factory=list)
    waits: int = 0
    max_bad: int | None = None

    @classmethod
    def at(cls, folder: Path, **settings: Any) -> "World":
        """A fresh checkpoint in the folder, and its range."""
        checkpoint, loaded = Checkpoint(LocalState(folder)), a_range(**settings)
        checkpoint.take_up(loaded)
        return cls(checkpoint, loaded, Plan(loaded, checkpoint))

    def ready(self) -> None:
        pass

    def wait_for_tasks(self) -> None:
        self.waits += 1

    def spent(self) -> int | None:
        return 0

    def tell(self, counts: Counts, planned: Planned) -> None:
        assert counts.batch == planned.batch
        self.counted.append(counts)

    def loop(self) -> BatchLoop:
        work: Any = Work(self.loaded, self.checkpoint, self.lease, self.plan, self.writer, self.limit, self.max_bad)
        return BatchLoop(work, self)

    def run(self, run: Run = in_turn) -> BatchLoop:
        """An attempt, to its end."""
        loop = self.loop()
        loop.run(run)
        return loop
