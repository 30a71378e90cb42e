"""A plain reader: one consumer of all partitions, to show in what order records come by themselves."""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, TopicPartition

from airflow_provider_orderedkafka.tools.demo import DemoError
from airflow_provider_orderedkafka.tools.demo.shop import Tell
from airflow_provider_orderedkafka.tools.demo.story import Numbers

_STALLED_SECONDS = 30.0
_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a reader got, in order: the numbers and timestamps of events; and where it stopped."""

    events: Numbers
    times: Numbers
    seconds: float
    ends: dict[tuple[str, int], int]

    @property
    def offsets(self) -> int:
        """Number of offsets read, over all partitions."""
        return sum(self.ends.values())

    def after(self, earlier: "Reading") -> "Reading":
        return Reading(
            np.concatenate([earlier.events, self.events]),
            np.concatenate([earlier.times, self.times]),
            earlier.seconds + self.seconds,
            self.ends,
        )


NOTHING = Reading(np.empty(0, np.int64), np.empty(0, np.int64), 0.0, {})


def read(bootstrap_servers: str, topics: Sequence[str], tell: Tell, earlier: Reading = NOTHING) -> Reading:
    """Read the topics from where the earlier reading stopped to their present ends."""
    began = time.monotonic()
    consumer = _consumer(bootstrap_servers)
    try:
        ends = _ends(consumer, topics)
        left = {place: end for place, end in ends.items() if earlier.ends.get(place, 0) < end}
        consumer.assign([TopicPartition(*place, earlier.ends.get(place, 0)) for place in left])
        rows = [(_number(message), message.timestamp()[1]) for message in _until(consumer, left, tell)]
    finally:
        consumer.close()
    events, times = np.array(rows, np.int64).reshape(-1, 2).T
    return Reading(events, times, time.monotonic() - began, ends).after(earlier)


def _consumer(bootstrap_servers: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"orderedkafka-demo-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )


def _end(consumer: Any, topic: str, partition: int) -> int:
    return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_STALLED_SECONDS)[1])


def _ends(consumer: Any, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    known = {topic: consumer.list_topics(topic, timeout=_STALLED_SECONDS).topics[topic] for topic in topics}
    places = [(topic, partition) for topic, found in known.items() for partition in sorted(found.partitions)]
    return {place: _end(consumer, *place) for place in places}


def _until(consumer: Any, left: dict[tuple[str, int], int], tell: Tell) -> Iterator[Any]:
    """Records as they come, until each partition is at its end, even if a transaction marker is there."""
    open_, done, heard = dict(left), 0, time.monotonic()
    while open_:
        messages = consumer.consume(_AT_ONCE, timeout=0.2)
        heard = time.monotonic() if messages else heard
        if time.monotonic() - heard > _STALLED_SECONDS:
            raise DemoError(f"the broker sent nothing for {_STALLED_SECONDS:g} seconds; still to be read: {open_}")
        for message in messages:
            place, error = (message.topic(), message.partition()), message.error()
            if error and error.code() != KafkaError._PARTITION_EOF:
                raise DemoError(f"{place[0]}[{place[1]}] cannot be read: {error}")
            if not error and message.offset() < left[place]:
                yield message
                done += 1
            if message.offset() >= left[place] - (0 if error else 1):
                open_.pop(place, None)
        tell(done)


def _number(message: Any) -> int:
    return int(json.loads(message.value())["event"])
