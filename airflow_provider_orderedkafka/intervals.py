"""The range of a run's data interval: the same records whenever it is planned, in any order and in parallel."""

from collections.abc import Callable

from airflow_provider_orderedkafka.boundaries import Decider, Survey, interval
from airflow_provider_orderedkafka.core.cuts import NO_FLOOR, Floor, Span
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.planning import Planner
from airflow_provider_orderedkafka.core.progress import moment
from airflow_provider_orderedkafka.core.subscriptions import Named
from airflow_provider_orderedkafka.kafka.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.ends import readable_ends
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.kafka.offsets import log_starts
from airflow_provider_orderedkafka.kafka.topics import discover
from airflow_provider_orderedkafka.ledger import LedgerStore
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.ranges import a_range
from airflow_provider_orderedkafka.steps import NothingToLoad


def plan_interval(
    config: KafkaConfig,
    load: OrderedLoad,
    store: LedgerStore,
    times: tuple[int, int],
    *,
    digest: str,
    now: Callable[[], int],
) -> Range:
    """The range between two times; `NothingToLoad` if it is empty."""
    decider = Decider(
        store, load.grace_ms, load.transaction_wait_ms, now, lambda floor: survey(config, load, now(), floor)
    )
    begin, end = (decider.boundary(time) for time in times)
    found = discover(config, Named(tuple(load.topics)))
    new = [partition for partition in end.place.offsets if partition not in begin.place.offsets]
    start, stop = interval(begin, end, log_starts(config, new) if new else {})
    offsets = stop.offsets.since(start.offsets)
    between = f"between {moment(times[0])} and {moment(times[1])}"
    if not offsets:
        raise NothingToLoad(f"nothing to load {between}")
    reason = f"{offsets:,} offsets {between}"
    return a_range(load, "interval", found, (start, stop), now=now(), digest=digest, reason=reason)


def survey(config: KafkaConfig, load: OrderedLoad, now: int, floor: Floor = NO_FLOOR) -> Survey:
    """The whole log, as a boundary needs it; what is below the floor comes late to it."""
    found = discover(config, Named(tuple(load.topics)))
    latest = now + load.future_tolerance_ms
    ends = readable_ends(config, found.partitions, load.isolation, latest, floor=floor)
    span = Span(log_starts(config, found.partitions), ends.offsets, NO_FLOOR, latest)
    planner = Planner(KafkaLog(config, load.isolation), span, found.compacted)
    return Survey(found.ids, ends.open_since, lambda time: planner.end(None, time))
