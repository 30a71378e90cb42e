"""Records in order to Arrow batches, with the columns of Spark's Kafka source, `order_time` and `late`.

A payload is copied once, into the place where it stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.cuts import Slice
from airflow_provider_orderedkafka.kafka import buffers
from airflow_provider_orderedkafka.kafka.ordering import Ordered

Ints = NDArray[np.int64]
Header = tuple[str, bytes | None]

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS = pa.list_(pa.field("element", _HEADER))
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
        ("timestamp", buffers.MOMENT),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
        ("order_time", buffers.MOMENT),
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
        return buffers.payloads(self.data[arrivals].tolist(), self.sizes[arrivals])


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
        self._topics = buffers.texts([partition.topic for partition in partitions])
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
            buffers.numbers(self._partitions[rank]),
            buffers.numbers(ordered.offset[rows]),
            buffers.moments(ordered.timestamp[rows]),
            buffers.numbers(arrivals.kind[arrival].astype(np.int32)),
            buffers.moments(ordered.order_time[rows]),
            buffers.flags(ordered.late[rows]),
        ]
        if arrivals.headers is not None:
            arrays.insert(self._schema.get_field_index("headers"), _headers(arrivals.headers, arrival))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _topic(self, rank: Ints) -> Any:
        if self._one_topic is not None:
            return buffers.repeated(self._one_topic, len(rank))
        return self._topics.take(buffers.numbers(rank))


def _headers(headers: Sequence[list[Header] | None], arrival: NDArray[np.intp]) -> Any:
    ordered = [headers[at] for at in arrival.tolist()]
    sizes = np.array([-1 if each is None else len(each) for each in ordered], np.int64)
    items = list(chain.from_iterable(each for each in ordered if each is not None))
    value_sizes = np.array([-1 if value is None else len(value) for _, value in items], np.int64)
    values = buffers.payloads([value or b"" for _, value in items], value_sizes)
    return buffers.lists(_HEADERS, sizes, buffers.structs(_HEADER, buffers.texts([key for key, _ in items]), values))
