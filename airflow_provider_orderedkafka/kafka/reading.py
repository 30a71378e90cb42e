"""The settings of reading a slice, and the numbers of its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss
from airflow_provider_orderedkafka.core.order.positions import TopicPartition

MIB = 2**20


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What readers need for all slices of a range; travels with them to tasks.

    `kafka` is librdkafka's configuration, to which the reader adds its own. `topic_ids` are the ids that the planner
    saw: where they are given, a topic that was created again is told from the one that was planned. `deadline` is how
    many seconds may go by without any progress. `record_bytes` is the mean size of a record, as far as it is known.
    `byte_budget` bounds what one piece of a slice holds in memory. `columns` are those that are asked for, or all.
    """

    kafka: Mapping[str, str]
    isolation: Isolation = "read_committed"
    include_headers: bool = False
    on_data_loss: OnDataLoss = "fail"
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    deadline: float = 120.0
    record_bytes: int = 1_000
    byte_budget: int = 128 * MIB
    batch_bytes: int = 3 * MIB // 2
    columns: tuple[str, ...] | None = None


@dataclass(slots=True)
class ReadTally:
    """What reading came to, added to as it goes: one for each task.

    `records`, `bytes`, `late` and `uncounted` (no timestamp, or one of the future) are of the records handed on;
    `fetched` is how many records Kafka's client delivered for them; `lost` is how many offsets of each partition
    retention had taken, where such a loss is counted instead of raised.
    """

    records: int = 0
    bytes: int = 0
    late: int = 0
    uncounted: int = 0
    fetched: int = 0
    lost: dict[TopicPartition, int] = field(default_factory=dict)

    def lose(self, losses: Mapping[TopicPartition, int]) -> None:
        """Add losses to those of the same partitions."""
        for partition, count in losses.items():
            self.lost[partition] = self.lost.get(partition, 0) + count
