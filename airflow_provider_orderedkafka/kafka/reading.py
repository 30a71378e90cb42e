"""The settings of reading a slice, and its counts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss
from airflow_provider_orderedkafka.core.order.positions import TopicPartition

MIB = 2**20


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings of readers, for all slices of a range; sent to tasks.

    `kafka` is librdkafka's configuration, to which the reader adds its own. `topic_ids` are the ids that the planner
    saw; if given, a topic that was created again is detected. `deadline` is how many seconds may pass without progress.
    `byte_budget` bounds the memory for one piece of a slice. `columns` are the requested ones, None for all.
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


@dataclass(slots=True)
class ReadTally:
    """The counts of one reading task, updated as it goes.

    `records`, `bytes` and, by partition, `late` are of the records handed on; `lost` is how many offsets of each
    partition retention had deleted, if losses are counted instead of raised.
    """

    records: int = 0
    bytes: int = 0
    late: Counter[TopicPartition] = field(default_factory=Counter)
    lost: dict[TopicPartition, int] = field(default_factory=dict)

    def lose(self, losses: Mapping[TopicPartition, int]) -> None:
        for partition, count in losses.items():
            self.lost[partition] = self.lost.get(partition, 0) + count
