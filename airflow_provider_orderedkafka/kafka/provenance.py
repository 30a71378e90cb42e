"""The header `orderedkafka`, which says where a record came from.

    read_provenance(headers) -> Provenance | None       for people who audit their output
    range_prefix(range) -> bytes                        what every header of that range begins with

A row is known by its range, the position of its source record and its ordinal: its number among the rows that this
record gave, 0 for a plain copy. So a row that is written again, by any task and in any order, has the same identity.
The header's value, all integers big-endian:

    1 byte    version: 1
    1 byte    length of the range's id in bytes, then the id in UTF-8
    4 bytes   ordinal, signed; -1 in a dead letter that is its whole record, before anything was made of it
    4 bytes   source partition, signed; -1 when the row has no source
    8 bytes   source offset, signed; -1 when the row has no source
    8 bytes   order time in milliseconds since the epoch, signed
    the rest  source topic in UTF-8

A dead letter has one header more, `orderedkafka.error`: what was wrong with it.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from ..core.order.positions import TopicPartition
from ..errors import DocumentError, SettingError

SOURCE: Final = "_source"
SOURCE_FIELDS: Final = ("topic", "partition", "offset", "order_time")
"""The column with a row's source, and its fields."""

ERROR: Final = "_error"
"""The column that says why a row cannot be used: such a row becomes a dead letter. Null for a sound one."""

ORDINAL: Final = "_ordinal"
WHOLE_RECORD: Final = -1
"""The ordinal of a dead letter that is a whole record, and so is in the place of all of its rows."""

SEQUENCE: Final = "_seq"
SourceColumns = Literal["struct", "columns"]

HEADER = "orderedkafka"
ERROR_HEADER = "orderedkafka.error"
VERSION = 1

_LONGEST_ID = 255
_NOWHERE = -1
AFTER_PREFIX = struct.Struct(">iiqq")
"""Ordinal, partition, offset and order time."""

Headers = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None] | None


class Identity(NamedTuple):
    """The identity of a row: its range, the position of its source record, and its number among that record's rows."""

    range: str
    source: TopicPartition | None
    offset: int | None
    ordinal: int


class Provenance(NamedTuple):
    """Where a record came from; `source` and `offset` are None if it has no source record."""

    range_id: str
    source: TopicPartition | None
    offset: int | None
    ordinal: int
    order_time: int

    @property
    def identity(self) -> Identity:
        return Identity(self.range_id, self.source, self.offset, self.ordinal)

    def __str__(self) -> str:
        if self.source is None or self.offset is None:
            return f"a row without a source (range {self.range_id})"
        row = f"row {self.ordinal} of this record, " if self.ordinal > 0 else ""
        return f"{self.source.at(self.offset)} ({row}order time {self.order_time} ms, range {self.range_id})"


def range_prefix(range_id: str) -> bytes:
    """The bytes that the headers of this range's rows, and of no other, begin with."""
    name = range_id.encode()
    if not 0 < len(name) <= _LONGEST_ID:
        raise SettingError(f"a range's id must have 1 to {_LONGEST_ID} bytes in UTF-8, found {range_id!r}")
    return bytes((VERSION, len(name))) + name


def read_provenance(headers: Headers) -> Provenance | None:
    """Read where a record came from; None for a record without the header.

    :param headers: What confluent-kafka's `Message.headers()` returns, or a mapping. A damaged header raises a
        `DocumentError`.
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
    end = 2 + value[1]
    ordinal, partition, offset, time, topic = located(value, end)
    source = None if partition == _NOWHERE else TopicPartition(topic.decode(), partition)
    return Provenance(value[2:end].decode(), source, None if source is None else offset, ordinal, time)


def located(value: bytes, at: int) -> tuple[int, int, int, int, bytes]:
    """Ordinal, partition, offset, order time and topic of a header whose range's id ends at this byte."""
    if value[0] != VERSION:
        raise DocumentError(
            f"the header {HEADER!r} has version {value[0]!r}, but this release reads {VERSION}: use the release that "
            "wrote it"
        )
    ordinal, partition, offset, time = AFTER_PREFIX.unpack_from(value, at)
    return ordinal, partition, offset, time, value[at + AFTER_PREFIX.size :]
