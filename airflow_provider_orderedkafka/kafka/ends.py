"""Find how far a cluster can be read now, and what open transactions hold back.

readable_ends(config, partitions, isolation, latest, floor=...)  ->  Ends
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_orderedkafka.core.cuts import NO_FLOOR, Bound, Floor
from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.places import PATIENCE
from airflow_provider_orderedkafka.core.ports import Log
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.answers import DEADLINE
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.kafka.offsets import high_ends


@dataclass(frozen=True, slots=True)
class Ends:
    """The high ends; behind them, how many offsets open transactions keep back, and from which timestamp on.

    `written` are the ends of what is there, kept back or not.
    """

    offsets: Offsets
    written: Offsets
    held_back: int = 0
    open_since: int | None = None


def readable_ends(
    config: Mapping[str, str],
    partitions: Sequence[TopicPartition],
    isolation: Isolation,
    latest: int,
    *,
    floor: Floor = NO_FLOOR,
    deadline: float = DEADLINE,
) -> Ends:
    """The high ends for readers of this isolation.

    A timestamp later than `latest` counts for nothing, and one below the floor holds nothing back: whatever one waits
    for, its record is late.
    """
    if isolation == "read_uncommitted":
        ends = high_ends(config, partitions, isolation, deadline)
        return Ends(ends, ends)
    # In this order: what was in the log before the stable end was asked for, and lies behind it, is truly held back.
    written = high_ends(config, partitions, "read_uncommitted", deadline)
    stable = high_ends(config, partitions, "read_committed", deadline)
    held = Offsets({partition: end for partition, end in written.items() if end > stable[partition]})
    since = _open_since(KafkaLog(config, "read_uncommitted", deadline), stable, held, latest, floor)
    return Ends(stable, written, held.since(stable), since)


def _open_since(log: Log, stable: Offsets, held: Offsets, latest: int, floor: Floor) -> int | None:
    """The earliest of the first timestamps from each stable end on that are not below the floor; None without any.

    A cut that is no later keeps what an open transaction commits from being late. Where so many records are below the
    floor that a look gives up, the past is being written, and nothing waits for it.
    """
    bounds = {partition: Bound(stable[partition], max(floor.of(partition), 0)) for partition in held}
    seen = log.look(bounds, held, latest, PATIENCE).values()
    found = (sighting for sighting in seen if sighting.offset is not None and not sighting.gave_up)
    return min((sighting.timestamp for sighting in found), default=None)
