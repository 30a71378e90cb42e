"""Ask Kafka for everything that the next range depends on."""

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.next_range import Ends, Survey
from airflow_provider_orderedkafka.core.notation.starts import Start
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Bound, Floor, Place
from airflow_provider_orderedkafka.core.order.places import PATIENCE
from airflow_provider_orderedkafka.core.order.ports import Log
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.terms import Terms
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.offsets import high_ends, log_starts
from airflow_provider_orderedkafka.kafka.lookup.starts import ResolvedStart, resolve_start
from airflow_provider_orderedkafka.kafka.lookup.topics import discover

NOWHERE: Final = Place(Offsets(), NO_FLOOR)


def survey(
    config: Mapping[str, str], terms: Terms, now: int, place: Place = NOWHERE, found: Discovery | None = None
) -> Survey:
    """What Kafka has, seen from this place; `found` if the topics were looked up already."""
    found = found or discover(config, terms.subscription)
    new = [partition for partition in found.partitions if partition not in place.offsets]
    starts = log_starts(config, new) if new else Offsets()
    ends = _ends(config, terms, found.partitions, now, place)
    return Survey(now, now + terms.future_tolerance, found, ends, starts, fixed=terms.end is not None)


def _ends(
    config: Mapping[str, str], terms: Terms, partitions: Sequence[TopicPartition], now: int, place: Place
) -> Ends:
    if terms.end is not None:
        end = resolve(config, terms, terms.end, partitions, now, word="end")
        return Ends(end.offsets, written=Offsets(), remarks=end.remarks)
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
    """The offsets of a start, or of an end given like one, for these partitions and terms."""
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


def readable_ends(
    config: Mapping[str, str],
    partitions: Sequence[TopicPartition],
    isolation: Isolation,
    latest: int,
    *,
    floor: Floor = NO_FLOOR,
) -> Ends:
    """The high ends at this isolation level.

    A timestamp later than `latest` does not count, and one below the floor holds nothing back: its record would be late
    in any case.
    """
    if isolation == "read_uncommitted":
        ends = high_ends(config, partitions, isolation)
        return Ends(ends, ends)
    # In this order: what was in the log before the stable end was read, and lies behind it, is really held back.
    written = high_ends(config, partitions, "read_uncommitted")
    stable = high_ends(config, partitions, "read_committed")
    held = Offsets({partition: end for partition, end in written.items() if end > stable[partition]})
    since = _open_since(KafkaLog(config, "read_uncommitted"), stable, held, latest, floor)
    return Ends(stable, written, held.since(stable), since)


def _open_since(log: Log, stable: Offsets, held: Offsets, latest: int, floor: Floor) -> int | None:
    """The earliest of the first timestamps from each stable end on that are not below the floor; None without any.

    A cut no later than this keeps records of an open transaction from being late. If a look gives up because too many
    records are below the floor, old data is being written, and nothing waits for it.
    """
    bounds = {partition: Bound(stable[partition], max(floor.of(partition), 0)) for partition in held}
    seen = log.look(bounds, held, latest, PATIENCE).values()
    found = (sighting for sighting in seen if sighting.offset is not None and not sighting.gave_up)
    return min((sighting.timestamp for sighting in found), default=None)
