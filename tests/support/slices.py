"""Slices written by hand, and what reading them gave, as plain values."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from airflow_provider_orderedkafka.core.order.cuts import BEFORE_TIME, Bound, Floor, Slice, Stretch
from airflow_provider_orderedkafka.core.order.positions import TopicPartition

FAR = 4_102_444_800_000


class Row(NamedTuple):
    """One row that a reader gave, times in milliseconds."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int
    kind: int
    order_time: int
    late: bool

    @property
    def place(self) -> tuple[int, str, int, int]:
        """Where it stands in the order."""
        return self.order_time, self.topic, self.partition, self.offset


def stretch(
    topic: str,
    partition: int = 0,
    start: Bound | tuple[int, int | None] | int = 0,
    end: Bound | tuple[int, int | None] | int = 0,
    limit: int | None = None,
    *,
    floor: int = BEFORE_TIME,
) -> Stretch:
    """A stretch; plain numbers are literal offsets, and the limit is the end's offset unless it is given."""
    first, last = (Bound(bound) if isinstance(bound, int) else Bound(*bound) for bound in (start, end))
    return Stretch(TopicPartition(topic, partition), first, last, last.offset if limit is None else limit, floor)


def slice_of(*stretches: Stretch, latest: int = FAR, index: int = 0) -> Slice:
    """A slice of these stretches, whose floor is the lowest of theirs."""
    offsets = sum(s.end.offset - s.start.offset for s in stretches)
    floor = Floor(min((s.floor for s in stretches), default=BEFORE_TIME))
    return Slice(index, tuple(sorted(stretches)), latest, offsets, floor)


def whole(topic: str, ends: Mapping[int, int], starts: Mapping[int, int] | None = None) -> Slice:
    """All of these partitions between literal offsets."""
    return slice_of(*(stretch(topic, p, (starts or {}).get(p, 0), end) for p, end in ends.items()))


def rows(batches: Iterable[Any]) -> list[Row]:
    """The rows of Arrow batches."""
    return [row for batch in batches for row in _rows(batch)]


def _rows(batch: Any) -> list[Row]:
    columns = batch.drop_columns([name for name in batch.schema.names if name == "headers"]).to_pydict()
    for name in ("timestamp", "order_time"):
        columns[name] = [micros // 1000 for micros in batch.column(name).cast("int64").to_pylist()]
    return [Row(*values) for values in zip(*columns.values(), strict=True)]
