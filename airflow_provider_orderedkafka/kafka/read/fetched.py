"""Records as they were fetched: integer columns, and payloads by reference."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from ...core.order.positions import TopicPartition
from ..clients.pools import ReadSettings
from .columns import Arrivals, Headers, Ints, Payloads, headers_of, sizes

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

    def arrivals(self) -> Arrivals:
        """What the records have besides their place in the order."""
        return Arrivals(self.keys, self.values, self.columns.kind - 1, self.headers)


class FetchedRecords:
    """The records of a slice in the order of their arrival."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self.parts: list[Part] = []
        self.records = 0
        self.bytes = 0
        self.lost: dict[TopicPartition, int] = {}

    def take(self, part: Part) -> None:
        if count := len(part.columns.rank):
            self.parts.append(part)
            self.records += count
            self.bytes += part.bytes

    def lose(self, partition: TopicPartition, offsets: int) -> None:
        if offsets > 0:
            self.lost[partition] = self.lost.get(partition, 0) + offsets

    def joined(self) -> Part:
        """All of them as one part."""
        parts = self.parts or [Part.of([], _NO_COLUMNS, self._settings)]
        if len(parts) == 1:
            return parts[0]
        return Part(
            Columns(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True))),
            Payloads.joined([part.keys for part in parts]),
            Payloads.joined([part.values for part in parts]),
            Headers.joined([part.headers for part in parts if part.headers]) if parts[0].headers else None,
        )


_NO_COLUMNS: Final = Columns(*[np.empty(0, np.int64)] * 4)
