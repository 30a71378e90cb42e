"""A range's batches: how large they are, where they end, and what is stored meanwhile.

They are planned a window at a time, so that the first row of a long range does not wait for the look-ups of the last
batch. A batch that was begun ends where that was written down, and the next one begins where it ended, whatever had
been planned.

A batch is *noted* before its first write and *counted* after its last one. Found again, a batch that was noted and
not counted may have been written in part: it is a replay. One that was counted is done, whatever Spark thinks of it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, Self

from .codec import Document
from .commits import TableVersion
from .documents import Changes, Range
from .lanes import KeepOrder, Kind, Partitioner, Placement
from .order.cuts import Floor, Place
from .order.positions import Offsets

WINDOW = 20
"""How many batches are planned at a time."""

MOST_OFFSETS = 5_000_000
MOST_BYTES = 4 * 2**30
MOST_STRETCHES = 200_000
"""The most stretches (partitions of slices) in a batch: each takes 0.35 kB in the driver, and is sent to its task."""

LARGE_RECORD = 2**20
"""The largest record by Kafka's defaults: a short range need not be sampled."""

SLICE_OFFSETS = 100_000
"""About how many offsets a slice spans, unless that is set."""


@dataclass(frozen=True, slots=True)
class Planned(Document):
    """One batch of a plan: its number, and where it ends.

    `ends` are the next offsets of the range's partitions, in order. `offsets` is how many it spans, `left` how many of
    the range follow; `bytes` is estimated from a sample of records, if one was taken. `batches` is how many there are
    in all; with `about` it is an upper estimate, as the rest is planned later or a row limit may end it.
    """

    batch: int
    batches: int
    about: bool
    ends: tuple[int, ...]
    floor: Floor
    offsets: int
    left: int
    bytes: int | None

    def end(self, loaded: Range) -> Place:
        return Place(Offsets(zip(loaded.end.offsets.partitions, self.ends, strict=True)), self.floor)


@dataclass(frozen=True, slots=True)
class Size:
    """How many offsets a batch spans, and how many bytes an offset has on average, where that is known."""

    offsets: int
    average: float | None = None


def needs_sample(loaded: Range) -> bool:
    return loaded.batch_offsets is None and loaded.offsets > MOST_BYTES // LARGE_RECORD


def size_of(loaded: Range, average: float | None, slice_offsets: int = SLICE_OFFSETS) -> Size:
    """The size of a range's batches: as set, or as large as driver and tasks can handle."""
    if loaded.batch_offsets is not None:
        return Size(loaded.batch_offsets, average)
    slices = max(MOST_STRETCHES // max(len(loaded.end.offsets), 1), 1)
    bounds = [MOST_OFFSETS, slices * slice_offsets, *([int(MOST_BYTES / average)] if average else [])]
    return Size(max(min(bounds), 1), average)


def window(loaded: Range, number: int, start: Place, ends: Sequence[Place], size: Size) -> list[Planned]:
    """The batches, numbered from `number`, that begin at `start` and end at `ends`."""
    places = [start, *(loaded.end if end.offsets == loaded.end.offsets else end for end in ends)]
    rest = loaded.end.offsets.since(places[-1].offsets)
    batches = number + len(ends) - 1 + -(-rest // size.offsets)
    about = rest > 0 or loaded.rows_left is not None
    found = []
    for batch, (begin, end) in enumerate(pairwise(places), number):
        offsets = end.offsets.since(begin.offsets)
        estimate = None if size.average is None else round(offsets * size.average)
        left = loaded.end.offsets.since(end.offsets)
        found.append(Planned(batch, batches, about, tuple(end.offsets.values()), end.floor, offsets, left, estimate))
    return found


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of a batch, or of all batches so far; `read_in` and `late_in` have the records by partition.

    `columns_added` are those that the range has added to its table, or widened there; what the table lacks was
    `columns_left_out`. What it cost is None where that is not known.
    """

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
    read_in: Offsets = Offsets()  # noqa: RUF009 - it never changes
    changes: Changes = Changes()  # noqa: RUF009 - it never changes
    columns_added: tuple[str, ...] = ()
    columns_left_out: tuple[str, ...] = ()
    core_ms: int | None = 0
    bytes_written: int | None = 0
    files_written: int | None = 0

    @property
    def rows(self) -> int:
        """The rows that count for the row limit: those in the output and those that became dead letters."""
        return self.rows_emitted + self.dead_letters

    def plus(self, other: Self) -> Self:
        pairs: Any = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return type(self)(*(_sum(one, more) for one, more in pairs))


def _sum(one: Any, more: Any) -> Any:
    if one is None or more is None:
        return None
    return tuple(dict.fromkeys(one + more)) if isinstance(one, tuple) else one + more


STAYS: Final = {
    "transform": "the transform",
    "cluster": "the output's cluster",
    "partitioner": "kafka.partitioner (of a connection, ORDEREDKAFKA_OPTIONS, --option, --sink-option or producer=)",
    "transactions": "kafka.transactional.id",
}
"""What of a setup stays once a batch is begun, and what messages call it."""


@dataclass(frozen=True, slots=True)
class Setup(Document):
    """How a range is loaded: the settings of its first attempt, and the lane it chose.

    Later attempts keep the settings, and choose lane and writers anew: rows are identified by their source. `placed` is
    the partitioner that keeps the source's keys in their partitions, if the direct lane relies on one; `reason` says
    why this lane was chosen. `transform` is the name of the function, which a program may give that no job names.
    `cluster` is the id of the one that has the output's topics, `job` the key of the job that was asked for.
    `partitioner` is what places keys in topics, whatever said so; empty where no topic is written to. `code` is a
    digest of the transform's code. `transactions` is what their ids begin with, where rows are written exactly once.
    """

    lane: Kind
    writers: int
    keep_order: KeepOrder
    placed: Partitioner | None
    transform: str | None
    reason: str
    cluster: str = ""
    job: str = ""
    partitioner: str = ""
    code: str = ""
    transactions: str = ""

    @property
    def key(self) -> str:
        """A hash that no other setup has."""
        return sha256(self.to_text().encode()).hexdigest()[:16]

    def changes(self, now: Self) -> str:
        """What shapes rows or says where they are, and is otherwise in the setup of now, in words; empty if nothing is.

        A cluster that says no id is taken for the same one: its topics' ids are compared where rows are looked for.
        """
        both = ((said, getattr(self, name), getattr(now, name)) for name, said in STAYS.items())
        changed = ((said, was, it) for said, was, it in both if was != it and "" not in (was, it))
        return "; ".join(f"{said} was {was!r}, and is now {it!r}" for said, was, it in changed)


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
    digest of each transform that took part. `doubts` are stored before the rows that they concern are written. `placed`
    is the partitioner that an attempt relied on to keep each key in one partition of the source, over `placed_over`
    partitions. `table` is a table as it was before. `uncompacted` are the outputs that every attempt has known not to
    be compacted. `setup` is the key of the newest attempt's setup. `writers` is the most that an attempt has had
    to write exactly once.
    """

    batch: int
    attempt: int
    start: Place
    end: Place
    outputs: Offsets
    output_ids: Mapping[str, str]
    code: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    placed: Partitioner | None = None
    placed_over: int | None = None
    table: TableVersion | None = None
    uncompacted: tuple[str, ...] = ()
    setup: str = ""
    writers: int = 0

    @property
    def placement(self) -> Placement | None:
        """By what keys were relied on to stay where they are; those that did not may be out of order."""
        return None if self.placed is None or self.placed_over is None else (self.placed, self.placed_over)

    def relying_on(self, placement: Placement | None) -> Self:
        """The note once an attempt relies on this; what an earlier one relied on stays."""
        if placement is None or self.placement is not None:
            return self
        return replace(self, placed=placement[0], placed_over=placement[1])

    def joined(
        self,
        outputs: Offsets,
        output_ids: Mapping[str, str],
        code: str,
        uncompacted: Collection[str] = (),
        writers: int = 0,
    ) -> Self:
        """The note with another attempt in it: its code, and the present ends of outputs that are new.

        Of an output that was created again all is read; its keys are placed over no more partitions than were noted, as
        an attempt may have written to it that did not know.
        One that ends before its note was cut off, or created again unnoticed: what is behind its present end is new.
        `uncompacted` are the outputs that are known not to be compacted now.
        """
        recreated = self.recreated(output_ids)
        kept = {p: min(end, outputs.get(p, end)) for p, end in self.outputs.items() if p.topic not in recreated}
        later = {partition: end for partition, end in outputs.items() if partition.topic not in self.output_ids}
        whole = {partition: 0 for partition in self.outputs if partition.topic in recreated and partition in outputs}
        return replace(
            self,
            outputs=Offsets({**kept, **later, **whole}),
            output_ids={**self.output_ids, **output_ids},
            code=self.code if code in self.code else (*self.code, code),
            uncompacted=tuple(sorted(t for t in uncompacted if t in self.uncompacted or t not in self.output_ids)),
            writers=max(self.writers, writers),
        )

    def recreated(self, output_ids: Mapping[str, str]) -> set[str]:
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
    """If the row limit ends inside it, `end` is there, and only the first rows of the `surplus` record pass."""

    number: int
    start: Place
    end: Place
    surplus: Surplus | None = None

    @property
    def offsets(self) -> int:
        return self.end.offsets.since(self.start.offsets)


@dataclass(frozen=True, slots=True)
class Allotment(Document):
    """How far the row limit lets a batch go; decided once, before its first write.

    `slices` are the rows of each slice that pass, up to the slice where the limit ends; `end` stands behind the record
    that gave the last of them. `surplus` is that record, where records can give more than one row. `code` is the digest
    of the code that made the rows which were counted.
    """

    batch: int
    slices: tuple[int, ...]
    end: Place
    surplus: Surplus | None
    code: str = ""

    @property
    def rows(self) -> int:
        return sum(self.slices)


@dataclass(frozen=True, slots=True)
class Overtaken(Document):
    """Left by an attempt that a newer one took over from while it wrote a batch.

    `rows` is how many rows of the batch it may have doubled, at most; None for any number of them.
    """

    attempt: int
    batch: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Counts(Document):
    """Stored after a batch's last write; the newest is enough to go on from. `limit_reached`: no row may follow."""

    batch: int
    tally: Tally
    total: Tally
    batches: int
    end: Place
    limit_reached: bool


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


STOP_SECONDS = 30.0
"""The longest that an application which is told to end waits for its tasks, before it gives its lease back."""
