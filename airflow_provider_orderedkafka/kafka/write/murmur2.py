"""murmur2, the hash of Java's producers, for a column of keys.

    partitions_of(keys, partitions) -> int32 Arrow array; null for a null key

The same as librdkafka's partitioner `murmur2` and as Kafka's own default partitioner for records with a key.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

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
