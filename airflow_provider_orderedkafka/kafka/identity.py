"""Whether the topics that are read are the ones that were planned: offsets mean nothing in another topic."""

from collections.abc import Iterable, Mapping

from airflow_provider_orderedkafka.errors import TopicChangedError, UnreachableError
from airflow_provider_orderedkafka.kafka.topics import topic_ids

_DOUBT_SECONDS = 5.0


def check_topics(config: Mapping[str, str], topics: Iterable[str], planned: Mapping[str, str], deadline: float) -> None:
    """Raise TopicChangedError where a topic's id is not the planned one, UnknownTopicError where a topic is gone."""
    names = sorted(set(topics))
    for name, found in topic_ids(config, names, deadline).items():
        if found != planned.get(name, found):
            raise TopicChangedError(
                f"topic {name!r} was deleted and created again after this range was planned (its id was "
                f"{planned[name]}, now it is {found}): abandon the range, and rewind to the new topic's start"
            )


def doubt_topics(config: Mapping[str, str], topics: Iterable[str], planned: Mapping[str, str]) -> None:
    """The same, and nothing where Kafka does not say within a few seconds."""
    try:
        check_topics(config, topics, planned, _DOUBT_SECONDS)
    except UnreachableError:
        return
