"""Turn the rows of a batch into columns for records: numpy for numbers, Arrow for data of variable length.

No Python objects are made for rows before `columns_of`. `Source` has the rows' source positions, and their ordinals,
which are assigned where rows are made, in the task that read their records: it has all rows of a record, in an order
that is the same when the record is read again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...core.order.positions import TopicPartition
from ..provenance import (
    AFTER_PREFIX,
    ERROR,
    ERROR_HEADER,
    HEADER,
    ORDINAL,
    SOURCE,
    SOURCE_FIELDS,
    Provenance,
    SourceColumns,
    range_prefix,
)
from ..read.columns import Ints, Payloads, Records, as_array, as_list, nulls, sizes
from .producer import Chunk
from .settings import WriteSettings, used_columns

NOWHERE: Final = -1
REMEMBERED: Final = 200_000
"""A task remembers the row counts of this many records, and of the last batch's; few slices have more."""

Position = tuple[str, int, int]
"""Topic, partition and offset."""

MOST_HEADERS: Final = 100_000
"""Of a record: librdkafka reads one that has more as if it had none."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of each row. `codes` index `topics`; all four are -1 or 0 for a null source."""

    topics: tuple[str, ...]
    codes: Ints
    partitions: Ints
    offsets: Ints
    times: Ints

    @classmethod
    def of(cls, batch: Any, where: SourceColumns) -> "Source":
        """Read the positions from the struct `_source`, or from plain columns."""
        if where == "struct":
            struct = batch.column(SOURCE)
            columns = dict(zip([field.name for field in struct.type], struct.flatten(), strict=True))
        else:
            columns = {name: batch.column(name) for name in SOURCE_FIELDS}
        encoded = columns["topic"].dictionary_encode()
        return cls(
            tuple(encoded.dictionary.to_pylist()),
            encoded.indices.fill_null(NOWHERE).to_numpy().astype(np.int64),
            columns["partition"].fill_null(NOWHERE).to_numpy().astype(np.int64),
            columns["offset"].fill_null(NOWHERE).to_numpy(),
            milliseconds(columns["order_time"]),
        )

    @classmethod
    def nowhere(cls, rows: int) -> "Source":
        none = np.full(rows, NOWHERE)
        return cls((), none, none, none, np.zeros(rows, np.int64))

    def __len__(self) -> int:
        return len(self.codes)

    def topic_names(self) -> list[bytes]:
        """The topics' names in UTF-8, by code, and last an empty one for no topic."""
        names = [topic.encode() for topic in self.topics]
        return names if len(names) == 1 and (self.codes == 0).all() else [*names, b""]

    def known(self) -> NDArray[np.bool_]:
        """A mask of the rows that have a source."""
        return (self.codes >= 0) & (self.partitions >= 0) & (self.offsets >= 0)

    def first(self) -> Position | None:
        rows = np.flatnonzero(self.known())
        if not len(rows):
            return None
        row = rows[0]
        return self.topics[self.codes[row]], int(self.partitions[row]), int(self.offsets[row])


_LONGEST_TOPIC: Final = 249
_LAYOUT: Final = (("ordinal", ">i4"), ("partition", ">i4"), ("offset", ">i8"), ("time", ">i8"))


def stamp_bytes(range_id: str) -> int:
    """The most bytes that the provenance of a range's row takes."""
    return len(HEADER) + len(range_prefix(range_id)) + AFTER_PREFIX.size + _LONGEST_TOPIC


def stamps(range_id: str, source: Source, ordinals: Ints) -> list[bytes]:
    """The provenance headers of a range's rows, made all at once."""
    prefix, topics = range_prefix(range_id), source.topic_names()
    suffix = topics[0] if len(set(topics)) == 1 else b""
    layout = np.dtype([("prefix", f"V{len(prefix)}"), *_LAYOUT] + [("topic", f"V{len(suffix)}")] * bool(suffix))
    table = np.empty(len(ordinals), layout)
    table["prefix"] = np.void(prefix)
    if suffix:
        table["topic"] = np.void(suffix)
    table["ordinal"], table["partition"] = ordinals, source.partitions
    table["offset"], table["time"] = source.offsets, source.times
    fixed: list[bytes] = table.view(f"V{layout.itemsize}").tolist()
    if suffix or not len(ordinals):
        return fixed
    return [head + topics[code] for head, code in zip(fixed, source.codes.tolist(), strict=True)]


class Ordinals:
    """Numbers the rows of each record from 0 on, across all batches of one task."""

    def __init__(self) -> None:
        self._seen: dict[Position, int] = {}

    def of(self, source: Source) -> Ints:
        """The ordinal of each row; 0 for a row without a source."""
        found = np.zeros(len(source), np.int64)
        rows = np.flatnonzero(source.known())
        if not len(rows):
            return found
        rows = rows[np.lexsort((source.offsets[rows], source.partitions[rows], source.codes[rows]))]
        keys = np.stack([source.codes[rows], source.partitions[rows], source.offsets[rows]])
        begins = np.flatnonzero(np.append(True, (np.diff(keys) != 0).any(axis=0)))
        lengths = np.diff(np.append(begins, len(rows)))
        codes, partitions, offsets = keys[:, begins].tolist()
        records = list(zip(map(source.topics.__getitem__, codes), partitions, offsets, strict=True))
        before = np.fromiter(map(self._seen.get, records, repeat(0)), np.int64, len(records))
        if len(self._seen) >= REMEMBERED:
            self._seen = {record: count for record, count in zip(records, before.tolist(), strict=True) if count}
        self._seen.update(zip(records, (before + lengths).tolist(), strict=True))
        found[rows] = np.arange(len(rows)) - np.repeat(begins - before, lengths)
        return found


def with_ordinals(batch: Any, ordinals: Ints) -> Any:
    return batch.append_column(pa.field(ORDINAL, pa.int32()), pa.array(ordinals.astype(np.int32)))


def milliseconds(array: Any) -> Ints:
    """Timestamps as milliseconds since the epoch; 0 for null."""
    moments = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    found: Ints = moments.cast(pa.int64()).fill_null(0).to_numpy()
    return found


NO_PARTITION: Final = -1
NOW: Final = 0
EPOCH: Final = -(2**62)
"""Stands for a timestamp of exactly 0, which Kafka's client would read as `NOW`."""

PAYLOADS: Final = {"key": Records.keys, "value": Records.values}
"""The columns that can stay Python objects."""

_HEADER_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of one length. `topics`, `headers`, `errors` are Arrow arrays or None, `partitions` has -1 for null."""

    values: Any
    keys: Any
    topics: Any
    partitions: Any
    timestamps: Ints
    headers: Any
    source: Source | None
    ordinals: Ints
    errors: Any = None

    def __len__(self) -> int:
        return len(self.timestamps)

    @classmethod
    def of(cls, batch: Any, settings: WriteSettings) -> "Rows":
        types = dict.fromkeys(batch.schema.names, "")
        payloads = PAYLOADS if isinstance(batch, Records) else {}
        found: dict[str, Any] = {
            n: payloads[n](batch) if n in payloads else batch.column(n) for n in used_columns(types, settings)
        }
        where = settings.source if settings.range_id is not None else None
        return cls(
            _binary(found["value"]),
            _binary(found["key"]) if "key" in found else None,
            found.get("topic"),
            found["partition"].fill_null(NO_PARTITION).to_numpy() if "partition" in found else None,
            _timestamps(found["timestamp"]) if "timestamp" in found else np.full(batch.num_rows, NOW),
            found.get("headers"),
            None if where is None else Source.of(batch, where),
            batch.column(ORDINAL).fill_null(0).to_numpy() if ORDINAL in types else np.zeros(batch.num_rows, np.int64),
            found.get(ERROR),
        )

    def sizes(self) -> Ints:
        return sizes(self.values) + (0 if self.keys is None else sizes(self.keys))

    def record_bytes(self) -> Ints:
        return self.sizes() + (0 if self.headers is None else _header_bytes(self.headers))

    def header_counts(self) -> Ints:
        if self.headers is None:
            return np.zeros(len(self), np.int64)
        found: Ints = pc.list_value_length(self.headers).fill_null(0).to_numpy().astype(np.int64)
        return found

    def find(self, key: bytes | None, value: bytes | None) -> int | None:
        same = _equal(self.values, value)
        if self.keys is not None:
            same = same & _equal(self.keys, key)
        places = np.flatnonzero(same)
        return int(places[0]) if len(places) else None

    def where(self, index: int, settings: WriteSettings, number: int) -> str:
        """Name the row for people: by its source, or else by its number in the task."""
        if self.source is None:
            return f"row {number} of its task"
        place = self.origin(index)
        if place is None:
            return f"row {number} of its task, which has no source (range {settings.range_id})"
        ordinal, time = int(self.ordinals[index]), int(self.source.times[index])
        return str(Provenance(settings.range_id or "-", *place, ordinal, time))

    def origin(self, index: int) -> tuple[TopicPartition, int] | None:
        """The source position of a row, if known."""
        source = self.source
        if source is None or not source.known()[index]:
            return None
        topic = source.topics[int(source.codes[index])]
        return TopicPartition(topic, int(source.partitions[index])), int(source.offsets[index])

    def stamps(self, range_id: str | None) -> list[bytes] | None:
        if range_id is None:
            return None
        return stamps(range_id, Source.nowhere(len(self)) if self.source is None else self.source, self.ordinals)


def columns_of(rows: Rows, settings: WriteSettings, partitions: list[int], describe: Callable[..., str]) -> Chunk:
    """The rows as columns of Python values; a topic in the settings overrides their own."""
    return Chunk(
        topics=[settings.topic] * len(rows) if settings.topic is not None else rows.topics.to_pylist(),
        values=as_list(rows.values),
        keys=as_list(rows.keys) if rows.keys is not None else [None] * len(rows),
        partitions=partitions,
        timestamps=sendable(rows.timestamps).tolist(),
        headers=header_column(rows.headers, rows.stamps(settings.range_id), len(rows)),
        describe=describe,
    )


def sendable(timestamps: Ints) -> Ints:
    return np.where(timestamps == EPOCH, NOW, timestamps)


def header_column(given: Any, stamps: list[bytes] | None, count: int) -> Sequence[Any]:
    """The headers of each row, with its provenance in place of a source record's."""
    if given is None:
        return [None] * count if stamps is None else [{HEADER: stamp} for stamp in stamps]
    own = header_lists(given)
    if stamps is None:
        return own
    return [[*without_provenance(pairs), (HEADER, stamp)] for pairs, stamp in zip(own, stamps, strict=True)]


def without_provenance(pairs: Sequence[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """The headers without those that this package writes."""
    return [pair for pair in pairs if pair[0] not in (HEADER, ERROR_HEADER)]


def header_lists(given: Any) -> list[list[tuple[str, bytes | None]]]:
    """An Arrow column of headers as lists of pairs; null is an empty list."""
    entries, edges = given.flatten(), _edges(given)
    pairs = list(zip(as_list(entries.field("key")), as_list(_binary(entries.field("value"))), strict=True))
    return [pairs[start:end] for start, end in pairwise(edges)]


def dictionary(names: Any) -> tuple[list[str], Ints]:
    """The distinct names in a column, and the index of each row's; -1 for null."""
    encoded = pc.dictionary_encode(names)
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy()


def _header_bytes(lists: Any) -> Ints:
    entries = lists.flatten()
    each = sizes(entries.field("key")) + sizes(entries.field("value")) + _HEADER_BYTES
    return np.diff(np.concatenate([[0], np.cumsum(each)])[_edges(lists)])


def _edges(lists: Any) -> list[int]:
    lengths = pc.list_value_length(lists).fill_null(0)
    return [0, *np.cumsum(lengths.to_numpy()).tolist()]


def _equal(array: Any, value: bytes | None) -> Any:
    array = as_array(array)
    found = (
        array.is_null()
        if value is None
        else pc.fill_null(pc.equal(array, pa.scalar(value, array.type)), fill_value=False)
    )
    return found.to_numpy(zero_copy_only=False)


def _binary(array: Any) -> Any:
    if isinstance(array, Payloads):
        return array
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        return array.cast(pa.large_binary())
    return array.cast(pa.binary())


def _timestamps(array: Any) -> Ints:
    """Milliseconds, 0 as `EPOCH`; null is `NOW`."""
    times = milliseconds(array)
    return np.where((times == 0) & ~nulls(array), EPOCH, times)
