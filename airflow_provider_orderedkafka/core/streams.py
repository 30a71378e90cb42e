"""A stream's offset: everything that the rows and the order of a batch depend on, as one document.

Spark logs only the end offset of a batch, and plans a logged batch again from two offsets alone. So an offset carries
its place, the settings its batch was read with, and the times that a minimum and a delay count from.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_orderedkafka.core.codec import Document
from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.cuts import Place, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets

INITIAL: Final = {"initial": True, "version": 1}
"""The initial offset of every stream: a constant. The first batch resolves the start."""


@dataclass(frozen=True, slots=True)
class StreamOffset(Document):
    """The offset of a stream. `added` are the first offsets of partitions that are new in its batch."""

    place: Place
    added: Offsets
    latest: int
    isolation: Isolation
    topics: Mapping[str, str]
    first_looked_at: int
    triggered_at: int | None

    @property
    def since(self) -> int:
        """The time a delay counts from: the last trigger, or the first look."""
        return self.first_looked_at if self.triggered_at is None else self.triggered_at

    def to_json(self) -> dict[str, Any]:
        """The JSON value for Spark's log; equal offsets give equal text."""
        value: dict[str, Any] = json.loads(self.to_text())
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StreamOffset | None":
        """Parse what Spark stored; None is the initial offset."""
        return None if value == INITIAL else cls.from_value(value)


def span_between(start: StreamOffset, end: StreamOffset) -> Span:
    """What a batch spans. Partitions that are new in it begin where its end says."""
    known = {partition: start.place.offsets.get(partition) for partition in end.place.offsets}
    begin = {p: end.added[p] if offset is None else offset for p, offset in known.items()}
    return Span(Offsets(begin), end.place.offsets, start.place.floor, end.latest)
