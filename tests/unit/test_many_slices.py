"""A range with very many slices is planned by work that grows with their number alone."""

import time

import pytest

from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Span
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Answer, Sighting

PARTITIONS = tuple(TopicPartition("orders", number) for number in range(4))


class EvenLog:
    """A log of a record each millisecond, dealt out to four partitions in turn: it knows each by its time."""

    def __init__(self, offsets: int) -> None:
        self.offsets = offsets

    def first_at(self, partitions, times):
        return [
            {p: self._answer(p, self._offset(p, t)) for p in partitions if self._offset(p, t) < self.offsets}
            for t in times
        ]

    def newest(self, partitions):
        return {p: self._answer(p, self.offsets - 1) for p in partitions}

    def look(self, bounds, limits, latest, patience):
        found = {p: max(b.offset, 0 if b.time is None else self._offset(p, b.time)) for p, b in bounds.items()}
        return {p: Sighting(o, self._answer(p, o).timestamp, 0) for p, o in found.items() if o < limits[p]}

    def _offset(self, partition, time):
        return max(0, -(-(time - partition.partition) // 4))

    def _answer(self, partition, offset):
        return Answer(offset, 4 * offset + partition.partition)


@pytest.mark.parametrize(("slices", "seconds"), [(20_000, 20), pytest.param(100_000, 100, marks=pytest.mark.nightly)])
def test_many_slices_are_planned_in_time_that_grows_with_their_number(slices, seconds):
    each = 10_000
    offsets = slices * each // len(PARTITIONS)
    span = Span(Offsets(dict.fromkeys(PARTITIONS, 0)), Offsets(dict.fromkeys(PARTITIONS, offsets)), NO_FLOOR, 10**15)
    began = time.process_time()
    found = Planner(EvenLog(offsets), span).slices(each, "fail")
    assert time.process_time() - began < seconds
    assert len(found) == slices
    assert sum(each.offsets for each in found) == span.offsets
    assert max(slice_.offsets for slice_ in found) < 2 * each
