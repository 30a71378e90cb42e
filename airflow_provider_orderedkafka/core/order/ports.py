"""What a planner needs from outside."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from airflow_provider_orderedkafka.core.order.cuts import Bound
from airflow_provider_orderedkafka.core.order.positions import TopicPartition


class Answer(NamedTuple):
    """A time index's answer: the first record, visible or not, whose timestamp is at least the given one."""

    offset: int
    timestamp: int


class Sighting(NamedTuple):
    """What a look from a bound found: the first visible record that satisfies it, after `passed` that do not.

    `offset` is None if there is no such record before the limit; `timestamp` is meaningless then. `gave_up` means that
    the look ended early, at `offset`, because too many visible records failed the bound.
    """

    offset: int | None
    timestamp: int
    passed: int
    gave_up: bool = False


class Log(Protocol):
    """What a planner needs to know of the records of some partitions.

    Answers may change while records arrive and are deleted; each is true when it is given.
    """

    def first_at(
        self, partitions: Sequence[TopicPartition], times: Sequence[int]
    ) -> Sequence[Mapping[TopicPartition, Answer]]:
        """For each time, the index's answer for each partition; a partition without such a record is left out."""
        ...

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        """The highest timestamp of each partition, visible or not; one without records is left out."""
        ...

    def look(
        self,
        bounds: Mapping[TopicPartition, Bound],
        limits: Mapping[TopicPartition, int],
        latest: int,
        patience: int,
    ) -> Mapping[TopicPartition, Sighting]:
        """The first visible record at or after each bound, before its limit, after at most `patience` that fail it.

        A timestamp that is missing or later than `latest` never satisfies a time. If retention has deleted the bound's
        offset, the look begins at the log's start.
        """
        ...

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each visible record from `start` on and before `end`."""
        ...
