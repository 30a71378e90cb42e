"""Counts that tasks report to the driver beside their rows, one for each piece of work, such as a slice.

    TaskCounter(session.sparkContext)    on the driver; it goes to the tasks with the function that they run
    counter.tell(piece, count)           in a task, once it is done with the piece
    counter.total(), counter.told        on the driver, once the job is done

It is an accumulator of Spark. A task that fails tells nothing; and where Spark does a piece twice (to sample what it
will sort, or for both sides of a union) the piece counts once, with the most that was told of it.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

Told = dict[Any, int]


class TaskCounter:
    """A sum over pieces of work, reported by tasks."""

    def __init__(self, context: "SparkContext") -> None:
        self._told = context.accumulator({}, _Most())

    def tell(self, piece: Hashable, count: int) -> None:
        """Report the count of a piece, in a task."""
        if count:
            self._told.add({piece: count})

    def total(self) -> int:
        """The sum over all pieces."""
        return sum(self.told.values())

    @property
    def told(self) -> Told:
        """The count of each piece."""
        return dict(self._told.value)


class _Most:
    """Merges reports by the maximum for each piece."""

    def zero(self, _value: Told) -> Told:
        return {}

    def addInPlace(self, told: Told, more: Told) -> Told:  # noqa: N802 - Spark's name
        for piece, count in more.items():
            told[piece] = max(told.get(piece, 0), count)
        return told
