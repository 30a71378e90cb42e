"""Where a record came from and which row it is, in one compact header: `orderedkafka`.

    read_provenance(headers) -> Provenance | None       for people who audit their output
    Stamp(range, batch, writer).headers(rows, topics, partitions, offsets, order_times) -> list[bytes]
    batch_prefix(range, batch) -> bytes                 what every header of that batch begins with

The header's value, all integers big-endian:

    1 byte    version: 1
    1 byte    length of the range's id in bytes, then the id in UTF-8
    4 bytes   batch, unsigned
    4 bytes   writer, unsigned
    8 bytes   row, unsigned
    4 bytes   source partition, signed; -1 when the row has no source
    8 bytes   source offset, signed; -1 when the row has no source
    8 bytes   order time in milliseconds since the epoch, signed
    the rest  source topic in UTF-8

A dead letter has one header more, `orderedkafka.error`: what was wrong with it, in words.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_orderedkafka.core.identities import Identity
from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.errors import DocumentError, SettingError

if TYPE_CHECKING:
    import numpy as np

HEADER = "orderedkafka"
ERROR_HEADER = "orderedkafka.error"

_VERSION = 1
_LONGEST_ID = 255
_LONGEST_TOPIC = 249
_NOWHERE = -1
_BATCH = struct.Struct(">I")
WRITER_AND_ROW = struct.Struct(">IQ")
_SOURCE = struct.Struct(">iqq")
_SOURCE_LAYOUT = (("partition", ">i4"), ("offset", ">i8"), ("time", ">i8"))

Headers = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None] | None


class Provenance(NamedTuple):
    """What the header says. `source` and `offset` are None where the row has no source record."""

    identity: Identity
    source: TopicPartition | None
    offset: int | None
    order_time: int

    def __str__(self) -> str:
        if self.source is None or self.offset is None:
            return str(self.identity)
        return f"{self.source.at(self.offset)} (order time {self.order_time} ms; {self.identity})"


def batch_prefix(range_id: str, batch: int) -> bytes:
    """What the header of every row of this batch begins with, and of no other."""
    name = range_id.encode()
    if not 0 < len(name) <= _LONGEST_ID:
        raise SettingError(f"a range's id must have 1 to {_LONGEST_ID} bytes in UTF-8, found {range_id!r}")
    return bytes((_VERSION, len(name))) + name + _BATCH.pack(batch)


def read_provenance(headers: Headers) -> Provenance | None:
    """What a record's headers say of where it came from; None without such a header.

    Takes what `Message.headers()` gives. A header that cannot be read is a DocumentError.
    """
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers or ()
    values = [value for name, value in pairs if name == HEADER]
    if not values:
        return None
    try:
        found = _decode(values[-1])
    except (struct.error, IndexError, TypeError, UnicodeDecodeError) as error:
        raise DocumentError(f"the header {HEADER!r} is damaged ({error}), found {values[-1]!r}") from error
    if found.source is not None and min(found.source.partition, found.offset or 0) < 0:
        raise DocumentError(f"the header {HEADER!r} is damaged (no such position), found {values[-1]!r}")
    return found


def _decode(value: Any) -> Provenance:
    if value[0] != _VERSION:
        raise DocumentError(
            f"the header {HEADER!r} has version {value[0]!r}, this release reads {_VERSION}; use the one that wrote it"
        )
    at = 2 + value[1]
    name = value[2:at].decode()
    (batch,) = _BATCH.unpack_from(value, at)
    writer, row = WRITER_AND_ROW.unpack_from(value, at + _BATCH.size)
    partition, offset, time = _SOURCE.unpack_from(value, at + _BATCH.size + WRITER_AND_ROW.size)
    topic = value[at + _BATCH.size + WRITER_AND_ROW.size + _SOURCE.size :].decode()
    identity = Identity(name, batch, writer, row)
    if partition == _NOWHERE:
        return Provenance(identity, None, None, time)
    return Provenance(identity, TopicPartition(topic, partition), offset, time)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Makes the headers of one writer's rows, many at once."""

    range_id: str
    batch: int
    writer: int

    @property
    def most_bytes(self) -> int:
        """The most that such a header can take of a record."""
        prefix = batch_prefix(self.range_id, self.batch)
        return len(HEADER) + len(prefix) + WRITER_AND_ROW.size + _SOURCE.size + _LONGEST_TOPIC

    def headers(
        self,
        rows: "np.ndarray[Any, Any]",
        topics: bytes | Sequence[bytes],
        partitions: "np.ndarray[Any, Any]",
        offsets: "np.ndarray[Any, Any]",
        order_times: "np.ndarray[Any, Any]",
    ) -> list[bytes]:
        """One header's value for each row; the arguments are columns of one length, or one topic for all rows."""
        import numpy as np

        prefix = batch_prefix(self.range_id, self.batch)
        suffix = topics if isinstance(topics, bytes) else b""
        layout = np.dtype(
            [("prefix", f"V{len(prefix)}"), ("writer", ">u4"), ("row", ">u8"), *_SOURCE_LAYOUT]
            + [("topic", f"V{len(suffix)}")] * bool(suffix)
        )
        table = np.empty(len(rows), layout)
        table["prefix"] = np.void(prefix)
        if suffix:
            table["topic"] = np.void(suffix)
        for name, column in (("writer", self.writer), ("row", rows), ("partition", partitions)):
            table[name] = column
        table["offset"], table["time"] = offsets, order_times
        fixed: list[bytes] = table.view(f"V{layout.itemsize}").tolist()
        if isinstance(topics, bytes):
            return fixed
        return [head + topic for head, topic in zip(fixed, topics, strict=True)]
