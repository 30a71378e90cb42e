"""What a load asks of a cluster: `Kafka` is the port, and `Brokers` asks the brokers of a configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Subscription
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Log
from airflow_provider_orderedkafka.kafka.clients.config import SERVERS

from . import offsets, topics
from .log import KafkaLog


class Kafka(Protocol):
    """A cluster's answers; each raises UnreachableError, AccessDeniedError or UnknownTopicError instead."""

    @property
    def servers(self) -> str:
        """The cluster's address, for messages."""
        ...

    def discover(self, subscription: Subscription) -> Discovery:
        """The topics and partitions of a subscription."""
        ...

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset that each partition still has."""
        ...

    def high_ends(self, partitions: Iterable[TopicPartition], isolation: Isolation) -> Offsets:
        """The offset up to which each partition can be read now: the last stable one, or the high watermark."""
        ...

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets of a group; partitions without one are left out."""
        ...

    def log(self, isolation: Isolation) -> Log:
        """The records, as a planner asks for them."""
        ...


@dataclass(frozen=True)
class Brokers:
    """A cluster itself; can be pickled."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def servers(self) -> str:
        return self.config[SERVERS]

    def discover(self, subscription: Subscription) -> Discovery:
        return topics.discover(self.config, subscription)

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return offsets.log_starts(self.config, partitions)

    def high_ends(self, partitions: Iterable[TopicPartition], isolation: Isolation) -> Offsets:
        return offsets.high_ends(self.config, partitions, isolation)

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return offsets.committed(self.config, group, partitions)

    def log(self, isolation: Isolation) -> Log:
        return KafkaLog(self.config, isolation)
