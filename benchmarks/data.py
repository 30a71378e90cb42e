"""Data for the benchmarks: steady flows over partitions, a little late, with payloads that do not compress away."""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

BASE = 1_700_000_000_000
LATE_SHARE = 0.01


@dataclass(frozen=True)
class Data:
    """So many records of so many bytes; partition i gets `weights[i]` of the sum of them."""

    name: str
    records: int
    size: int
    weights: list[float]

    def scaled(self, share: float) -> "Data":
        return replace(self, records=int(self.records * share))


def key(number: int) -> bytes:
    """The key of a record, by its number."""
    return b"%d" % (number % 10_000)


def time_of(number: int) -> int:
    """The timestamp of a record, by its number: four a millisecond."""
    return BASE + number // 4


def write(
    servers: str,
    topic: str,
    data: Data,
    value: Callable[[int], bytes] | None = None,
    at: Callable[[int], int] = time_of,
    *,
    batch: int | None = None,
    replicas: int = 1,
) -> str:
    """Write the data to a new topic: random bytes, or what `value` makes of each record's number.

    Batches have up to a megabyte, as they come; or `batch` bytes, as full as they get.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, len(data.weights), replicas)])[topic].result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 20 if batch is None else 60_000,
            "batch.size": batch or 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
        }
    )
    chance = random.Random(7)
    payload = os.urandom(data.size * 64)
    partitions = chance.choices(range(len(data.weights)), data.weights, k=data.records)
    for number, partition in enumerate(partitions):
        time = at(number) - (chance.randrange(500) if chance.random() < LATE_SHARE else 0)
        start = number % 63 * data.size
        sent = value(number) if value else payload[start : start + data.size]
        while True:
            try:
                producer.produce(topic, sent, key(number), partition, timestamp=time)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    return topic
