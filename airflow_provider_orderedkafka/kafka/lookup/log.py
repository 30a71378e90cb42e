"""`KafkaLog`: the records of some partitions, as the planner asks for them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.cuts import Bound, counts
from airflow_provider_orderedkafka.core.order.ports import Answer, Sighting
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE
from airflow_provider_orderedkafka.kafka.clients.consumers import pooled_consumer
from airflow_provider_orderedkafka.kafka.lookup.offsets import first_at, newest
from airflow_provider_orderedkafka.kafka.lookup.partition_reader import PartitionReader
from airflow_provider_orderedkafka.kafka.lookup.topics import recheck
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

NO_TIMESTAMP: Final = -1

_OFFSET, _TIME = Message.offset, Message.timestamp
# A look needs one record of each partition, so the broker should send little.
_LITTLE: Final = {"fetch.message.max.bytes": "16384", "queued.min.messages": "1"}


class KafkaLog:
    """A log on a cluster, at one isolation level. `deadline` is how many seconds may pass without progress.

    All methods raise UnreachableError, AccessDeniedError or UnknownTopicError.
    """

    def __init__(
        self, config: Mapping[str, str], isolation: Isolation = "read_committed", deadline: float = DEADLINE
    ) -> None:
        self._config = config
        self._isolation: Isolation = isolation
        self._deadline = deadline

    def first_at(
        self, partitions: Sequence[TopicPartition], times: Sequence[int]
    ) -> Sequence[Mapping[TopicPartition, Answer]]:
        return first_at(self._config, partitions, times, self._isolation, self._deadline)

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        return newest(self._config, partitions, self._deadline)

    def look(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> Mapping[TopicPartition, Sighting]:
        search = BoundSearch(bounds, limits, latest, patience)
        if search.open:
            with self._reading({p: bounds[p].offset for p in search.open}, limits, _LITTLE) as reader:
                while search.open:
                    for message in reader.take():
                        partition = TopicPartition(message.topic(), message.partition())
                        search.judge(partition, message.offset(), _timestamp(*message.timestamp()))
                    search.reached(reader.positions)
                    reader.let_go([partition for partition in reader.positions if partition not in search.open])
        return search.seen

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        if start >= end:
            return
        with self._reading({partition: start}, {partition: end}, {}) as reader:
            while reader.positions[partition] < end:
                messages = reader.take()
                times = starmap(_timestamp, map(_TIME, messages))
                yield from (seen for seen in zip(map(_OFFSET, messages), times, strict=True) if seen[0] < end)

    @contextmanager
    def _reading(
        self, starts: Mapping[TopicPartition, int], limits: Mapping[TopicPartition, int], tuning: Mapping[str, str]
    ) -> Iterator[PartitionReader]:
        settings = ReadSettings({**self._config, **tuning}, isolation=self._isolation)
        with pooled_consumer(settings) as pooled:
            reader = PartitionReader(pooled, limits, self._deadline, partial(recheck, self._config, list(limits), {}))
            reader.begin(starts)
            yield reader


class BoundSearch:
    """Finds the first visible record at or after each bound, while records arrive.

    `seen` has the results, `open` how many records have failed the bound in each partition that is not done.
    """

    def __init__(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> None:
        self.open = dict.fromkeys(bounds, 0)
        self.seen: dict[TopicPartition, Sighting] = {}
        self._bounds = bounds
        self._limits = limits
        self._latest = latest
        self._patience = patience
        self.reached({partition: bound.offset for partition, bound in bounds.items()})

    def judge(self, partition: TopicPartition, offset: int, timestamp: int) -> None:
        if partition not in self.open or offset >= self._limits[partition]:
            return
        passed = self.open[partition]
        if self._satisfied(self._bounds[partition], timestamp):
            self._close(partition, Sighting(offset, timestamp, passed))
        elif passed >= self._patience:
            self._close(partition, Sighting(offset, timestamp, passed + 1, gave_up=True))
        else:
            self.open[partition] = passed + 1

    def reached(self, positions: Mapping[TopicPartition, int]) -> None:
        """Close partitions that were read up to their limit."""
        for partition, position in positions.items():
            if partition in self.open and position >= self._limits[partition]:
                self._close(partition, Sighting(None, NO_TIMESTAMP, self.open[partition]))

    def _satisfied(self, bound: Bound, timestamp: int) -> bool:
        return bound.time is None or (counts(timestamp, self._latest) and timestamp >= bound.time)

    def _close(self, partition: TopicPartition, sighting: Sighting) -> None:
        del self.open[partition]
        self.seen[partition] = sighting


def _timestamp(kind: int, timestamp: int) -> int:
    return NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
