"""Sort records as they arrived into the order `(order_time, topic, partition, offset)`.

Topics and partitions are ranks here: their place in the slice, which is the order of `(topic, partition)`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.errors import OrderViolationError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The records of a slice in order; `arrival` has the index of each in the order of arrival."""

    arrival: NDArray[np.intp]
    rank: Ints
    offset: Ints
    timestamp: Ints
    order_time: Ints
    late: NDArray[np.bool_]

    def first_violation(self, rows: slice) -> int | None:
        """The first of these rows that is not before the row after it."""
        time, rank, offset = (np.diff(column[rows]) for column in (self.order_time, self.rank, self.offset))
        rising = (time > 0) | ((time == 0) & ((rank > 0) | ((rank == 0) & (offset > 0))))
        return None if rising.all() else int(rows.start + np.argmin(rising))

    def read_in(self, rows: slice) -> dict[int, int]:
        """How many these rows are, by the rank of their partition."""
        return _counted(self.rank[rows])

    def late_in(self, rows: slice) -> dict[int, int]:
        """How many of these rows are late, by the rank of their partition."""
        return _counted(self.rank[rows][self.late[rows]])


def _counted(ranks: Ints) -> dict[int, int]:
    return {rank: count for rank, count in enumerate(np.bincount(ranks).tolist()) if count}


def counting(timestamp: Ints, latest: int) -> NDArray[np.bool_]:
    """Which timestamps count: `core.cuts.counts`, for a column."""
    return (timestamp >= 0) & (timestamp <= latest)


def arrange(slice_: Slice, rank: Ints, offset: Ints, timestamp: Ints) -> Ordered:
    """Sort the records of a slice.

    Raises OrderViolationError if the records of a partition did not arrive in the order of their offsets.
    """
    grouped = _stable_order(rank)
    rank, offset, timestamp = rank[grouped], offset[grouped], timestamp[grouped]
    _check_arrival(slice_, rank, offset)
    counted = counting(timestamp, slice_.latest)
    order_time = _running_maximum(slice_, rank, np.where(counted, timestamp, -1))
    order = _stable_order(order_time)
    counted, timestamp, order_time = counted[order], timestamp[order], order_time[order]
    return Ordered(
        arrival=grouped[order],
        rank=rank[order],
        offset=offset[order],
        timestamp=timestamp,
        order_time=order_time,
        late=counted & (timestamp < order_time),
    )


def _stable_order(values: Ints) -> NDArray[np.intp]:
    if values.size == 0 or bool((values[1:] >= values[:-1]).all()):
        return np.arange(values.size)
    return np.argsort(values, kind="stable")


def _running_maximum(slice_: Slice, rank: Ints, counting: Ints) -> Ints:
    floors = np.array([stretch.floor for stretch in slice_.stretches], np.int64)
    highest = np.maximum(counting, floors[rank])
    edges = np.flatnonzero(np.diff(rank)) + 1
    for group in np.split(highest, edges):
        np.maximum.accumulate(group, out=group)
    return highest


def _check_arrival(slice_: Slice, rank: Ints, offset: Ints) -> None:
    wrong = np.flatnonzero((np.diff(rank) == 0) & (np.diff(offset) <= 0))
    if wrong.size:
        partition = slice_.stretches[rank[wrong[0]]].partition
        before, after = offset[wrong[0]], offset[wrong[0] + 1]
        raise OrderViolationError(
            f"{partition.at(after)} arrived after {partition.at(before)}: expected offsets to rise",
            **partition._asdict(),
            offset=int(after),
        )
