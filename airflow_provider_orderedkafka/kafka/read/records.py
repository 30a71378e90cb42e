"""Records in order that go on to a producer: a table like an Arrow batch, whose columns are made once they are needed.

Keys and values can be had as they came. A copy passes them on, so it never packs them into Arrow and out of it again.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airflow_provider_orderedkafka.kafka.read.arrow import BatchBuilder
from airflow_provider_orderedkafka.kafka.read.payloads import Payloads


@dataclass(frozen=True, slots=True)
class Records:
    """Some rows of a slice, by their places in its order."""

    builder: BatchBuilder
    places: NDArray[np.intp]

    @classmethod
    def of(cls, builder: BatchBuilder, rows: slice) -> "Records":
        """The rows between two."""
        return cls(builder, np.arange(rows.start, rows.stop))

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return len(self.places)

    @property
    def schema(self) -> Any:
        """The columns that there are."""
        return self.builder.schema

    def column(self, name: str) -> Any:
        """A column as Arrow has it."""
        return self.builder.column(name, self.places)

    def keys(self) -> Payloads:
        """The keys as they came."""
        return self.builder.keys(self.places)

    def values(self) -> Payloads:
        """The values as they came."""
        return self.builder.values(self.places)

    def filter(self, mask: NDArray[np.bool_]) -> "Records":
        """Those where the mask says so."""
        return replace(self, places=self.places[mask])

    def take(self, places: NDArray[np.intp]) -> "Records":
        """Those at these places."""
        return replace(self, places=self.places[places])
