"""Arrow arrays as numpy and Python see them: the way back from `buffers`, and like it without pandas.

    numbers(array, otherwise)     whole numbers, moments or truth values; `otherwise` for null
    nulls(array)                  which are null
    sizes(array)                  how many bytes each has; 0 for null
    values(array)                 bytes or texts as Python objects; None for null

`Array.to_numpy`, `to_pylist`, `fill_null` and `pyarrow.scalar` would do, and import pandas on their first call: that
takes a worker longer than reading and writing a small batch.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers(array: Any, otherwise: int = 0) -> NDArray[Any]:
    """The numbers of an array of integers, of truth values, or of 64-bit moments."""
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        values = _bits(data, array)
    else:
        dtype = np.int64 if pa.types.is_timestamp(array.type) else np.dtype(array.type.to_pandas_dtype())
        values = np.frombuffer(data or b"", dtype)[array.offset : array.offset + len(array)]
    return np.where(nulls(array), otherwise, values) if array.null_count else values


def nulls(array: Any) -> NDArray[np.bool_]:
    """Which are null."""
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    return ~_bits(array.buffers()[0], array)


def sizes(array: Any) -> NDArray[np.int64]:
    """How many bytes each has."""
    found = np.diff(_edges(array)).astype(np.int64)
    return np.where(nulls(array), 0, found) if array.null_count else found


def values(array: Any) -> list[Any]:
    """The bytes or texts themselves."""
    data, edges = array.buffers()[2], _edges(array).tolist()
    held = b"" if data is None else data.to_pybytes()
    found: list[Any] = [held[start:end] for start, end in pairwise(edges)]
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        found = [value.decode() for value in found]
    for place in np.flatnonzero(nulls(array)).tolist() if array.null_count else ():
        found[place] = None
    return found


def _edges(array: Any) -> NDArray[Any]:
    """Where each begins and the last one ends; an empty array may have no buffer for that."""
    large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    offsets = array.buffers()[1]
    if offsets is None or not offsets.size:
        return np.zeros(1, np.int64)
    return np.frombuffer(offsets, np.int64 if large else np.int32)[array.offset : array.offset + len(array) + 1]


def _bits(buffer: Any, array: Any) -> NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)
