"""`KafkaLog`: the records of some partitions, as a planner asks for them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from airflow_provider_orderedkafka.core.cuts import Bound, counts
from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.ports import Answer, Sighting
from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.answers import DEADLINE
from airflow_provider_orderedkafka.kafka.consumers import lent
from airflow_provider_orderedkafka.kafka.offsets import first_at
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
from airflow_provider_orderedkafka.kafka.watching import Watch

NO_TIMESTAMP: Final = -1

_OFFSET, _TIME = Message.offset, Message.timestamp
# A look wants one record of each partition, and no more than a broker must send for it.
_LITTLE: Final = {"fetch.message.max.bytes": "16384", "queued.min.messages": "1"}


class KafkaLog:
    """A log on a cluster, for readers of one isolation. `deadline` is how long nothing may come, in seconds."""

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

    def look(
        self,
        bounds: Mapping[TopicPartition, Bound],
        limits: Mapping[TopicPartition, int],
        latest: int,
        patience: int,
    ) -> Mapping[TopicPartition, Sighting]:
        """The first visible record at or after each bound, before its limit, after at most `patience` that fail it."""
        seen = {p: Sighting(None, NO_TIMESTAMP, 0) for p, bound in bounds.items() if bound.offset >= limits[p]}
        passed = {partition: 0 for partition in bounds if partition not in seen}
        if not passed:
            return seen
        with lent(self._settings(_LITTLE)) as kept:
            watch = Watch(kept, limits, self._deadline)
            watch.begin({partition: bounds[partition].offset for partition in passed})
            while watch.positions:
                for partition, offset, timestamp in map(_record, watch.take()):
                    if partition not in passed or partition in seen or offset >= limits[partition]:
                        continue
                    if _satisfies(timestamp, bounds[partition], latest):
                        seen[partition] = Sighting(offset, timestamp, passed[partition])
                    elif passed[partition] >= patience:
                        seen[partition] = Sighting(offset, timestamp, passed[partition] + 1, gave_up=True)
                    else:
                        passed[partition] += 1
                for partition, position in watch.positions.items():
                    if partition not in seen and position >= limits[partition]:
                        seen[partition] = Sighting(None, NO_TIMESTAMP, passed[partition])
                watch.let_go([partition for partition in watch.positions if partition in seen])
        return seen

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each visible record from `start` on and before `end`."""
        if start >= end:
            return
        with lent(self._settings({})) as kept:
            watch = Watch(kept, {partition: end}, self._deadline)
            watch.begin({partition: start})
            while watch.positions[partition] < end:
                messages = watch.take()
                times = starmap(_timestamp, map(_TIME, messages))
                yield from (seen for seen in zip(map(_OFFSET, messages), times, strict=True) if seen[0] < end)

    def _settings(self, tuning: Mapping[str, str]) -> ReadSettings:
        kafka = {**self._config, **tuning}
        return ReadSettings(kafka, read_committed=self._isolation == "read_committed")


def _record(message: Any) -> tuple[TopicPartition, int, int]:
    return TopicPartition(message.topic(), message.partition()), message.offset(), _timestamp(*message.timestamp())


def _timestamp(kind: int, timestamp: int) -> int:
    return NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else timestamp


def _satisfies(timestamp: int, bound: Bound, latest: int) -> bool:
    return bound.time is None or (counts(timestamp, latest) and timestamp >= bound.time)
