"""The settings of reading a slice, and its counts."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss, Range
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import TopicPartition

MIB = 2**20

Fetch = Callable[[Slice, int | None], Any]
"""Gives a `FetchedRecords`, or `OverBudget` for a slice of too many bytes."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings of readers, for all slices of a range; sent to tasks.

    `kafka` is librdkafka's configuration, to which the reader adds its own. `topic_ids` are the ids that the planner
    saw; if given, a topic that was created again is detected. `deadline` is how many seconds may pass without progress.
    `byte_budget` bounds the memory for one piece of a slice, and that for what has come of later ones, which may be up
    to 128 MiB where a batch of each partition needs it. `columns` are the requested ones, None for all. At most
    `sampled` records are looked at on each end of a partition. `fetch` gives what it has of a slice, at most so many
    bytes, None for any number; where it is None, each slice is fetched by itself.
    """

    kafka: Mapping[str, str]
    isolation: Isolation = "read_committed"
    include_headers: bool = False
    on_data_loss: OnDataLoss = "fail"
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    deadline: float = 120.0
    byte_budget: int = 128 * MIB
    batch_bytes: int = 3 * MIB // 2
    columns: tuple[str, ...] | None = None
    sampled: int = 50
    fetch: Fetch | None = None

    def asks_for(self, column: str) -> bool:
        """Whether it is among the requested columns."""
        return self.columns is None or column in self.columns

    @classmethod
    def of_range(cls, kafka: Mapping[str, str], loaded: Range) -> Self:
        lost = loaded.on_data_loss
        return cls(kafka, loaded.isolation, loaded.include_headers, lost, topic_ids=loaded.topics)


@dataclass(slots=True)
class ReadTally:
    """The counts of one reading task, updated as it goes.

    `bytes`, of keys and values as far as these were asked for, and, by partition, `read` and `late` are of the records
    handed on, of which those `beyond` belong behind the end of their batch; `lost` is how many offsets of each
    partition retention had deleted, if losses are counted instead of raised. `needed` is about how many bytes a broker
    had to send for the records, where they are not compressed.
    """

    read: Counter[TopicPartition] = field(default_factory=Counter)
    bytes: int = 0
    late: Counter[TopicPartition] = field(default_factory=Counter)
    lost: dict[TopicPartition, int] = field(default_factory=dict)
    beyond: int = 0
    needed: int = 0

    @property
    def records(self) -> int:
        return self.read.total()

    def lose(self, losses: Mapping[TopicPartition, int]) -> None:
        for partition, count in losses.items():
            self.lost[partition] = self.lost.get(partition, 0) + count
