"""What the core needs from outside, as protocols."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from airflow_provider_orderedkafka.core.order.cuts import Bound
from airflow_provider_orderedkafka.core.order.positions import TopicPartition


class Answer(NamedTuple):
    """What a time index says: the first record, visible or not, whose timestamp is at least the one asked for."""

    offset: int
    timestamp: int


class Sighting(NamedTuple):
    """What a look from a bound found: the first visible record that satisfies it, after `passed` that do not.

    `offset` is None where no such record stands before the limit; `timestamp` then says nothing. `gave_up` says that
    the look ended early, at the record at `offset`, because too many visible records failed the bound.
    """

    offset: int | None
    timestamp: int
    passed: int
    gave_up: bool = False


class Log(Protocol):
    """The records of some partitions, as a planner may ask for them.

    The answers may change while records arrive and are deleted; each is true when it is given.
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

        A timestamp that is missing or later than `latest` fails every time. Where retention has taken what a bound
        points at, the look begins at the log's start.
        """
        ...

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each visible record from `start` on and before `end`."""
        ...


class Listed(Protocol):
    """A store that can be asked for its keys. Airflow's tasks cannot ask theirs."""

    def keys(self) -> list[str]:
        """The keys that have a value."""
        ...


class Store(Protocol):
    """Where documents are kept: values under keys. Each `set` is atomic; nothing compares before it sets."""

    def get(self, key: str) -> Any:
        """The value under the key, or None."""
        ...

    def set(self, key: str, value: Any) -> None:
        """Put a JSON value, never None, in place of what was there."""
        ...

    def delete(self, key: str) -> None:
        """Remove the key, if it exists."""
        ...
