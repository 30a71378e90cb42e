"""Topics, partitions and offsets: named, ordered, printed and stored.

The order of partitions is that of `(topic, partition)`, topics by code point. A position prints as
`topic[partition]@offset`. Offsets of many partitions are one immutable mapping with one canonical form: an array
for each topic, indexed by partition, with null for missing partitions.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from ...errors import DocumentError

LARGEST = 2**63 - 1
"""The largest offset, count or time in Kafka."""


def is_integer(value: Any, minimum: int = 0) -> bool:
    """Whether a JSON value is an integer that Kafka can hold; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= LARGEST


def whole_number(text: str) -> int | None:
    """Parse a whole number from 1 on; None if it is not one, or too large."""
    text = text.strip()
    return int(text) if text.isdecimal() and len(text) < len(str(LARGEST)) and int(text) else None


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"

    def at(self, offset: int) -> str:
        return f"{self.topic}[{self.partition}]@{offset}"


class Position(NamedTuple):
    order_time: int
    partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition.at(self.offset)} (order time {self.order_time})"


class Offsets(Mapping[TopicPartition, int]):
    """An immutable mapping of partitions to offsets, in the order of partitions."""

    __slots__ = ("_by_partition",)
    LEAST: ClassVar = 0

    def __init__(self, offsets: Mapping[TopicPartition, int] | Iterable[tuple[TopicPartition, int]] = ()) -> None:
        pairs: list[tuple[TopicPartition, int]] = sorted(offsets.items() if isinstance(offsets, Mapping) else offsets)
        for partition, offset in pairs:
            if offset < self.LEAST or partition.partition < 0:
                raise ValueError(f"offsets and partitions start at 0, found {partition.at(offset)}")
        self._by_partition: dict[TopicPartition, int] = dict(pairs)

    def __getitem__(self, partition: TopicPartition) -> int:
        return self._by_partition[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._by_partition)

    def __len__(self) -> int:
        return len(self._by_partition)

    def __hash__(self) -> int:
        return hash(tuple(self._by_partition.items()))

    def __repr__(self) -> str:
        return f"Offsets({', '.join(partition.at(offset) for partition, offset in self.items())})"

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._by_partition)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(partition.topic for partition in self._by_partition))

    def since(self, start: Mapping[TopicPartition, int]) -> int:
        """How many offsets lie between `start` and here; a partition that `start` lacks counts from 0."""
        return sum(offset - start.get(partition, 0) for partition, offset in self.items())

    @property
    def spread(self) -> dict[str, float]:
        """The least, the most and the average of counts by partition; nothing where there are none."""
        counts = self._by_partition.values()
        return {"min": min(counts), "max": max(counts), "avg": sum(counts) / len(counts)} if counts else {}

    def __add__(self, more: Mapping[TopicPartition, int]) -> Self:
        """Counts by partition and more of them."""
        return self.updated({partition: self.get(partition, 0) + count for partition, count in more.items()})

    def updated(self, others: Mapping[TopicPartition, int]) -> Self:
        return type(self)({**self._by_partition, **others})

    def to_json(self) -> dict[str, list[int | None]]:
        arrays: dict[str, list[int | None]] = {}
        for (topic, partition), offset in self.items():
            array = arrays.setdefault(topic, [])
            array.extend([None] * (partition - len(array)))
            array.append(offset)
        return arrays

    @classmethod
    def from_json(cls, value: Any, path: str = "offsets") -> Self:
        """Parse the canonical form; a `DocumentError` has the path of what is wrong."""
        if not isinstance(value, dict):
            raise DocumentError(f"{path!r} must be an object of arrays by topic, found {value!r}")
        found: dict[TopicPartition, int] = {}
        for topic, array in value.items():
            if not isinstance(array, list):
                raise DocumentError(f"'{path}.{topic}' must be an array indexed by partition, found {array!r}")
            for partition, offset in enumerate(array):
                if offset is None:
                    continue
                if not is_integer(offset, cls.LEAST):
                    where, expected = f"{path}.{topic}[{partition}]", f"an integer from {cls.LEAST} to {LARGEST}"
                    raise DocumentError(f"{where!r} must be {expected}, found {offset!r}")
                found[TopicPartition(topic, partition)] = offset
        return cls(found)
