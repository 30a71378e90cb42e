"""Arrow arrays made from the memory that numpy and Python have filled.

`pyarrow.array` would do, and imports pandas on its first call: most of a second, and 40 MB, for each worker process.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Sizes = NDArray[np.int64]

MOMENT = pa.timestamp("us", tz="UTC")
_MICROSECONDS = 1_000
_LAST_MILLISECOND = np.iinfo(np.int64).max // _MICROSECONDS

_OF_NUMPY = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}


def numbers(values: NDArray[Any], nulls: NDArray[np.bool_] | None = None) -> Any:
    """Whole numbers of 32 or 64 bits; null where that is said."""
    validity = None if nulls is None or not nulls.any() else _bits(~nulls)
    return pa.Array.from_buffers(_OF_NUMPY[values.dtype], len(values), [validity, _buffer(values)])


def flags(values: NDArray[np.bool_]) -> Any:
    """Truth values."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def moments(milliseconds: NDArray[np.int64]) -> Any:
    """Milliseconds as moments; one that no moment can show is shown as the last one."""
    micros = np.minimum(milliseconds, _LAST_MILLISECOND) * _MICROSECONDS
    return pa.Array.from_buffers(MOMENT, len(micros), [None, _buffer(micros)])


def counts(**found: int) -> Any:
    """A batch of one row that says how many of what there are."""
    return pa.RecordBatch.from_arrays([numbers(np.array([n], np.int64)) for n in found.values()], list(found))


def payloads(data: Sequence[bytes], sizes: Sizes, kind: Any = None) -> Any:
    """Bytes one after the other; null where the size is -1, and there the bytes are empty."""
    offsets, validity = _offsets(sizes)
    content = pa.py_buffer(b"".join(data))
    return pa.Array.from_buffers(kind or pa.binary(), len(sizes), [validity, offsets, content])


def texts(values: Sequence[str]) -> Any:
    """Strings, none of them null."""
    data = [value.encode() for value in values]
    return payloads(data, np.array([len(value) for value in data], np.int64), pa.string())


def repeated(text: str, times: int) -> Any:
    """One string many times."""
    data = text.encode()
    return payloads([data] * times, np.full(times, len(data), np.int64), pa.string())


def lists(kind: Any, sizes: Sizes, items: Any) -> Any:
    """Lists of so many items each, taken one after the other; null where the size is -1."""
    offsets, validity = _offsets(sizes)
    return pa.Array.from_buffers(kind, len(sizes), [validity, offsets], children=[items])


def structs(kind: Any, *columns: Any) -> Any:
    """Structs of these columns, none of them null."""
    return pa.Array.from_buffers(kind, len(columns[0]), [None], children=list(columns))


def _offsets(sizes: Sizes) -> tuple[Any, Any]:
    """Where each one begins, and which are not null, where any is."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(np.maximum(sizes, 0), out=offsets[1:])
    nulls = sizes < 0
    return _buffer(offsets), _bits(~nulls) if nulls.any() else None


def _bits(values: NDArray[np.bool_]) -> Any:
    return _buffer(np.packbits(values, bitorder="little"))


def _buffer(values: NDArray[Any]) -> Any:
    return pa.py_buffer(np.ascontiguousarray(values))
