"""A stream: its start, how far it may read, and the end of each batch; and what it has to know about the cluster.

A batch ends at a cut, at most `most` offsets away. The cluster is looked at once for an available-now query, and again
for every trigger otherwise. A `Cluster` has the topics, and the log for the planner.

Spark logs only the end offset of a batch, and plans a logged batch again from two offsets alone. So an offset carries
its place, the settings its batch was read with, and the times that a minimum and a delay count from.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from ...core.batches import SLICE_OFFSETS
from ...core.codec import Document
from ...core.documents import Isolation, Range
from ...core.lifecycle import way_out
from ...core.next_range import (
    Ends,
    NothingToLoad,
    Own,
    Survey,
    check_ends,
    check_logs,
    next_place,
    place_after,
    verdict,
)
from ...core.notation.subscriptions import Discovery, Named, Subscription
from ...core.order.cuts import Close, Floor, OnDataLoss, Place, Slice, Span
from ...core.order.planning import Planner, worthwhile
from ...core.order.positions import Offsets, Position, TopicPartition
from ...core.order.timeline import Log
from ...core.pacing import Pace, Since, WayOut
from ...errors import SettingError
from ...kafka.lookup.survey import NOWHERE, Brokers, Kafka, compared, marked, resolve, survey
from ...kafka.lookup.topics import show_place
from ...kafka.provenance import SOURCE_FIELDS
from .options import SourceOptions
from .reading import read_batches, read_settings

_log = logging.getLogger(__name__)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

INITIAL: Final = {"initial": True, "version": 1}
"""The initial offset of every stream: a constant. The first batch resolves the start."""


@dataclass(frozen=True, slots=True)
class StreamOffset(Document):
    """The offset of a stream. `added` are the first offsets of partitions that are new in its batch.

    `rows` is how many rows come before it, None where they were not counted.
    """

    place: Place
    added: Offsets
    latest: int
    isolation: Isolation
    topics: Mapping[str, str]
    first_looked_at: int
    triggered_at: int | None
    rows: int | None = None

    @property
    def since(self) -> Since:
        """The times that a delay counts from: the first look and the last trigger."""
        return Since(self.first_looked_at, self.triggered_at)

    def to_json(self) -> dict[str, Any]:
        """The JSON value for Spark's log; equal offsets give equal text."""
        value: dict[str, Any] = json.loads(self.to_text())
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StreamOffset | None":
        """Parse what Spark stored; None is the initial offset."""
        return None if value == INITIAL else cls.from_value(value)


def span_between(start: StreamOffset, end: StreamOffset) -> Span:
    """What a batch spans. Partitions that are new in it begin where its end says."""
    known = {partition: start.place.offsets.get(partition) for partition in end.place.offsets}
    begin = {p: end.added[p] if offset is None else offset for p, offset in known.items()}
    return Span(Offsets(begin), end.place.offsets, start.place.floor, end.latest)


@dataclass(eq=False)
class Cluster:
    """Asks Kafka what a source needs to know. A `loaded` range must have been planned on this cluster."""

    kafka: Kafka
    subscription: Subscription
    isolation: Isolation
    loaded: Range | None = None
    _compacted: dict[str, bool] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_range(cls, kafka: Kafka, loaded: Range) -> "Cluster":
        return cls(kafka, Named(tuple(loaded.topics)), loaded.isolation, loaded)

    @cached_property
    def log(self) -> Log:
        return self.kafka.log(self.isolation)

    def topics(self) -> Discovery:
        return self._found(self.subscription)

    def compacted(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics whose records may be compacted away."""
        wanted = sorted(topics)
        if not self._compacted.keys() >= set(wanted):
            self._found(Named(tuple(wanted)))
        return [topic for topic in wanted if self._compacted[topic]]

    def slices(
        self, span: Span, floor: Floor, each: int, on_data_loss: OnDataLoss, own: Own | None = None, *, literal: bool
    ) -> list[Slice]:
        """The slices of a span, of about `each` offsets; by the floor at its end a reader sees what lies behind it.

        `own` keeps what was read of the log for the next span. With `literal` each cut is an offset alone.
        """
        topics = span.start.topics if span.offsets else ()
        end = None if floor == NOWHERE.floor else Close(floor)  # nothing is known to follow a replay's
        moving = topics if literal else self.compacted(topics)
        return Planner(self.log, span, own, end=end).slices(each, on_data_loss, moving)

    def each(self, span: Span, asked: int) -> int:
        """How many offsets a task is to have: as asked for, or by default more where partitions are thin."""
        return asked if asked != SLICE_OFFSETS else worthwhile(self.log, span, asked)

    def check_logs(self, loaded: Range) -> None:
        """Raise `DataLossError` if a log was truncated since the range was planned, before its end."""
        logs = compared(self.kafka, loaded.end, loaded.end.offsets)
        check_logs(loaded.end, logs, end_of_range(loaded), loaded.start)

    def _found(self, subscription: Subscription) -> Discovery:
        found = self.kafka.discover(subscription)
        if self.loaded is not None:
            _check_cluster(self.loaded, found.cluster_id, self.kafka.servers)
        self._compacted.update((topic.name, topic.compacted) for topic in found.topics)
        return found


def end_of_range(loaded: Range) -> WayOut:
    """What a person can do; of the load's ledger only where the range is the ledger's."""
    of_ledger = (
        f"abandon the range with `orderedkafka ledger abandon {loaded.load} --reason truncated`, and load that, too, "
        f"with `orderedkafka ledger rewind {loaded.load} --topic {{topic}} --to '{{to}}' --reason truncated`; by hand, "
        "start with a new checkpoint"
    )
    advice = of_ledger if loaded.kind == "incremental" else way_out(loaded)
    return WayOut(f"the end of range {loaded.id!r}", "", "", advice)


def _check_cluster(loaded: Range, found: str, servers: str) -> None:
    """Raise if it is another cluster, where offsets mean nothing; not checked if a cluster gives no id."""
    if loaded.cluster_id and found and loaded.cluster_id != found:
        raise SettingError(
            f"range {loaded.id!r} was planned on the cluster {loaded.cluster_id!r}, but {servers!r} is the cluster "
            f"{found!r}, where its offsets mean other records. Set 'kafka.bootstrap.servers' (in Airflow, the Kafka "
            f"connection) to the cluster that it was planned on, then run the same range again"
        )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


WAITING_MS: Final = 60_000
"""How often a stream that waits says so."""


class Stream:
    """A stream or a batch read, by its options; asks Kafka."""

    def __init__(self, options: SourceOptions, kafka: Kafka | None = None, now: Callable[[], int] = now_ms) -> None:
        self._options = options
        self._now = now
        self._kafka = kafka or Brokers(options.kafka)
        self._terms = options.terms
        self._cluster = Cluster(self._kafka, self._terms.subscription, self._terms.isolation, options.range)
        self._fixed: Survey | None = None
        self._decided: bool | None = None
        self._said_at = 0
        self._own: Own = {}
        self._shown: Offsets | None = None

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
        start = resolve(self._kafka, self._terms, self._terms.start, seen.found, seen.now)
        for remark in start.remarks:
            _log.warning("%s", remark)
        if seen.fixed:
            check_ends(start.offsets, seen.ends.offsets, "'endingOffsets' must not be below where reading starts")
        elif self._fixed is not None:  # "latest" is resolved a moment after the target
            self._fixed = replace(seen, ends=_raised(seen.ends, start.offsets))
        return self._marked(self._offset(Place(start.offsets, NOWHERE.floor), Offsets(), seen, seen.now, None))

    def after(self, at: StreamOffset, most: int | None) -> StreamOffset | None:
        """The end of the next batch; None if no batch is due."""
        self.done(at)
        if self._spent(at):
            return None
        seen = self._look(at.place) if self._fixed is None else self._seen_from(self._fixed, at.place)
        seen.check(at.place, at.topics, self._terms.way_out)
        if seen.logs.remark:
            _log.warning("%s", seen.logs.remark)
        if not self._enough(at, seen):
            return None
        terms = replace(self._terms, max_offsets=most)
        end = next_place(self._cluster.log, at.place, seen, terms, self._own)
        if isinstance(end, NothingToLoad):
            return None
        added = {p: offset for p, offset in seen.span(at.place).start.items() if p not in at.place.offsets}
        place = at.place.updated(end)
        return self._marked(self._limited(at, self._offset(place, Offsets(added), seen, at.first_looked_at, seen.now)))

    def done(self, at: StreamOffset) -> None:
        """Commit this place, before which all is done, in the consumer group that was asked for, if any."""
        group = self._options.commit_group
        if group is not None and self._shown != at.place.offsets:
            show_place(self._options.kafka, group, at.place.offsets)
            self._shown = at.place.offsets

    def _spent(self, at: StreamOffset) -> bool:
        limit = self._terms.row_limit
        if limit is not None and at.rows is None:
            raise SettingError(
                f"the stream has read rows without a row limit, which were not counted, so a limit of {limit:,} cannot "
                "apply now: start with a new checkpoint, or leave the limit out"
            )
        return limit is not None and (at.rows or 0) >= limit

    def _limited(self, at: StreamOffset, end: StreamOffset) -> StreamOffset:
        """The end with its rows counted, by reading, and no further than the row limit goes."""
        limit = self._terms.row_limit
        if limit is None:
            return end
        left = limit - (at.rows or 0)
        settings = replace(read_settings(self._options, end.isolation, end.topics), columns=SOURCE_FIELDS)
        for slice_ in self.slices(at, end):
            for batch in read_batches(slice_, settings):
                if batch.num_rows >= left:
                    last = batch.slice(left - 1, 1).to_pylist()[0]
                    return replace(self._behind(at, end, last), rows=limit)
                left -= batch.num_rows
        return replace(end, rows=limit - left)

    def _behind(self, at: StreamOffset, end: StreamOffset, row: Mapping[str, Any]) -> StreamOffset:
        time = (row["order_time"] - _EPOCH) // timedelta(milliseconds=1)
        record = Position(time, TopicPartition(row["topic"], row["partition"]), row["offset"])
        place = place_after(self._cluster.log, span_between(at, end), record)
        return replace(end, place=end.place.updated(place))

    def whole(self) -> tuple[StreamOffset, StreamOffset]:
        self.fix_target()
        start = self.first()
        return start, self.after(start, None) or start

    def slices(self, start: StreamOffset, end: StreamOffset) -> list[Slice]:
        check_logs(end.place, compared(self._kafka, end.place, end.place.offsets), self._terms.way_out)
        span = span_between(start, end)
        each = self._cluster.each(span, self._options.slice_offsets)
        policy = self._terms.on_data_loss
        return self._cluster.slices(span, end.place.floor, each, policy, self._own, literal=False)

    def _marked(self, at: StreamOffset) -> StreamOffset:
        return at if self._options.range is not None else replace(at, place=marked(self._kafka, at.place))

    def progress(self, at: StreamOffset | None) -> dict[str, Any]:
        """How far the stream could read now, and how far behind that it is, for the query's progress."""
        seen = self._fixed if self._options.range is not None else None  # a range does not grow
        ends = (seen or self._look(NOWHERE if at is None else replace(at.place, marks={}))).ends.offsets
        if at is None:
            return {"high_ends": ends.to_json()}
        stands = {partition: min(at.place.offsets.get(partition, 0), end) for partition, end in ends.items()}
        behind = Offsets({partition: end - stands[partition] for partition, end in ends.items()})
        spread = {f"{name}OffsetsBehindLatest": count for name, count in behind.spread.items()}  # as Spark's own has it
        return {
            "high_ends": ends.to_json(),
            "offsets_behind": sum(behind.values()),
            "behind": behind.to_json(),
            **spread,
        }

    def _look(self, place: Place) -> Survey:
        given = self._options.range
        if given is not None:
            found = self._cluster.topics()
            return Survey(
                given.planned_at, given.latest, found, Ends(given.end.offsets, Offsets()), Offsets(), fixed=True
            )
        return survey(self._kafka, self._terms, self._now(), place)

    def _seen_from(self, seen: Survey, place: Place) -> Survey:
        """The target as it was fixed, from nowhere: whether the logs are still those of the place is asked now."""
        return replace(seen, logs=compared(self._kafka, place, place.offsets))

    def _enough(self, at: StreamOffset, seen: Survey) -> bool:
        """Whether there is enough for a trigger; an available-now query decides it once."""
        if self._terms.pace == Pace():
            return True
        if self._decided is None or self._fixed is None:
            found = verdict(self._cluster.log, at.place, seen, self._terms, at.since)
            if found.run or self._decided is not False or self._now() - self._said_at >= WAITING_MS:
                _log.warning("%s: %s", "running" if found.run else "waiting", found.reason)
                self._said_at = self._now()
            self._decided = found.run
        return self._decided

    def _offset(
        self, place: Place, added: Offsets, seen: Survey, first_looked_at: int, triggered_at: int | None
    ) -> StreamOffset:
        given = self._options.range
        if given is not None and place.offsets == given.end.offsets:
            place = given.end
        isolation, topics = self._terms.isolation, seen.found.ids
        rows = None if self._terms.row_limit is None else 0
        return StreamOffset(place, added, seen.latest, isolation, topics, first_looked_at, triggered_at, rows)


def _raised(ends: Ends, to: Offsets) -> Ends:
    """The same ends, at least up to these."""
    higher = {partition: max(end, to[partition]) for partition, end in ends.offsets.items()}
    written = {partition: max(end, to[partition]) for partition, end in ends.written.items()}
    return replace(ends, offsets=Offsets(higher), written=Offsets(written))
