"""Map times to offsets: the broker's time index and our own as one function.

`TimeIndex.at(times)` gives a `Row` for each time: for each partition a lower bound of the place where its running
maximum reaches that time. Lower bound means: every visible record before it is older; the first one from there on may
be older too, because the index also counts transaction markers and aborted records. A row holds for every time up to
its `until`, so gaps in time cost nothing.

An `OwnIndex` replaces the broker's index for a partition where that does not help. It is built by reading the partition
once, keeps a sample of running maxima, and is valid as long as the same timestamps count.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from airflow_provider_orderedkafka.core.order.cuts import BEFORE_TIME, Span, counts
from airflow_provider_orderedkafka.core.order.ports import Answer, Log
from airflow_provider_orderedkafka.core.order.positions import TopicPartition

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
        self._asked = tuple(p for p, start in span.start.items() if span.end[p] > start)
        self._answers: dict[int, list[Answer | None]] = {}
        self._rows: dict[int, Row] = {}
        self._times: list[int] = []
        self.lookups = 0

    def start(self) -> Row:
        """The row at the floor: nothing has begun."""
        return Row(self.span.floor.time, self.span.floor.time, self._starts, 0)

    def beyond(self, time: int) -> Row:
        """The row at a time after every record of the span."""
        return Row(time, time, self._ends, self.span.offsets)

    def last(self) -> Row:
        """The row after everything in the span, at the earliest time that one request can tell."""
        newest = self._log.newest(self._asked).values()
        highest = max((answer.timestamp for answer in newest), default=BEFORE_TIME)
        return self.beyond(max(min(highest, self.span.latest), self.span.floor.time, *self._floors) + 1)

    def forget_rows(self) -> None:
        """Drop cached rows, after an own index was added."""
        self._rows.clear()
        self._times.clear()

    def read_own(self, partition: TopicPartition) -> None:
        """Read the partition's share of the span, and use that as its index from now on."""
        start, end = self.span.start[partition], self.span.end[partition]
        records = self._log.scan(partition, start, end)
        self.own[partition] = OwnIndex.read(records, start, end, self.span.latest)
        self.forget_rows()

    def at(self, times: Sequence[int]) -> list[Row]:
        self._ask([time for time in dict.fromkeys(times) if self.known(time) is None])
        found = [self.known(time) for time in times]
        return [row for row in found if row is not None]

    def known(self, time: int) -> Row | None:
        """The row for this time if it is known without asking."""
        if time <= self.span.floor.time:
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

    def _ask(self, times: list[int]) -> None:
        if not times:
            return
        self.lookups += len(times)
        for time, answers in zip(times, self._log.first_at(self._asked, times), strict=True):
            self._answers[time] = [answers.get(partition) for partition in self.span.partitions]

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
