"""The direct lane: a Python task reads its share of a batch and writes it, and no record crosses to the JVM."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from airflow_provider_orderedkafka.core.batches import Batch, Note, Setup, Surplus, Tally
from airflow_provider_orderedkafka.core.lanes import Placement, share_out, sizes
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.kafka.reading import ReadSettings, ReadTally
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.kafka.replay.landed_filter import Giving, LandedFilter
from airflow_provider_orderedkafka.kafka.write.partitioners import misplaced
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings, Written
from airflow_provider_orderedkafka.spark.connector.reading import read_batches, read_records
from airflow_provider_orderedkafka.spark.lanes.arrow_transforms import check_keys, with_source
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_output import (
    NOTHING_BEFORE,
    KafkaBefore,
    OutputTopics,
    batch_tally,
    only_attempt,
)
from airflow_provider_orderedkafka.spark.lanes.limit import trimmed
from airflow_provider_orderedkafka.spark.lanes.making import Making

Share = list[tuple[Slice, Landed]]


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The work of a task, without its slices."""

    read: ReadSettings
    write: WriteSettings
    making: Making
    giving: Giving
    placement: Placement | None
    same_keys: bool
    surplus: Surplus | None


@dataclass(frozen=True, slots=True)
class DirectWriter:
    """Writes batches to Kafka, each task its share of the source's partitions."""

    frames: RangeFrames
    output: OutputTopics
    setup: Setup

    def write(self, batch: Batch, note: Note, before: KafkaBefore | None) -> Tally:
        """Read and write the batch, without the rows that landed."""
        before = before or NOTHING_BEFORE
        shares = self._shares(batch, before.landed)
        work = TaskSettings(
            self.frames.read,
            self.output.of_batch(note),
            self.frames.making,
            self.output.giving,
            note.placement,
            self.setup.placed is not None,
            batch.surplus,
        )
        written, total = Written(), Tally()
        context = self.frames.session.sparkContext
        for found, tally in context.parallelize(shares, len(shares)).mapPartitions(partial(_task, work)).collect():
            written, total = written + found, total.plus(tally)
        return total.plus(batch_tally(note, before, written))

    def _shares(self, batch: Batch, landed: Landed) -> list[Share]:
        """The batch's slices for each task, split by partition number, with what landed of them."""
        loaded, tasks = self.frames.loaded, self.setup.writers
        each = self.frames.slice_offsets * tasks
        slices = self.frames.slices(batch, each, literal=bool(landed))
        task_of = share_out(sizes(loaded.start.offsets, loaded.end.offsets), tasks)
        parts = [[_part(slice_, task_of, task) for slice_ in slices] for task in range(tasks)]
        return [[(part, landed.within(part.spans)) for part in share] for share in parts]


def _part(slice_: Slice, task_of: Mapping[int, int], task: int) -> Slice:
    return replace(slice_, stretches=tuple(s for s in slice_.stretches if task_of[s.partition.partition] == task))


def _task(work: TaskSettings, shares: Iterable[Share]) -> Iterator[tuple[Written, Tally]]:
    from airflow_provider_orderedkafka.kafka.write.writing import write

    only_attempt()
    read = Read(work)
    slices = (each for share in shares for each in share)
    written = write((batch for slice_, landed in slices for batch in read.missing(slice_, landed)), work.write)
    yield written, read.tally


@dataclass(slots=True)
class Read:
    """Reads slices, and counts what that comes to."""

    work: TaskSettings
    tally: Tally = field(default_factory=Tally)

    def missing(self, slice_: Slice, landed: Landed) -> Iterator[Any]:
        """The rows of a slice that are missing from the output."""
        work, tally = self.work, ReadTally()
        read = read_records if work.making.idle else read_batches
        batches = self._looked_at(read(slice_, work.read, tally))
        if not work.making.idle:
            batches = self._made(batches)
        batches = trimmed(batches, work.surplus)
        if work.write.source is not None:
            batches = LandedFilter(landed, work.giving, work.write.source).of(batches)
        yield from batches
        lost = landed.lost(slice_, tally.lost)
        late = Offsets(tally.late)
        self._count(Tally(tally.records, late=tally.late.total(), late_in=late, bytes_read=tally.bytes, lost=lost))

    def _made(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The rows of records, and the bad ones of these, with `_error`."""
        for batch in batches:
            rows, bad = self.work.making.split(batch)
            if self.work.same_keys:
                check_keys(batch.column("key"), rows)
            yield rows
            if bad.num_rows:
                yield with_source(bad)

    def _looked_at(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._count(Tally(may_be_out_of_order=misplaced(batch, self.work.placement)))
            yield batch

    def _count(self, more: Tally) -> None:
        self.tally = self.tally.plus(more)
