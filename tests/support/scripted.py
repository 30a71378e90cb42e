"""A consumer whose messages are prepared, and such messages."""

from itertools import chain, repeat

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.order.positions import TopicPartition

ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 0)


class ScriptedConsumer:
    """Gives prepared messages, a list each time it is asked, and then `at_last` for ever; keeps what is assigned."""

    def __init__(
        self,
        *script: list[Message],
        at_last: list[Message] | None = None,
        log_start: int = 0,
        log_end: int = 100,
    ) -> None:
        self.assigned: dict[tuple[str, int], int] = {}
        self._script = chain(script, repeat(at_last or []))
        self._log = (log_start, log_end)

    def consume(self, _most: int, timeout: float) -> list[Message]:
        """What comes next, to those who wait."""
        return next(self._script) if timeout else []

    def incremental_assign(self, partitions: list[KafkaPartition]) -> None:
        """From now on these, too."""
        self.assigned |= {(p.topic, p.partition): p.offset for p in partitions}

    def incremental_unassign(self, partitions: list[KafkaPartition]) -> None:
        """From now on without these."""
        for partition in partitions:
            del self.assigned[partition.topic, partition.partition]

    def position(self, partitions: list[KafkaPartition]) -> list[KafkaPartition]:
        """Nothing is known but what was given."""
        return [KafkaPartition(p.topic, p.partition, OFFSET_INVALID) for p in partitions]

    def get_watermark_offsets(self, _partition: KafkaPartition, _timeout: float) -> tuple[int, int]:
        """Where every log starts and ends."""
        return self._log


def record(offset: int, timestamp: int = 1, partition: TopicPartition = ORDERS) -> Message:
    """A record without a value."""
    return Message(*partition, offset, timestamp=(1, timestamp))


def event(
    code: int,
    offset: int = OFFSET_BEGINNING,
    partition: TopicPartition | None = ORDERS,
    said: str = "as the broker says",
) -> Message:
    """What a client tells beside the records."""
    place = {} if partition is None else {"topic": partition.topic, "partition": partition.partition}
    return Message(offset=offset, error=KafkaError(code, said), **place)
