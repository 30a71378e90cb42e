"""Who a written row is, and which rows are there already.

    Identity(range, batch, writer, row)      one row that a batch writes
    IntervalSet.of(rows)                     row numbers, in canonical form; `|`, `in`, `len`, `within(start, end)`
    Landed(rows, dead_letters, samples)      what of one writer's rows stands in the outputs already

The rows of a batch lie in long runs: a writer's rows reach a partition in order, so what a kill leaves behind is a
beginning, with holes only near its end. As intervals ten million rows take a few bytes, or a few megabytes at worst.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

_LARGEST = 2**63 - 1


class Identity(NamedTuple):
    """One written row: the range and batch that write it, the writer's number, and the row's in that writer's order."""

    range: str
    batch: int
    writer: int
    row: int

    def __str__(self) -> str:
        return f"row {self.row} of writer {self.writer}, batch {self.batch} of range {self.range}"


class Interval(NamedTuple):
    """The rows from `start` on and before `end`."""

    start: int
    end: int


class IntervalSet:
    """A set of row numbers, immutable: sorted, disjoint half-open intervals that do not touch.

    What holds the same rows is equal, and has one form. Rows are integers from 0 on.
    """

    __slots__ = ("_bounds",)

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        """The union of these intervals `(start, end)`, in any order; empty ones count for nothing."""
        self._bounds = array("q")
        for start, end in sorted(intervals):
            if not 0 <= start <= end <= _LARGEST:
                raise ValueError(f"an interval is (start, end) with 0 <= start <= end, found {(start, end)!r}")
            if start < end:
                self._append(start, end)

    @classmethod
    def of(cls, rows: Iterable[int]) -> "IntervalSet":
        """The set of these rows, in any order, each as often as it likes."""
        runs = groupby(enumerate(sorted(set(rows))), key=lambda place: place[1] - place[0])
        return cls(_interval([row for _, row in run]) for _, run in runs)

    def _append(self, start: int, end: int) -> None:
        bounds = self._bounds
        if bounds and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds.extend((start, end))

    def intervals(self) -> Iterator[Interval]:
        """The intervals, in order."""
        return map(Interval, self._bounds[::2], self._bounds[1::2])

    def within(self, start: int, end: int) -> Iterator[Interval]:
        """The intervals of what it has from `start` on and before `end`, in order."""
        index = bisect_right(self._bounds, start) & ~1
        while index < len(self._bounds) and self._bounds[index] < end:
            low, high = max(start, self._bounds[index]), min(end, self._bounds[index + 1])
            if low < high:
                yield Interval(low, high)
            index += 2

    def __contains__(self, row: object) -> bool:
        return isinstance(row, int) and bisect_right(self._bounds, row) % 2 == 1

    def __len__(self) -> int:
        return sum(self._bounds[1::2]) - sum(self._bounds[::2])

    def __iter__(self) -> Iterator[int]:
        for interval in self.intervals():
            yield from range(*interval)

    def __or__(self, other: "IntervalSet") -> "IntervalSet":
        return IntervalSet([*self.intervals(), *other.intervals()])

    def __eq__(self, other: object) -> bool:
        return self._bounds == other._bounds if isinstance(other, IntervalSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bounds.tobytes())

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._bounds,)

    def __repr__(self) -> str:
        return f"IntervalSet({[tuple(interval) for interval in self.intervals()]})"


def _interval(run: list[int]) -> Interval:
    return Interval(run[0], run[-1] + 1)


def _restored(bounds: "array[int]") -> IntervalSet:
    restored = IntervalSet()
    restored._bounds.extend(bounds)
    return restored


class Sample(NamedTuple):
    """A row that stands in the output, and a checksum of the record it became: a rerun must give the same."""

    row: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Landed:
    """What of one writer's rows stands in the outputs already, which of them as dead letters; `samples` are some."""

    rows: IntervalSet = field(default_factory=IntervalSet)
    dead_letters: IntervalSet = field(default_factory=IntervalSet)
    samples: tuple[Sample, ...] = ()


NOTHING_LANDED = Landed()
