"""What the source needs to know about the cluster: its topics, and the log for the planner."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.documents import Isolation, Range
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Named, Subscription
from airflow_provider_orderedkafka.core.order.cuts import Span
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.topics import discover

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.core.next_range import Own


@dataclass(eq=False)
class Cluster:
    """Asks Kafka what a source needs to know. A `loaded` range must have been planned on this cluster."""

    kafka: KafkaConfig
    subscription: Subscription
    isolation: Isolation
    loaded: Range | None = None
    _compacted: dict[str, bool] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_range(cls, kafka: KafkaConfig, loaded: Range) -> "Cluster":
        return cls(kafka, Named(tuple(loaded.topics)), loaded.isolation, loaded)

    @cached_property
    def log(self) -> KafkaLog:
        return KafkaLog(self.kafka, self.isolation)

    def topics(self) -> Discovery:
        """The topics and partitions that are read, at present."""
        return self._found(self.subscription)

    def compacted(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics whose records may be compacted away."""
        wanted = sorted(topics)
        if not self._compacted.keys() >= set(wanted):
            self._found(Named(tuple(wanted)))
        return [topic for topic in wanted if self._compacted[topic]]

    def planner(self, span: Span, own: "Own | None" = None, *, literal: bool = False) -> Planner:
        """The planner of a span; `own` keeps what it read of the log for the next one.

        With `literal`, or where records may be compacted away, each cut is a literal offset, found by looking.
        """
        topics = span.start.topics if span.offsets else ()
        return Planner(self.log, span, topics if literal else self.compacted(topics), own)

    def _found(self, subscription: Subscription) -> Discovery:
        found = discover(self.kafka, subscription)
        if self.loaded is not None:
            _check_cluster(self.loaded, found.cluster_id, self.kafka.servers)
        self._compacted.update((topic.name, topic.compacted) for topic in found.topics)
        return found


def _check_cluster(loaded: Range, found: str, servers: str) -> None:
    """Raise if it is another cluster, where offsets mean nothing; not checked if a cluster gives no id."""
    if loaded.cluster_id and found and loaded.cluster_id != found:
        raise SettingError(
            f"range {loaded.id!r} was planned on the cluster {loaded.cluster_id!r}, and {servers!r} is the cluster "
            f"{found!r}: its offsets mean something else there. Set 'kafka.bootstrap.servers' (in Airflow, the Kafka "
            f"connection) to the cluster that it was planned on, then run the same range again"
        )
