"""The range of a replay, from one place to another; it leaves the ledger alone."""

from airflow_provider_orderedkafka.core.cuts import Floor, Place
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.core.starts import Moment, Start
from airflow_provider_orderedkafka.core.subscriptions import Named
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.starts import resolve_start
from airflow_provider_orderedkafka.kafka.topics import discover
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.ranges import a_range
from airflow_provider_orderedkafka.steps import NothingToLoad


def plan_replay(
    config: KafkaConfig,
    load: OrderedLoad,
    asked: tuple[Start, Start],
    *,
    digest: str,
    now: int,
) -> Range:
    """The range between two starts; `NothingToLoad` if it is empty."""
    found = discover(config, Named(tuple(load.topics)))
    start, end = (
        resolve_start(config, each, found.partitions, now, isolation=load.isolation, word=word).offsets
        for each, word in zip(asked, ("start", "end"), strict=True)
    )
    offsets = _checked(load, asked, start, end)
    span = Place(start, _floor(asked[0])), Place(end, _floor(asked[1]))
    reason = f"{offsets:,} offsets from {asked[0]} to {asked[1]}"
    return a_range(load, "replay", found, span, now=now, digest=digest, reason=reason)


def _checked(load: OrderedLoad, asked: tuple[Start, Start], start: Offsets, end: Offsets) -> int:
    for partition, offset in start.items():
        if offset > end[partition]:
            raise SettingError(
                f"the replay's start {partition.at(offset)} lies after its end {partition.at(end[partition])}: it goes "
                f"from {asked[0]} to {asked[1]}; swap them, or ask for a later end"
            )
    offsets = end.since(start)
    if not offsets:
        raise NothingToLoad(f"nothing to load from {asked[0]} to {asked[1]}")
    if load.max_offsets is not None and offsets > load.max_offsets:
        raise SettingError(
            f"the replay from {asked[0]} to {asked[1]} spans {offsets:,} offsets, more than "
            f"max_offsets={load.max_offsets:,}: ask for less, or raise max_offsets"
        )
    return offsets


def _floor(asked: Start) -> Floor:
    return Floor(asked.time) if isinstance(asked, Moment) else Floor()
