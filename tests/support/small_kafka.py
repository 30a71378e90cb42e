"""As much of Kafka as a load uses, in this process: a log that is read and changes, outputs, and producers that die.

Source       what is read: records come, retention and compaction take them; `history` has all that ever were
Output       what is written: records land in order, some of a dead producer only when its outputs are settled
plugged_in   puts both, and a small Spark, in the places where the package asks Kafka and Spark
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyspark.sql
import pytest
from confluent_kafka import Message
from pyspark import TaskContext

from airflow_provider_orderedkafka.core import plan
from airflow_provider_orderedkafka.core.next_range import Ends
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Topic
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError
from airflow_provider_orderedkafka.kafka.lookup import survey
from airflow_provider_orderedkafka.kafka.lookup.starts import ResolvedStart
from airflow_provider_orderedkafka.kafka.provenance import HEADER
from airflow_provider_orderedkafka.kafka.read import reader, samples
from airflow_provider_orderedkafka.kafka.read.fetched import Columns, FetchedRecords
from airflow_provider_orderedkafka.kafka.read.stretches import StretchProgress
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
from airflow_provider_orderedkafka.kafka.replay import replays
from airflow_provider_orderedkafka.kafka.replay.settling import Settled
from airflow_provider_orderedkafka.kafka.write import producer, writing
from airflow_provider_orderedkafka.kafka.write.outputs import DEFAULT_MAX_BYTES, OutputTopic
from airflow_provider_orderedkafka.kafka.write.sending import PooledProducer
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.spark import ordering
from airflow_provider_orderedkafka.spark.connector import cluster
from airflow_provider_orderedkafka.spark.lanes import frames, kafka_lanes, kafka_output, kafka_writer, limit
from airflow_provider_orderedkafka.spark.session.plans import PlanFacts
from airflow_provider_orderedkafka.spark.tables import layout, writer
from support.simulated_log import Entry, SimulatedLog
from support.small_spark import SmallObservation, functions, here

MOST_BYTES = 1_500
"""What a record of an output may take, so that rows can be too large."""

DEAD = "dead"


class Record(NamedTuple):
    """A record of the source."""

    partition: TopicPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes

    def message(self) -> Message:
        return Message(*self.partition, self.offset, self.key, self.value, None, None, (1, self.timestamp))


@dataclass
class Source:
    """Topics that are read."""

    partitions: tuple[TopicPartition, ...]
    compacted: frozenset[str] = frozenset()
    records: dict[tuple[TopicPartition, int], Record] = field(default_factory=dict)
    history: SimulatedLog = field(init=False)
    log: SimulatedLog = field(init=False)
    ends: dict[TopicPartition, int] = field(init=False)

    def __post_init__(self) -> None:
        self.history = SimulatedLog({p: [] for p in self.partitions})
        self.log = SimulatedLog({p: [] for p in self.partitions})
        self.ends = dict.fromkeys(self.partitions, 0)

    def add(self, partition: TopicPartition, timestamp: int, key: bytes | None, value: bytes | None) -> None:
        """A record comes; without a value it is a marker, which the index knows and no reader sees."""
        offset = self.ends[partition]
        if value is not None:
            self.records[partition, offset] = Record(partition, offset, timestamp, key, value)
        for log in (self.history, self.log):
            log.entries[partition].append(Entry(offset, timestamp, visible=value is not None))
        self.ends[partition] = offset + 1

    def starts(self) -> dict[TopicPartition, int]:
        return {p: self.log.gone_before.get(p, 0) for p in self.partitions}

    def grow(self, topic: str) -> None:
        """The topic gets one partition more."""
        more = TopicPartition(topic, sum(each.topic == topic for each in self.partitions))
        self.partitions = tuple(sorted((*self.partitions, more)))
        self.history.entries[more], self.log.entries[more], self.ends[more] = [], [], 0

    def compact(self, partition: TopicPartition, offset: int) -> None:
        """Take one record away; the newest stays, as in Kafka."""
        kept = [each for each in self.log.entries[partition] if each.offset != offset]
        self.log.entries[partition] = kept if offset < self.ends[partition] - 1 else self.log.entries[partition]

    def discovery(self, *_: Any) -> Discovery:
        counts = {p.topic: p.partition + 1 for p in self.partitions}
        topics = (Topic(name, f"id-{name}", count, name in self.compacted) for name, count in counts.items())
        return Discovery("cluster", tuple(topics), self.partitions)

    def fetched(self, slice_: Slice, settings: ReadSettings) -> FetchedRecords:
        """The records of a slice, as a fetch catches them."""
        progress, catch = StretchProgress(slice_), FetchedRecords(settings)
        for rank, stretch in enumerate(slice_.stretches):
            log_start = self.starts()[stretch.partition]
            if stretch.start.offset < log_start and not progress.finished()[rank]:
                if settings.on_data_loss == "fail":
                    raise DataLossError(f"{stretch.partition.at(stretch.start.offset)} is gone")
                catch.lose(stretch.partition, progress.gone_before(rank, log_start))
        come = [
            (rank, offset, time, 1)
            for rank, stretch in enumerate(slice_.stretches)
            if not progress.finished()[rank]
            for offset, time in self.log.scan(
                stretch.partition, int(progress.position[rank]), self.ends[stretch.partition], count=False
            )
        ]
        columns = Columns(*np.array(come, np.int64).reshape(-1, 4).T)
        messages = [self.records[slice_.stretches[rank].partition, offset].message() for rank, offset, *_ in come]
        catch.add(messages, columns, progress.admit(*columns[:3]))
        return catch


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
    `past` are the rows of topics that were made anew, as far as they need not be there any more.
    """

    counts: dict[str, int]
    compacted: frozenset[str] = frozenset()
    cleaned: set[tuple[TopicPartition, int]] = field(default_factory=set)
    past: list[Row] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    logs: dict[TopicPartition, list[Row]] = field(default_factory=lambda: defaultdict(list))
    flying: list[Row] = field(default_factory=list)
    picked: int = 0

    def land(self, row: Row) -> None:
        self.logs[TopicPartition(row.name, row.number)].append(row)

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

    def look_up(self, _config: Any, names: Any, *_: Any) -> dict[str, OutputTopic]:
        most = {DEAD: DEFAULT_MAX_BYTES}
        return {
            n: OutputTopic(n, self._id(n), self.counts[n], most.get(n, MOST_BYTES), compacted=n in self.compacted)
            for n in names
        }

    def discovery(self, _config: Any, named: Any, *_: Any) -> Discovery:
        topics = [Topic(name, self._id(name), self.counts[name], name in self.compacted) for name in named.topics]
        partitions = [TopicPartition(topic.name, n) for topic in topics for n in range(topic.partitions)]
        return Discovery("cluster", tuple(topics), tuple(partitions))

    def _id(self, name: str) -> str:
        return f"id-{name}-{self.made[name]}"

    def ends(self, _config: Any, partitions: Any, *_: Any) -> Offsets:
        return Offsets((partition, len(self.logs[partition])) for partition in partitions)

    def settle(
        self, _config: Any, partitions: Any, noted: Offsets, take: Callable[[Any], int], _settle: Any
    ) -> Settled:
        """Read all from the note on; what was on its way lands between two looks."""
        at = {partition: noted.get(partition, 0) for partition in partitions}
        for flying in (self.flying, []):
            for partition, start in at.items():
                rows = enumerate(self.logs[partition])
                take([row.message() for n, row in rows if n >= start and (partition, n) not in self.cleaned])
                at[partition] = len(self.logs[partition])
            for row in flying:
                self.land(row)
            self.flying = []
        return Settled(settled=True, gone=0)


@dataclass
class SmallProducer:
    """Holds what it is given until it is flushed; what it leaves of that in each partition is `fate`'s to say."""

    outputs: Outputs
    touch: Callable[[], None]
    fate: Callable[[], int]
    write: int
    waiting: list[Row] = field(default_factory=list)

    def produce(self, topic: str, value: Any, key: Any, number: int, *more: Any) -> None:
        self.touch()
        number = self.outputs.pick(topic) if number < 0 else number
        assert number < self.outputs.counts[topic]
        self.waiting.append(Row(topic, number, key, value, dict(more[-1])[HEADER], self.write))

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
            landed, flying = self.fate(), self.fate()
            for row in rows[:landed]:
                self.outputs.land(row)
            self.outputs.flying += rows[landed : landed + flying]

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return len(self.waiting)


@dataclass(frozen=True)
class Plugs:
    """What the package meets in place of Kafka and Spark, beside the source and the outputs."""

    source: Source
    outputs: Outputs
    touch: Callable[[str], None]
    fate: Callable[[], int]
    writes: Callable[[], int]
    batch_bytes: Callable[[], int]
    facts: PlanFacts


@contextmanager
def plugged_in(plugs: Plugs) -> Iterator[None]:
    """The package on a small Kafka and a small Spark."""
    with pytest.MonkeyPatch.context() as patch:
        _plug_source(patch, plugs)
        _plug_outputs(patch, plugs)
        _plug_spark(patch, plugs)
        yield


def _plug_source(patch: pytest.MonkeyPatch, plugs: Plugs) -> None:
    source = plugs.source

    def fetch(slice_: Slice, settings: ReadSettings, _budget: int | None) -> FetchedRecords:
        plugs.touch("source")
        return source.fetched(slice_, settings)

    def ends(*_: Any, **__: Any) -> Ends:
        return Ends(Offsets(source.ends), Offsets(source.ends))

    def starts(_config: Any, _start: Any, partitions: Sequence[TopicPartition], *_: Any, **__: Any) -> ResolvedStart:
        return ResolvedStart(Offsets(dict.fromkeys(partitions, 0)))

    patch.setattr(reader, "_fetch", fetch)
    for module in (cluster, ranges):
        patch.setattr(module, "KafkaLog", lambda *_: source.log)
    for module in (cluster, ranges, survey):
        patch.setattr(module, "discover", source.discovery)
    patch.setattr(survey, "readable_ends", ends)
    patch.setattr(survey, "resolve_start", starts)
    patch.setattr(survey, "log_starts", lambda _config, partitions: Offsets(dict.fromkeys(partitions, 0)))
    patch.setattr(samples, "EACH", 1)  # so that keys may stand elsewhere than the sample says
    patch.setattr(plan, "WINDOW", 3)
    settings = frames.ReadSettings
    patch.setattr(frames, "ReadSettings", lambda *a, **more: settings(*a, **more, batch_bytes=plugs.batch_bytes()))


def _plug_outputs(patch: pytest.MonkeyPatch, plugs: Plugs) -> None:
    outputs = plugs.outputs

    @contextmanager
    def lend(_config: Mapping[str, str]) -> Iterator[PooledProducer]:
        made = SmallProducer(outputs, lambda: plugs.touch("output"), plugs.fate, plugs.writes())
        try:
            yield PooledProducer(made, 1.0)
        except BaseException:
            made.purge()
            raise

    patch.setattr(producer.POOL, "lend", lend)
    patch.setattr(writing, "look_up_outputs", outputs.look_up)
    patch.setattr(kafka_output, "high_ends", outputs.ends)
    patch.setattr(replays, "high_ends", outputs.ends)
    patch.setattr(replays, "discover", outputs.discovery)
    patch.setattr(replays, "read_until_settled", outputs.settle)


def _plug_spark(patch: pytest.MonkeyPatch, plugs: Plugs) -> None:
    for module in (kafka_lanes, kafka_writer, limit, layout, writer):
        patch.setattr(module, "read_plan", lambda *_, **__: plugs.facts)
    patch.setattr(ordering, "read_any_plan", lambda *_: plugs.facts)
    patch.setattr(pyspark.sql, "Observation", SmallObservation)
    patch.setattr(TaskContext, "get", staticmethod(here))
    patch.setattr(pyspark.sql, "functions", functions)
