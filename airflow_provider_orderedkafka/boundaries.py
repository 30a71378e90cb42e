"""Boundaries: the cuts between intervals, each decided once and used by both neighbours.

A boundary's place is, for each partition, the first visible record that is not older than its moment; where there is
none yet, the high end, for good. So whatever arrives late later on lies in exactly one interval. It is never decided
before its moment and the grace have passed, nor while an open transaction may still commit something older; and never
outside of the boundaries around it.

A store without compare-and-set lets two runs decide at the same moment. So a decision is read again after a while, and
what stands there then holds.
"""

import time as clock
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_orderedkafka.core.cuts import Place
from airflow_provider_orderedkafka.core.documents import Boundary
from airflow_provider_orderedkafka.core.durations import format_duration
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.progress import moment
from airflow_provider_orderedkafka.errors import NotYetError, TopicChangedError
from airflow_provider_orderedkafka.ledger import LedgerStore

KEPT = 2_000
"""How many boundaries are kept: more than two months of hourly intervals."""

SETTLE_SECONDS = 1.0
"""After this long a decision of another run at the same moment is seen."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a decision needs of Kafka: the topics' ids, since when a transaction is open, where a moment lies."""

    topics: Mapping[str, str]
    open_since: int | None
    at: Callable[[int], Place]


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides the boundaries of one load. `survey` asks Kafka; `settle` is in seconds."""

    store: LedgerStore
    grace: int
    now: Callable[[], int]
    survey: Callable[[], Survey]
    settle: float = SETTLE_SECONDS

    def boundary(self, time: int) -> Boundary:
        """The boundary at this moment, decided now where nobody has; `NotYetError` where it is too early."""
        found = self.store.boundary(time)
        if found is not None:
            return found
        seen = self._ripe(time)
        times = self.store.boundaries()
        low = self._nearest(reversed([each for each in times if each < time]))
        high = self._nearest([each for each in times if each > time])
        self.store.name_boundary(time, KEPT)
        decided = Boundary(time, between(seen.at(time), low, high), seen.topics, self.now())
        self.store.add_boundary(decided)
        clock.sleep(self.settle)
        return self.store.boundary(time) or decided

    def _ripe(self, time: int) -> Survey:
        left = time + self.grace - self.now()
        if left > 0:
            raise NotYetError(
                f"the boundary at {moment(time)} of load {self.store.load!r} is decided "
                f"{format_duration(self.grace)} after it, in {format_duration(left)}"
            )
        seen = self.survey()
        if seen.open_since is not None and seen.open_since < time:
            raise NotYetError(
                f"the boundary at {moment(time)} of load {self.store.load!r} cannot be decided yet: a transaction that "
                "began before it and is open may still commit older records"
            )
        return seen

    def _nearest(self, times: Iterable[int]) -> Place | None:
        found = (self.store.boundary(time) for time in times)
        return next((boundary.place for boundary in found if boundary is not None), None)


def between(place: Place, low: Place | None, high: Place | None) -> Place:
    """The place, nowhere before `low` and nowhere after `high`."""
    offsets = dict(place.offsets)
    for bound, nearer in ((low, max), (high, min)):
        for partition, offset in ({} if bound is None else bound.offsets).items():
            if partition in offsets:
                offsets[partition] = nearer(offsets[partition], offset)
    return Place(Offsets(offsets), place.floor)


def interval(begin: Boundary, end: Boundary, firsts: Mapping[TopicPartition, int]) -> tuple[Place, Place]:
    """What lies between two boundaries; partitions that are new in it begin at their first offset."""
    for topic, was in begin.topics.items():
        if end.topics.get(topic, was) != was:
            raise TopicChangedError(
                f"topic {topic!r} was deleted and created again between {moment(begin.time)} and {moment(end.time)}: "
                "what lies between them cannot be told; load the new topic under another name"
            )
    starts = {p: min(begin.place.offsets.get(p, firsts.get(p, 0)), offset) for p, offset in end.place.offsets.items()}
    return Place(Offsets(starts), begin.place.floor), end.place
