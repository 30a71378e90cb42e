"""The cluster as the source asks about it: topics, where reading starts, how far it can go, the log for the planner."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.cuts import Floor, Span
from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss, Range
from airflow_provider_orderedkafka.core.planning import Planner
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.starts import Start
from airflow_provider_orderedkafka.core.subscriptions import Named, Subscription
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.ends import Ends, readable_ends
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.kafka.offsets import log_starts
from airflow_provider_orderedkafka.kafka.starts import resolve_start
from airflow_provider_orderedkafka.kafka.topics import Discovery, discover

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.core.index import OwnIndex

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Cluster:
    """Asks Kafka what a source needs to know. A `loaded` range must have been planned on this cluster."""

    kafka: KafkaConfig
    subscription: Subscription
    isolation: Isolation
    future_tolerance: int
    on_data_loss: OnDataLoss
    loaded: Range | None = None
    _compacted: dict[str, bool] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_range(cls, kafka: KafkaConfig, loaded: Range) -> "Cluster":
        """The cluster that a range is loaded from."""
        named = Named(tuple(loaded.topics))
        return cls(kafka, named, loaded.isolation, loaded.future_tolerance, loaded.on_data_loss, loaded)

    @cached_property
    def log(self) -> KafkaLog:
        """The records, as a planner asks for them."""
        return KafkaLog(self.kafka, self.isolation)

    def topics(self) -> Discovery:
        """The topics and partitions that are read, as they are now."""
        return self._found(self.subscription)

    def compacted(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics whose records may be compacted away."""
        wanted = sorted(topics)
        if not self._compacted.keys() >= set(wanted):
            self._found(Named(tuple(wanted)))
        return [topic for topic in wanted if self._compacted[topic]]

    def planner(
        self, span: Span, own: "dict[TopicPartition, OwnIndex] | None" = None, *, literal: bool = False
    ) -> Planner:
        """What cuts a span; what one had to read of the log is kept in `own` for those that follow.

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

    def resolve(self, start: Start, partitions: Iterable[TopicPartition], now: int, word: str = "start") -> Offsets:
        """What a start policy, or an end said like one, means for these partitions."""
        found = resolve_start(
            self.kafka,
            start,
            tuple(partitions),
            now,
            isolation=self.isolation,
            future_tolerance=self.future_tolerance,
            clamp=self.on_data_loss == "count",
            word=word,
        )
        for remark in found.remarks:
            _log.warning("%s", remark)
        return found.offsets

    def starts_of(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets of partitions that are new."""
        wanted = list(partitions)
        return log_starts(self.kafka, wanted) if wanted else Offsets()

    def ends(self, partitions: tuple[TopicPartition, ...], now: int, floor: Floor) -> Ends:
        """How far these partitions can be read now, from where the floor is."""
        latest = now + self.future_tolerance
        return readable_ends(self.kafka, partitions, self.isolation, latest, floor=floor)


def _check_cluster(loaded: Range, found: str, servers: str) -> None:
    """Offsets mean nothing on another cluster, whatever its topics are called; without an id it is not known."""
    if loaded.cluster_id and found and loaded.cluster_id != found:
        raise SettingError(
            f"range {loaded.id!r} was planned on the cluster {loaded.cluster_id!r}, and {servers!r} is the cluster "
            f"{found!r}: its offsets mean something else there. Set 'kafka.bootstrap.servers' (in Airflow, the Kafka "
            f"connection) to the cluster that it was planned on, then run the same range again"
        )
