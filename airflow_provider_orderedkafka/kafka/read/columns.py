"""Ordered records as columns: those of Spark's Kafka source, `order_time` and `late`.

As Arrow batches each payload is copied only once. `Records`, on their way to a producer, are like an Arrow batch whose
columns are built when needed: keys and values stay Python objects, so that a plain copy does not pack them into Arrow
and out again. Functions for payloads and headers take either form.

`arrange` sorts them as they arrived into the order `(order_time, topic, partition, offset)`. Topics and partitions are
ranks there: their place in the slice, which is the order of `(topic, partition)`.

Kafka allows any bytes as a header's name, but the Python client reads UTF-8 only. Any other name becomes `UNREADABLE`,
with the header's value, so that its record can be read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from numpy.typing import NDArray

from ...core.order.cuts import Slice
from ...core.order.positions import Position, TopicPartition
from ...errors import OrderViolationError
from ..clients.pools import ReadSettings

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The records of a slice in order; `arrival` has the index of each in the order of arrival."""

    arrival: NDArray[np.intp]
    rank: Ints
    offset: Ints
    timestamp: Ints
    order_time: Ints
    late: NDArray[np.bool_]

    def first_violation(self, rows: slice) -> int | None:
        """The first of these rows that is not before the row after it."""
        time, rank, offset = (np.diff(column[rows]) for column in (self.order_time, self.rank, self.offset))
        rising = (time > 0) | ((time == 0) & ((rank > 0) | ((rank == 0) & (offset > 0))))
        return None if rising.all() else int(rows.start + np.argmin(rising))


def counting(timestamp: Ints, latest: int) -> NDArray[np.bool_]:
    """Which timestamps count: `core.cuts.counts`, for a column."""
    return (timestamp >= 0) & (timestamp <= latest)


def arrange(slice_: Slice, rank: Ints, offset: Ints, timestamp: Ints) -> Ordered:
    """Raises OrderViolationError if the records of a partition did not arrive in the order of their offsets."""
    grouped = _stable_order(rank)
    rank, offset, timestamp = rank[grouped], offset[grouped], timestamp[grouped]
    _check_arrival(slice_, rank, offset)
    counted = counting(timestamp, slice_.latest)
    order_time = _running_maximum(slice_, rank, np.where(counted, timestamp, -1))
    order = _stable_order(order_time)
    counted, timestamp, order_time = counted[order], timestamp[order], order_time[order]
    return Ordered(
        arrival=grouped[order],
        rank=rank[order],
        offset=offset[order],
        timestamp=timestamp,
        order_time=order_time,
        late=counted & (timestamp < order_time),
    )


def _stable_order(values: Ints) -> NDArray[np.intp]:
    if values.size == 0 or bool((values[1:] >= values[:-1]).all()):
        return np.arange(values.size)
    return np.argsort(values, kind="stable")


def _running_maximum(slice_: Slice, rank: Ints, counting: Ints) -> Ints:
    floors = np.array([stretch.floor for stretch in slice_.stretches], np.int64)
    highest = np.maximum(counting, floors[rank])
    edges = np.flatnonzero(np.diff(rank)) + 1
    for group in np.split(highest, edges):
        np.maximum.accumulate(group, out=group)
    return highest


def _check_arrival(slice_: Slice, rank: Ints, offset: Ints) -> None:
    wrong = np.flatnonzero((np.diff(rank) == 0) & (np.diff(offset) <= 0))
    if wrong.size:
        partition = slice_.stretches[rank[wrong[0]]].partition
        before, after = offset[wrong[0]], offset[wrong[0] + 1]
        raise OrderViolationError(
            f"{partition.at(after)} arrived after {partition.at(before)}: expected offsets to rise",
            **partition._asdict(),
            offset=int(after),
        )


Header = tuple[str, bytes | None]
Lists = Sequence[list[Header] | None]

UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of each record, or None; their size in bytes, and how many they are."""

    lists: Lists
    sizes: Ints
    counts: Ints

    @classmethod
    def of(cls, lists: Lists) -> "Headers":
        if not any(lists):
            return cls(lists, np.zeros(len(lists), np.int64), np.zeros(len(lists), np.int64))
        sizes = [sum(len(name) + len(value or b"") for name, value in each or ()) for each in lists]
        return cls(lists, np.array(sizes, np.int64), np.array([len(each or ()) for each in lists], np.int64))

    def only(self, which: NDArray[np.bool_]) -> "Headers":
        return Headers(list(compress(self.lists, which.tolist())), self.sizes[which], self.counts[which])

    @classmethod
    def joined(cls, parts: "Sequence[Headers]") -> "Headers":
        lists = list(chain.from_iterable(part.lists for part in parts))
        sizes, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("sizes", "counts"))
        return cls(lists, sizes, counts)

    def array(self, places: NDArray[np.intp]) -> Any:
        return pa.array([self.lists[at] for at in places.tolist()], HEADERS)


def headers_of(messages: Sequence[Message]) -> list[list[Header] | None]:
    found: list[list[Header] | None] = []
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, messages[len(found) :]))
        except SystemError:  # raised by the next message: one of its names is not UTF-8
            found.append(_readable(messages[len(found)]))
    return found


def _readable(message: Message) -> list[Header]:
    """Read the headers again without unreadable names: touching one would end the process."""
    pairs: list[Any] = message.headers() or []
    return [(UNREADABLE if repr(pair).startswith("(<NULL>") else pair[0], pair[1]) for pair in pairs]


@dataclass(frozen=True, slots=True)
class Payloads:
    """Keys or values as Python objects; nulls are empty, with a size of -1."""

    data: NDArray[np.object_]
    sizes: Ints

    @classmethod
    def of(cls, payloads: Sequence[bytes | None]) -> "Payloads":
        try:
            sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))  # type: ignore[arg-type]
        except TypeError:  # one of them is null
            sizes = np.array([-1 if payload is None else len(payload) for payload in payloads], np.int64)
            payloads = [payload or b"" for payload in payloads]
        return cls(np.fromiter(payloads, np.object_, len(payloads)), sizes)

    def take(self, places: NDArray[np.intp] | NDArray[np.bool_]) -> "Payloads":
        return Payloads(self.data[places], self.sizes[places])

    @classmethod
    def joined(cls, parts: "Sequence[Payloads]") -> "Payloads":
        return cls(np.concatenate([part.data for part in parts]), np.concatenate([part.sizes for part in parts]))

    def array(self) -> Any:
        return pa.array(self.data, pa.binary(), mask=self.sizes < 0)

    def as_list(self) -> list[bytes | None]:
        values: list[bytes | None] = self.data.tolist()
        for place in np.flatnonzero(self.sizes < 0).tolist():
            values[place] = None
        return values


def as_list(column: Any) -> list[Any]:
    return column.as_list() if isinstance(column, Payloads) else column.to_pylist()


def as_array(column: Any) -> Any:
    return column.array() if isinstance(column, Payloads) else column


def sizes(column: Any) -> Ints:
    """The size of each in bytes; 0 for null."""
    if isinstance(column, Payloads):
        return np.maximum(column.sizes, 0)
    found: Ints = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return found


def nulls(column: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (
        column.sizes < 0 if isinstance(column, Payloads) else column.is_null().to_numpy(zero_copy_only=False)
    )
    return found


Which = slice | NDArray[np.intp]
"""Some rows of a slice: a span of them, or any."""

_MOMENT = pa.timestamp("us", tz="UTC")
LAST_MILLISECOND: Final = (int(np.iinfo(np.int64).max) - 2_440_588 * 86_400_000_000) // 1_000
"""Of the last time that Spark writes to Parquet, where it counts microseconds from the first Julian day."""

_ROW_BYTES = 64  # of a row, besides its key, value and headers

_COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _MOMENT,
    "timestampType": pa.int32(),
    "headers": HEADERS,
    "order_time": _MOMENT,
    "late": pa.bool_(),
}


def names(*, include_headers: bool) -> tuple[str, ...]:
    return tuple(name for name in _COLUMNS if include_headers or name != "headers")


def schema(*, include_headers: bool, only: Sequence[str] | None = None) -> Any:
    """The Arrow schema that Spark expects, of all columns or of those in `only`."""
    asked = names(include_headers=include_headers) if only is None else only
    return pa.schema([(name, _COLUMNS[name]) for name in asked])


_KEY, _VALUE = Message.key, Message.value
RECORD_OVERHEAD = 200  # of a record in memory, besides its key, value and headers
_HEADER_OVERHEAD = 200  # ... and of a header, besides its name and value


class Columns(NamedTuple):
    """The integer columns of some records; `kind` is the timestamp type: Spark's is one less, -1 for none."""

    rank: Ints
    offset: Ints
    timestamp: Ints
    kind: Ints

    def only(self, which: NDArray[np.bool_]) -> "Columns":
        return Columns(*(column[which] for column in self))


@dataclass(frozen=True)
class Part:
    """Some records as they arrived."""

    columns: Columns
    keys: Payloads
    values: Payloads
    headers: Headers | None

    @classmethod
    def of(cls, messages: list[Message], columns: Columns, settings: ReadSettings) -> "Part":
        """What these messages have. It is taken out of them at once: the client reuses their memory while it is hot.

        Keys and values of columns that were not asked for are empty.
        """
        return cls(
            columns,
            Payloads.of(list(map(_KEY, messages)) if settings.asks_for("key") else [b""] * len(messages)),
            Payloads.of(list(map(_VALUE, messages)) if settings.asks_for("value") else [b""] * len(messages)),
            Headers.of(headers_of(messages)) if settings.include_headers else None,
        )

    @cached_property
    def bytes(self) -> int:
        """About how much memory it takes."""
        found = int(sizes(self.keys).sum() + sizes(self.values).sum()) + len(self.columns.rank) * RECORD_OVERHEAD
        if self.headers is not None:
            found += int(self.headers.sizes.sum()) + _HEADER_OVERHEAD * int(self.headers.counts.sum())
        return found

    @cached_property
    def runs(self) -> tuple[Ints, Ints]:
        """Where partitions follow each other: the rank and the first offset of each run of records."""
        rank, offset, _, _ = self.columns
        begins = np.concatenate([[0], np.flatnonzero(np.diff(rank)) + 1])
        return rank[begins], offset[begins]

    def only(self, which: Bools) -> "Part":
        if which.all():
            return self
        headers = None if self.headers is None else self.headers.only(which)
        return Part(self.columns.only(which), self.keys.take(which), self.values.take(which), headers)


class BatchBuilder:
    """Builds the batches of one slice, with all columns or the requested ones."""

    def __init__(self, slice_: Slice, part: Part, ordered: Ordered, only: Sequence[str] | None = None) -> None:
        self.schema = schema(include_headers=part.headers is not None, only=only)
        self._part = part
        self._ordered = ordered
        partitions = [stretch.partition for stretch in slice_.stretches]
        self._all = partitions
        self._topics = pa.array([partition.topic for partition in partitions], pa.string())
        self._one_topic = partitions[0].topic if len({partition.topic for partition in partitions}) == 1 else None
        self._partitions = np.array([partition.partition for partition in partitions], np.int32)
        self._sizes = (sizes(part.keys) + sizes(part.values))[ordered.arrival]
        headers = 0 if part.headers is None else part.headers.sizes[ordered.arrival]
        self._row_bytes = self._sizes + headers + _ROW_BYTES

    def spans(self, batch_bytes: int) -> Iterator[slice]:
        """The rows of each batch: about this many bytes, at least one row."""
        ends = np.cumsum(self._row_bytes)
        row = 0
        while row < len(ends):
            before = ends[row - 1] if row else 0
            stop = max(row + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
            yield slice(row, stop)
            row = stop

    def payload(self, rows: slice) -> int:
        return int(self._sizes[rows].sum())

    def reached(self, rows: slice) -> dict[TopicPartition, int]:
        """The next offset of each partition that these rows are of."""
        following = np.full(len(self._all), -1, np.int64)
        following[self._ordered.rank[rows]] = self._ordered.offset[rows] + 1  # of several rows, the last one's stays
        return {partition: int(offset) for partition, offset in zip(self._all, following, strict=True) if offset >= 0}

    def position(self, row: int) -> Position:
        """Where a row is in the order."""
        ordered = self._ordered
        return Position(int(ordered.order_time[row]), self._all[ordered.rank[row]], int(ordered.offset[row]))

    def batch(self, rows: slice) -> Any:
        columns = [self.column(name, rows) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def column(self, name: str, rows: Which) -> Any:
        return _MAKE[name](self, rows)

    def keys(self, rows: Which) -> Payloads:
        return self._part.keys.take(self._ordered.arrival[rows])

    def values(self, rows: Which) -> Payloads:
        return self._part.values.take(self._ordered.arrival[rows])

    def _kinds(self, rows: Which) -> Any:
        return pa.array((self._part.columns.kind[self._ordered.arrival[rows]] - 1).astype(np.int32))

    def _headers(self, rows: Which) -> Any:
        assert self._part.headers is not None
        return self._part.headers.array(self._ordered.arrival[rows])

    def _topic(self, rows: Which) -> Any:
        rank = self._ordered.rank[rows]
        if self._one_topic is not None:
            return pa.repeat(self._one_topic, len(rank))
        return self._topics.take(pa.array(rank))


def _moments(milliseconds: Ints) -> Any:
    """As Arrow timestamps; those too late for one become the last one."""
    return pa.array(np.minimum(milliseconds, LAST_MILLISECOND) * 1_000).cast(_MOMENT)


_MAKE: dict[str, Callable[[BatchBuilder, Which], Any]] = {
    "key": lambda self, rows: self.keys(rows).array(),
    "value": lambda self, rows: self.values(rows).array(),
    "topic": BatchBuilder._topic,
    "partition": lambda self, rows: pa.array(self._partitions[self._ordered.rank[rows]]),
    "offset": lambda self, rows: pa.array(self._ordered.offset[rows]),
    "timestamp": lambda self, rows: _moments(self._ordered.timestamp[rows]),
    "timestampType": BatchBuilder._kinds,
    "headers": BatchBuilder._headers,
    "order_time": lambda self, rows: _moments(self._ordered.order_time[rows]),
    "late": lambda self, rows: pa.array(self._ordered.late[rows]),
}


@dataclass(frozen=True, slots=True)
class Records:
    """Some rows of a slice, by their indices in its order."""

    builder: BatchBuilder
    places: NDArray[np.intp]

    @classmethod
    def of(cls, builder: BatchBuilder, rows: slice) -> "Records":
        return cls(builder, np.arange(rows.start, rows.stop))

    @property
    def num_rows(self) -> int:
        return len(self.places)

    @property
    def schema(self) -> Any:
        return self.builder.schema

    def column(self, name: str) -> Any:
        return self.builder.column(name, self.places)

    def keys(self) -> Payloads:
        return self.builder.keys(self.places)

    def values(self) -> Payloads:
        return self.builder.values(self.places)

    def filter(self, mask: NDArray[np.bool_]) -> "Records":
        return replace(self, places=self.places[mask])

    def take(self, places: NDArray[np.intp]) -> "Records":
        return replace(self, places=self.places[places])
