"""The partitions that lag most, as text: a thousand of them fit into a status."""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_orderedkafka.core.order.positions import TopicPartition

PARTITIONS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class At:
    """Where a partition stands: its next offset, how many the open range takes, and how many there are.

    `late` counts the late records of the last range that was loaded.
    """

    begin: int
    taken: int = 0
    lag: int = 0
    late: int = 0


def table(places: Mapping[TopicPartition, At], most: int = PARTITIONS_KEPT) -> dict[str, str]:
    """The partitions that lag most, by topic."""
    kept = sorted(sorted(places, key=lambda partition: -places[partition].lag)[:most])
    words: dict[str, list[str]] = {}
    for topic, partition in kept:
        place = places[TopicPartition(topic, partition)]
        late = f",{place.late}" if place.late else ""
        words.setdefault(topic, []).append(f"{partition},{place.begin},{place.taken},{place.lag}{late}")
    return {topic: " ".join(found) for topic, found in words.items()}


def places_of(table: Mapping[str, str]) -> dict[TopicPartition, At]:
    found = {}
    for topic, words in table.items():
        for word in words.split():
            partition, *place = map(int, word.split(","))
            found[TopicPartition(topic, partition)] = At(*place)
    return found
