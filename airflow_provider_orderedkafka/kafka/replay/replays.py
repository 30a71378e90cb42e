"""Read back which rows of a batch the outputs have: from the ends in its note, by the identity in each header.

Requests of a dead writer may still be on their way, so the outputs are read to their ends again and again until no rows
of the batch were found for a settle time. Only pauses between reads count: while a read is slow or a broker does not
answer, requests may be held up as well. What others write does not matter.

A row may also be hidden above the leader's high watermark while a follower lags, for `replica.lag.time.max.ms` or
longer. So at the end it is checked that everything in the leaders' logs was read. This writes nothing, and takes a
moment if no follower lags. If it cannot be shown in time, for example with too few replicas in sync, the outputs are
not settled: they may have rows of the batch that are not visible yet.

Memory holds bits, not rows. Compacted outputs get the whole batch again, in order: then the last value of each key is
right, since nothing of the dead writer follows it. `again` counts what arrived there since the note.

Where the settings of an output may not be read, its offsets tell: as long as each has its record, nothing was compacted
away. Where some have none, it may have been, or transactions ended there, which looks the same: it gets the whole batch
again, too, and how much is there is not known.
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from ...core.documents import Isolation
from ...core.notation.subscriptions import Named
from ...core.order.positions import Offsets, TopicPartition
from ...errors import UnreachableError
from ..lookup.log import Fence, reading_all
from ..lookup.survey import Brokers, Kafka
from ..lookup.topics import high_ends, log_starts
from ..provenance import HEADER, located, range_prefix
from ..read.columns import headers_of
from ..write.producer import PooledProducer, lend
from .landed import Landed

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.1

Take = Callable[[Sequence[Any]], int]
"""Called with all records, in the log's order; says how many of them are rows of the batch."""


@dataclass(frozen=True, slots=True)
class Settle:
    """When a batch is settled, and when to give up; all in seconds.

    `still` is how long no rows must arrive. `deadline` is how long to wait since rows last arrived, without the
    time for reading, and `longest` how long to wait overall after the outputs were read to their ends once.
    """

    still: float = 2.0
    deadline: float = 60.0
    longest: float = 600.0


@dataclass(frozen=True, slots=True)
class Settled:
    """Whether the outputs have settled, and how many offsets since the note were deleted before they were read.

    `with_gaps` are partitions where some offsets that were read have no record, which retention does not explain: a
    marker of a transaction stood there, or a record that was compacted away.
    """

    settled: bool
    gone: int
    with_gaps: frozenset[TopicPartition] = frozenset()


class Outputs(Kafka, Protocol):
    """The topics of an output, as a load asks for them and writes to them."""

    def read_until_settled(self, partitions: Sequence[TopicPartition], noted: Offsets, take: Take) -> Settled:
        """Read partitions from their noted ends on until the batch has settled; those without a note from the start."""

    def read_committed(self, partitions: Sequence[TopicPartition], noted: Offsets, take: Take) -> Settled:
        """The same where all earlier writers are fenced: what they have committed is all that there will be."""

    def lend(self, config: Mapping[str, str], /) -> AbstractContextManager[PooledProducer]:
        """The producer of a task, which is not used again after an error in the block."""


@dataclass(frozen=True)
class OutputBrokers(Brokers):
    settle: Settle = Settle()
    lend = staticmethod(lend)

    def read_until_settled(self, partitions: Sequence[TopicPartition], noted: Offsets, take: Take) -> Settled:
        """Raises UnknownTopicError, UnreachableError or AccessDeniedError: the principal needs READ on its outputs."""
        starts, gone = _starts(self.config, partitions, noted)
        outputs = _Outputs(self.config, starts, take)
        settled = until_still(outputs, self.settle)
        return Settled(settled, gone + outputs.gone.total(), outputs.with_gaps())

    def read_committed(self, partitions: Sequence[TopicPartition], noted: Offsets, take: Take) -> Settled:
        """Raises UnreachableError, too, where another application's transaction stays open."""
        self._wait_for_transactions(partitions)
        starts, gone = _starts(self.config, partitions, noted)
        outputs = _Outputs(self.config, starts, take, "read_committed")
        outputs.look()
        return Settled(settled=True, gone=gone + outputs.gone.total())

    def _wait_for_transactions(self, partitions: Sequence[TopicPartition]) -> None:
        """Return once all that was written by now is decided: an open transaction hides what is behind it."""
        ends, until = high_ends(self.config, partitions, "read_uncommitted"), time.monotonic() + self.settle.deadline
        while held := _below(high_ends(self.config, partitions, "read_committed"), ends):
            if time.monotonic() > until:
                raise UnreachableError(
                    f"a transaction that another application has open since {held[0]} hides what is behind it, for "
                    f"{self.settle.deadline:g} s now: it has to be committed or aborted before it can be known which "
                    "rows are there; kafka-transactions.sh find-hanging and abort end one that was left behind"
                )
            time.sleep(_LOOK_SECONDS)


def _below(stable: Offsets, ends: Offsets) -> list[str]:
    return [partition.at(stable[partition]) for partition, end in ends.items() if stable[partition] < end]


def until_still(outputs: "_Outputs", settle: Settle, clock: Any = time) -> bool:
    """Wait until nothing arrives for long enough and nothing is hidden; False if that takes too long."""
    outputs.look()
    begun = looked = clock.monotonic()
    still = waited = 0.0
    while not (still >= settle.still and outputs.nothing_hidden()):
        if waited >= settle.deadline or looked - begun >= settle.longest:
            return False
        clock.sleep(_LOOK_SECONDS)
        pause = clock.monotonic() - looked
        came = outputs.look()
        looked = clock.monotonic()
        still, waited = (0.0, 0.0) if came else (still + pause, waited + pause)
    return True


def _starts(
    config: Mapping[str, str], partitions: Sequence[TopicPartition], noted: Offsets
) -> tuple[dict[TopicPartition, int], int]:
    """Where to begin reading, and how many offsets since the note are gone. One that was truncated is read whole."""
    first, last = log_starts(config, partitions), high_ends(config, partitions, "read_uncommitted")
    starts, gone = {}, 0
    for partition in partitions:
        note = noted.get(partition, 0)
        start = first[partition] if last[partition] < note else max(note, first[partition])
        starts[partition] = start
        gone += max(0, start - note) if partition in noted else 0
    return starts, gone


class _Outputs:
    def __init__(
        self,
        config: Mapping[str, str],
        starts: Mapping[TopicPartition, int],
        take: Take,
        isolation: Isolation = "read_uncommitted",
    ) -> None:
        self._config = config
        self._isolation: Isolation = isolation
        self._positions = dict(starts)
        self._take = take
        self._fence = Fence(config)
        self._missing: Counter[TopicPartition] = Counter()
        self.gone: Counter[TopicPartition] = Counter()

    def look(self) -> bool:
        """Read everything new; whether rows of the batch were among it."""
        ends = high_ends(self._config, self._positions, self._isolation)
        wanted = {partition: at for partition, at in self._positions.items() if at < ends[partition]}
        came = self._read(wanted, ends) if wanted else 0
        if came:
            self._fence = Fence(self._config)
        return came > 0

    def with_gaps(self) -> frozenset[TopicPartition]:
        """Where offsets without a record are not those that retention took."""
        return frozenset(each for each, count in self._missing.items() if count != self.gone[each])

    def nothing_hidden(self) -> bool:
        """Whether everything was read that the logs held at some moment since rows last arrived."""
        return self._fence.passed(self._positions)

    def _read(self, wanted: Mapping[TopicPartition, int], ends: Offsets) -> int:
        came, expected = 0, dict(wanted)
        with reading_all(self._config, wanted, ends, self._isolation) as reader:
            while reader.positions:
                messages = reader.take()
                came += self._take(messages)
                self._follow(messages, expected)
                done = {partition: at for partition, at in reader.positions.items() if at >= ends[partition]}
                self._positions |= done
                reader.let_go(done)
        for partition, at in expected.items():
            self._missing[partition] += self._positions[partition] - at
        self.gone += reader.gone
        return came

    def _follow(self, messages: Sequence[Any], expected: dict[TopicPartition, int]) -> None:
        """Count the offsets that the records pass over; `expected` has the next one of each partition."""
        for message in messages:
            partition, offset = TopicPartition(message.topic(), message.partition()), message.offset()
            if partition in expected:
                self._missing[partition] += max(offset - expected[partition], 0)
                expected[partition] = max(offset + 1, expected[partition])


_ROWS_KEPT: Final = 200_000


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch that may have been written in part: rows of this range whose records lie from `start` to `end`."""

    range_id: str
    start: Offsets
    end: Offsets


@dataclass(frozen=True, slots=True)
class NotedOutputs:
    """Partitions without an end are read whole; the `doubtful` topics may have been compacted at some time since.

    `fenced`: whoever wrote the batch before wrote in transactions, and cannot go on.
    """

    topics: tuple[str, ...]
    ends: Offsets
    dead_letter_topic: str | None = None
    doubtful: frozenset[str] = frozenset()
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """What landed of a batch.

    `gone` counts offsets since the note of which it is not known what was there: those that retention deleted, and all
    of an output that may be compacted. `unnamed` counts rows of the batch without an identity, `again` the rows that
    compacted outputs may have twice, and those that others have more than once. `settled` is False if more rows may
    still arrive, or may be there invisibly.
    """

    landed: Landed = field(default_factory=Landed)
    gone: int = 0
    unnamed: int = 0
    again: int = 0
    settled: bool = True


def find_landed(kafka: Outputs, batch: BegunBatch, outputs: NotedOutputs) -> Replay:
    """Read the outputs from the note on until they have settled; those that may be compacted only from now on.

    Raises UnknownTopicError, AccessDeniedError (the principal needs READ on its outputs) or UnreachableError.
    """
    found = kafka.discover(Named(outputs.topics))
    if unheard_of := sorted(set(outputs.ends) - set(found.partitions)):
        raise UnreachableError(
            f"the output ended at {unheard_of[0].at(outputs.ends[unheard_of[0]])} when the batch began, but Kafka at "
            f"{kafka.servers!r} has no such partition now: its broker lags, or the topic was created again with fewer; "
            "the next attempt asks again"
        )
    silent = {topic.name for topic in found.topics if not topic.settings}
    scan = _Scan(batch, outputs, found.compacted - silent)
    read = scan.read(kafka, found.partitions)
    if in_doubt := (outputs.doubtful - scan.whole) & {partition.topic for partition in read.with_gaps}:
        _log.warning(
            "compaction may have taken records of %s since the batch began: the whole batch is written there again, "
            "and the report counts that; leave cleanup.policy as it is, and grant the principal DESCRIBE_CONFIGS there",
            ", ".join(map(repr, sorted(in_doubt))),
        )
        scan = _Scan(batch, outputs, scan.whole | in_doubt)
        read = scan.read(kafka, found.partitions)
    unknown = sum(count for topic, count in scan.again.items() if topic in in_doubt)
    landed, again = scan.landed(), scan.again.total() - unknown + scan.twice
    return Replay(landed, read.gone + unknown, scan.unnamed, again, read.settled)


class _Scan:
    """Collects the batch's rows; the same row twice is one, and `twice` counts how often that was so.

    Outputs that get the `whole` batch again are only read to settle; `again` counts the rows that each may have twice.
    """

    def __init__(self, batch: BegunBatch, outputs: NotedOutputs, whole: frozenset[str]) -> None:
        self.whole = whole
        self.again: Counter[str] = Counter()
        self.unnamed = 0
        self.twice = 0
        self._batch = batch
        self._outputs = outputs
        self._prefix = range_prefix(batch.range_id)
        self._waiting = 0
        self._rows: dict[tuple[bytes, int, bool], list[tuple[int, int]]] = defaultdict(list)
        self._landed = Landed()

    def read(self, kafka: Outputs, partitions: Sequence[TopicPartition]) -> Settled:
        """Read from the note on until the outputs have settled; the whole ones only from now on."""
        noted = self._outputs.ends
        now = kafka.high_ends([each for each in partitions if each.topic in self.whole], "read_uncommitted")
        for partition, end in now.items():
            self.again[partition.topic] += max(end - noted.get(partition, 0), 0)
        read = kafka.read_committed if self._outputs.fenced else kafka.read_until_settled
        return read(partitions, Offsets({**noted, **now}), self.take)

    def take(self, messages: Sequence[Any]) -> int:
        """Collect the rows of the batch among these records; return how many there were."""
        count = 0
        for message, headers in zip(messages, headers_of(messages), strict=True):
            for name, value in headers or ():
                if name == HEADER and value is not None and value.startswith(self._prefix):
                    count += 1
                    if message.topic() in self.whole:
                        self.again[message.topic()] += 1
                    else:
                        self._note(value, dead=message.topic() == self._outputs.dead_letter_topic)
        if self._waiting > _ROWS_KEPT:
            self._merge()
        return count

    def _note(self, header: bytes, *, dead: bool) -> None:
        ordinal, partition, offset, _, topic = located(header, len(self._prefix))
        if partition < 0:
            self.unnamed += 1
        else:
            self._waiting += 1
            self._rows[topic, partition, dead].append((ordinal, offset))

    def _merge(self) -> None:
        start, end = self._batch.start, self._batch.end
        for (topic, number, dead), rows in self._rows.items():
            partition = TopicPartition(topic.decode(), number)
            ordinals, offsets = np.array(rows, np.int64).T
            mine = (offsets >= start.get(partition, 0)) & (offsets < end.get(partition, 0))
            known = self._landed.rows
            self._landed.add(partition, ordinals[mine], offsets[mine], dead=dead)
            self.twice += int(mine.sum()) - (self._landed.rows - known)
        self._rows.clear()
        self._waiting = 0

    def landed(self) -> Landed:
        self._merge()
        return self._landed
