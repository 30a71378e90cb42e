"""Check that a topic is the one that was planned, and was not deleted and created again."""

from collections.abc import Iterable, Mapping

from airflow_provider_orderedkafka.core.next_range import created_again
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import TopicChangedError, UnreachableError
from airflow_provider_orderedkafka.kafka.clients.admin import admin
from airflow_provider_orderedkafka.kafka.clients.answers import Patience
from airflow_provider_orderedkafka.kafka.lookup.topics import check_partitions, topic_ids

_RECHECK_SECONDS = 4.0


def check_topics(config: Mapping[str, str], topics: Iterable[str], planned: Mapping[str, str], deadline: float) -> None:
    """Raise TopicChangedError if a topic's id has changed, UnknownTopicError if a topic is gone."""
    check_ids(topic_ids(config, sorted(set(topics)), deadline), planned)


def check_ids(topics: Mapping[str, str], planned: Mapping[str, str]) -> None:
    """Raise TopicChangedError if one of these ids is not the planned one."""
    for name, found in topics.items():
        if found != planned.get(name, found):
            raise TopicChangedError(
                f"{created_again(name, planned[name], found)}, so what was planned before cannot be finished. In "
                f"Airflow give it up with "
                f'`orderedkafka ledger abandon <load> --reason "created again"`, and begin in the new topic with '
                f'`orderedkafka ledger rewind <load> --topic {name} --to earliest --reason "created again"`; by hand, '
                "begin with a new checkpoint",
                topic=name,
            )


def recheck(config: Mapping[str, str], partitions: Iterable[TopicPartition], planned: Mapping[str, str]) -> None:
    """Like `check_topics`, and UnknownTopicError if a partition is gone; passes if Kafka does not answer in seconds."""
    partitions = list(partitions)
    try:
        check_topics(config, (partition.topic for partition in partitions), planned, _RECHECK_SECONDS)
    except UnreachableError:
        return
    check_partitions(admin(config), partitions, Patience(_RECHECK_SECONDS, "the partitions of"))
