"""A stream: its start, how far it may read, and the end of each batch.

A batch ends at a cut, at most so many offsets away. What that is decided from is looked at once for an available-now
query and anew for every trigger otherwise; what shapes the batch goes into its offset, so that a logged batch is
planned again from that alone.
"""

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.next_range import Ends, NothingToLoad, Survey, check_ends, next_place, verdict
from airflow_provider_orderedkafka.core.notation.starts import Earliest
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.cuts import Place, Slice
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.pacing import Pace
from airflow_provider_orderedkafka.core.streams import StreamOffset, span_between
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.kafka.lookup.survey import NOWHERE, resolve, survey
from airflow_provider_orderedkafka.spark.connector.cluster import Cluster
from airflow_provider_orderedkafka.spark.connector.options import SourceOptions

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.core.next_range import Own

log = logging.getLogger(__name__)


class Stream:
    """A stream or a batch read, by its options; asks Kafka."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = _cluster(options)
        self._terms = terms_of(options)
        self._fixed: Survey | None = None
        self._decided: bool | None = None
        self._own: Own = {}

    def fix_target(self) -> None:
        """Read no further than to the present ends; decide once whether that is enough."""
        self._fixed, self._decided = self._look(NOWHERE), None

    def first(self) -> StreamOffset:
        """The resolved start, and the moment of the first look."""
        given = self._options.range
        if given is not None:
            return StreamOffset(
                given.start, Offsets(), given.latest, given.isolation, given.topics, given.planned_at, None
            )
        seen = self._fixed or self._look(NOWHERE)
        start = resolve(self._options.kafka, self._terms, self._terms.start, seen.found.partitions, seen.now)
        for remark in start.remarks:
            log.warning("%s", remark)
        if seen.fixed:
            check_ends(start.offsets, seen.ends.offsets, "'endingOffsets' must not be below where reading starts")
        elif self._fixed is not None:  # "latest" is resolved a moment after the target
            self._fixed = replace(seen, ends=_raised(seen.ends, start.offsets))
        return self._offset(Place(start.offsets, NOWHERE.floor), Offsets(), seen, seen.now, None)

    def after(self, at: StreamOffset, most: int | None) -> StreamOffset | None:
        """The end of the next batch; None if no batch is due."""
        seen = self._fixed or self._look(at.place)
        seen.check(at.place, at.topics, self._terms.way_out)
        if not self._enough(at, seen):
            return None
        terms = replace(self._terms, max_offsets=most)
        end = next_place(self._cluster.log, at.place, seen, terms, self._own)
        if isinstance(end, NothingToLoad):
            return None
        added = {p: offset for p, offset in seen.span(at.place).start.items() if p not in at.place.offsets}
        place = Place(at.place.offsets.updated(end.offsets), end.floor)
        return self._offset(place, Offsets(added), seen, at.first_looked_at, seen.now)

    def whole(self) -> tuple[StreamOffset, StreamOffset]:
        """Start and end of a batch read."""
        self.fix_target()
        start = self.first()
        return start, self.after(start, None) or start

    def slices(self, start: StreamOffset, end: StreamOffset) -> list[Slice]:
        """The slices between two offsets."""
        return self._cluster.planner(span_between(start, end), self._own).slices(self._options.slice_offsets)

    def progress(self, at: StreamOffset | None) -> dict[str, Any]:
        """How far the stream could read now, and how far behind that it is, for the query's progress."""
        seen = self._fixed if self._options.range is not None else None  # a range does not grow
        ends = (seen or self._look(NOWHERE if at is None else at.place)).ends.offsets
        if at is None:
            return {"high_ends": ends.to_json()}
        stands = {partition: min(at.place.offsets.get(partition, 0), end) for partition, end in ends.items()}
        return {"high_ends": ends.to_json(), "offsets_behind": ends.since(stands)}

    def _look(self, place: Place) -> Survey:
        given = self._options.range
        if given is not None:
            found = self._cluster.topics()
            return Survey(
                given.planned_at, given.latest, found, Ends(given.end.offsets, Offsets()), Offsets(), fixed=True
            )
        return survey(self._options.kafka, self._terms, time.time_ns() // 1_000_000, place)

    def _enough(self, at: StreamOffset, seen: Survey) -> bool:
        """Whether there is enough for a trigger; an available-now query decides it once."""
        if self._terms.pace == Pace():
            return True
        if self._decided is None or self._fixed is None:
            found = verdict(self._cluster.log, at.place, seen, self._terms, at.since)
            log.warning("%s: %s", "running" if found.run else "waiting", found.reason)
            self._decided = found.run
        return self._decided

    def _offset(
        self, place: Place, added: Offsets, seen: Survey, first_looked_at: int, triggered_at: int | None
    ) -> StreamOffset:
        given = self._options.range
        if given is not None and place.offsets == given.end.offsets:
            place = given.end
        isolation, topics = self._terms.isolation, seen.found.ids
        return StreamOffset(place, added, seen.latest, isolation, topics, first_looked_at, triggered_at)


def _cluster(options: SourceOptions) -> Cluster:
    if options.range is not None:
        return Cluster.of_range(options.kafka, options.range)
    assert options.subscription is not None
    return Cluster(options.kafka, options.subscription, options.isolation)


def terms_of(options: SourceOptions) -> Terms:
    """What the options ask for."""
    return Terms(
        load="",
        subscription=options.subscription or Named(()),
        start=options.start or Earliest(),
        end=options.end,
        end_time=None if options.end_time is None else options.end_time.time,
        grace=options.grace,
        transaction_wait=options.transaction_wait,
        future_tolerance=options.future_tolerance,
        isolation=options.isolation,
        on_data_loss=options.on_data_loss,
        include_headers=options.include_headers,
        pace=options.pace,
        batch_offsets=options.most,
    )


def _raised(ends: Ends, to: Offsets) -> Ends:
    """The same ends, at least up to these."""
    higher = {partition: max(end, to[partition]) for partition, end in ends.offsets.items()}
    written = {partition: max(end, to[partition]) for partition, end in ends.written.items()}
    return replace(ends, offsets=Offsets(higher), written=Offsets(written))
