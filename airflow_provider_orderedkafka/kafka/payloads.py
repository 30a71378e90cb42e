"""Keys and values: as Python objects the way they came, or as an Arrow array; asked for the same things either way."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airflow_provider_orderedkafka.kafka import arrays, buffers

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Payloads:
    """Keys or values as they came: null ones are empty here, with a size of -1."""

    data: NDArray[np.object_]
    sizes: Ints

    def take(self, places: NDArray[np.intp]) -> "Payloads":
        """Those at these places."""
        return Payloads(self.data[places], self.sizes[places])

    def array(self) -> Any:
        """An Arrow array of them."""
        return buffers.payloads(self.data.tolist(), self.sizes)

    def as_list(self) -> list[bytes | None]:
        """The objects themselves."""
        values: list[bytes | None] = self.data.tolist()
        for place in np.flatnonzero(self.sizes < 0).tolist():
            values[place] = None
        return values


def as_list(column: Any) -> list[Any]:
    """As Python objects, None for null."""
    return column.as_list() if isinstance(column, Payloads) else arrays.values(column)


def as_array(column: Any) -> Any:
    """As an Arrow array."""
    return column.array() if isinstance(column, Payloads) else column


def sizes(column: Any) -> Ints:
    """How many bytes each has; 0 for null."""
    return np.maximum(column.sizes, 0) if isinstance(column, Payloads) else arrays.sizes(column)


def nulls(column: Any) -> NDArray[np.bool_]:
    """Which are null."""
    return column.sizes < 0 if isinstance(column, Payloads) else arrays.nulls(column)
