"""Ordered records on their way to a producer: like an Arrow batch, with columns that are built when needed.

Keys and values stay Python objects, so that a plain copy does not pack them into Arrow and out again.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airflow_provider_orderedkafka.kafka.read.arrow import BatchBuilder
from airflow_provider_orderedkafka.kafka.read.payloads import Payloads


@dataclass(frozen=True, slots=True)
class Records:
    """Some rows of a slice, by their indices in its order."""

    builder: BatchBuilder
    places: NDArray[np.intp]

    @classmethod
    def of(cls, builder: BatchBuilder, rows: slice) -> "Records":
        return cls(builder, np.arange(rows.start, rows.stop))

    @property
    def num_rows(self) -> int:
        return len(self.places)

    @property
    def schema(self) -> Any:
        return self.builder.schema

    def column(self, name: str) -> Any:
        return self.builder.column(name, self.places)

    def keys(self) -> Payloads:
        return self.builder.keys(self.places)

    def values(self) -> Payloads:
        return self.builder.values(self.places)

    def filter(self, mask: NDArray[np.bool_]) -> "Records":
        return replace(self, places=self.places[mask])

    def take(self, places: NDArray[np.intp]) -> "Records":
        return replace(self, places=self.places[places])
