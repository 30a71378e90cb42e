"""Convert ordered records to Arrow batches: the columns of Spark's Kafka source, `order_time` and `late`.

Each payload is copied only once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.kafka.read.headers import HEADERS, Headers
from airflow_provider_orderedkafka.kafka.read.ordering import Ordered
from airflow_provider_orderedkafka.kafka.read.payloads import Payloads

Ints = NDArray[np.int64]
Which = slice | NDArray[np.intp]
"""Some rows of a slice: a span of them, or any."""

_MOMENT = pa.timestamp("us", tz="UTC")
_LAST_MILLISECOND = np.iinfo(np.int64).max // 1_000
_ROW_BYTES = 64  # of a row, besides its key, value and headers

_COLUMNS = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "offset": ("long", pa.int64()),
    "timestamp": ("timestamp", _MOMENT),
    "timestampType": ("int", pa.int32()),
    "headers": ("array<struct<key:string,value:binary>>", HEADERS),
    "order_time": ("timestamp", _MOMENT),
    "late": ("boolean", pa.bool_()),
}
"""The type of each column, in Spark's DDL and in Arrow."""


def names(*, include_headers: bool) -> tuple[str, ...]:
    return tuple(name for name in _COLUMNS if include_headers or name != "headers")


def columns(*, include_headers: bool) -> str:
    return ", ".join(f"{name} {_COLUMNS[name][0]}" for name in names(include_headers=include_headers))


def schema(*, include_headers: bool, only: Sequence[str] | None = None) -> Any:
    """The Arrow schema that Spark expects, of all columns or of those in `only`."""
    asked = names(include_headers=include_headers) if only is None else only
    return pa.schema([(name, _COLUMNS[name][1]) for name in asked])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a slice's records have besides their place in the order, as they arrived.

    `kind` is Spark's timestamp type: 0 for create time, 1 for log append time, -1 for none.
    """

    keys: Payloads
    values: Payloads
    kind: Ints
    headers: Headers | None


class BatchBuilder:
    """Builds the batches of one slice, with all columns or the requested ones."""

    def __init__(self, slice_: Slice, arrivals: Arrivals, ordered: Ordered, only: Sequence[str] | None = None) -> None:
        self._schema = schema(include_headers=arrivals.headers is not None, only=only)
        self._arrivals = arrivals
        self._ordered = ordered
        partitions = [stretch.partition for stretch in slice_.stretches]
        self._topics = pa.array([partition.topic for partition in partitions], pa.string())
        self._one_topic = partitions[0].topic if len({partition.topic for partition in partitions}) == 1 else None
        self._partitions = np.array([partition.partition for partition in partitions], np.int32)
        sizes = np.maximum(arrivals.keys.sizes, 0) + np.maximum(arrivals.values.sizes, 0)
        self._sizes = sizes[ordered.arrival]
        headers = 0 if arrivals.headers is None else arrivals.headers.sizes[ordered.arrival]
        self._row_bytes = self._sizes + headers + _ROW_BYTES

    @property
    def schema(self) -> Any:
        return self._schema

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

    def batch(self, rows: slice) -> Any:
        columns = [self.column(name, rows) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def column(self, name: str, rows: Which) -> Any:
        return _MAKE[name](self, rows)

    def keys(self, rows: Which) -> Payloads:
        return self._arrivals.keys.take(self._ordered.arrival[rows])

    def values(self, rows: Which) -> Payloads:
        return self._arrivals.values.take(self._ordered.arrival[rows])

    def _kinds(self, rows: Which) -> Any:
        return pa.array(self._arrivals.kind[self._ordered.arrival[rows]].astype(np.int32))

    def _headers(self, rows: Which) -> Any:
        assert self._arrivals.headers is not None
        return self._arrivals.headers.array(self._ordered.arrival[rows])

    def _topic(self, rows: Which) -> Any:
        rank = self._ordered.rank[rows]
        if self._one_topic is not None:
            return pa.repeat(self._one_topic, len(rank))
        return self._topics.take(pa.array(rank))


def _moments(milliseconds: Ints) -> Any:
    """As Arrow timestamps; those too late for one become the last one."""
    return pa.array(np.minimum(milliseconds, _LAST_MILLISECOND) * 1_000).cast(_MOMENT)


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
