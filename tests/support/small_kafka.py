"""As much of Kafka as a load uses, in this process: a log that is read and changes, outputs, and producers that die.

Source     what is read: records come, retention and compaction take them; `history` has all that ever were
Outputs    what is written: records land in order, some of a dead producer only when its outputs are settled
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from confluent_kafka import Message

from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Subscription, Topic
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Answer, BatchSize, Sighting
from airflow_provider_orderedkafka.errors import DataLossError, DeliveryError
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.provenance import HEADER
from airflow_provider_orderedkafka.kafka.read.columns import Columns, Part
from airflow_provider_orderedkafka.kafka.read.fetching import FetchedRecords, StretchProgress
from airflow_provider_orderedkafka.kafka.replay.replays import Settled
from airflow_provider_orderedkafka.kafka.write.producer import PooledProducer
from support.simulated_log import Entry, SimulatedKafka, SimulatedLog

MOST_BYTES = 1_500
"""What a record of an output may take, so that rows can be too large."""

DEAD = "dead"

Found = TypeVar("Found")


class Record(NamedTuple):
    """A record of the source."""

    partition: TopicPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes

    def message(self) -> Message:
        return Message(*self.partition, self.offset, self.key, self.value, None, None, (1, self.timestamp))


class RememberedSource(NamedTuple):
    """The topics of a source at one moment."""

    partitions: tuple[TopicPartition, ...]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    entries: Mapping[TopicPartition, list[Entry]]


@dataclass
class Source(SimulatedKafka):
    """Topics that are read. Whoever has a question must `ask` whether settings may be read, which may fail.

    `stale` says whether an answer is that of an earlier time, which was `remembered`, and `look_up`, which may fail,
    too, whether that of an index is; `answered` is called before an answer is used.
    """

    partitions: tuple[TopicPartition, ...]
    ask: Callable[[], bool]
    answered: Callable[[], None]
    stale: Callable[[], bool]
    look_up: Callable[[], bool]
    compacted: frozenset[str] = frozenset()
    records: dict[tuple[TopicPartition, int], Record] = field(default_factory=dict)
    history: SimulatedLog = field(init=False)
    present: SimulatedLog = field(init=False)
    ends: dict[TopicPartition, int] = field(init=False)
    remembered: RememberedSource = field(init=False)

    def __post_init__(self) -> None:
        self.history = SimulatedLog({p: [] for p in self.partitions})
        self.present = SimulatedLog({p: [] for p in self.partitions})
        self.ends = dict.fromkeys(self.partitions, 0)
        self.remember()

    def remember(self) -> None:
        """What stale answers say from now on."""
        entries = {partition: list(found) for partition, found in self.present.entries.items()}
        self.remembered = RememberedSource(self.partitions, self.begins(), dict(self.ends), entries)

    def seen(self) -> RememberedSource:
        """As a question finds the topics."""
        now = RememberedSource(self.partitions, self.begins(), dict(self.ends), self.present.entries)
        return self.remembered if self.stale() else now

    def add(self, partition: TopicPartition, timestamp: int, key: bytes | None, value: bytes | None) -> None:
        """A record comes; without a value it is a marker, which the index knows and no reader sees."""
        offset = self.ends[partition]
        if value is not None:
            self.records[partition, offset] = Record(partition, offset, timestamp, key, value)
        for log in (self.history, self.present):
            epoch = log.epochs[partition]
            log.entries[partition].append(Entry(offset, timestamp, value is not None, epoch))
        self.ends[partition] = offset + 1

    def begins(self) -> dict[TopicPartition, int]:
        return {p: self.present.gone_before.get(p, 0) for p in self.partitions}

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """An unclean election takes what stands from an offset on; other records come there, as many and one more."""
        lost = self.ends[partition] - offset
        for log in (self.history, self.present):
            log.truncate(partition, offset)
        self.ends[partition] = offset
        for number in range(lost + 1):
            self.add(partition, number, None, b"one-since")

    def grow(self, topic: str) -> None:
        """The topic gets one partition more."""
        more = TopicPartition(topic, sum(each.topic == topic for each in self.partitions))
        self.partitions = tuple(sorted((*self.partitions, more)))
        self.history.entries[more], self.present.entries[more], self.ends[more] = [], [], 0

    def compact(self, partition: TopicPartition, offset: int) -> None:
        """Take one record away; the newest stays, as in Kafka."""
        kept = [each for each in self.present.entries[partition] if each.offset != offset]
        self.present.entries[partition] = kept if offset < self.ends[partition] - 1 else self.present.entries[partition]

    def log_end_offsets(self) -> Mapping[TopicPartition, int]:
        return self.ends

    def discover(self, _subscription: Subscription) -> Discovery:
        known, partitions = self.ask(), self.seen().partitions
        self.answered()
        counts = {p.topic: p.partition + 1 for p in partitions}
        topics = (
            Topic(name, f"id-{name}", count, name in self.compacted or not known) for name, count in counts.items()
        )
        return Discovery("cluster", tuple(topics), partitions)

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        self.ask()
        starts = self.seen().starts
        self.answered()
        return Offsets({partition: starts.get(partition, 0) for partition in partitions})

    def high_ends(self, partitions: Iterable[TopicPartition], _isolation: str) -> Offsets:
        self.ask()
        ends = self.seen().ends
        self.answered()
        return Offsets({partition: ends.get(partition, 0) for partition in partitions})

    def log(self, _isolation: str) -> "Questions":
        return Questions(self)

    def fetched(self, slice_: Slice, settings: ReadSettings) -> FetchedRecords:
        """The records of a slice, as a fetch catches them."""
        progress, catch = StretchProgress(slice_), FetchedRecords(settings)
        for rank, stretch in enumerate(slice_.stretches):
            log_start = self.begins()[stretch.partition]
            if stretch.start.offset < log_start and not progress.finished()[rank]:
                if settings.on_data_loss == "fail":
                    raise DataLossError(f"{stretch.partition.at(stretch.start.offset)} is gone")
                catch.lost += Counter({stretch.partition: progress.gone_before(rank, log_start)})
        come = [
            (rank, offset, time, 1)
            for rank, stretch in enumerate(slice_.stretches)
            if not progress.finished()[rank]
            for offset, time in self.present.scan(
                stretch.partition, int(progress.position[rank]), self.ends[stretch.partition], count=False
            )
        ]
        columns = Columns(*np.array(come, np.int64).reshape(-1, 4).T)
        messages = [self.records[slice_.stretches[rank].partition, offset].message() for rank, offset, *_ in come]
        catch.take(Part.of(messages, columns, settings).only(progress.admit(*columns[:3])))
        return catch


@dataclass(frozen=True)
class Questions:
    """A source's records, as a planner asks for them: what an index says may be stale, what was read is not."""

    source: Source

    def first_at(
        self, partitions: Sequence[TopicPartition], times: Sequence[int]
    ) -> Sequence[Mapping[TopicPartition, Answer]]:
        return self._answer(lambda index: index.first_at(partitions, times))

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        return self._answer(lambda index: index.newest(partitions))

    def look(self, *asked: Any) -> Mapping[TopicPartition, Sighting]:
        return self._answer(lambda _: self.source.present.look(*asked))

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        return self._answer(lambda _: self.source.present.scan(partition, start, end))

    def batch_at(self, partition: TopicPartition, start: int, end: int) -> BatchSize | None:
        return self._answer(lambda _: self.source.present.batch_at(partition, start, end))

    def _answer(self, find: Callable[[SimulatedLog], Found]) -> Found:
        entries = self.source.remembered.entries if self.source.look_up() else self.source.present.entries
        found = find(SimulatedLog({each: list(entries.get(each, ())) for each in self.source.partitions}))
        self.source.answered()
        return found


class RememberedOutputs(NamedTuple):
    """The topics of outputs at one moment: how many partitions each has, how often it was made, whether compacted."""

    counts: Mapping[str, int]
    made: Counter[str]
    compacted: frozenset[str]


class Row(NamedTuple):
    """A record of an output; `write` is the number of the write that handed it over."""

    name: str
    number: int
    key: bytes | None
    value: bytes | None
    provenance: bytes
    write: int

    def message(self) -> Message:
        return Message(self.name, self.number, 0, self.key, self.value, [(HEADER, self.provenance)])


@dataclass
class Outputs:
    """Topics that are written. `flying` has what dead producers sent and nobody sees yet.

    Those that are `compacted` keep the last row of each key for sure; what was `cleaned` of them is still in the logs.
    Where they are `silent`, their settings may never be read; whoever has a question must `ask` whether they may now.
    `past` are the rows of topics that were made anew, as far as they need not be there any more. `stale` says whether
    an answer is that of an earlier time, which was `remembered`; producers know how many partitions there are.
    `answered` is called before an answer is used.
    """

    counts: dict[str, int]
    ask: Callable[[], bool]
    answered: Callable[[], None]
    touch: Callable[[], None]
    fate: Callable[[], int]
    write: Callable[[], int]
    stale: Callable[[], bool]
    compacted: frozenset[str] = frozenset()
    silent: bool = False
    cleaned: set[tuple[TopicPartition, int]] = field(default_factory=set)
    past: list[Row] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    logs: dict[TopicPartition, list[Row]] = field(default_factory=lambda: defaultdict(list))
    flying: list[Row] = field(default_factory=list)
    picked: int = 0
    remembered: RememberedOutputs = field(init=False)

    def __post_init__(self) -> None:
        self.remember()

    def remember(self) -> None:
        """What stale answers say from now on."""
        self.remembered = RememberedOutputs(dict(self.counts), Counter(self.made), self.compacted)

    def land(self, row: Row) -> None:
        self.logs[TopicPartition(row.name, row.number)].append(row)

    def check(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Refuse what brokers refuse, which is found out before, unless their settings may not be read."""
        if not self.silent and topic != DEAD and (len(value) > MOST_BYTES or (key is None and topic in self.compacted)):
            raise DeliveryError(f"{topic} does not take it")

    def pick(self, topic: str) -> int:
        """A partition for a row that names none and has no key."""
        self.picked += 1
        return self.picked % self.counts[topic]

    def clean(self, partition: TopicPartition, end: int) -> None:
        """Compact a partition up to an offset."""
        rows = self.logs[partition]
        last = {row.key: offset for offset, row in enumerate(rows)}
        self.cleaned |= {(partition, offset) for offset, row in enumerate(rows[:end]) if last[row.key] != offset}

    def make_anew(self, name: str, done: Callable[[Row], bool]) -> None:
        """Delete a topic and create it again; rows that were `done` need not be written again."""
        self.made[name] += 1
        self.flying = [row for row in self.flying if row.name != name]
        for partition in [each for each in self.logs if each.topic == name]:
            self.past += filter(done, self.logs.pop(partition))

    def rows(self) -> list[Row]:
        return [*self.past, *(row for rows in self.logs.values() for row in rows)]

    servers = "nowhere:1"

    def discover(self, named: Any) -> Discovery:
        known = self.ask() and not self.silent
        seen = self.remembered if self.stale() else RememberedOutputs(self.counts, self.made, self.compacted)
        topics = [self._topic(name, seen, known=known) for name in named.topics]
        partitions = [TopicPartition(topic.name, n) for topic in topics for n in range(topic.partitions)]
        self.answered()
        return Discovery("cluster", tuple(topics), tuple(partitions))

    def _topic(self, name: str, seen: RememberedOutputs, *, known: bool) -> Topic:
        compacted = name in seen.compacted
        most = {} if name == DEAD else {"max.message.bytes": str(MOST_BYTES)}
        settings = {} if not known else {"cleanup.policy": "compact" if compacted else "delete", **most}
        topic_id = f"id-{name}-{seen.made[name]}"
        return Topic(name, topic_id, seen.counts[name], compacted or not known, settings=settings)

    def high_ends(self, partitions: Iterable[TopicPartition], _isolation: str) -> Offsets:
        self.ask()
        found = Offsets((partition, len(self.logs[partition])) for partition in partitions)
        self.answered()
        return found

    @contextmanager
    def lend(self, _config: Mapping[str, str]) -> Iterator[PooledProducer]:
        made = SmallProducer(self)
        try:
            yield PooledProducer(made, 1.0)
        except BaseException:
            made.purge()
            raise

    def read_until_settled(
        self, partitions: Iterable[TopicPartition], noted: Offsets, take: Callable[[Any], int]
    ) -> Settled:
        """Read all from the note on; what was on its way lands between two looks."""
        self.ask()
        starts = {partition: noted.get(partition, 0) for partition in partitions}
        at = {partition: start if start <= len(self.logs[partition]) else 0 for partition, start in starts.items()}
        with_gaps = frozenset(partition for partition, offset in self.cleaned if offset >= at.get(partition, offset))
        for flying in (self.flying, []):
            for partition, start in at.items():
                rows = enumerate(self.logs[partition])
                take([row.message() for n, row in rows if n >= start and (partition, n) not in self.cleaned])
                at[partition] = len(self.logs[partition])
            for row in flying:
                self.land(row)
            self.flying = []
        self.answered()
        return Settled(settled=True, gone=0, with_gaps=with_gaps)

    read_committed = read_until_settled


@dataclass
class SmallProducer:
    """Holds what it is given until it is flushed; what it leaves of that in each partition is `fate`'s to say."""

    outputs: Outputs
    waiting: list[Row] = field(default_factory=list)

    def produce(self, topic: str, value: Any, key: Any, number: int, *more: Any) -> None:
        self.outputs.touch()
        self.outputs.check(topic, key, value)
        number = self.outputs.pick(topic) if number < 0 else number
        assert number < self.outputs.counts[topic]
        self.waiting.append(Row(topic, number, key, value, dict(more[-1])[HEADER], self.outputs.write()))

    def poll(self, _seconds: float) -> None:
        pass

    def flush(self, _seconds: float) -> int:
        for row in self.waiting:
            self.outputs.land(row)
        self.waiting.clear()
        return 0

    def purge(self, **_: bool) -> None:
        """Die: of each partition the first few have landed, the next few are on their way, the others are gone."""
        by_partition = defaultdict(list)
        for row in self.waiting:
            by_partition[row.name, row.number].append(row)
        self.waiting.clear()
        for rows in by_partition.values():
            landed, flying = self.outputs.fate(), self.outputs.fate()
            for row in rows[:landed]:
                self.outputs.land(row)
            self.outputs.flying += rows[landed : landed + flying]

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return len(self.waiting)
