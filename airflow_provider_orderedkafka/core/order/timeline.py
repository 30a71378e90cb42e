"""Where a time is in a log: the broker's time index and our own as one function, searched, and made exact.

`Log` is what is needed from outside. `TimeIndex.at(times)` gives a `Row` for each time: for each partition a lower
bound of the place where its running maximum reaches that time. Lower bound means: every visible record before it is
older; the first one from there on may be older too, because the index also counts transaction markers and aborted
records. A row holds for every time up to its `until`, so gaps in time cost nothing.

An `OwnIndex` replaces the broker's index for a partition where that does not help. It is built by reading the partition
once, keeps a sample of running maxima, and is valid as long as the same timestamps count.

`Search` finds the times before which there are N offsets, by interpolation, with several guesses at once. `totals` of
rows never fall with time. A target is bracketed by the last row known at or below it and the first one above it. Each
round asks for one interpolated time for each target; after a few rounds for the middle of its bracket too, so that
neither a steady flow nor a burst takes many.

`Places.at(time)` is the row of offsets where each partition's running maximum reaches the time, exactly: from the
index's lower bounds to the first visible record. Where a look passes too many older records the index is blind there;
the partition is read once and the look repeated. `about(log, span, time)` is the same for who only asks how much there
is, and often: it never reads a partition.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Protocol

from .cuts import BEFORE_TIME, Bound, Span, counts
from .positions import Offsets, TopicPartition


class Answer(NamedTuple):
    """A time index's answer: the first record, visible or not, whose timestamp is at least the given one."""

    offset: int
    timestamp: int


class Sighting(NamedTuple):
    """What a look from a bound found: the first visible record that satisfies it, after `passed` that do not.

    `offset` is None if there is no such record before the limit; `timestamp` is meaningless then. `gave_up` means that
    the look ended early, at `offset`, because too many visible records failed the bound.
    """

    offset: int | None
    timestamp: int
    passed: int
    gave_up: bool = False


class BatchSize(NamedTuple):
    """About how many records a producer's batch has, how many bytes these have, decompressed, and how many are sent."""

    records: int
    bytes: int
    sent: int


class Log(Protocol):
    """Answers may change while records arrive and are deleted; each is true when it is given."""

    def first_at(
        self, partitions: Sequence[TopicPartition], times: Sequence[int]
    ) -> Sequence[Mapping[TopicPartition, Answer]]:
        """For each time, the index's answer for each partition; a partition without such a record is left out."""

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        """The highest timestamp of each partition, visible or not.

        One without records is left out, and one whose newest record stands above the high watermark, as it does for a
        moment whenever a record comes to a partition that has replicas.
        """

    def look(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> Mapping[TopicPartition, Sighting]:
        """The first visible record at or after each bound, before its limit, after at most `patience` that fail it.

        A timestamp that is missing or later than `latest` never satisfies a time. If retention has deleted the bound's
        offset, the look begins at the log's start.
        """

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each visible record from `start` on and before `end`."""

    def batch_at(self, partition: TopicPartition, start: int, end: int) -> BatchSize | None:
        """The batch of the first visible record from `start` on and before `end`; None if that is not known."""


SAMPLE_EVERY = 256


@dataclass(frozen=True, slots=True)
class OwnIndex:
    """A sample of running maxima: every visible record of `[start, offsets[i])` is no newer than `maxima[i]`.

    `future` is the earliest timestamp that was in the future when it was built, if any.
    """

    start: int
    end: int
    offsets: tuple[int, ...]
    maxima: tuple[int, ...]
    future: int | None = None

    @classmethod
    def read(cls, records: Iterable[tuple[int, int]], start: int, end: int, latest: int) -> "OwnIndex":
        """Build it from offsets and timestamps; memory holds a sample of the records only."""
        offsets, maxima, highest, future = [start], [BEFORE_TIME], BEFORE_TIME, None
        records = iter(records)
        while chunk := list(islice(records, SAMPLE_EVERY)):
            later = (time for _, time in chunk if time > latest)
            future = min(later, default=None) if future is None else min(later, default=future)
            highest = max(highest, max((time for _, time in chunk if counts(time, latest)), default=BEFORE_TIME))
            if highest > maxima[-1]:
                offsets.append(chunk[-1][0] + 1)
                maxima.append(highest)
            else:
                offsets[-1] = max(offsets[-1], chunk[-1][0] + 1)
        return cls(start, end, tuple(offsets), tuple(maxima), future)

    def holds(self, latest: int) -> bool:
        """Whether the same timestamps count now as when it was built."""
        return self.maxima[-1] <= latest and (self.future is None or latest < self.future)

    def at(self, time: int) -> Answer | None:
        """A lower bound of where the running maximum reaches this time, and the last time it holds for."""
        sample = bisect_left(self.maxima, time)
        return None if sample == len(self.maxima) else Answer(self.offsets[max(sample - 1, 0)], self.maxima[sample])


@dataclass(frozen=True, slots=True)
class Row:
    """Lower bounds of where the partitions of a span reach a time; they hold for every time up to `until`."""

    time: int
    until: int
    offsets: tuple[int, ...]
    total: int


class TimeIndex:
    """A cache of rows of a span; asks the log for missing ones, many times in one request."""

    def __init__(self, log: Log, span: Span, own: dict[TopicPartition, OwnIndex]) -> None:
        self.span = span
        for partition in [partition for partition, index in own.items() if not index.holds(span.latest)]:
            del own[partition]
        self.own = own
        self._log = log
        self._starts = tuple(span.start.values())
        self._ends = tuple(span.end.values())
        self._floors = tuple(map(span.floor.of, span.partitions))
        self._lowest = span.floor.lowest
        self._asked = tuple(p for p, start in span.start.items() if span.end[p] > start)
        self._answers: dict[int, list[Answer | None]] = {}
        self._rows: dict[int, Row] = {}
        self._times: list[int] = []

    def start(self) -> Row:
        """The row at the floor: nothing has begun."""
        return Row(self._lowest, self._lowest, self._starts, 0)

    def beyond(self, time: int) -> Row:
        """The row at a time after every record of the span."""
        return Row(time, time, self._ends, self.span.offsets)

    def last(self) -> Row:
        """The row after everything in the span, at the earliest time that one request can tell.

        A partition without an answer may have records of any time that counts.
        """
        newest = self._log.newest(self._asked)
        highest = max((answer.timestamp for answer in newest.values()), default=BEFORE_TIME)
        if len(newest) < len(self._asked):
            highest = self.span.latest
        return self.beyond(max(min(highest, self.span.latest), self._lowest, *self._floors) + 1)

    def read_own(self, partition: TopicPartition) -> None:
        """Read the partition's share of the span, and use that as its index from now on."""
        start, end = self.span.start[partition], self.span.end[partition]
        records = self._log.scan(partition, start, end)
        self.own[partition] = OwnIndex.read(records, start, end, self.span.latest)
        self._rows.clear()
        self._times.clear()

    def at(self, times: Sequence[int]) -> list[Row]:
        if unknown := [time for time in dict.fromkeys(times) if self.known(time) is None]:
            for time, answers in zip(unknown, self._log.first_at(self._asked, unknown), strict=True):
                self._answers[time] = [answers.get(partition) for partition in self.span.partitions]
        found = [self.known(time) for time in times]
        return [row for row in found if row is not None]

    def known(self, time: int) -> Row | None:
        """The row for this time if it is known without asking."""
        if time <= self._lowest:
            return self.start()
        if time > self.span.latest:
            return self.beyond(time)
        place = bisect_right(self._times, time) - 1
        if place >= 0:
            row = self._rows[self._times[place]]
            if time <= row.until:
                return row
        return self._add(time) if time in self._answers else None

    def answer(self, time: int, partition: int) -> Answer | None:
        """The broker's answer for this time and the span's n-th partition, if it was asked."""
        answers = self._answers.get(time)
        return None if answers is None else answers[partition]

    def _add(self, time: int) -> Row:
        offsets, until = [], self.span.latest
        for place, offset_until in enumerate(self._each(time)):
            offsets.append(offset_until[0])
            if offset_until[0] < self._ends[place]:
                until = min(until, offset_until[1])
        row = Row(time, max(until, time), tuple(offsets), sum(offsets) - sum(self._starts))
        self._rows[time] = row
        self._times.insert(bisect_left(self._times, time), time)
        return row

    def _each(self, time: int) -> Iterator[tuple[int, int]]:
        """The lower bound of each partition, and the time up to which it holds."""
        answers = self._answers[time]
        for place, partition in enumerate(self.span.partitions):
            start, end, floor = self._starts[place], self._ends[place], self._floors[place]
            if time <= floor:
                yield start, floor
                continue
            own = self.own.get(partition)
            answer = own.at(time) if own else answers[place]
            if answer is None and own:
                yield min(max(own.end, start), end), time  # more may have come since it was made
            elif answer is None:
                yield end, time
            else:
                yield min(max(answer.offset, start), end), answer.timestamp


ASK_AT_ONCE = 32
STEADY_ROUNDS = 3

LOOKED_AT = 512
"""How many targets are looked at in each round, at most."""


class Search:
    """Rows around some targets, from a first row up to a last one that is beyond every target."""

    def __init__(self, index: TimeIndex, last: Row) -> None:
        self._index = index
        self._rows = [index.start(), last]

    @property
    def last(self) -> Row:
        return self._rows[-1]

    def bracket(self, target: int) -> tuple[Row, Row]:
        """The last row known at or below the target, and the first one above it."""
        place = bisect_right(self._rows, target, key=lambda row: row.total)
        return self._rows[max(place - 1, 0)], self._rows[min(place, len(self._rows) - 1)]

    def find(self, targets: Sequence[int], tolerance: int) -> None:
        """Ask until each target's bracket is tight: a row within the tolerance, or two times with nothing between.

        Many targets are found a few at a time, with the work growing by their number alone: first some, far apart, and
        then those between them.
        """
        first = min(self._index.start().until + 1, self._rows[-1].time)
        self._learn([first])
        if len(targets) > LOOKED_AT:
            self._find(targets[::LOOKED_AT], tolerance)
        for begin in range(0, len(targets), LOOKED_AT):
            self._find(targets[begin : begin + LOOKED_AT], tolerance)

    def _find(self, targets: Sequence[int], tolerance: int) -> None:
        rounds, wanted = 0, list(targets)
        while wanted := [target for target in wanted if not self._tight(target, tolerance)]:
            rounds += 1
            self._learn(self._guesses(wanted, halve=rounds > STEADY_ROUNDS))

    def _tight(self, target: int, tolerance: int) -> bool:
        low, high = self.bracket(target)
        near = target - low.total <= tolerance or high.total - target <= tolerance
        return (near and tolerance > 0) or low.total == target or high.time <= low.until + 1

    def _guesses(self, wanted: list[int], *, halve: bool) -> list[int]:
        guesses: set[int] = set()
        for target in wanted:
            low, high = self.bracket(target)
            before, after = low.until, high.time
            share = (target - low.total) / max(high.total - low.total, 1)
            guess = before + round((after - before) * share)
            for time in (guess, (before + after) // 2) if halve else (guess,):
                guesses.add(min(max(time, before + 1), after - 1))
        return _spread(sorted(guesses), ASK_AT_ONCE)

    def _learn(self, times: Iterable[int]) -> None:
        for row in self._index.at(list(times)):
            self._insert(row)

    def _insert(self, row: Row) -> None:
        """Put a row where its time is; the totals of rows never fall, even if the log changed between two answers."""
        last = self._rows[-1]
        place = bisect_left(self._rows, row.time, key=lambda each: each.time)
        if row.time >= last.time or place == 0:
            return
        # An older answer for a time that this one holds for would keep a bracket open for ever.
        held = bisect_right(self._rows, row.until, place, len(self._rows) - 1, key=lambda each: each.time)
        self._rows[place:held] = [row]
        while self._rows[place] is not last and self._rows[place].total <= self._rows[place - 1].total:
            before, flat = self._rows[place - 1], self._rows[place]
            self._rows[place] = replace(flat, total=before.total, until=max(flat.until, before.until))
            place += 1


def _spread(times: list[int], most: int) -> list[int]:
    if len(times) <= most:
        return times
    return [times[place * len(times) // most] for place in range(most)]


PATIENCE = 1_000
"""How many visible records older than a bound may follow it before the index counts as blind there."""


class Places:
    """Finds the exact offsets where the partitions of a span reach a time; reads each place once."""

    def __init__(self, log: Log, index: TimeIndex) -> None:
        self._log = log
        self._index = index
        self._seen: dict[tuple[TopicPartition, int], list[tuple[int | None, Sighting]]] = {}

    def at(self, time: int) -> Row:
        """The row of exact offsets, with the time up to which it holds."""
        span = self._index.span
        if time <= span.floor.lowest:
            return self._index.start()
        offsets, until = [], span.latest
        for partition, sighting in self.sightings(time).items():
            end = span.end[partition]
            offsets.append(end if sighting.offset is None else min(sighting.offset, end))
            if offsets[-1] < end:
                until = min(until, sighting.timestamp)
        return Row(time, max(until, time), tuple(offsets), sum(offsets) - sum(span.start.values()))

    def look(self, bounds: dict[TopicPartition, Bound]) -> dict[TopicPartition, Sighting]:
        unseen = {p: bound for p, bound in bounds.items() if self._known(p, bound) is None}
        span = self._index.span
        limits = {partition: span.end[partition] for partition in unseen}
        if unseen:
            for partition, sighting in self._log.look(unseen, limits, span.latest, PATIENCE).items():
                bound = unseen[partition]
                self._seen.setdefault((partition, bound.offset), []).append((bound.time, sighting))
        known = {partition: self._known(partition, bound) for partition, bound in bounds.items()}
        return {partition: sighting for partition, sighting in known.items() if sighting is not None}

    def sightings(self, time: int) -> dict[TopicPartition, Sighting]:
        """What stands where each partition reaches the time; partitions whose index is blind are read first."""
        while True:
            found, bounds = self._without_looking(time)
            seen = self.look(bounds)
            blind = [partition for partition, sighting in seen.items() if sighting.gave_up]
            if not blind:
                seen = {**found, **seen}
                return {partition: seen[partition] for partition in self._index.span.partitions}
            for partition in blind:
                self._index.read_own(partition)

    def _without_looking(self, time: int) -> tuple[dict[TopicPartition, Sighting], dict[TopicPartition, Bound]]:
        span, row = self._index.span, self._index.at([time])[0]
        found, bounds = {}, {}
        for (partition, start), offset in zip(span.start.items(), row.offsets, strict=True):
            floor = span.floor.of(partition)
            if time <= floor:
                found[partition] = Sighting(start, floor, 0)
            elif offset >= span.end[partition]:
                found[partition] = Sighting(None, time, 0)
            else:
                bounds[partition] = Bound(offset, time)
        return found, bounds

    def _known(self, partition: TopicPartition, bound: Bound) -> Sighting | None:
        time = bound.time
        for since, sighting in self._seen.get((partition, bound.offset), ()):
            if since is None or time is None or sighting.gave_up:
                same = since == time  # says nothing of another time
            else:
                same = since <= time and (sighting.offset is None or time <= sighting.timestamp)
            if same:
                return sighting
        return None


def about(log: Log, span: Span, time: int) -> Offsets:
    """The offset of each partition up to which it is older than a time, by the index.

    If the index answers with a record of the future, which hides all that follow it, a few records are sampled instead;
    late records may then make the result a little too large.
    """
    index = TimeIndex(log, span, {})
    found = Offsets(zip(span.partitions, index.at([time])[0].offsets, strict=True))
    answers = {partition: index.answer(time, place) for place, partition in enumerate(span.partitions)}
    blind = [p for p, answer in answers.items() if answer and answer.timestamp > span.latest and found[p] < span.end[p]]
    return found.updated(_halved(log, span, time, {partition: found[partition] for partition in blind}))


def _halved(log: Log, span: Span, time: int, low: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Halve what may be older until a look finds the place; a record in the middle stands for those around it."""
    high = {partition: span.end[partition] for partition in low}
    while middle := {p: Bound((low[p] + high[p]) // 2) for p in low if high[p] - low[p] > PATIENCE}:
        limits = {partition: high[partition] for partition in middle}
        for partition, sighting in log.look(middle, limits, span.latest, PATIENCE).items():
            young = counts(sighting.timestamp, span.latest) and sighting.timestamp >= time
            if sighting.offset is None or young:
                high[partition] = middle[partition].offset
            else:
                low[partition] = sighting.offset + 1
    bounds = {partition: Bound(offset, time) for partition, offset in low.items()}
    seen = log.look(bounds, high, span.latest, PATIENCE)
    return {p: high[p] if sighting.offset is None else sighting.offset for p, sighting in seen.items()}
