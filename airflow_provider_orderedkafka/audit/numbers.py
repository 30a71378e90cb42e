"""Records and rows as columns of numbers: one of millions takes some seventy bytes.

What is compared of a record stands there as a hash, which holds within this process: Python's own, with a secret of
64 bits. A partition is its place in the order of `(topic, partition)`, so that numbers compare as the order does.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.order.positions import TopicPartition
from ..kafka.provenance import ERROR_HEADER, HEADER

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

UNCOMPARED: Final = -2
"""The timestamp of a row that Kafka stamps when it takes it, and any time of one whose columns a transform has made:
there is nothing to compare."""

_KINDS: Final = {
    "code": "i",
    "ordinal": "i",
    "place": "i",
    **dict.fromkeys(("dead", "timestampType", "late", "other"), "b"),
}

_OURS: Final = frozenset({HEADER, ERROR_HEADER})


_RECORD: Final = ("code", "offset", "timestamp", "timestampType", "key", "value", "headers")

NAMED: Final = ("topic", "partition", "offset", "identity")
"""How a row of a table says twice which record it is of: in columns of its own, and by its identity."""


def of_headers(headers: Sequence[tuple[str, bytes | None]] | None) -> int:
    """The hash of a record's headers, but for ours, which the load writes anew."""
    return hash(tuple(pair for pair in headers or () if pair[0] not in _OURS))


def hashed(column: Any) -> list[int]:
    """The hash of each value of an Arrow column; text counts as its bytes, which need not be UTF-8."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast("large_binary")
    return [hash(each.encode() if isinstance(each, str) else each) for each in column.to_pylist()]


def begins(*columns: Ints) -> Mask:
    """Which rows are the first of their group, of rows in the order of these columns."""
    new = np.logical_or.reduce([np.diff(each) != 0 for each in columns])
    return np.append(True, new)[: len(columns[0])]


class Columns:
    """Columns of numbers that grow together."""

    def __init__(self, *names: str) -> None:
        self._columns = {name: array(_KINDS.get(name, "q")) for name in names}

    def extend(self, **values: Iterable[int]) -> None:
        for name, column in self._columns.items():
            column.extend(values[name])

    def append(self, *values: int) -> None:
        """Add a row: a value to each column, in their order."""
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> Any:
        column = self._columns[name]
        return np.frombuffer(column, f"i{column.itemsize}")


def records() -> Columns:
    return Columns(*_RECORD)


def rows() -> Columns:
    """Columns for rows of an output: the record that they name, its fields, and where they lie.

    `other` has a bit for each of `NAMED` that is another one than the row's identity says.
    """
    return Columns("ordinal", "dead", "time", *_RECORD, "late", "other", "place", "at")


@dataclass(frozen=True, slots=True)
class Source:
    """The records of a range as they are now, in the order of partitions and offsets.

    `start` and `stop` are between which offsets the load went; from `certain` on each record that it read must still be
    there. `read` is how many it read, -1 where that is not known for certain. All by partition.
    """

    partitions: tuple[TopicPartition, ...]
    start: Ints
    stop: Ints
    certain: Ints
    read: Ints
    columns: Mapping[str, Ints]

    @property
    def edges(self) -> Ints:
        """Between which records each partition lies."""
        return np.searchsorted(self.columns["code"], np.arange(len(self.partitions) + 1))

    @property
    def seen_before_certain(self) -> Ints:
        """How many records each partition has below the offset from which on each is there for certain."""
        codes = self.columns["code"]
        below = self.columns["offset"] < self.certain[codes]
        return np.bincount(codes[below], minlength=len(self.partitions))

    @property
    def unseen(self) -> Ints:
        """How many offsets of each partition have no record and may have had one."""
        found: Ints = np.minimum(self.certain, self.stop) - self.start - self.seen_before_certain
        return found

    @property
    def gone(self) -> Ints:
        """How many records of each partition are not there any more; at most, where it is not known how many were."""
        lost = np.where(self.read >= 0, self.read - np.diff(self.edges), self.unseen)
        return np.where(self.unseen > 0, lost, 0)

    @property
    def exact(self) -> Mask:
        """Of which records the order time is known: every record before them in their partitions is there."""
        known: Mask = (self.certain <= self.start)[self.columns["code"]]
        return known

    def at(self, record: int) -> str:
        return self.position(int(self.columns["code"][record]), int(self.columns["offset"][record]))

    def position(self, code: int, offset: int) -> str:
        """A position; it may be of no partition of the range."""
        return self.partitions[code].at(offset) if code >= 0 else "a partition that the range does not have"

    def find(self, codes: Ints, offsets: Ints) -> Ints:
        """Which records have these positions; -1 where there is none."""
        found = np.full(len(codes), -1, np.int64)
        by_code, edges = np.argsort(codes, kind="stable"), self.edges
        bounds = np.searchsorted(codes[by_code], np.arange(len(self.partitions) + 1))
        for code in range(len(self.partitions)):
            mine = by_code[bounds[code] : bounds[code + 1]]
            here = self.columns["offset"][edges[code] : edges[code + 1]]
            at = np.searchsorted(here, offsets[mine])
            there = at < len(here)
            there[there] = here[at[there]] == offsets[mine][there]
            found[mine[there]] = edges[code] + at[there]
        return found


def in_order(columns: Columns, floors: Ints, latest: int) -> dict[str, Ints]:
    """A source's columns by partition and offset, with the order `time` of each record and whether it is `late`.

    By the definition: the highest timestamp of its partition so far that counts, and never below the floor.
    """
    order = np.lexsort((columns["offset"], columns["code"]))
    found = {name: columns[name][order].astype(np.int64) for name in _RECORD}
    stamps = found["timestamp"]
    counts = (stamps >= 0) & (stamps <= latest)
    time = np.maximum(np.where(counts, stamps, -1), floors[found["code"]])
    for part in np.split(time, np.flatnonzero(np.diff(found["code"])) + 1):
        np.maximum.accumulate(part, out=part)
    return {**found, "time": time, "late": counts & (stamps < time)}
