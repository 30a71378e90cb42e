"""From a load, a ledger and what Kafka has now to the next range; and to the numbers that a wait decides by.

`look_at` asks Kafka once; everything else is decided from its answer, so that what is counted, cut and written down is
of one moment.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_orderedkafka.core.cuts import Floor, Place, Span, held
from airflow_provider_orderedkafka.core.documents import Kind, Ledger, Range
from airflow_provider_orderedkafka.core.limits import limit_spent, rows_left
from airflow_provider_orderedkafka.core.pacing import Situation, Verdict, decide
from airflow_provider_orderedkafka.core.places import about
from airflow_provider_orderedkafka.core.planning import Planner
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.starts import without
from airflow_provider_orderedkafka.core.subscriptions import Named
from airflow_provider_orderedkafka.errors import DataLossError, TopicChangedError
from airflow_provider_orderedkafka.kafka.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.ends import Ends, readable_ends
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.kafka.offsets import log_starts
from airflow_provider_orderedkafka.kafka.starts import resolve_start
from airflow_provider_orderedkafka.kafka.topics import Discovery, discover
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.steps import First, NothingToLoad


@dataclass(frozen=True, slots=True)
class Sight:
    """What Kafka has at one moment: topics, where the load would begin, how far it can be read."""

    now: int
    discovery: Discovery
    place: Place
    ends: Ends

    def cut_time(self, grace: int, wait: int) -> int:
        """What is at or after it waits: it is too young, or an open transaction may still commit older records."""
        return max(held(self.now - grace, self.ends.open_since, self.now - wait), 0)

    def span(self, latest: int) -> Span:
        """Everything from the load's place to the ends; where the log ends before the place there is nothing."""
        ends = {partition: max(end, self.place.offsets[partition]) for partition, end in self.ends.offsets.items()}
        start = {partition: self.place.offsets[partition] for partition in ends}
        return Span(Offsets(start), Offsets(ends), self.place.floor, latest)


def first_look(config: KafkaConfig, load: OrderedLoad, now: int, topics: Sequence[str] | None = None) -> First:
    """The start policy, resolved once and for all, for some of the load's topics or for all of them."""
    wanted = load.topics if topics is None else topics
    found = discover(config, Named(tuple(wanted)))
    start = resolve_start(
        config,
        without(load.start_policy, set(load.topics) - set(wanted)),
        found.partitions,
        now,
        isolation=load.isolation,
        future_tolerance=load.future_tolerance_ms,
        clamp=load.on_data_loss == "count",
    )
    return First(Place(start.offsets, Floor()), found.ids, start.remarks)


def look_at(config: KafkaConfig, load: OrderedLoad, ledger: Ledger, now: int) -> Sight:
    """What Kafka has now for a load that stands where the ledger says."""
    found = discover(config, Named(tuple(load.topics)))
    _same_topics(load, ledger, found)
    known = {p: ledger.place.offsets[p] for p in found.partitions if p in ledger.place.offsets}
    new = [partition for partition in found.partitions if partition not in known]
    place = Place(Offsets({**known, **(log_starts(config, new) if new else {})}), ledger.place.floor)
    sight = _sight(config, load, found, place, now)
    _nothing_lost(load, ledger, sight.ends.written)
    return sight


def _glance(config: KafkaConfig, load: OrderedLoad, ledger: Ledger, now: int) -> Sight:
    place = Place(
        Offsets((p, o) for p, o in ledger.place.offsets.items() if p.topic in load.topics), ledger.place.floor
    )
    return _sight(config, load, Discovery("", (), place.offsets.partitions), place, now)


def _sight(config: KafkaConfig, load: OrderedLoad, found: Discovery, place: Place, now: int) -> Sight:
    latest = now + load.future_tolerance_ms
    ends = readable_ends(config, found.partitions, load.isolation, latest, floor=place.floor)
    return Sight(now, found, place, ends)


def verdict(config: KafkaConfig, load: OrderedLoad, ledger: Ledger, now: int, *, known: bool = False) -> Verdict:
    """Whether to run now; counted by the index, and by a few looks where a record of the future blinds it.

    With `known` only the partitions that the ledger knows are asked about: a third of the questions.
    """
    sight = _glance(config, load, ledger, now) if known else look_at(config, load, ledger, now)
    span = sight.span(now + load.future_tolerance_ms)
    older = about(KafkaLog(config, load.isolation), span, sight.cut_time(load.grace_ms, load.transaction_wait_ms))
    since = ledger.first_looked_at if ledger.last_run_at is None else ledger.last_run_at
    return decide(load.pace, Situation(older.since(span.start), since, now, sight.ends.held_back))


def plan(config: KafkaConfig, load: OrderedLoad, ledger: Ledger, *, digest: str, now: int) -> Range:
    """The next incremental range; `NothingToLoad` says why there is none."""
    left = _rows_left(load, ledger)
    sight = look_at(config, load, ledger, now)
    span = sight.span(now + load.future_tolerance_ms)
    log = KafkaLog(config, load.isolation)
    time = sight.cut_time(load.grace_ms, load.transaction_wait_ms)
    end = Planner(log, span, sight.discovery.compacted).end(load.max_offsets, time)
    if end.offsets == span.start:
        raise NothingToLoad(_nothing(load, sight))
    return a_range(
        load,
        "incremental",
        sight.discovery,
        (sight.place, end),
        now=now,
        digest=digest,
        reason=_reason(load, span, end),
        revision=ledger.revision,
        rows_left=left,
    )


def a_range(
    load: OrderedLoad,
    kind: Kind,
    found: Discovery,
    span: tuple[Place, Place],
    *,
    now: int,
    digest: str,
    reason: str,
    revision: int = 0,
    rows_left: int | None = None,
) -> Range:
    """The document of a range from one place to another; its id is new, and unique in the world."""
    begin, end = span
    start = Place(Offsets({partition: begin.offsets[partition] for partition in end.offsets}), begin.floor)
    return Range(
        id=f"{load.name}-{kind}-{secrets.token_hex(6)}",
        load=load.name,
        kind=kind,
        reason=reason,
        ledger_revision=revision,
        topics=found.ids,
        start=start,
        end=end,
        planned_at=now,
        future_tolerance=load.future_tolerance_ms,
        on_data_loss=load.on_data_loss,
        include_headers=load.include_headers,
        isolation=load.isolation,
        cluster_id=found.cluster_id,
        batch_offsets=load.batch_offsets,
        rows_left=rows_left,
        digest=digest,
    )


def _rows_left(load: OrderedLoad, ledger: Ledger) -> int | None:
    if spent := limit_spent(ledger, load.row_limit):
        raise NothingToLoad(spent)
    return rows_left(load.row_limit, ledger.rows)


def _nothing(load: OrderedLoad, sight: Sight) -> str:
    waiting = sight.ends.offsets.since(sight.place.offsets)
    kept = sight.cut_time(load.grace_ms, load.transaction_wait_ms) < sight.now - load.grace_ms
    why = "wait for an open transaction" if kept else f"are younger than the grace of {load.grace}"
    rest = f": {waiting:,} offsets {why}" if waiting else ""
    behind = f"; open transactions hold {sight.ends.held_back:,} offsets back" if sight.ends.held_back else ""
    return f"nothing to load{rest}{behind}"


def _reason(load: OrderedLoad, span: Span, end: Place) -> str:
    offsets = end.offsets.since(span.start)
    rest = span.end.since(end.offsets)
    full = load.max_offsets is not None and offsets >= load.max_offsets
    why = f"the most that max_offsets={load.max_offsets:,} allows" if full else "up to the cut"
    return f"{offsets:,} offsets in {len(end.offsets):,} partitions, {why}; {rest:,} wait for the next run"


def _same_topics(load: OrderedLoad, ledger: Ledger, found: Discovery) -> None:
    for topic in found.topics:
        was = ledger.topics.get(topic.name, topic.id)
        if was != topic.id:
            places = {p: offset for p, offset in ledger.place.offsets.items() if p.topic == topic.name}
            first = next((p.at(offset) for p, offset in places.items()), topic.name)
            raise TopicChangedError(
                f"topic {topic.name!r} was deleted and created again (its id was {was}, now it is {topic.id}): {first} "
                f"means something else now; begin in the new one with `orderedkafka ledger rewind {load.name} "
                f'--topic {topic.name} --to earliest --reason "created again"`',
                topic=topic.name,
            )


def _nothing_lost(load: OrderedLoad, ledger: Ledger, written: Offsets) -> None:
    """An end below the ledger: an unclean election, or a restored cluster; what is written there would be missed."""
    for partition, end in written.items():
        stands = ledger.place.offsets.get(partition, 0)
        if end < stands:
            raise _lost(load, partition, stands, end)


def _lost(load: OrderedLoad, partition: TopicPartition, stands: int, end: int) -> DataLossError:
    return DataLossError(
        f"load {load.name!r} stands at {partition.at(stands)}, the log ends at {partition.at(end)}: records that were "
        f"loaded are gone from Kafka; go on from its end with `orderedkafka ledger rewind {load.name} "
        f'--topic {partition.topic} --to latest --reason "records are gone"`',
        **partition._asdict(),
        offset=stands,
    )
