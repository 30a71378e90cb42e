"""Which rows of a batch are in its outputs already, by the positions and ordinals of their records; leave these out.

How many rows a record gives decides what they are known by:

    "one"      at most one: its position is enough
    "many"     several, in an order that comes again: position and ordinal
    "joined"   usually one; if a joined table matches several times, the order of these rows may differ next time, so
               they are all passed on, and `resent` counts those that had landed

A record may be bad in one attempt and not in another. Once its dead letter has landed, none of its rows is passed on.
Once rows of it have landed, its dead letter is passed on only where there may be more rows than those; `resent` counts
them, as the letter has them too.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.order.cuts import Slice
from ...core.order.positions import TopicPartition
from ..provenance import ORDINAL, WHOLE_RECORD, SourceColumns
from ..read.columns import Ints
from ..write.rows import Ordinals, Position, Source, with_ordinals

Rows = dict[tuple[TopicPartition, int], Ints]
"""Offsets in their order, each once, by partition and ordinal."""

_NONE: Final = np.zeros(0, np.int64)


class Landed:
    """Adding a row again changes nothing. A dead letter may stand for its whole record, with all its rows."""

    __slots__ = ("_dead", "_rows")

    def __init__(self) -> None:
        self._rows: Rows = {}
        self._dead: Rows = {}

    def __getstate__(self) -> tuple[dict[Any, bytes], ...]:
        return tuple({key: _packed(offsets) for key, offsets in rows.items()} for rows in (self._rows, self._dead))

    def __setstate__(self, state: tuple[dict[Any, bytes], ...]) -> None:
        self._rows, self._dead = ({key: _unpacked(data) for key, data in rows.items()} for rows in state)

    def add(self, partition: TopicPartition, ordinals: Ints, offsets: Ints, *, dead: bool = False) -> None:
        """Add rows of one source partition, found in an output or (`dead`) among the dead letters."""
        for ordinal in np.unique(ordinals).tolist():
            key, more = (partition, ordinal), offsets[ordinals == ordinal]
            for rows in (self._rows, *([self._dead] if dead else [])):
                rows[key] = _together(rows.get(key, _NONE), more)

    @property
    def rows(self) -> int:
        """How many there are, including dead letters."""
        return sum(map(len, self._rows.values()))

    @property
    def several(self) -> bool:
        """Whether there is more than one row of a record."""
        return any(ordinal > 0 for _, ordinal in self._rows)

    @property
    def dead_letters(self) -> int:
        return sum(map(len, self._dead.values()))

    @property
    def in_letters_too(self) -> int:
        """How many rows have also a dead letter of their whole record."""
        return sum(
            int(_among(offsets, self._rows.get((partition, WHOLE_RECORD), _NONE)).sum())
            for (partition, ordinal), offsets in self._rows.items()
            if ordinal != WHOLE_RECORD
        )

    def __bool__(self) -> bool:
        return any(map(len, self._rows.values()))

    def within(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> "Landed":
        found = Landed()
        for mine, theirs in ((self._rows, found._rows), (self._dead, found._dead)):
            for (partition, ordinal), offsets in mine.items():
                start, end = np.searchsorted(offsets, spans.get(partition, (0, 0)))
                if start < end:
                    theirs[partition, ordinal] = offsets[start:end]
        return found

    def lost(self, slice_: Slice, lost: Mapping[TopicPartition, int]) -> int:
        """How many offsets of a slice retention deleted, without those that landed."""
        starts = {stretch.partition: stretch.start.offset for stretch in slice_.stretches}
        gone = {partition: (starts[partition], starts[partition] + count) for partition, count in lost.items()}
        there = {(partition, offset) for partition, offset, _ in self.within(gone)} if self else ()
        return sum(lost.values()) - len(there)

    def has(self, source: Source, ordinals: Ints) -> NDArray[np.bool_]:
        """Which of these rows are there, or a dead letter of their whole record."""
        found = np.zeros(len(source), np.bool_)
        for ordinal, mine in self._of_records(source):
            found |= mine & ((ordinal == WHOLE_RECORD) | (ordinals == ordinal))
        return found

    def count(self, source: Source) -> Ints:
        """How many rows are there of each of these records."""
        found = np.zeros(len(source), np.int64)
        for _, mine in self._of_records(source):
            found += mine
        return found

    def _of_records(self, source: Source) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        for (partition, ordinal), offsets in self._rows.items():
            if partition.topic in source.topics:
                code = source.topics.index(partition.topic)
                mine = (source.codes == code) & (source.partitions == partition.partition)
                mine[mine] = _among(source.offsets[mine], offsets)
                yield ordinal, mine

    def __iter__(self) -> Iterator[tuple[TopicPartition, int, int]]:
        for partition, ordinal in sorted(self._rows):
            for offset in self._rows[partition, ordinal].tolist():
                yield partition, offset, ordinal


def _together(some: Ints, more: Ints) -> Ints:
    """Both, sorted; numpy's `union1d` takes seconds where most are sorted already."""
    found = np.sort(np.concatenate([some, more]), kind="stable")
    return found[np.diff(found, prepend=-1) > 0]


def _among(offsets: Ints, known: Ints) -> NDArray[np.bool_]:
    places = np.searchsorted(known, offsets)
    found: NDArray[np.bool_] = known[np.minimum(places, len(known) - 1)] == offsets if len(known) else places < 0
    return found


def _packed(offsets: Ints) -> bytes:
    """The offsets as they travel to tasks: mostly neighbours, so their differences take little."""
    return zlib.compress(np.diff(offsets, prepend=0).tobytes(), 1)


def _unpacked(data: bytes) -> Ints:
    return np.cumsum(np.frombuffer(zlib.decompress(data), np.int64))


RowsPerRecord = Literal["one", "many", "joined"]


@dataclass(slots=True)
class LandedFilter:
    """Passes on the missing rows of one slice. `began` is the first record of which there were rows."""

    landed: Landed
    rows_per_record: RowsPerRecord
    where: SourceColumns
    resent: int = 0
    began: Position | None = None
    _ordinals: Ordinals = field(default_factory=Ordinals)

    def of(self, batches: Iterable[Any]) -> Iterator[Any]:
        if self.rows_per_record == "one" and not self.landed:
            yield from batches
            return
        for batch in self._whole_records(batches) if self.rows_per_record == "joined" else batches:
            if batch.num_rows:
                yield self._missing(batch)

    def _missing(self, batch: Any) -> Any:
        source = Source.of(batch, self.where)
        self.began = self.began or source.first()
        if ORDINAL in batch.schema.names:
            return batch.filter(self._letters_to_write(source))
        ordinals = np.zeros(len(source), np.int64) if self.rows_per_record == "one" else self._ordinals.of(source)
        there = self.landed.has(source, ordinals)
        if self.rows_per_record == "joined" and there.any():
            several = _several(source, ordinals) & ~self._dead_lettered(source)
            self.resent += int((there & several).sum())
            there &= ~several
        if self.rows_per_record != "one":
            batch = with_ordinals(batch, ordinals)
        return batch.filter(~there) if there.any() else batch

    def _letters_to_write(self, letters: Source) -> Any:
        """A mask of the dead letters that are passed on; each is a whole record."""
        rows = self.landed.count(letters)
        missing = ~self._dead_lettered(letters)
        if self.rows_per_record == "one":
            return missing & (rows == 0)
        self.resent += int(rows[missing].sum())
        return missing

    def _dead_lettered(self, source: Source) -> Any:
        """A mask of the records whose dead letter has landed."""
        return self.landed.has(source, np.full(len(source), WHOLE_RECORD))

    def _whole_records(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same rows, with all neighbouring rows of a record in one batch."""
        held: Any = None
        for batch in batches:
            if not batch.num_rows:
                continue
            rows = batch if held is None else pa.concat_batches([held, batch])
            edge = _last_record(Source.of(rows, self.where))
            yield rows.slice(0, edge)
            held = rows.slice(edge)
        if held is not None:
            yield held


def _several(source: Source, ordinals: Ints) -> Any:
    keys = np.stack([source.codes, source.partitions, source.offsets])
    _, which = np.unique(keys, axis=1, return_inverse=True)
    which = which.reshape(-1)
    most = np.zeros(which.max() + 1, np.int64)
    np.maximum.at(most, which, ordinals)
    return most[which] > 0


def _last_record(source: Source) -> int:
    last = len(source) - 1
    same = np.ones(len(source), bool)
    for column in (source.codes, source.partitions, source.offsets):
        same &= column == column[last]
    other = np.flatnonzero(~same)
    return int(other[-1]) + 1 if len(other) else 0
