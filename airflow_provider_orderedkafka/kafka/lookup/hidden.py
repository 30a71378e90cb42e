"""Find out whether a log continues above its high watermark, where consumers see no records yet.

A leader tells consumers its high watermark, which may lag behind the log while a follower does. But it answers a fetch
from between the two with nothing, and refuses one from past the log's end. So a refusal proves that the log ends there.
"""

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.consumers import pooled_consumer
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

_ANSWER_SECONDS: Final = 0.5
_WIDER: Final = 16
_FARTHEST: Final = _WIDER**8


def ended(config: Mapping[str, str], offsets: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """The partitions whose log is proven to end at or before the offset; nothing is known of the others."""
    # Without a rack the leader itself answers: a follower's log may be shorter.
    settings = ReadSettings({**config, "client.rack": ""}, isolation="read_uncommitted")
    refused: set[TopicPartition] = set()
    unanswered = dict(offsets)
    until = time.monotonic() + _ANSWER_SECONDS
    with pooled_consumer(settings) as pooled:
        pooled.consumer.incremental_assign([KafkaPartition(*partition, at + 1) for partition, at in offsets.items()])
        while unanswered and (message := pooled.consumer.poll(max(until - time.monotonic(), 0.0))) is not None:
            partition = TopicPartition(message.topic(), message.partition())
            asked = unanswered.pop(partition, None)
            error = message.error()
            if asked is not None and error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                refused.add(partition)
    return refused


class Fence:
    """Marks, for each log, an end that it had at some moment after the fence was made.

    A log that is being written is always longer than what was read of it. So fetches are tried further and further
    ahead until one is refused; the fence is passed once the log was read that far.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._ends: dict[TopicPartition, int] = {}
        self._ahead: dict[TopicPartition, int] = {}

    def passed(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Whether everything was read that the logs held at some moment after this fence was made."""
        before = self._before(positions)
        asked = {partition: at + self._ahead.get(partition, 0) for partition, at in before.items()}
        refused = ended(self._config, asked) if asked else set()
        for partition, at in asked.items():
            if partition in refused:
                self._ends[partition] = min(at, self._ends.get(partition, at))
            self._ahead[partition] = 0 if partition in refused else self._further(partition)
        return not self._before(positions)

    def _further(self, partition: TopicPartition) -> int:
        return min(max(1, self._ahead.get(partition, 0)) * _WIDER, _FARTHEST)

    def _before(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The partitions that were not read up to their fence, or have no fence yet."""
        return {partition: at for partition, at in positions.items() if at < self._ends.get(partition, at + 1)}
