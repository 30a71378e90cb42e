"""Records in order to Arrow batches, with the columns of Spark's Kafka source, `order_time` and `late`.

A payload is copied once, into the place where it stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.cuts import Slice
from airflow_provider_orderedkafka.kafka.ordering import Ordered

Ints = NDArray[np.int64]
Header = tuple[str, bytes | None]

_MOMENT = pa.timestamp("us", tz="UTC")
_HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
_MICROSECONDS = 1_000
_LAST_MILLISECOND = np.iinfo(np.int64).max // _MICROSECONDS
_ROW_BYTES = 64  # what a row takes beside its key and value

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key:string,value:binary>>"
ORDER = "order_time timestamp, late boolean"


def columns(*, include_headers: bool) -> str:
    """The columns as Spark's DDL."""
    return ", ".join([COLUMNS, HEADERS, ORDER] if include_headers else [COLUMNS, ORDER])


def schema(*, include_headers: bool) -> Any:
    """The Arrow schema that Spark expects for these columns."""
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _MOMENT),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
        ("order_time", _MOMENT),
        ("late", pa.bool_()),
    ]
    return pa.schema([field for field in fields if include_headers or field[0] != "headers"])


@dataclass(frozen=True, slots=True)
class Payloads:
    """Keys or values of records as they arrived: null ones are empty here, with a size of -1."""

    data: NDArray[np.object_]
    sizes: Ints

    def take(self, arrivals: NDArray[np.intp]) -> Any:
        """An Arrow array of these payloads, in this order."""
        sizes = self.sizes[arrivals]
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(np.maximum(sizes, 0), out=offsets[1:])
        data = b"".join(self.data[arrivals].tolist())
        nulls = sizes < 0
        validity = pa.array(~nulls).buffers()[1] if nulls.any() else None
        return pa.Array.from_buffers(pa.binary(), len(sizes), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Everything of a slice's records beside their place in the order, as they arrived.

    `kind` is Spark's type of timestamp: 0 for the creation's, 1 for the log's, -1 for none.
    """

    keys: Payloads
    values: Payloads
    kind: Ints
    headers: Sequence[list[Header] | None] | None


class BatchBuilder:
    """Makes the batches of one slice."""

    def __init__(self, slice_: Slice, arrivals: Arrivals, ordered: Ordered) -> None:
        self._schema = schema(include_headers=arrivals.headers is not None)
        self._arrivals = arrivals
        self._ordered = ordered
        partitions = [stretch.partition for stretch in slice_.stretches]
        self._topics = pa.array([partition.topic for partition in partitions], pa.string())
        self._one_topic = partitions[0].topic if len({partition.topic for partition in partitions}) == 1 else None
        self._partitions = np.array([partition.partition for partition in partitions], np.int32)

    def spans(self, batch_bytes: int) -> Iterator[slice]:
        """The rows of each batch: about this many bytes, at least one row."""
        sizes = np.maximum(self._arrivals.keys.sizes, 0) + np.maximum(self._arrivals.values.sizes, 0) + _ROW_BYTES
        ends = np.cumsum(sizes[self._ordered.arrival])
        row = 0
        while row < len(ends):
            before = ends[row - 1] if row else 0
            stop = max(row + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
            yield slice(row, stop)
            row = stop

    def batch(self, rows: slice) -> Any:
        """The Arrow batch of these rows."""
        ordered, arrivals = self._ordered, self._arrivals
        arrival, rank = ordered.arrival[rows], ordered.rank[rows]
        arrays = [
            arrivals.keys.take(arrival),
            arrivals.values.take(arrival),
            self._topic(rank),
            pa.array(self._partitions[rank]),
            pa.array(ordered.offset[rows]),
            _moments(ordered.timestamp[rows]),
            pa.array(arrivals.kind[arrival].astype(np.int32)),
            _moments(ordered.order_time[rows]),
            pa.array(ordered.late[rows]),
        ]
        if arrivals.headers is not None:
            arrays.insert(7, pa.array([arrivals.headers[at] for at in arrival.tolist()], _HEADERS))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _topic(self, rank: Ints) -> Any:
        if self._one_topic is not None:
            return pa.repeat(pa.scalar(self._one_topic, pa.string()), len(rank))
        return self._topics.take(pa.array(rank))


def _moments(milliseconds: Ints) -> Any:
    """Milliseconds as moments; one that no moment can show is shown as the last one."""
    return pa.array(np.minimum(milliseconds, _LAST_MILLISECOND) * _MICROSECONDS).view(_MOMENT)
