"""Boundaries: the cuts between intervals, each decided once for each topic and used by both neighbours.

A boundary's place is, for each partition, the first visible record that is not older than its time, or else the high
end at that moment. It never changes, so a record that arrives late is in exactly one interval. It is decided only after
its time and the grace have passed, waits for open transactions that may commit older records, and lies between the
boundaries around it.

What a boundary says of a topic is decided when an interval of a load with that topic is first planned, so that a topic
may be added, left out and come back. A partition that a boundary does not know, though it knows the topic, was added
later: it begins in the first interval whose end knows it. So a boundary before one that does not know a partition does
not know it either, whenever it is decided.

The store has no compare-and-set, so two runs may decide at the same moment. A decision is read again after a while, and
what is stored then is valid; a commit compares once more.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeGuard

from ..core.documents import Boundary, Range, Uncertain
from ..core.next_range import Deleted, Survey, created_again, cut_time
from ..core.notation.spelling import format_duration, listed
from ..core.notation.starts import Moment
from ..core.notation.subscriptions import names
from ..core.order.cuts import NO_FLOOR, Floor, Place
from ..core.order.positions import Offsets, TopicPartition
from ..core.pacing import Terms
from ..errors import LedgerChangedError, LifecycleError, NotYetError, TopicChangedError
from .ledger import ROUNDS, LedgerStore

KEPT = 2_000
"""How many boundaries are kept: more than two months of hourly intervals."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a decision needs from Kafka: a survey, the place of a time, and where records from then on may be gone."""

    seen: Survey
    at: Callable[[int], Place]
    deleted: Callable[[int], Deleted] = Deleted


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides the boundaries of a load; `look` asks Kafka, given the floor of the boundary before."""

    store: LedgerStore
    terms: Terms
    now: Callable[[], int]
    look: Callable[[Floor], Sight]

    def boundary(self, time: int) -> Boundary:
        """The boundary at this time, decided now for the topics that it lacks; `NotYetError` if it is too early."""
        found = self.store.boundary(time)
        if self._whole(found):
            return found
        if found is None and self.store.intervals().touch(time):
            raise LifecycleError(
                f"the boundary at {Moment(time)} of load {self.store.load!r} was decided for a neighbouring interval, "
                f"and is not among the last {KEPT:,} that are kept: load this interval's records with a replay"
            )
        sight = self._ripe(time)
        place, topics = sight.at(time), sight.seen.found.ids
        decided = Boundary(time, self._between(time, place, topics), topics, self.now())
        return self._agreed(decided, self._uncertain(sight, time, found))

    def _whole(self, found: Boundary | None) -> TypeGuard[Boundary]:
        """Whether it is decided, for all topics of the load."""
        return found is not None and found.topics.keys() >= set(names(self.terms.subscription))

    def _agreed(self, decided: Boundary, uncertain: Uncertain) -> Boundary:
        """Store a decision, and return the boundary that is stored in the end, perhaps by another run.

        It is fitted between those that other runs have decided at the same moment.
        """
        for _ in range(ROUNDS):
            with suppress(LedgerChangedError):
                self.store.name_boundary(decided.time, KEPT)
            found = self.store.boundary(decided.time)
            if not self._whole(found):  # another run may have decided it meanwhile
                decided = decided if found is None else completed(found, decided)
                self._put(decided, uncertain)
            self.store.settle()
            found, named = self.store.boundary(decided.time), self.store.boundaries()
            if not self._whole(found) or decided.time not in named:
                continue
            place = self._between(found.time, found.place, found.topics)
            if place == found.place:
                return found
            if found == decided:  # whoever has decided it otherwise fits it
                decided = replace(decided, place=place)
                self._put(decided, uncertain)
        raise LedgerChangedError(
            f"the boundary at {Moment(decided.time)} of load {self.store.load!r} is being decided by several runs at "
            "once, which overwrite each other: try again, and the decision that is stored by then holds"
        )

    def _put(self, decided: Boundary, uncertain: Uncertain) -> None:
        with suppress(LedgerChangedError):
            if uncertain.starts:
                self.store.add_uncertain(decided.time, uncertain)
            self.store.add_boundary(decided)

    def _ripe(self, time: int) -> Sight:
        grace = self.terms.grace or 0
        left = time + grace - self.now()
        if left > 0:
            raise NotYetError(
                f"the boundary at {Moment(time)} of load {self.store.load!r} is decided {format_duration(grace)} after "
                f"that time, in {format_duration(left)}"
            )
        before = max((each for each in self.store.boundaries() if each < time), default=None)
        sight = self.look(NO_FLOOR if before is None else Floor(before))
        cut = cut_time(sight.seen, replace(self.terms, end_time=time))
        if cut is not None and cut < time:
            raise NotYetError(
                f"the boundary at {Moment(time)} of load {self.store.load!r} cannot be decided yet: an open "
                "transaction that began before that time may still commit older records; the boundary is decided "
                f"without them {format_duration(self.terms.transaction_wait)} after that time (transaction_wait)"
            )
        return sight

    def _between(self, time: int, place: Place, topics: Mapping[str, str]) -> Place:
        """The place of the time, between those of the boundaries around it; without partitions added after it."""
        times = self.store.boundaries()
        low = self._nearest(reversed([each for each in times if each < time]), topics)
        high = self._nearest([each for each in times if each > time], topics)
        return between(place, low, high)

    def _uncertain(self, sight: Sight, time: int, found: Boundary | None) -> Uncertain:
        """Where records from this time on may have been deleted: the log begins there, and no boundary shows more."""
        deleted, known = sight.deleted(time), {} if found is None else found.topics
        starts = {p: start for p, start in (*deleted.maybe.items(), *deleted.older.items()) if p.topic not in known}
        unsure = self._unsure(starts, sight.seen.found.ids, time)
        maybe, older = (Offsets({p: each[p] for p in each if p in unsure}) for each in (deleted.maybe, deleted.older))
        return Uncertain(maybe, older, self.now())

    def _unsure(self, starts: Mapping[TopicPartition, int], ids: Mapping[str, str], time: int) -> set[TopicPartition]:
        """Those where the boundary before does not show that what was deleted is older than this time.

        It shows that if it stands where the log starts now, or behind: what was deleted is older. One that does not
        know what was deleted before it was decided shows that nothing was since; so it has to be older than this time.
        """
        left, found = dict(starts), set(starts)
        for before in reversed([each for each in self.store.boundaries() if each < time]):
            boundary = self.store.boundary(before) if left else None
            if boundary is None:
                continue
            unknown = self.store.uncertain(before)
            for partition in [each for each in left if each.topic in boundary.topics]:
                stands = boundary.place.offsets.get(partition, 0) >= left.pop(partition)
                sure = partition not in unknown.starts or unknown.decided_at <= time
                if stands and sure and boundary.topics[partition.topic] == ids[partition.topic]:
                    found.remove(partition)
        return found

    def _nearest(self, times: Iterable[int], topics: Mapping[str, str]) -> dict[str, Offsets]:
        """Where each topic stands in the nearest of these boundaries that knows it under its present id."""
        found: dict[str, Offsets] = {}
        left = dict(topics)
        for time in times:
            boundary = self.store.boundary(time) if left else None
            known = {} if boundary is None else boundary.topics
            for topic in left.keys() & known.keys():
                if boundary is not None and known[topic] == left.pop(topic):
                    found[topic] = of_topics(boundary.place.offsets, {topic})
        return found


def of_topics(offsets: Offsets, topics: Container[str]) -> Offsets:
    return Offsets({partition: offset for partition, offset in offsets.items() if partition.topic in topics})


def between(place: Place, low: Mapping[str, Offsets], high: Mapping[str, Offsets]) -> Place:
    """The place, not before `low` and not after `high`, without the partitions that `high` does not know."""
    found = {}
    for partition, offset in place.offsets.items():
        below, above = low.get(partition.topic, Offsets()), high.get(partition.topic)
        if above is None or partition in above:
            least = max(offset, below.get(partition, 0))
            found[partition] = least if above is None else min(least, above[partition])
    return place.with_offsets(Offsets(found))


def completed(found: Boundary, decided: Boundary) -> Boundary:
    """With the topics that it lacks; what it says of the others stays."""
    lacking = decided.topics.keys() - found.topics.keys()
    more = replace(decided.place, floor=found.place.floor).with_offsets(of_topics(decided.place.offsets, lacking))
    added = {topic: decided.topics[topic] for topic in lacking}
    return replace(found, place=found.place.updated(more), topics={**found.topics, **added})


def interval(begin: Boundary, end: Boundary, topics: Mapping[str, str]) -> tuple[Place, Place]:
    """The offsets between two boundaries, in topics with these ids. A partition that was added begins at 0."""
    for topic, now in topics.items():
        for was in (begin.topics[topic], end.topics[topic]):
            if was != now:
                raise TopicChangedError(
                    f"{created_again(topic, was, now)}, so the offsets between {Moment(begin.time)} and "
                    f"{Moment(end.time)} are not known; load the new topic under another name, or from a later "
                    "interval on",
                    topic=topic,
                )
    ends = of_topics(end.place.offsets, topics)
    starts = {partition: min(begin.place.offsets.get(partition, 0), offset) for partition, offset in ends.items()}
    return begin.place.with_offsets(Offsets(starts)), end.place.with_offsets(ends)


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
            raise LifecycleError(
                f"the boundary at {Moment(place.floor.time)} of load {store.load!r} was decided by two runs at the "
                f"same moment, and range {loaded.id!r} was loaded with the decision that was overwritten: it has "
                f"{listed(wrong)}. The records between these offsets are in no interval, or in two: load those that "
                "are missing with a replay of just these offsets, then mark this task success"
            )
