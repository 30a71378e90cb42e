"""What Kafka has at one moment, asked once for all that is decided from it.

survey(config, terms, now, place)  ->  Survey
resolve(config, terms, asked, partitions, now)  ->  ResolvedStart
"""

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider_orderedkafka.core.cuts import NO_FLOOR, Place
from airflow_provider_orderedkafka.core.next_range import Ends, Survey
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.starts import Start
from airflow_provider_orderedkafka.core.subscriptions import Discovery
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.kafka.ends import readable_ends
from airflow_provider_orderedkafka.kafka.offsets import log_starts
from airflow_provider_orderedkafka.kafka.starts import ResolvedStart, resolve_start
from airflow_provider_orderedkafka.kafka.topics import discover

NOWHERE: Final = Place(Offsets(), NO_FLOOR)


def survey(
    config: Mapping[str, str], terms: Terms, now: int, place: Place = NOWHERE, found: Discovery | None = None
) -> Survey:
    """What Kafka has for who stands at this place; `found` where the topics were looked up already."""
    found = found or discover(config, terms.subscription)
    new = [partition for partition in found.partitions if partition not in place.offsets]
    starts = log_starts(config, new) if new else Offsets()
    ends = _ends(config, terms, found.partitions, now, place)
    return Survey(now, now + terms.future_tolerance, found, ends, starts, fixed=terms.end is not None)


def _ends(
    config: Mapping[str, str], terms: Terms, partitions: Sequence[TopicPartition], now: int, place: Place
) -> Ends:
    if terms.end is not None:
        return Ends(resolve(config, terms, terms.end, partitions, now, word="end").offsets, written=Offsets())
    return readable_ends(config, partitions, terms.isolation, now + terms.future_tolerance, floor=place.floor)


def resolve(
    config: Mapping[str, str],
    terms: Terms,
    asked: Start,
    partitions: Sequence[TopicPartition],
    now: int,
    *,
    word: str = "start",
) -> ResolvedStart:
    """What a start, or an end said like one, means for these partitions on these terms."""
    return resolve_start(
        config,
        asked,
        partitions,
        now,
        isolation=terms.isolation,
        future_tolerance=terms.future_tolerance,
        clamp=terms.on_data_loss == "count",
        word=word,
    )
