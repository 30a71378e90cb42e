"""Find the beginnings and ends of a slice's stretches while their records arrive.

A stretch begins at the first visible record from its start bound on that satisfies the bound's time, and ends before
the first one from its end bound on that satisfies that bound's time, or at its limit. Offsets may be missing anywhere:
only what arrives is judged, and what the log itself says of a partition's position.
"""

import numpy as np
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.order.cuts import Bound, Slice
from airflow_provider_orderedkafka.kafka.read.ordering import counting

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# A record without a timestamp that counts satisfies a bound without a time, and no other.
_ANY_TIME = -3
_NO_TIME = -2


def _time(bound: Bound) -> int:
    return _ANY_TIME if bound.time is None else bound.time


class StretchProgress:
    """The progress of each stretch of one slice, by rank: its index in the slice.

    `position` is the next offset to read, `stop` the offset that the stretch ends before: its limit or literal end
    until a record satisfies the end bound.
    """

    def __init__(self, slice_: Slice) -> None:
        stretches = slice_.stretches
        self._latest = slice_.latest
        self._start_time = np.array([_time(s.start) for s in stretches], np.int64)
        self._end = np.array([s.end.offset for s in stretches], np.int64)
        self._end_time = np.array([_time(s.end) for s in stretches], np.int64)
        self._begun = self._start_time == _ANY_TIME
        self._seeking = not self._begun.all()
        self._running_on = bool((self._end_time != _ANY_TIME).any())
        self.position = np.array([s.start.offset for s in stretches], np.int64)
        limits = np.array([s.limit for s in stretches], np.int64)
        self._begin = np.where(self._begun, self.position, limits)
        self.stop = np.where(self._end_time == _ANY_TIME, np.minimum(limits, self._end), limits)

    def admit(self, rank: Ints, offset: Ints, timestamp: Ints) -> Bools:
        """A mask of the records that belong to the slice; they come in the order of offsets within a partition."""
        if self._seeking:
            self._look_for_starts(rank, offset, timestamp)
        if self._running_on:
            self._look_for_ends(rank, offset, timestamp)
        self.position[rank] = offset + 1  # of several records of a partition, the last one's stays
        belongs: Bools = (offset >= self._begin[rank]) & (offset < self.stop[rank])
        return belongs

    def stand_at(self, rank: int, position: int) -> None:
        """Note that nothing visible is left before this offset."""
        self.position[rank] = max(int(self.position[rank]), position)

    def nearest_end(self, among: Bools) -> int:
        """The fewest offsets left, by the index, in any of these stretches; 0 or less past an end."""
        return int((self._end - self.position)[among].min())

    def finished(self) -> Bools:
        reached: Bools = self.position >= self.stop
        return reached

    def gone_before(self, rank: int, log_start: int) -> int:
        """Move past what retention deleted before the log's start; return how many offsets of this stretch it was.

        A bound below the log's start moves there, for this slice and its neighbours alike, so each remaining record is
        in exactly one of them.
        """
        position, end = int(self.position[rank]), int(self._end[rank])
        lost = min(log_start, end, int(self.stop[rank])) - position
        if end < log_start:
            self.stop[rank] = min(int(self.stop[rank]), log_start)
        if not self._begun[rank]:
            self._begin[rank], self._begun[rank] = log_start, True
            self._seeking = not self._begun.all()
        self.stand_at(rank, log_start)
        return max(lost, 0)

    def _look_for_starts(self, rank: Ints, offset: Ints, timestamp: Ints) -> None:
        found = ~self._begun[rank] & (self._counting(timestamp) >= self._start_time[rank])
        if found.any():
            ranks, first = np.unique(rank[found], return_index=True)
            self._begin[ranks] = offset[found][first]
            self._begun[ranks] = True
            self._seeking = not self._begun.all()

    def _look_for_ends(self, rank: Ints, offset: Ints, timestamp: Ints) -> None:
        found = (offset >= self._end[rank]) & (offset < self.stop[rank])
        if found.any():
            found &= self._counting(timestamp) >= self._end_time[rank]
            ranks, first = np.unique(rank[found], return_index=True)
            self.stop[ranks] = offset[found][first]

    def _counting(self, timestamp: Ints) -> Ints:
        return np.where(counting(timestamp, self._latest), timestamp, _NO_TIME)
