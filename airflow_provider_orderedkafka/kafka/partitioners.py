"""Where producers put a key: to find out whether each key stays in one partition.

PARTITIONERS["murmur2"](keys, partitions) -> int32 Arrow array, null for a null key
"""

import zlib
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_orderedkafka.kafka.murmur2 import partitions_of as murmur2

Partitioner = Literal["murmur2", "crc32"]


def _crc32(keys: Any, partitions: int) -> Any:
    values = keys.to_numpy(zero_copy_only=False).tolist()
    found = np.fromiter((zlib.crc32(value or b"") for value in values), np.uint32, len(values))
    nulls = keys.is_null().to_numpy(zero_copy_only=False)
    return pa.array((found % np.uint32(partitions)).astype(np.int32), mask=nulls)


PARTITIONERS: Final[dict[Partitioner, Callable[[Any, int], Any]]] = {"murmur2": murmur2, "crc32": _crc32}
"""What Java's producers do by default, and what librdkafka's do."""


def misplaced(batch: Any, partitioner: Partitioner, partitions: int) -> int | None:
    """The first row whose key this partitioner would have put elsewhere; rows without a key are nowhere wrong."""
    expected = PARTITIONERS[partitioner](batch.column("key"), partitions)
    wrong = pc.not_equal(expected, batch.column("partition")).fill_null(False)  # noqa: FBT003 - Arrow takes it by place
    found = pc.index(wrong, value=True).as_py()
    return None if found < 0 else int(found)
