"""Ranges for the tests: everything that some topics hold now."""

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from support.plain import plain_range
from support.records import Records

PLANNED_AT = 2_000_000_000_000


def whole_range(bootstrap_servers: str, *topics: str, name: str = "r1", **changes: object) -> Range:
    """Everything that the topics hold, up to `PLANNED_AT`."""
    found = discover({"bootstrap.servers": bootstrap_servers}, Named(topics))
    records = Records(bootstrap_servers)
    start = {TopicPartition(t, p): offset for t in topics for p, offset in records.starts(t).items()}
    end = {TopicPartition(t, p): offset for t in topics for p, offset in records.ends(t).items()}
    plain: dict[str, object] = {
        "id": name,
        "load": "test",
        "reason": "a test",
        "topics": found.ids,
        "start": Place(Offsets(start), Floor()),
        "end": Place(Offsets(end), Floor(PLANNED_AT)),
        "planned_at": PLANNED_AT,
        "cluster_id": found.cluster_id,
    }
    return plain_range(**{**plain, **changes})
