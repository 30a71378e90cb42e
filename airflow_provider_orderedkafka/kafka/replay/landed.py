"""Which rows of a batch are already in its outputs, by the positions and ordinals of their records.

Offsets are kept in chunks of 65,536 that are created on demand, with a bit for each where there are many and two bytes
where there are few. So a span that was mostly compacted away takes little memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.write.sources import Source

Ints = NDArray[np.int64]
Chunk = NDArray[Any]
"""A chunk: sorted 16-bit numbers, or a bitmap once that is smaller."""

_BITS: Final = 16
_SIZE: Final = 1 << _BITS
_LAST: Final = _SIZE - 1
_FEW: Final = _SIZE // 16


class OffsetSet:
    """A set of offsets that can grow."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, Chunk] = {}

    def add(self, offsets: Ints) -> None:
        for number, places in _by_chunk(np.sort(offsets)):
            there = self._chunks.get(number)
            self._chunks[number] = _packed(places) if there is None else _union(there, places)

    def contains(self, offsets: Ints) -> NDArray[np.bool_]:
        found, numbers = np.zeros(len(offsets), np.bool_), offsets >> _BITS
        for number in np.unique(numbers).tolist():
            chunk = self._chunks.get(number)
            if chunk is not None:
                rows = np.flatnonzero(numbers == number)
                found[rows] = _has(chunk, offsets[rows] & _LAST)
        return found

    def within(self, start: int, end: int) -> "OffsetSet":
        """The subset from `start` on and before `end`."""
        found = OffsetSet()
        for number, chunk in self._chunks.items():
            first = number << _BITS
            if start <= first and first + _SIZE <= end:
                found._chunks[number] = chunk  # never changed in place, so it may be shared
                continue
            if first >= end or first + _SIZE <= start:
                continue
            places = _places(chunk)
            places = places[(places >= start - first) & (places < end - first)]
            if len(places):
                found._chunks[number] = _packed(places)
        return found

    def __len__(self) -> int:
        return sum(map(_count, self._chunks.values()))

    def __iter__(self) -> Iterator[int]:
        for number in sorted(self._chunks):
            yield from (_places(self._chunks[number]) + (number << _BITS)).tolist()


class Landed:
    """The rows that are in the outputs; adding one again changes nothing."""

    __slots__ = ("_dead", "_rows")

    def __init__(self) -> None:
        self._rows: dict[tuple[TopicPartition, int], OffsetSet] = {}
        self._dead: dict[tuple[TopicPartition, int], OffsetSet] = {}

    def add(self, partition: TopicPartition, ordinals: Ints, offsets: Ints, *, dead: bool = False) -> None:
        """Add rows of one source partition, found in an output or (`dead`) among the dead letters."""
        for ordinal in np.unique(ordinals).tolist():
            for rows in (self._rows, *([self._dead] if dead else [])):
                rows.setdefault((partition, ordinal), OffsetSet()).add(offsets[ordinals == ordinal])

    @property
    def rows(self) -> int:
        """How many there are, including dead letters."""
        return sum(map(len, self._rows.values()))

    @property
    def dead_letters(self) -> int:
        return sum(map(len, self._dead.values()))

    def __bool__(self) -> bool:
        return any(map(len, self._rows.values()))

    def within(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> "Landed":
        """Those whose records lie in these spans of offsets."""
        found = Landed()
        for mine, theirs in ((self._rows, found._rows), (self._dead, found._dead)):
            for (partition, ordinal), offsets in mine.items():
                part = offsets.within(*spans.get(partition, (0, 0)))
                if part:
                    theirs[partition, ordinal] = part
        return found

    def lost(self, slice_: Slice, lost: Mapping[TopicPartition, int]) -> int:
        """How many offsets of a slice retention deleted, without those that landed."""
        starts = {stretch.partition: stretch.start.offset for stretch in slice_.stretches}
        gone = {partition: (starts[partition], starts[partition] + count) for partition, count in lost.items()}
        there = {(partition, offset) for partition, offset, _ in self.within(gone)} if self else ()
        return sum(lost.values()) - len(there)

    def has(self, source: Source, ordinals: Ints) -> NDArray[np.bool_]:
        found = np.zeros(len(source), np.bool_)
        for (partition, ordinal), offsets in self._rows.items():
            if partition.topic not in source.topics:
                continue
            code = source.topics.index(partition.topic)
            mine = (source.codes == code) & (source.partitions == partition.partition) & (ordinals == ordinal)
            rows = np.flatnonzero(mine)
            if len(rows):
                found[rows] = offsets.contains(source.offsets[rows])
        return found

    def __iter__(self) -> Iterator[tuple[TopicPartition, int, int]]:
        for partition, ordinal in sorted(self._rows):
            for offset in self._rows[partition, ordinal]:
                yield partition, offset, ordinal


def _by_chunk(offsets: Ints) -> Iterator[tuple[int, Ints]]:
    numbers = offsets >> _BITS
    edges = np.flatnonzero(np.diff(numbers)) + 1
    for part in np.split(offsets, edges):
        if len(part):
            yield int(part[0]) >> _BITS, part & _LAST


def _packed(places: Ints) -> Chunk:
    return np.unique(places).astype(np.uint16) if len(places) < _FEW else _as_bits(places)


def _as_bits(places: Ints) -> Chunk:
    bits = np.zeros(_SIZE, np.bool_)
    bits[places] = True
    return np.packbits(bits)


def _union(chunk: Chunk, places: Ints) -> Chunk:
    if chunk.dtype == np.uint8:
        return chunk | _as_bits(places)
    return _packed(np.concatenate([chunk.astype(np.int64), places]))


def _places(chunk: Chunk) -> Ints:
    return np.flatnonzero(np.unpackbits(chunk)) if chunk.dtype == np.uint8 else chunk.astype(np.int64)


def _has(chunk: Chunk, places: Ints) -> NDArray[np.bool_]:
    if chunk.dtype != np.uint8:
        return np.isin(places, chunk)
    found: NDArray[np.bool_] = (chunk[places >> 3] >> (7 - (places & 7)) & 1).astype(np.bool_)
    return found


def _count(chunk: Chunk) -> int:
    return int(np.unpackbits(chunk).sum()) if chunk.dtype == np.uint8 else len(chunk)
