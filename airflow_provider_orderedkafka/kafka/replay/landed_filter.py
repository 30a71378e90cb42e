"""Leave out the rows of a batch that are already in its outputs.

How many rows a record gives decides what they are known by:

    "one"      at most one: its position is enough
    "many"     several, in an order that comes again: position and ordinal
    "joined"   usually one; if a joined table matches several times, the order of these rows may differ next time, so
               they are all passed on, and `resent` counts those that had landed
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from airflow_provider_orderedkafka.kafka.provenance import SourceColumns
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.kafka.write.sources import Ints, Ordinals, Position, Source, with_ordinals

Giving = Literal["one", "many", "joined"]


@dataclass(slots=True)
class LandedFilter:
    """Passes on the missing rows of one slice. `began` is the first record of which there were rows."""

    landed: Landed
    giving: Giving
    where: SourceColumns
    resent: int = 0
    began: Position | None = None
    _ordinals: Ordinals = field(default_factory=Ordinals)

    def of(self, batches: Iterable[Any]) -> Iterator[Any]:
        if self.giving == "one" and not self.landed:
            yield from batches
            return
        for batch in self._whole_records(batches) if self.giving == "joined" else batches:
            if batch.num_rows:
                yield self._missing(batch)

    def _missing(self, batch: Any) -> Any:
        source = Source.of(batch, self.where)
        self.began = self.began or source.first()
        ordinals = np.zeros(len(source), np.int64) if self.giving == "one" else self._ordinals.of(source)
        there = self.landed.has(source, ordinals)
        if self.giving == "joined" and there.any():
            several = _several(source, ordinals)
            self.resent += int((there & several).sum())
            there &= ~several
        if self.giving != "one":
            batch = with_ordinals(batch, ordinals)
        return batch.filter(~there) if there.any() else batch

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
    """A mask of rows whose records gave more than one."""
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
