"""The source positions of rows, as columns, and the ordinals of rows.

Ordinals are assigned where rows are made, in the task that read their records: it has all rows of a record, in an order
that is the same when the record is read again.
"""

from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from airflow_provider_orderedkafka.kafka.provenance import ORDINAL, SOURCE, SourceColumns

NOWHERE: Final = -1
REMEMBERED: Final = 200_000
"""A task remembers the row counts of this many records, and of the last batch's; few slices have more."""

Ints = NDArray[np.int64]
Position = tuple[str, int, int]
"""Topic, partition and offset."""


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
        names = ("topic", "partition", "offset", "order_time")
        if where == "struct":
            struct = batch.column(SOURCE)
            columns = dict(zip([field.name for field in struct.type], struct.flatten(), strict=True))
        else:
            columns = {name: batch.column(name) for name in names}
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
        """Rows without a source."""
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
        """The position of the first row with a source."""
        rows = np.flatnonzero(self.known())
        if not len(rows):
            return None
        row = rows[0]
        return self.topics[self.codes[row]], int(self.partitions[row]), int(self.offsets[row])


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
