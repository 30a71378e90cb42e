"""The range of a run's data interval: the same records whenever it is planned, in any order or in parallel."""

from collections.abc import Callable

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.next_range import NothingToLoad, new_range, place_at
from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.offsets import log_starts
from airflow_provider_orderedkafka.kafka.lookup.survey import survey
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from airflow_provider_orderedkafka.loads.boundaries import Decider, Sight, interval
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.ranges import new_id


def plan_interval(
    config: KafkaConfig,
    terms: Terms,
    store: LedgerStore,
    times: tuple[int, int],
    *,
    digest: str,
    now: Callable[[], int],
) -> Range | NothingToLoad:
    decider = Decider(store, terms, now, lambda floor: sight(config, terms, now(), floor))
    begin, end = (decider.boundary(time) for time in times)
    found = discover(config, terms.subscription)
    new = [partition for partition in end.place.offsets if partition not in begin.place.offsets]
    span = start, stop = interval(begin, end, log_starts(config, new) if new else {})
    offsets = stop.offsets.since(start.offsets)
    between = f"between {Moment(times[0])} and {Moment(times[1])}"
    if not offsets:
        return NothingToLoad(f"nothing to load {between}")
    reason = f"{offsets:,} offsets {between}"
    range_id = new_id(terms, "interval")
    return new_range(range_id, terms, "interval", found, span, now=now(), digest=digest, reason=reason)


def sight(config: KafkaConfig, terms: Terms, now: int, floor: Floor = NO_FLOOR) -> Sight:
    """A survey of the whole log. Records below the floor are late for the boundary, so nothing waits for them."""
    seen = survey(config, terms, now, Place(Offsets(), floor))
    log = KafkaLog(config, terms.isolation)
    return Sight(seen, lambda time: place_at(log, seen, time))
