"""`KafkaLog`: the records of some partitions, as the planner asks for them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.cuts import Bound
from airflow_provider_orderedkafka.core.order.ports import Answer, Sighting
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE
from airflow_provider_orderedkafka.kafka.clients.consumers import lent
from airflow_provider_orderedkafka.kafka.lookup.bound_search import NO_TIMESTAMP, Look
from airflow_provider_orderedkafka.kafka.lookup.identity import doubt
from airflow_provider_orderedkafka.kafka.lookup.offsets import first_at, newest
from airflow_provider_orderedkafka.kafka.lookup.partition_reader import Watch
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

_OFFSET, _TIME = Message.offset, Message.timestamp
# A look wants one record of each partition, and no more than a broker must send for it.
_LITTLE: Final = {"fetch.message.max.bytes": "16384", "queued.min.messages": "1"}


class KafkaLog:
    """A log on a cluster, for readers of one isolation. `deadline` is for how many seconds nothing may come.

    Every question raises UnreachableError, AccessDeniedError or UnknownTopicError.
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
        """For each time, the index's answer for each partition; a partition without such a record is left out."""
        return first_at(self._config, partitions, times, self._isolation, self._deadline)

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        """The highest timestamp of each partition, visible or not; one without records is left out."""
        return newest(self._config, partitions, self._deadline)

    def look(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> Mapping[TopicPartition, Sighting]:
        """The first visible record at or after each bound, before its limit, after at most `patience` that fail it."""
        look = Look(bounds, limits, latest, patience)
        if look.open:
            with self._watching({p: bounds[p].offset for p in look.open}, limits, _LITTLE) as watch:
                while look.open:
                    for message in watch.take():
                        partition = TopicPartition(message.topic(), message.partition())
                        look.judge(partition, message.offset(), _timestamp(*message.timestamp()))
                    look.reached(watch.positions)
                    watch.let_go([partition for partition in watch.positions if partition not in look.open])
        return look.seen

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each visible record from `start` on and before `end`."""
        if start >= end:
            return
        with self._watching({partition: start}, {partition: end}, {}) as watch:
            while watch.positions[partition] < end:
                messages = watch.take()
                times = starmap(_timestamp, map(_TIME, messages))
                yield from (seen for seen in zip(map(_OFFSET, messages), times, strict=True) if seen[0] < end)

    @contextmanager
    def _watching(
        self, starts: Mapping[TopicPartition, int], limits: Mapping[TopicPartition, int], tuning: Mapping[str, str]
    ) -> Iterator[Watch]:
        settings = ReadSettings({**self._config, **tuning}, isolation=self._isolation)
        with lent(settings) as kept:
            watch = Watch(kept, limits, self._deadline, partial(doubt, self._config, list(limits), {}))
            watch.begin(starts)
            yield watch


def _timestamp(kind: int, timestamp: int) -> int:
    return NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
