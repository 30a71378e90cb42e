"""How far a cluster can be read now, and what open transactions keep back.

readable_ends(config, partitions, isolation, latest)  ->  Ends
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_orderedkafka.core.cuts import Bound
from airflow_provider_orderedkafka.core.documents import Isolation
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
    deadline: float = DEADLINE,
) -> Ends:
    """The high ends for readers of this isolation; a timestamp later than `latest` counts for nothing."""
    if isolation == "read_uncommitted":
        ends = high_ends(config, partitions, isolation, deadline)
        return Ends(ends, ends)
    # In this order: what was in the log before the stable end was asked for, and lies behind it, is truly held back.
    written = high_ends(config, partitions, "read_uncommitted", deadline)
    stable = high_ends(config, partitions, "read_committed", deadline)
    held = {partition: end for partition, end in written.items() if end > stable[partition]}
    since = open_transaction_time(config, stable, Offsets(held), latest, deadline)
    return Ends(stable, written, sum(end - stable[partition] for partition, end in held.items()), since)


def open_transaction_time(
    config: Mapping[str, str], stable: Offsets, written: Offsets, latest: int, deadline: float = DEADLINE
) -> int | None:
    """The earliest of the first timestamps from each stable end on, before what is written; None where there is none.

    A cut that is no later keeps what an open transaction commits from being late.
    """
    bounds = {partition: Bound(stable[partition], 0) for partition in written}
    seen = KafkaLog(config, "read_uncommitted", deadline).look(bounds, written, latest, sys.maxsize)
    return min((sighting.timestamp for sighting in seen.values() if sighting.offset is not None), default=None)
