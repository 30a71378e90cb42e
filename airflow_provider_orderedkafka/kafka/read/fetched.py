"""Records as they were fetched: integer columns, and payloads by reference."""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from ...core.order.positions import TopicPartition
from ..clients.pools import ReadSettings
from .columns import Arrivals, Header, Headers, Payloads, headers_of

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_KEY, _VALUE = Message.key, Message.value
RECORD_OVERHEAD = 200  # of a record in memory, besides its key, value and headers
_HEADER_OVERHEAD = 200  # ... and of a header, besides its name and value


class Columns(NamedTuple):
    """The integer columns of some records; `kind` is the timestamp type."""

    rank: Ints
    offset: Ints
    timestamp: Ints
    kind: Ints

    def only(self, which: NDArray[np.bool_]) -> "Columns":
        return Columns(*(column[which] for column in self))


@dataclass(frozen=True)
class Part:
    """Some records as they arrived. Payloads that are null are empty, with a size of -1."""

    columns: Columns
    keys: list[bytes]
    key_sizes: Ints
    values: list[bytes]
    value_sizes: Ints
    headers: list[list[Header] | None] | None
    header_sizes: Ints
    header_counts: Ints

    @classmethod
    def of(cls, messages: list[Message], columns: Columns, settings: ReadSettings) -> "Part":
        """What these messages have. It is taken out of them at once: the client reuses their memory while it is hot.

        Keys and values of columns that were not asked for are empty.
        """
        found = headers_of(messages) if settings.include_headers else None
        return cls(
            columns,
            *_payloads(list(map(_KEY, messages)) if settings.asks_for("key") else [b""] * len(messages)),
            *_payloads(list(map(_VALUE, messages)) if settings.asks_for("value") else [b""] * len(messages)),
            found,
            *_header_sizes(found, len(messages)),
        )

    @cached_property
    def bytes(self) -> int:
        """About how much memory it takes."""
        payloads = sum(int(np.maximum(sizes, 0).sum()) for sizes in (self.key_sizes, self.value_sizes))
        headers = int(self.header_sizes.sum()) + _HEADER_OVERHEAD * int(self.header_counts.sum())
        return payloads + headers + len(self.keys) * RECORD_OVERHEAD

    @cached_property
    def runs(self) -> tuple[Ints, Ints]:
        """Where partitions follow each other: the rank and the first offset of each run of records."""
        rank, offset, _, _ = self.columns
        begins = np.concatenate([[0], np.flatnonzero(np.diff(rank)) + 1])
        return rank[begins], offset[begins]

    def only(self, which: Bools) -> "Part":
        if which.all():
            return self
        chosen = which.tolist()
        return Part(
            self.columns.only(which),
            list(compress(self.keys, chosen)),
            self.key_sizes[which],
            list(compress(self.values, chosen)),
            self.value_sizes[which],
            None if self.headers is None else list(compress(self.headers, chosen)),
            self.header_sizes[which],
            self.header_counts[which],
        )

    def arrivals(self) -> Arrivals:
        """What the records have besides their place in the order."""
        headers = None if self.headers is None else Headers(self.headers, self.header_sizes)
        keys, values = Payloads(_objects(self.keys), self.key_sizes), Payloads(_objects(self.values), self.value_sizes)
        return Arrivals(keys, values, self.columns.kind - 1, headers)


def _payloads(payloads: list[bytes | None]) -> tuple[list[bytes], Ints]:
    try:
        sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))  # type: ignore[arg-type]
    except TypeError:  # one of them is null
        sizes = np.array([-1 if payload is None else len(payload) for payload in payloads], np.int64)
        return [payload or b"" for payload in payloads], sizes
    return payloads, sizes  # type: ignore[return-value]


def _header_sizes(headers: list[list[Header] | None] | None, records: int) -> tuple[Ints, Ints]:
    """The bytes of each record's headers, and how many they are."""
    if headers is None or not any(headers):
        return np.zeros(records, np.int64), np.zeros(records, np.int64)
    sizes = [sum(len(name) + len(value or b"") for name, value in each or ()) for each in headers]
    return np.array(sizes, np.int64), np.array([len(each or ()) for each in headers], np.int64)


class FetchedRecords:
    """The records of a slice in the order of their arrival."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self.parts: list[Part] = []
        self.records = 0
        self.bytes = 0
        self.lost: dict[TopicPartition, int] = {}

    def take(self, part: Part) -> None:
        if part.keys:
            self.parts.append(part)
            self.records += len(part.keys)
            self.bytes += part.bytes

    def lose(self, partition: TopicPartition, offsets: int) -> None:
        if offsets > 0:
            self.lost[partition] = self.lost.get(partition, 0) + offsets

    def joined(self) -> Part:
        """All of them as one part."""
        parts = self.parts or [Part.of([], _NO_COLUMNS, self._settings)]
        if len(parts) == 1:
            return parts[0]

        def end_to_end(column: str) -> Any:
            return np.concatenate([getattr(part, column) for part in parts])

        def listed(column: str) -> list[Any]:
            return list(chain.from_iterable(getattr(part, column) for part in parts))

        return Part(
            Columns(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True))),
            listed("keys"),
            end_to_end("key_sizes"),
            listed("values"),
            end_to_end("value_sizes"),
            listed("headers") if self._settings.include_headers else None,
            end_to_end("header_sizes"),
            end_to_end("header_counts"),
        )


def _objects(payloads: list[bytes]) -> NDArray[np.object_]:
    return np.fromiter(payloads, np.object_, len(payloads))


_NO_COLUMNS: Final = Columns(*[np.empty(0, np.int64)] * 4)
