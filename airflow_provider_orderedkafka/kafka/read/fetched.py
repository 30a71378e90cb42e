"""The records fetched so far, as columns; payloads by reference."""

from itertools import compress, repeat
from typing import NamedTuple

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.read.arrow import Arrivals
from airflow_provider_orderedkafka.kafka.read.headers import Header, Headers, headers_of
from airflow_provider_orderedkafka.kafka.read.payloads import Payloads
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

Ints = NDArray[np.int64]

_KEY, _VALUE = Message.key, Message.value
_RECORD_OVERHEAD = 200  # of a record in memory, besides its key, value and headers
_HEADER_OVERHEAD = 200  # ... and of a header, besides its name and value


class Columns(NamedTuple):
    """The integer columns of some records; `kind` is the timestamp type."""

    rank: Ints
    offset: Ints
    timestamp: Ints
    kind: Ints

    def only(self, which: NDArray[np.bool_]) -> "Columns":
        return Columns(*(column[which] for column in self))


class FetchedRecords:
    """The records of a slice in the order of their arrival.

    Payloads are taken out of the client's messages at once, so that their memory is reused while it is cached.
    """

    def __init__(self, settings: ReadSettings) -> None:
        self._keys = _PayloadChunks()
        self._values = _PayloadChunks()
        self._headers = _HeaderChunks() if settings.include_headers else None
        self._columns: list[Columns] = []
        self.records = 0
        self.lost: dict[TopicPartition, int] = {}

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        headers = 0 if self._headers is None else self._headers.bytes
        return self._keys.bytes + self._values.bytes + headers + self.records * _RECORD_OVERHEAD

    def add(self, messages: list[Message], columns: Columns, belongs: NDArray[np.bool_]) -> None:
        """Add those of these messages that belong to the slice."""
        if not belongs.all():
            messages = list(compress(messages, belongs.tolist()))
            columns = columns.only(belongs)
        self.records += len(messages)
        self._columns.append(columns)
        self._keys.add(list(map(_KEY, messages)))
        self._values.add(list(map(_VALUE, messages)))
        if self._headers is not None:
            self._headers.add(headers_of(messages))

    def lose(self, partition: TopicPartition, offsets: int) -> None:
        if offsets > 0:
            self.lost[partition] = self.lost.get(partition, 0) + offsets

    def columns(self) -> Columns:
        empty = np.empty(0, np.int64)
        columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)] or [empty] * 4
        return Columns(*columns)

    def arrivals(self, kind: Ints) -> Arrivals:
        """What the records have besides their place in the order."""
        headers = None if self._headers is None else self._headers.joined()
        return Arrivals(self._keys.joined(), self._values.joined(), kind - 1, headers)


class _PayloadChunks:
    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._sizes: list[Ints] = []
        self.bytes = 0

    def add(self, payloads: list[bytes | None]) -> None:
        try:
            sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))  # type: ignore[arg-type]
            self._data.extend(payloads)  # type: ignore[arg-type]
        except TypeError:  # one of them is null
            sizes = np.array([-1 if payload is None else len(payload) for payload in payloads], np.int64)
            self._data.extend(payload or b"" for payload in payloads)
        self._sizes.append(sizes)
        self.bytes += int(np.maximum(sizes, 0).sum())

    def joined(self) -> Payloads:
        data = np.fromiter(self._data, np.object_, len(self._data))
        return Payloads(data, np.concatenate(self._sizes or [np.empty(0, np.int64)]))


class _HeaderChunks:
    def __init__(self) -> None:
        self._lists: list[list[Header] | None] = []
        self._sizes: list[int] = []
        self.bytes = 0

    def add(self, headers: list[list[Header] | None]) -> None:
        self._lists.extend(headers)
        if not any(headers):
            self._sizes.extend(repeat(0, len(headers)))
            return
        sizes = [sum(len(name) + len(value or b"") for name, value in each or ()) for each in headers]
        self._sizes.extend(sizes)
        self.bytes += sum(sizes) + _HEADER_OVERHEAD * sum(len(each or ()) for each in headers)

    def joined(self) -> Headers:
        return Headers(self._lists, np.array(self._sizes, np.int64))
