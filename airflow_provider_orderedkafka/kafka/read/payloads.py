"""Keys and values, as Python objects or as Arrow arrays, behind the same functions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Payloads:
    """Keys or values as Python objects; nulls are empty, with a size of -1."""

    data: NDArray[np.object_]
    sizes: Ints

    def take(self, places: NDArray[np.intp]) -> "Payloads":
        return Payloads(self.data[places], self.sizes[places])

    def array(self) -> Any:
        return pa.array(self.data, pa.binary(), mask=self.sizes < 0)

    def as_list(self) -> list[bytes | None]:
        values: list[bytes | None] = self.data.tolist()
        for place in np.flatnonzero(self.sizes < 0).tolist():
            values[place] = None
        return values


def as_list(column: Any) -> list[Any]:
    return column.as_list() if isinstance(column, Payloads) else column.to_pylist()


def as_array(column: Any) -> Any:
    return column.array() if isinstance(column, Payloads) else column


def sizes(column: Any) -> Ints:
    """The size of each in bytes; 0 for null."""
    if isinstance(column, Payloads):
        return np.maximum(column.sizes, 0)
    found: Ints = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return found


def nulls(column: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (
        column.sizes < 0 if isinstance(column, Payloads) else column.is_null().to_numpy(zero_copy_only=False)
    )
    return found
