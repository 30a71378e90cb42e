"""A stream: where it begins, how far it may read, and where each batch ends.

A batch ends at a cut, at most so many offsets away. What that is decided from (the high ends, the moment, the topics'
ids) is looked at once for an available-now query and anew for every trigger otherwise; what shapes the batch goes into
its offset, so that a logged batch is planned again from that alone.
"""

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.cuts import NO_FLOOR, Floor, Place, Slice, Span, held
from airflow_provider_orderedkafka.core.pacing import Situation, decide
from airflow_provider_orderedkafka.core.planning import Planner
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.streams import StreamOffset, span_between
from airflow_provider_orderedkafka.errors import DataLossError, SettingError, TopicChangedError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.topics import Discovery
from airflow_provider_orderedkafka.spark.cluster import Cluster
from airflow_provider_orderedkafka.spark.options import SourceOptions

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.core.documents import Range
    from airflow_provider_orderedkafka.core.index import OwnIndex

log = logging.getLogger(__name__)

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Target:
    """How far can be read, as it was at one moment: up to the ends, and there to what is older than `time`."""

    now: int
    topics: Discovery
    ends: Offsets
    time: int | None = None
    held_back: int = 0


class Stream:
    """The stream, or the batch, that some options describe; asks Kafka when it must."""

    def __init__(self, options: SourceOptions, cluster: Cluster | None = None) -> None:
        self._options = options
        self._cluster = cluster or _cluster(options)
        self._fixed: Target | None = None
        self._decided: bool | None = None
        self._own: dict[TopicPartition, OwnIndex] = {}

    def fix_target(self, floor: Floor = NO_FLOOR) -> None:
        """From now on read to what there is now, and no further; whether it is enough is decided once."""
        self._fixed, self._decided = self._target(floor), None

    @property
    def cluster_id(self) -> str:
        """The cluster that the fixed target was found on."""
        return "" if self._fixed is None else self._fixed.topics.cluster_id

    def first(self) -> StreamOffset:
        """The resolved start, and the moment of the first look."""
        given, start = self._options.range, self._options.start
        if given is not None:
            return StreamOffset(
                given.start, Offsets(), given.latest, given.isolation, given.topics, given.planned_at, None
            )
        assert start is not None
        target = self._fixed or self._target()
        offsets = self._cluster.resolve(start, target.topics.partitions, target.now)
        if self._options.end is not None:
            _check_ends(offsets, target.ends)
        if self._fixed is not None:  # "latest" is resolved a moment after the target
            ends = {partition: max(end, offsets[partition]) for partition, end in target.ends.items()}
            self._fixed = target = replace(target, ends=Offsets(ends))
        return self._offset(Place(offsets, Floor()), Offsets(), target, target.now, None)

    def after(self, at: StreamOffset, most: int | None) -> StreamOffset | None:
        """Where the next batch ends; None when there is nothing to run now."""
        target = self._fixed or self._target(at.place.floor)
        _check_topics(at, target.topics)
        added = self._cluster.starts_of(p for p in target.ends if p not in at.place.offsets)
        planner = self._cluster.planner(self._rest(at, added, target), self._own)
        if not planner.span.offsets or not self._enough(planner, at, target):
            return None
        end = planner.end(most, target.time)
        if end.offsets == planner.span.start:
            return None
        return self._offset(end, added, target, at.first_looked_at, target.now)

    def whole(self) -> tuple[StreamOffset, StreamOffset]:
        """Start and end of everything that a batch read asks for, as it is now."""
        self.fix_target()
        start = self.first()
        return start, self.after(start, None) or start

    def slices(self, start: StreamOffset, end: StreamOffset) -> list[Slice]:
        """The slices between two offsets."""
        return self._cluster.planner(span_between(start, end), self._own).slices(self._options.slice_offsets)

    def progress(self, at: StreamOffset | None) -> dict[str, Any]:
        """How far the stream could read now, and how far behind that it is, for the query's progress."""
        target = self._fixed if self._options.range is not None else None  # a range does not grow
        ends = (target or self._target()).ends
        if at is None:
            return {"high_ends": ends.to_json()}
        stands = {partition: min(at.place.offsets.get(partition, 0), end) for partition, end in ends.items()}
        return {"high_ends": ends.to_json(), "offsets_behind": ends.since(stands)}

    def _target(self, floor: Floor = NO_FLOOR) -> Target:
        topics, given = self._cluster.topics(), self._options.range
        if given is not None:
            return Target(given.planned_at, topics, given.end.offsets)
        now = time.time_ns() // 1_000_000
        if self._options.end is not None:
            ends = self._cluster.resolve(self._options.end, topics.partitions, now, word="end")
            return Target(now, topics, ends)
        there = self._cluster.ends(topics.partitions, now, floor)
        return Target(now, topics, there.offsets, self._cut_time(now, there.open_since), there.held_back)

    def _cut_time(self, now: int, open_since: int | None) -> int | None:
        """What is at or after it waits: for a while no later than an open transaction's first record."""
        end, grace = self._options.end_time, self._options.grace
        given = [*([] if end is None else [end.time]), *([] if grace is None else [now - grace])]
        return held(min(given), open_since, now - self._options.transaction_wait) if given else None

    def _rest(self, at: StreamOffset, added: Offsets, target: Target) -> Span:
        """What is left to read: from where the stream stands to the target's ends."""
        start, ends = at.place.offsets.updated(added), {}
        for partition, offset in start.items():
            ends[partition] = end = target.ends.get(partition, offset)
            if end < offset and self._options.end is None and self._options.isolation == at.isolation:
                raise DataLossError(
                    f"the stream stands at {partition.at(offset)}, the log ends at {partition.at(end)}: records that "
                    "were read are gone from Kafka; start again with a new checkpoint",
                    **partition._asdict(),
                    offset=offset,
                )
            ends[partition] = max(end, offset)
        return Span(start, Offsets(ends), at.place.floor, self._latest(target))

    def _enough(self, planner: Planner, at: StreamOffset, target: Target) -> bool:
        """Whether there is enough for a trigger; an available-now query decides it once."""
        pace = self._options.pace
        if pace.min_offsets is None and pace.max_delay is None:
            return True
        if self._decided is None or self._fixed is None:
            offsets = planner.end(None, target.time).offsets.since(planner.span.start)
            verdict = decide(pace, Situation(offsets, at.since, target.now, target.held_back))
            log.warning("%s: %s", "running" if verdict.run else "waiting", verdict.reason)
            self._decided = verdict.run
        return self._decided

    def _offset(
        self, place: Place, added: Offsets, target: Target, first_looked_at: int, triggered_at: int | None
    ) -> StreamOffset:
        given = self._options.range
        if given is not None and place.offsets == given.end.offsets:
            place = given.end
        return StreamOffset(
            place,
            added,
            self._latest(target),
            self._options.isolation,
            target.topics.ids,
            first_looked_at,
            triggered_at,
        )

    def _latest(self, target: Target) -> int:
        given: Range | None = self._options.range
        return target.now + self._options.future_tolerance if given is None else given.latest


def _cluster(options: SourceOptions) -> Cluster:
    if options.range is not None:
        return Cluster.of_range(options.kafka, options.range)
    assert options.subscription is not None
    tolerance = options.future_tolerance
    return Cluster(options.kafka, options.subscription, options.isolation, tolerance, options.on_data_loss)


def _check_topics(at: StreamOffset, found: Discovery) -> None:
    """The offsets of the stream must mean what they meant."""
    for topic, was in at.topics.items():
        now = found.ids.get(topic)
        places = [partition.at(offset) for partition, offset in at.place.offsets.items() if partition.topic == topic]
        read = ", ".join(places[:SHOWN]) + (" and more" if len(places) > SHOWN else "")
        if now is None:
            raise UnknownTopicError(
                f"topic {topic!r} is not among what is read any more; the stream stands at {read}. "
                "To go on without it, start with a new checkpoint",
                topic=topic,
            )
        if now != was:
            raise TopicChangedError(
                f"topic {topic!r} was deleted and created again: its id was {was}, now it is {now}, so {read} means "
                "something else. To read the new one, start with a new checkpoint",
                topic=topic,
            )


def _check_ends(start: Offsets, ends: Offsets) -> None:
    for partition, end in ends.items():
        if end < start[partition]:
            raise SettingError(
                f"the end {partition.at(end)} lies before the start {partition.at(start[partition])}: "
                "'endingOffsets' must not be below where reading starts"
            )
