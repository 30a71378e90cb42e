"""The direct lane: a Python task reads its share of a batch and writes it, and no record crosses to the JVM."""

import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Batch, Note, Setup, Surplus, Tally
from airflow_provider_orderedkafka.core.documents import Destination
from airflow_provider_orderedkafka.core.lanes import Placement, share_out, sizes
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings, ReadTally
from airflow_provider_orderedkafka.kafka.clients.traffic import sent
from airflow_provider_orderedkafka.kafka.replay.landed import Landed, LandedFilter, RowsPerRecord
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings, Written
from airflow_provider_orderedkafka.kafka.write.writing import misplaced
from airflow_provider_orderedkafka.spark.connector.reading import read_batches, read_records
from airflow_provider_orderedkafka.spark.session.counting import results, telling

from .frames import RangeFrames
from .kafka_output import NOTHING_BEFORE, KafkaBefore, OutputTopics, batch_tally, only_attempt
from .limit import trimmed
from .making import Making, check_keys, whole_records

if TYPE_CHECKING:
    from pyarrow import RecordBatch

Share = list[tuple[Slice, Landed]]


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The work of a task, without its slices."""

    read: ReadSettings
    write: WriteSettings
    making: Making
    rows_per_record: RowsPerRecord
    placement: Placement | None
    same_keys: bool
    surplus: Surplus | None


@dataclass(frozen=True, slots=True)
class Writer:
    """What the writers of both lanes have: the range, where its rows go, and how."""

    frames: RangeFrames
    output: OutputTopics
    setup: Setup

    @property
    def destination(self) -> Destination:
        return self.output.destination(copied=self.frames.copied, keep_order=self.setup.keep_order)


class DirectWriter(Writer):
    """Writes batches to Kafka, each task its share of the source's partitions."""

    __slots__ = ()

    def write(self, batch: Batch, note: Note, before: KafkaBefore | None) -> Tally:
        before = before or NOTHING_BEFORE
        work = TaskSettings(
            self.frames.read,
            self.output.of_batch(note),
            self.frames.making,
            self.output.rows_per_record,
            note.placement,
            self.setup.placed is not None,
            batch.surplus,
        )
        packed = [pickle.dumps(share) for share in self._shares(batch, before.landed)]
        tasks = self.frames.engine.numbers(len(packed))
        written, total = Written(), Tally()
        for found, tally in results(telling(tasks, partial(_task, work, packed))):
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


def _task(
    work: TaskSettings, packed: Sequence[bytes], numbers: Iterator["RecordBatch"]
) -> Generator[int, None, tuple[Written, Tally]]:
    """Read and write the shares whose numbers come in; a task unpacks its own alone."""
    from airflow_provider_orderedkafka.kafka.write.writing import steps

    only_attempt()
    read, written = Read(work), Written()
    shares = (pickle.loads(packed[n]) for batch in numbers for n in batch.column(0).to_pylist())  # noqa: S301 - our own
    rows = (rows for share in shares for rows in read.share(share))
    for written in steps(rows, work.write):  # noqa: B007 - the last one counts
        yield read.seen
    return written, read.tally


@dataclass(slots=True)
class Read:
    """Reads slices, and counts what that comes to; `seen` are the records that have come so far."""

    work: TaskSettings
    seen: int = 0
    tally: Tally = field(default_factory=Tally)

    def share(self, share: Share) -> Iterator[Any]:
        """The rows of slices that follow each other, but for what landed of them."""
        from airflow_provider_orderedkafka.kafka.read.slices import fetching

        before, read = sent(), self.seen
        with fetching([slice_ for slice_, _ in share], self.work.read) as settings:
            for slice_, landed in share:
                yield from self._missing(slice_, settings, landed)
        came = sent() - before
        unknown = came.is_unknown(self.seen - read)
        self._count(Tally(fetched_bytes=None, requests=None) if unknown else Tally(**asdict(came)))

    def _missing(self, slice_: Slice, settings: ReadSettings, landed: Landed) -> Iterator[Any]:
        work, tally = self.work, ReadTally()
        read = read_records if work.making.idle else read_batches
        batches = self._looked_at(read(slice_, settings, tally))
        if not work.making.idle:
            batches = self._made(batches)
        batches = trimmed(batches, work.surplus)
        left = None if work.write.source is None else LandedFilter(landed, work.rows_per_record, work.write.source)
        yield from batches if left is None else left.of(batches)
        lost = landed.lost(slice_, tally.lost)
        found = Tally(
            tally.records,
            late=tally.late.total(),
            late_in=Offsets(tally.late),
            read_in=Offsets(tally.read),
            bytes_read=tally.bytes,
            needed_bytes=tally.needed,
            lost=lost,
            may_be_out_of_order=tally.beyond,
            may_be_doubled=0 if left is None else left.resent,
        )
        self.tally = self.tally.plus(found)

    def _made(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The bad ones of records, with `_error`, and the rows of the others."""
        for batch in batches:
            rows, bad = self.work.making.split(batch)
            if self.work.same_keys:
                check_keys(batch.column("key"), rows)
            if bad.num_rows:
                yield whole_records(bad)
            yield rows

    def _looked_at(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self.seen += batch.num_rows
            self._count(Tally(may_be_out_of_order=misplaced(batch, self.work.placement)))
            yield batch

    def _count(self, more: Tally) -> None:
        self.tally = self.tally.plus(more)
