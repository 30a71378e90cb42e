"""Choose the partition of each row here, so that it does not change while a batch is written.

Kafka's client would use new partitions in the middle of a batch; here they count from the next batch on. A key goes
where the producer's partitioner would place it among this many partitions. A row that names its partition keeps it. A
row without a key is placed by Kafka's client, or by its source: then a replay places it in the same partition, and the
rows of each partition stay in order.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.lanes import Partitioner
from airflow_provider_orderedkafka.kafka.read.payloads import nulls, sizes
from airflow_provider_orderedkafka.kafka.write.faults import Targets
from airflow_provider_orderedkafka.kafka.write.partitioners import PARTITIONERS
from airflow_provider_orderedkafka.kafka.write.rows import NO_PARTITION, Ints, Rows

_KNOWN: Final[dict[str, Partitioner]] = {
    "murmur2_random": "murmur2",
    "murmur2": "murmur2",
    "consistent_random": "crc32",
    "consistent": "crc32",
}
"""The supported partitioners of Kafka's client; with others the client places the rows."""


def partitioner_of(config: Any) -> Partitioner | None:
    """The partitioner in this configuration of a producer, if it is supported."""
    return _KNOWN.get(config.get("partitioner", "murmur2_random"))


def placed(rows: Rows, targets: Targets) -> list[int]:
    """The partition of each row; -1 leaves it to Kafka's client."""
    given = np.full(len(rows), NO_PARTITION) if rows.partitions is None else rows.partitions
    by_source = targets.settings.keyless == "by source"
    partitioner = (
        "murmur2" if by_source else partitioner_of(targets.settings.config)
    )  # as with DataFrames, whatever is set
    if partitioner is None or not targets.settings.partitions:
        return _as_list(given)
    counts = targets.of(rows).each(lambda output: targets.settings.partitions.get(output.name, 0), 0)
    ours = (given == NO_PARTITION) & (counts > 0)
    keyed = ours & _keyed(rows, partitioner)
    for count in np.unique(counts[keyed]).tolist():
        here = keyed & (counts == count)
        there = PARTITIONERS[partitioner](rows.keys, count).fill_null(NO_PARTITION).to_numpy()
        given = np.where(here, there, given)
    if by_source and rows.source is not None:
        spread = ours & ~keyed & rows.source.known()
        given = np.where(spread, (rows.source.offsets + rows.source.partitions) % np.maximum(counts, 1), given)
    return _as_list(given)


def _keyed(rows: Rows, partitioner: Partitioner) -> NDArray[np.bool_]:
    if rows.keys is None:
        return np.zeros(len(rows), np.bool_)
    found: NDArray[np.bool_] = ~nulls(rows.keys)
    return found & (sizes(rows.keys) > 0) if partitioner == "crc32" else found  # it treats an empty key like none


def _as_list(partitions: Ints) -> list[int]:
    found: list[int] = partitions.tolist()
    return found
