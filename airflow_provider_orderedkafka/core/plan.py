"""A range's batches before they are loaded: how large they are, and where they end.

They are planned a window at a time, so that the first row of a long range does not wait for the look-ups of the last
batch. A batch that was begun ends where that was written down, and the next one begins where it ended, whatever had
been planned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_provider_orderedkafka.core.codec import Document
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets

WINDOW = 20
"""How many batches are planned at a time."""

MOST_OFFSETS = 5_000_000
MOST_BYTES = 4 * 2**30
MOST_STRETCHES = 200_000
"""The most stretches (partitions of slices) in a batch: each takes 0.35 kB in the driver, and is sent to its task."""

LARGE_RECORD = 2**20
"""The largest record by Kafka's defaults: a short range need not be sampled."""

SLICE_OFFSETS = 100_000
"""About how many offsets a slice spans, unless that is set."""


@dataclass(frozen=True, slots=True)
class Planned(Document):
    """One batch of a plan: its number, and where it ends.

    `ends` are the next offsets of the range's partitions, in order. `offsets` is how many it spans, `left` how many of
    the range follow; `bytes` is estimated from a sample of records, if one was taken. `batches` is how many there are
    in all; with `about` it is an upper estimate, as the rest is planned later or a row limit may end it.
    """

    batch: int
    batches: int
    about: bool
    ends: tuple[int, ...]
    floor: Floor
    offsets: int
    left: int
    bytes: int | None

    def end(self, loaded: Range) -> Place:
        return Place(Offsets(zip(loaded.end.offsets.partitions, self.ends, strict=True)), self.floor)


@dataclass(frozen=True, slots=True)
class Size:
    """How many offsets a batch spans, and how many bytes an offset has on average, where that is known."""

    offsets: int
    average: float | None = None


def needs_sample(loaded: Range) -> bool:
    """Whether the record size may limit the range's batches."""
    return loaded.batch_offsets is None and loaded.offsets > MOST_BYTES // LARGE_RECORD


def size_of(loaded: Range, average: float | None, slice_offsets: int = SLICE_OFFSETS) -> Size:
    """The size of a range's batches: as set, or as large as driver and tasks can handle."""
    if loaded.batch_offsets is not None:
        return Size(loaded.batch_offsets, average)
    slices = max(MOST_STRETCHES // max(len(loaded.end.offsets), 1), 1)
    bounds = [MOST_OFFSETS, slices * slice_offsets, *([int(MOST_BYTES / average)] if average else [])]
    return Size(max(min(bounds), 1), average)


def window(loaded: Range, number: int, start: Place, ends: Sequence[Place], size: Size) -> list[Planned]:
    """The batches, numbered from `number`, that begin at `start` and end at `ends`."""
    places = [start, *(loaded.end if end.offsets == loaded.end.offsets else end for end in ends)]
    rest = loaded.end.offsets.since(places[-1].offsets)
    batches = number + len(ends) - 1 + -(-rest // size.offsets)
    about = rest > 0 or loaded.rows_left is not None
    found = []
    for batch, (begin, end) in enumerate(pairwise(places), number):
        offsets = end.offsets.since(begin.offsets)
        estimate = None if size.average is None else round(offsets * size.average)
        left = loaded.end.offsets.since(end.offsets)
        planned = Planned(batch, batches, about, tuple(end.offsets.values()), end.floor, offsets, left, estimate)
        found.append(planned)
    return found


def rest_of(loaded: Range, start: Place) -> Span:
    return Span(start.offsets, loaded.end.offsets, start.floor, loaded.latest)
