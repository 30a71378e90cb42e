"""The cluster as the source asks about it: topics, where reading starts, how far it can go, the log for the planner."""

import logging
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.cuts import Floor, Span
from airflow_provider_orderedkafka.core.planning import Planner
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.starts import Start
from airflow_provider_orderedkafka.core.subscriptions import Named, Subscription
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.ends import Ends, readable_ends
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.kafka.offsets import log_starts
from airflow_provider_orderedkafka.kafka.starts import resolve_start
from airflow_provider_orderedkafka.kafka.topics import Discovery, discover
from airflow_provider_orderedkafka.spark.options import SourceOptions

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.core.documents import Range
    from airflow_provider_orderedkafka.core.index import OwnIndex

_log = logging.getLogger(__name__)


class Cluster:
    """Asks Kafka what options of the source need to know."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._compacted: dict[str, bool] = {}

    @cached_property
    def log(self) -> KafkaLog:
        """The records, as a planner asks for them."""
        return KafkaLog(self.options.kafka, self.options.isolation)

    def topics(self) -> Discovery:
        """The topics and partitions that are read, as they are now."""
        given = self.options.range
        subscription = Named(tuple(given.topics)) if given is not None else self.options.subscription
        assert subscription is not None
        return self._found(subscription)

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
        found = discover(self.options.kafka, subscription)
        if self.options.range is not None:
            _check_cluster(self.options.range, found.cluster_id, self.options.kafka.servers)
        self._compacted.update((topic.name, topic.compacted) for topic in found.topics)
        return found

    def resolve(self, start: Start, partitions: Iterable[TopicPartition], now: int, word: str = "start") -> Offsets:
        """What a start policy, or an end said like one, means for these partitions."""
        options = self.options
        found = resolve_start(
            options.kafka,
            start,
            tuple(partitions),
            now,
            isolation=options.isolation,
            future_tolerance=options.future_tolerance,
            clamp=options.on_data_loss == "count",
            word=word,
        )
        for remark in found.remarks:
            _log.warning("%s", remark)
        return found.offsets

    def starts_of(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets of partitions that are new."""
        wanted = list(partitions)
        return log_starts(self.options.kafka, wanted) if wanted else Offsets()

    def ends(self, partitions: tuple[TopicPartition, ...], now: int, floor: Floor) -> Ends:
        """How far these partitions can be read now, from where the floor is."""
        latest = now + self.options.future_tolerance
        return readable_ends(self.options.kafka, partitions, self.options.isolation, latest, floor=floor)


def _check_cluster(loaded: "Range", found: str, servers: str) -> None:
    """Offsets mean nothing on another cluster, whatever its topics are called; without an id it is not known."""
    if loaded.cluster_id and found and loaded.cluster_id != found:
        raise SettingError(
            f"range {loaded.id!r} was planned on the cluster {loaded.cluster_id!r}, and {servers!r} is the cluster "
            f"{found!r}: its offsets mean something else there. Set 'kafka.bootstrap.servers' (in Airflow, the Kafka "
            f"connection) to the cluster that it was planned on, then run the same range again"
        )
