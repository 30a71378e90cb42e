"""What is stored beside the checkpoint while a range is loaded: notes, counts, allotments, the lease.

A batch is *noted* before its first write and *counted* after its last one. Found again, a batch that was noted and
not counted may have been written in part: it is a replay. One that was counted is done, whatever Spark thinks of it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

from airflow_provider_orderedkafka.core.codec import Document
from airflow_provider_orderedkafka.core.commits import Seen
from airflow_provider_orderedkafka.core.lanes import KeepOrder, Kind, Partitioner, Placement
from airflow_provider_orderedkafka.core.order.cuts import Place
from airflow_provider_orderedkafka.core.order.positions import Offsets


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of a batch, or of all batches so far; `late_in` has the late records by partition."""

    rows_read: int = 0
    rows_emitted: int = 0
    late: int = 0
    replayed: int = 0
    lost: int = 0
    dead_letters: int = 0
    may_be_doubled: int = 0
    bytes_read: int = 0
    may_be_out_of_order: int = 0
    late_in: Offsets = Offsets()  # noqa: RUF009 - it never changes

    @property
    def rows(self) -> int:
        """The rows that count for the row limit: those in the output and those that became dead letters."""
        return self.rows_emitted + self.dead_letters

    def plus(self, other: Self) -> Self:
        return type(self)(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Setup(Document):
    """How a range is loaded: the settings of its first attempt, and the lane it chose.

    Later attempts keep the settings, and choose lane and writers anew: rows are identified by their source. `placed` is
    the partitioner that keeps the source's keys in their partitions, if the direct lane relies on one; `reason` says
    why this lane was chosen.
    """

    lane: Kind
    writers: int
    keep_order: KeepOrder
    placed: Partitioner | None
    output: str
    transform: str | None
    reason: str

    def fits(self, other: Self) -> bool:
        """Whether the other asks for the same. It may name additional outputs, such as one for dead letters."""
        same = (self.keep_order, self.transform) == (other.keep_order, other.transform)
        return same and set(self.output.split(", ")) <= set(other.output.split(", "))


@dataclass(frozen=True, slots=True)
class Doubt:
    """What an attempt that wrote a batch again could not know.

    It found `landed` rows in the outputs and left them out; `doubtful` counts those that may also have been there. If
    the outputs had not `settled`, what it wrote may be duplicated; if they were not fully `known`, out of order.
    """

    landed: int
    doubtful: int
    settled: bool
    known: bool


@dataclass(frozen=True, slots=True)
class Note(Document):
    """Written before a batch's first write: what it covers, and where the outputs ended before it.

    `outputs` are the ends of the output topics and of the dead letter topic, one that is named later included;
    `output_ids` are the ids of those topics, as the ends mean nothing once a topic is recreated. Both are empty where
    there is nothing to protect. Keys are placed over the partitions listed here until the batch is done. `code` has a
    digest of each transform that took part; `provenance` is the header version of the first attempt's rows. `doubts`
    are stored before the rows that they concern are written. `placed` is the partitioner that an attempt relied on to
    keep each key in one partition of the source, over `placed_over` partitions. `table` is a table as it was before.
    """

    batch: int
    attempt: int
    start: Place
    end: Place
    outputs: Offsets
    output_ids: Mapping[str, str]
    code: tuple[str, ...] = ()
    provenance: int = 1
    doubts: tuple[Doubt, ...] = ()
    placed: Partitioner | None = None
    placed_over: int | None = None
    table: Seen | None = None

    @property
    def placement(self) -> Placement | None:
        """By what keys were relied on to stay where they are; those that did not may be out of order."""
        return None if self.placed is None or self.placed_over is None else (self.placed, self.placed_over)

    def relying_on(self, placement: Placement | None) -> Self:
        """The note once an attempt relies on this; what an earlier one relied on stays."""
        if placement is None or self.placement is not None:
            return self
        return replace(self, placed=placement[0], placed_over=placement[1])

    def joined(self, outputs: Offsets, output_ids: Mapping[str, str], code: str) -> Self:
        """The note with another attempt in it: its code, and the present ends of outputs that are new.

        Of an output that was created again all is read, and its keys are placed over the partitions that it has now.
        """
        recreated = self.recreated(output_ids)
        kept = {partition: end for partition, end in self.outputs.items() if partition.topic not in recreated}
        later = {partition: end for partition, end in outputs.items() if partition.topic not in self.output_ids}
        whole = {partition: 0 for partition in outputs if partition.topic in recreated}
        return replace(
            self,
            outputs=Offsets({**kept, **later, **whole}),
            output_ids={**self.output_ids, **output_ids},
            code=self.code if code in self.code else (*self.code, code),
        )

    def recreated(self, output_ids: Mapping[str, str]) -> set[str]:
        """The outputs that have another id now."""
        return {topic for topic, was in self.output_ids.items() if output_ids.get(topic, was) != was}

    def doubted(self, doubt: Doubt | None) -> Self:
        return self if doubt is None or doubt in self.doubts else replace(self, doubts=(*self.doubts, doubt))

    def in_doubt(self, rows: int) -> Tally:
        """How many rows may be doubled or out of order, given how many are in the outputs."""
        unsettled = [rows - doubt.landed for doubt in self.doubts if not doubt.settled]
        unknown = [rows - doubt.landed for doubt in self.doubts if not (doubt.settled and doubt.known)]
        doubtful = max((doubt.doubtful for doubt in self.doubts), default=0)
        return Tally(may_be_doubled=doubtful + max(unsettled, default=0), may_be_out_of_order=max(unknown, default=0))

    @property
    def partitions(self) -> dict[str, int]:
        """How many partitions each output has for this batch."""
        return dict(Counter(partition.topic for partition in self.outputs))


@dataclass(frozen=True, slots=True)
class Surplus:
    """The record inside which the row limit ends: only its first `rows` rows pass."""

    topic: str
    partition: int
    offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch to write.

    If the row limit ends inside it, `end` is moved there, and only the first rows of the `surplus` record pass.
    """

    number: int
    start: Place
    end: Place
    surplus: Surplus | None = None


@dataclass(frozen=True, slots=True)
class Allotment(Document):
    """How far the row limit lets a batch go; decided once, before its first write.

    `slices` are the rows of each slice that pass, up to the slice where the limit ends; `end` stands behind the record
    that gave the last of them. `surplus` is that record, where records can give more than one row.
    """

    batch: int
    slices: tuple[int, ...]
    end: Place
    surplus: Surplus | None

    @property
    def rows(self) -> int:
        return sum(self.slices)


@dataclass(frozen=True, slots=True)
class Counts(Document):
    """Stored after a batch's last write: the counts of this batch and of all so far, and where it ended.

    The newest one is enough to continue from. `limit_spent` means that no more rows may follow.
    """

    batch: int
    tally: Tally
    total: Tally
    batches: int
    end: Place
    limit_spent: bool


@dataclass(frozen=True, slots=True)
class Holding(Document):
    """One attempt's hold on a checkpoint. `beat` counts its heartbeats, `beat_at` is the last one's time, for people.

    `machine`, `process` and `process_started` tell whether the holder is still alive, where that can be known.
    """

    attempt: int
    machine: str
    process: int
    process_started: int
    beat: int
    beat_at: int
    let_go: bool
