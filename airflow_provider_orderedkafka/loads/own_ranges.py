"""The range that belongs to one run alone: of its data interval, or of a replay. Both leave the ledger alone.

An interval has the same records whenever it is planned, in any order or in parallel.
"""

from collections.abc import Callable
from dataclasses import replace

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.next_range import NothingToLoad, check_ends, new_range, next_place, place_at
from airflow_provider_orderedkafka.core.notation.starts import Moment, Start
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.offsets import log_starts
from airflow_provider_orderedkafka.kafka.lookup.survey import resolve, survey
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


def plan_replay(
    config: KafkaConfig, terms: Terms, asked: tuple[Start, Start], *, digest: str, now: int, rows: int | None = None
) -> Range | NothingToLoad:
    """Everything between two starts, or the first `rows` rows of it; raises if some of it is gone."""
    terms, between = replace(terms, end=asked[1]), f"from {asked[0]} to {asked[1]}"
    found = discover(config, terms.subscription)
    start = resolve(config, terms, asked[0], found.partitions, now)
    begin = Place(start.offsets, _floor(asked[0]))
    seen = survey(config, terms, now, begin, found)
    check_ends(begin.offsets, seen.ends.offsets, f"the replay goes {between}; swap them, or ask for a later end")
    offsets = seen.span(begin).offsets
    _check_size(terms, between, offsets)
    end, ahead = next_place(KafkaLog(config, terms.isolation), begin, seen, terms), _ahead(asked[1], now)
    if isinstance(end, NothingToLoad):
        return NothingToLoad("; ".join([f"{end.reason} {between}", *ahead]))
    limit = [] if rows is None else [f"the row limit lets {rows:,} rows pass"]
    return new_range(
        new_id(terms, "replay"),
        terms,
        "replay",
        found,
        (begin, Place(end.offsets, _floor(asked[1]))),
        now=now,
        digest=digest,
        reason="; ".join([f"{offsets:,} offsets {between}", *start.remarks, *seen.ends.remarks, *ahead, *limit]),
        rows_left=rows,
    )


def _check_size(terms: Terms, between: str, offsets: int) -> None:
    if terms.max_offsets is not None and offsets > terms.max_offsets:
        raise SettingError(
            f"the replay {between} spans {offsets:,} offsets, more than max_offsets={terms.max_offsets:,}: "
            "ask for less, or raise max_offsets"
        )


def _ahead(end: Start, now: int) -> list[str]:
    if not isinstance(end, Moment) or end.time <= now:
        return []
    return [f"the end is in the future: what is written after {Moment(now)} is not loaded, whatever its time"]


def _floor(asked: Start) -> Floor:
    return Floor(asked.time) if isinstance(asked, Moment) else Floor()
