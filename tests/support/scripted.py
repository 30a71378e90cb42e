"""Consumers whose messages are prepared, or come of a simulated log; and such messages."""

import random
from itertools import chain, islice, repeat

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from support.simulated_log import SimulatedLog

ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 0)


class ScriptedConsumer:
    """Gives prepared messages, a list each time it is asked, and then `at_last` for ever; keeps what is assigned."""

    def __init__(
        self, *script: list[Message], at_last: list[Message] | None = None, log_start: int = 0, log_end: int = 100
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


class LogConsumer:
    """Gives what a simulated log has of the partitions that are assigned, some records of some of them at a time.

    It says once where a log ends, and once that an offset is gone. `sent` are the records that it has given.
    """

    def __init__(self, log: SimulatedLog, chance: random.Random) -> None:
        self.sent: list[tuple[TopicPartition, int]] = []
        self.assigned: dict[TopicPartition, int] = {}
        self._log = log
        self._ends = log.ends()
        self._chance = chance
        self._silent: set[TopicPartition] = set()
        self._given: dict[TopicPartition, int] = {}

    def consume(self, most: int, timeout: float) -> list[Message]:
        """Some records of a few partitions; nothing at times, to those who do not wait."""
        if not timeout and self._chance.random() < 0.2:
            return []
        return [message for _ in range(min(self._chance.randint(1, 3), most)) for message in self._some(most // 3 or 1)]

    def _some(self, most: int) -> list[Message]:
        talking = sorted(self.assigned.keys() - self._silent)
        if not talking:
            return []
        partition = self._chance.choice(talking)
        at = self.assigned[partition]
        if at < self._log.gone_before.get(partition, 0):
            self._silent.add(partition)
            return [event(KafkaError._AUTO_OFFSET_RESET, at, partition)]
        some = min(self._chance.randint(1, 5), most)
        found = list(islice(self._log.scan(partition, at, self._ends[partition], count=False), some))
        if not found:
            self._silent.add(partition)
            return [event(KafkaError._PARTITION_EOF, self._ends[partition], partition)]
        self.assigned[partition] = self._given[partition] = found[-1][0] + 1
        self.sent += [(partition, offset) for offset, _ in found]
        return [record(offset, time, partition) for offset, time in found]

    def incremental_assign(self, partitions: list[KafkaPartition]) -> None:
        """From now on these, too; none of them may be assigned already."""
        for each in partitions:
            partition = TopicPartition(each.topic, each.partition)
            assert partition not in self.assigned
            self.assigned[partition] = each.offset
            self._silent.discard(partition)
            self._given.pop(partition, None)

    def incremental_unassign(self, partitions: list[KafkaPartition]) -> None:
        """From now on without these."""
        for each in partitions:
            del self.assigned[TopicPartition(each.topic, each.partition)]

    def position(self, partitions: list[KafkaPartition]) -> list[KafkaPartition]:
        """Behind what was given since it was assigned."""
        given = [self._given.get(TopicPartition(p.topic, p.partition), OFFSET_INVALID) for p in partitions]
        return [KafkaPartition(p.topic, p.partition, at) for p, at in zip(partitions, given, strict=True)]

    def get_watermark_offsets(self, asked: KafkaPartition, _timeout: float) -> tuple[int, int]:
        """Where the log starts and ends."""
        partition = TopicPartition(asked.topic, asked.partition)
        return self._log.gone_before.get(partition, 0), self._ends[partition]


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
