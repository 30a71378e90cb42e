"""Compute a key's partition as producers do, to find out whether each key stays in one partition.

    PARTITIONERS["murmur2"](keys, partitions)  ->  int32 Arrow array, null for a null key; keys as Arrow or as they came
    partitions_of(keys, partitions)            ->  the same by murmur2, the hash of Java's producers, for a column

The same as librdkafka's partitioner `murmur2` and as Kafka's own default partitioner for records with a key.
"""

import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_orderedkafka.core.lanes import Partitioner, Placement
from airflow_provider_orderedkafka.kafka.read.columns import Records, as_array, as_list, nulls

_SEED: Final = np.uint32(0x9747B28C)
_MIX: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_WORD: Final = 4


def partitions_of(keys: Any, partitions: int) -> Any:
    array = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    array = array.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = array.buffers()
    edges = np.frombuffer(offsets_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    found = (hashes(data, edges[:-1], np.diff(edges)) & _POSITIVE) % np.uint32(partitions)
    return pa.array(found.astype(np.int32), mask=array.is_null().to_numpy(zero_copy_only=False))


def hashes(data: Any, starts: Any, lengths: Any) -> Any:
    """The hash of each piece of `data`; pieces of equal length are hashed together, word by word."""
    found = np.zeros(len(starts), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        found[rows] = _of_length(data, starts[rows], length)
    return found


def _of_length(data: Any, starts: Any, length: int) -> Any:
    result: Any = np.full(len(starts), _SEED ^ np.uint32(length), np.uint32)
    for at in range(0, length - length % _WORD, _WORD):
        word = _word(data, starts + at, _WORD) * _MIX
        result = (result * _MIX) ^ ((word ^ (word >> 24)) * _MIX)
    if rest := length % _WORD:
        result = (result ^ _word(data, starts + length - rest, rest)) * _MIX
    result = (result ^ (result >> 13)) * _MIX
    return result ^ (result >> 15)


def _word(data: Any, starts: Any, size: int) -> Any:
    """The little-endian number of `size` bytes at each start."""
    word: Any = np.zeros(len(starts), np.uint32)
    for byte in range(size):
        word |= data[starts + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _murmur2(keys: Any, partitions: int) -> Any:
    return partitions_of(as_array(keys), partitions)


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
