"""Cuts and slices: how a range is divided in time order.

The rules that everything else rests on:

- The *order time* of a record is the highest timestamp of its partition within the range, up to and including it,
  and never below the range's floor. A timestamp that is missing, or later than `latest`, counts for nothing.
- The *order* is `(order_time, topic, partition, offset)`.
- A *bound* `(offset, time)` stands at the first visible record from `offset` on whose timestamp is at least `time`;
  without a time, at `offset` itself. The slice before it and the slice after it apply this one rule, so no record is
  read twice or left out, although markers and aborted records hide behind offsets.
- A *cut* is one bound for each partition and the *floor* of what follows. Inside a tie (many records of one order
  time) it stands at one partition: the partitions before that have left the time behind, those after have not begun it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self

from ...errors import DocumentError
from .marks import Mark
from .positions import Offsets, TopicPartition, is_integer

OnDataLoss = Literal["fail", "count"]
"""What is done where retention deleted records that were to be read."""

FUTURE_TOLERANCE = 5 * 60 * 1_000
"""How far in the future a timestamp may be and still count, by default."""

BEFORE_TIME = -1
"""The order time of a record before any timestamp: one millisecond before the epoch."""


class OrderTimes(Offsets):
    """The lowest order time that is left to each of some partitions."""

    __slots__ = ()
    LEAST = BEFORE_TIME


@dataclass(frozen=True, slots=True)
class Floor:
    """No record that follows gets an order time below `time`; in partitions before `split`, below `time + 1`.

    Partitions that begin `anew`, after a rewind, are held by lower times of their own until these have risen as far.
    """

    time: int = BEFORE_TIME
    split: TopicPartition | None = None
    anew: OrderTimes = OrderTimes()  # noqa: RUF009 - it never changes

    def __post_init__(self) -> None:
        if self.time < BEFORE_TIME:
            raise ValueError(f"a floor is a time in milliseconds from {BEFORE_TIME} on, found {self.time!r}")

    def of(self, partition: TopicPartition) -> int:
        """The lowest order time that a record of this partition can get."""
        own = self.anew.get(partition)
        return self._of_others(partition) if own is None else own

    def _of_others(self, partition: TopicPartition) -> int:
        return self.time + 1 if self.split is not None and partition < self.split else self.time

    @property
    def lowest(self) -> int:
        """The lowest order time that a record of any partition can get."""
        return min(self.anew.values(), default=self.time)

    @property
    def highest(self) -> int:
        """The highest time below which a record of some partition is late."""
        return self.time + (self.split is not None)

    def raised(self, time: int, split: TopicPartition | None = None) -> "Floor":
        """At least as high as this for every partition."""
        reached = Floor(time, split)
        highest = max(self, reached, key=lambda floor: (floor.time, floor.split or ()))
        return highest._where({p: max(own, reached.of(p)) for p, own in self.anew.items()})

    def without(self, partitions: Iterable[TopicPartition]) -> "Floor":
        """Nothing holds these partitions any more; all others are held as before."""
        return self._where({**self.anew, **dict.fromkeys(partitions, BEFORE_TIME)})

    def _where(self, anew: Mapping[TopicPartition, int]) -> "Floor":
        lower = OrderTimes({p: time for p, time in anew.items() if time < self._of_others(p)})
        return Floor(self.time, self.split, lower)

    def to_json(self) -> dict[str, Any]:
        split, anew = self.split, self.anew
        of_split = {} if split is None else {"topic": split.topic, "partition": split.partition}
        return {"time": self.time, **of_split} | ({"anew": anew.to_json()} if anew else {})

    @classmethod
    def from_json(cls, value: Any, path: str = "floor") -> Self:
        """Parse the canonical form; a `DocumentError` has the path of what is wrong."""
        match value:
            case {"anew": anew, **others}:
                found = cls.from_json(others, path)
                return cls(found.time, found.split, OrderTimes.from_json(anew, f"{path}.anew"))
            case {"time": time, **split} if is_integer(time, BEFORE_TIME) and not split:
                return cls(time)
            case {"time": time, "topic": str(topic), "partition": partition, **rest} if not rest:
                if is_integer(time, BEFORE_TIME) and is_integer(partition):
                    return cls(time, TopicPartition(topic, partition))
        expected = "a floor such as {'time': 0} or {'time': 0, 'topic': 'orders', 'partition': 1}"
        raise DocumentError(f"{path!r} must be {expected}, found {value!r}")


NO_FLOOR = Floor()


class Bound(NamedTuple):
    """The first visible record from `offset` on whose timestamp is at least `time`; without a time, `offset` itself."""

    offset: int
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A place in the order: the floor of what follows, and one bound for each partition of the span it cuts."""

    floor: Floor
    bounds: tuple[Bound, ...]


class Stretch(NamedTuple):
    """What one partition gives to a slice: from `start` to `end`, and never past the literal offset `limit`."""

    partition: TopicPartition
    start: Bound
    end: Bound
    limit: int
    floor: int


class Close(NamedTuple):
    """Where a slice or a batch ends: the floor of what follows."""

    floor: Floor

    def limit(self, partition: TopicPartition) -> int:
        """Every record of the partition that comes before the end has an order time below this."""
        return self.floor.of(partition) + (partition == self.floor.split)


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets between two neighbouring cuts: the work of one Spark task.

    `offsets` is how many offsets it spans by the index, an estimate; `latest` is the last timestamp that counts;
    `floor` is that of the cut at its start, `close` tells of the one at its end, where something is known to follow;
    `end` tells of the end of its batch, which no other plan can move.
    """

    index: int
    stretches: tuple[Stretch, ...]
    latest: int
    offsets: int
    floor: Floor = Floor()
    close: Close | None = None
    end: Close | None = None

    @property
    def spans(self) -> dict[TopicPartition, tuple[int, int]]:
        """The offsets of each partition; those of its records too, where its bounds are literal."""
        return {stretch.partition: (stretch.start.offset, stretch.end.offset) for stretch in self.stretches}


def joined(slices: Sequence[Slice]) -> Slice:
    """One slice of all of these, which follow each other."""
    found: dict[TopicPartition, Stretch] = {}
    for stretch in (each for slice_ in slices for each in slice_.stretches):
        first = found.get(stretch.partition, stretch)
        found[stretch.partition] = first._replace(end=stretch.end, limit=stretch.limit)
    offsets = sum(slice_.offsets for slice_ in slices)
    return replace(slices[0], stretches=tuple(sorted(found.values())), offsets=offsets, close=slices[-1].close)


@dataclass(frozen=True, slots=True)
class Place:
    """A position of a load: the next offset of each partition, and the floor of what follows.

    `marks` tell by partition which log it was, where that is known; by offsets and floor alone places are compared.
    """

    offsets: Offsets
    floor: Floor
    marks: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for mark in self.marks.values():
            Mark.of(mark)

    @property
    def marked(self) -> dict[TopicPartition, Mark]:
        return {p: Mark.of(self.marks[str(p)]) for p in self.offsets if str(p) in self.marks} if self.marks else {}

    def with_marks(self, marks: Mapping[TopicPartition, Mark]) -> "Place":
        return replace(self, marks={**self.marks, **{str(partition): str(mark) for partition, mark in marks.items()}})

    def with_offsets(self, offsets: Offsets) -> "Place":
        kept = {str(partition) for partition in offsets}
        return replace(self, offsets=offsets, marks={p: mark for p, mark in self.marks.items() if p in kept})

    def updated(self, later: "Place") -> "Place":
        """That place, and where this one stands in partitions that it does not name."""
        kept = {str(p) for p, offset in self.offsets.items() if later.offsets.get(p, offset) == offset}
        marks = {partition: mark for partition, mark in self.marks.items() if partition in kept}
        return Place(self.offsets.updated(later.offsets), later.floor, {**marks, **later.marks})


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the log between literal offsets, with the floor and the last timestamp that determine its order.

    `start` and `end` name the same partitions and no end lies before its start.
    """

    start: Offsets
    end: Offsets
    floor: Floor
    latest: int

    def __post_init__(self) -> None:
        if self.start.partitions != self.end.partitions:
            odd = sorted(set(self.start) ^ set(self.end))[0]
            raise ValueError(f"a span's start and end must name the same partitions; only one of them names {odd}")
        for partition, end in self.end.items():
            start = self.start[partition]
            if end < start:
                raise ValueError(f"{partition.at(end)}: the end lies before the start {partition.at(start)}")

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return self.start.partitions

    @property
    def offsets(self) -> int:
        return self.end.since(self.start)

    def first(self) -> Cut:
        return Cut(self.floor, tuple(Bound(offset) for offset in self.start.values()))

    def last(self) -> Cut:
        """The cut at its end; its floor is not that of the next span."""
        return Cut(self.floor, tuple(Bound(offset) for offset in self.end.values()))


def counts(timestamp: int, latest: int) -> bool:
    """Whether a timestamp moves the running maximum: it exists and is not in the future."""
    return 0 <= timestamp <= latest


def held(time: int, open_since: int | None, at_most: int) -> int:
    """The time of a cut, moved back to the first timestamp that an open transaction may commit, or to `at_most`.

    Without that bound a transaction that is never ended would block the load.
    """
    return time if open_since is None else min(time, max(open_since, at_most))


def slices(
    limits: Offsets, cuts: Sequence[Cut], latest: int, close: Close | None = None, end: Close | None = None
) -> list[Slice]:
    """The slices between these cuts; they cover all exactly once. The last one has this close, each this end."""
    found = [_slice(index, limits, latest, edges, end) for index, edges in enumerate(pairwise(cuts))]
    return [*found[:-1], *(replace(last, close=close) for last in found[-1:])]


def _slice(index: int, limits: Offsets, latest: int, edges: tuple[Cut, Cut], end: Close | None) -> Slice:
    before, after = edges
    stretches = tuple(
        Stretch(partition, start, end, limit, before.floor.of(partition))
        for (partition, limit), start, end in zip(limits.items(), before.bounds, after.bounds, strict=True)
        if start.offset < limit and start != end
    )
    offsets = sum(stretch.end.offset - stretch.start.offset for stretch in stretches)
    return Slice(index, stretches, latest, offsets, before.floor, Close(after.floor), end)
