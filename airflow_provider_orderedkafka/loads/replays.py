"""The range of a replay, from one place to another; it leaves the ledger alone."""

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.next_range import NothingToLoad, check_ends, new_range
from airflow_provider_orderedkafka.core.notation.starts import Moment, Start
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.survey import resolve
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from airflow_provider_orderedkafka.loads.ranges import new_id


def plan_replay(
    config: KafkaConfig, terms: Terms, asked: tuple[Start, Start], *, digest: str, now: int
) -> Range | NothingToLoad:
    """Everything between two starts; raises if some of it is gone."""
    found = discover(config, terms.subscription)
    resolved = [
        resolve(config, terms, each, found.partitions, now, word=word)
        for each, word in zip(asked, ("start", "end"), strict=True)
    ]
    start, end = (each.offsets for each in resolved)
    check_ends(start, end, f"the replay goes from {asked[0]} to {asked[1]}; swap them, or ask for a later end")
    offsets = end.since(start)
    ahead = _ahead(asked[1], now)
    if not offsets:
        return NothingToLoad("; ".join([f"nothing to load from {asked[0]} to {asked[1]}", *ahead]))
    _check_size(terms, asked, offsets)
    span = Place(start, _floor(asked[0])), Place(end, _floor(asked[1]))
    remarks = [*(remark for each in resolved for remark in each.remarks), *ahead]
    reason = "; ".join([f"{offsets:,} offsets from {asked[0]} to {asked[1]}", *remarks])
    return new_range(new_id(terms, "replay"), terms, "replay", found, span, now=now, digest=digest, reason=reason)


def _check_size(terms: Terms, asked: tuple[Start, Start], offsets: int) -> None:
    if terms.max_offsets is not None and offsets > terms.max_offsets:
        raise SettingError(
            f"the replay from {asked[0]} to {asked[1]} spans {offsets:,} offsets, more than "
            f"max_offsets={terms.max_offsets:,}: ask for less, or raise max_offsets"
        )


def _ahead(end: Start, now: int) -> list[str]:
    if not isinstance(end, Moment) or end.time <= now:
        return []
    return [f"the end is in the future: what is written after {Moment(now)} is not loaded, whatever its time"]


def _floor(asked: Start) -> Floor:
    return Floor(asked.time) if isinstance(asked, Moment) else Floor()
