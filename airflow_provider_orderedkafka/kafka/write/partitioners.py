"""Compute a key's partition, to find out whether each key stays in one partition.

PARTITIONERS["murmur2"](keys, partitions) -> int32 Arrow array, null for a null key; keys as Arrow or as they came
"""

import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_orderedkafka.core.lanes import Partitioner, Placement
from airflow_provider_orderedkafka.kafka.read.payloads import as_array, as_list, nulls
from airflow_provider_orderedkafka.kafka.read.records import Records
from airflow_provider_orderedkafka.kafka.write.murmur2 import partitions_of as murmur2


def _murmur2(keys: Any, partitions: int) -> Any:
    return murmur2(as_array(keys), partitions)


def _crc32(keys: Any, partitions: int) -> Any:
    values = as_list(keys)
    found = np.fromiter((zlib.crc32(value or b"") for value in values), np.uint32, len(values))
    return pa.array((found % np.uint32(partitions)).astype(np.int32), mask=nulls(keys))


PARTITIONERS: Final[dict[Partitioner, Callable[[Any, int], Any]]] = {"murmur2": _murmur2, "crc32": _crc32}
"""The defaults of Java's producers and of librdkafka's."""


def misplaced(batch: Any, placement: Placement | None) -> int:
    """How many rows have a key that would be placed elsewhere, ignoring rows without a key."""
    if placement is None:
        return 0
    partitioner, partitions = placement
    keys = batch.keys() if isinstance(batch, Records) else batch.column("key")
    expected = PARTITIONERS[partitioner](keys, partitions)
    return pc.sum(pc.not_equal(expected, batch.column("partition"))).as_py() or 0
