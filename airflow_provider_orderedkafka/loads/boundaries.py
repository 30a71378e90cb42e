"""Boundaries: the cuts between intervals, each decided once and used by both neighbours.

A boundary's place is, for each partition, the first visible record that is not older than its time, or else the high
end at that moment. It never changes, so a record that arrives late is in exactly one interval. It is decided only after
its time and the grace have passed, waits for open transactions that may commit older records, and lies between the
boundaries around it.

The store has no compare-and-set, so two runs may decide at the same moment. A decision is read again after a while, and
what is stored then is valid; a commit compares once more.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from airflow_provider_orderedkafka.core.documents import Boundary, Range
from airflow_provider_orderedkafka.core.next_range import Survey, created_again, cut_time
from airflow_provider_orderedkafka.core.notation.durations import format_duration
from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.errors import LedgerChangedError, LifecycleError, NotYetError, TopicChangedError
from airflow_provider_orderedkafka.loads.ledger import LedgerStore

KEPT = 2_000
"""How many boundaries are kept: more than two months of hourly intervals."""

TRIES = 3
"""How often to write a decision that other runs overwrite."""

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Sight:
    """What a decision needs from Kafka: a survey, and the place of a time."""

    seen: Survey
    at: Callable[[int], Place]


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides the boundaries of a load; `look` asks Kafka, given the floor of the boundary before."""

    store: LedgerStore
    terms: Terms
    now: Callable[[], int]
    look: Callable[[Floor], Sight]

    def boundary(self, time: int) -> Boundary:
        """The boundary at this time, decided now if needed; `NotYetError` if it is too early."""
        found = self.store.boundary(time)
        if found is not None:
            return found
        sight = self._ripe(time)
        low = self._before(time)
        high = self._nearest([each for each in self.store.boundaries() if each > time])
        decided = Boundary(time, between(sight.at(time), low, high), sight.seen.found.ids, self.now())
        found = self.store.boundary(time)  # another run may have decided it meanwhile
        return self._agreed(decided) if found is None else found

    def _agreed(self, decided: Boundary) -> Boundary:
        """Store a decision, and return the boundary that is stored in the end, perhaps by another run."""
        for _ in range(TRIES):
            with suppress(LedgerChangedError):
                self.store.name_boundary(decided.time, KEPT)
            if self.store.boundary(decided.time) is None:
                with suppress(LedgerChangedError):
                    self.store.add_boundary(decided)
            self.store.settle()
            found, named = self.store.boundary(decided.time), self.store.boundaries()
            if found is not None and (decided.time in named or len(named) == KEPT):
                return found
        raise LedgerChangedError(
            f"the boundary at {Moment(decided.time)} of load {self.store.load!r} is being decided by several runs "
            "at once, which overwrite each other: try again; the decision that is stored then holds"
        )

    def _ripe(self, time: int) -> Sight:
        grace = self.terms.grace or 0
        left = time + grace - self.now()
        if left > 0:
            raise NotYetError(
                f"the boundary at {Moment(time)} of load {self.store.load!r} is decided "
                f"{format_duration(grace)} after it, in {format_duration(left)}"
            )
        low = self._before(time)
        sight = self.look(NO_FLOOR if low is None else low.floor)
        cut = cut_time(sight.seen, replace(self.terms, end_time=time))
        if cut is not None and cut < time:
            raise NotYetError(
                f"the boundary at {Moment(time)} of load {self.store.load!r} cannot be decided yet: a transaction "
                f"that began before it and is open may still commit older records; it is decided without them "
                f"{format_duration(self.terms.transaction_wait)} after it (transaction_wait)"
            )
        return sight

    def _before(self, time: int) -> Place | None:
        return self._nearest(reversed([each for each in self.store.boundaries() if each < time]))

    def _nearest(self, times: Iterable[int]) -> Place | None:
        found = (self.store.boundary(time) for time in times)
        return next((boundary.place for boundary in found if boundary is not None), None)


def between(place: Place, low: Place | None, high: Place | None) -> Place:
    offsets = dict(place.offsets)
    for bound, nearer in ((low, max), (high, min)):
        for partition, offset in ({} if bound is None else bound.offsets).items():
            if partition in offsets:
                offsets[partition] = nearer(offsets[partition], offset)
    return Place(Offsets(offsets), place.floor)


def interval(begin: Boundary, end: Boundary, firsts: Mapping[TopicPartition, int]) -> tuple[Place, Place]:
    """The offsets between two boundaries. New partitions start at their first offset."""
    for topic, was in begin.topics.items():
        now = end.topics.get(topic, was)
        if now != was:
            raise TopicChangedError(
                f"{created_again(topic, was, now)}, so what lies between {Moment(begin.time)} and {Moment(end.time)} "
                "cannot be told; load the new topic under another name",
                topic=topic,
            )
    starts = {p: min(begin.place.offsets.get(p, firsts.get(p, 0)), offset) for p, offset in end.place.offsets.items()}
    return Place(Offsets(starts), begin.place.floor), end.place


def check_interval(store: LedgerStore, loaded: Range) -> None:
    """Raise `LifecycleError` if another run has decided a boundary of a loaded interval differently.

    Boundaries that were forgotten are old, and were not decided again.
    """
    for place in (loaded.start, loaded.end):
        boundary = store.boundary(place.floor.time)
        held = {} if boundary is None else boundary.place.offsets
        if place is loaded.start:  # a partition that the end does not reach starts there
            held = {p: min(offset, loaded.end.offsets.get(p, offset)) for p, offset in held.items()}
        wrong = [f"{p.at(to)} instead of {held[p]}" for p, to in place.offsets.items() if held.get(p, to) != to]
        if wrong:
            raise LifecycleError(_decided_anew(store.load, loaded, place.floor.time, wrong))


def _decided_anew(load: str, loaded: Range, time: int, wrong: list[str]) -> str:
    more = f" and {len(wrong) - SHOWN:,} more" if len(wrong) > SHOWN else ""
    return (
        f"the boundary at {Moment(time)} of load {load!r} was decided by two runs at the same moment, and range "
        f"{loaded.id!r} was loaded with the one that does not hold: it has {', '.join(wrong[:SHOWN])}{more}. What lies "
        "between these offsets is in no interval, or in two: load what is missing with a replay of just these "
        "offsets, then mark this task success"
    )
