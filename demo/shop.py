"""The shop's topics: its events are written to them, and read again as a plain consumer gets them."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from broker.sample import send
from demo import DemoError
from demo.story import LANES, Chapter, Numbers, ShopEvent

OUTPUT = "orders-ordered"
TOPICS = sorted({lane.topic for lane in LANES})
DEADLINE_SECONDS = 60.0

Tell = Callable[[int], None]
"""Called with a number of records from time to time."""


class Shop:
    def __init__(self, servers: str) -> None:
        """Create the topics; the output gets one partition, so that its order can be compared."""
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        wanted = Counter(lane.topic for lane in LANES) + Counter({OUTPUT: 1})
        for answer in self._admin.create_topics([NewTopic(*each) for each in wanted.items()]).values():
            answer.result(DEADLINE_SECONDS)

    def write(self, chapter: Chapter, tell: Tell) -> None:
        """Write the events of a chapter; return when all are acknowledged and can be read."""
        held = chapter.in_transaction
        self._produce(self._producer(), chapter.events(~held), tell)
        producer = self._producer(**{"transactional.id": "orderedkafka-demo"})
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
        self._produce(producer, chapter.events(held), lambda _: None)
        producer.commit_transaction(DEADLINE_SECONDS)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._ends("READ_COMMITTED") != self._ends("READ_UNCOMMITTED"):  # markers come after the acknowledgement
            if time.monotonic() > deadline:
                raise DemoError(f"a committed transaction was not visible within {DEADLINE_SECONDS:g} seconds")
            time.sleep(0.02)

    def written(self) -> int:
        """The number of rows in the output."""
        (answer,) = self._admin.list_offsets({TopicPartition(OUTPUT, 0): OffsetSpec.latest()}).values()
        return int(answer.result(DEADLINE_SECONDS).offset)

    def _producer(self, **more: Any) -> Any:
        settings = {"enable.idempotence": True, "linger.ms": 20, "delivery.report.only.error": True, "log_level": 0}
        return Producer({"bootstrap.servers": self.servers, **settings, **more})

    def _produce(self, producer: Any, events: Iterable[ShopEvent], tell: Tell) -> None:
        failures: list[Any] = []
        for done, event in enumerate(events, start=1):
            at = event.lane
            record = (at.topic, event.value, event.key, at.partition, lambda error, _: failures.append(error))
            send(producer, *record, timestamp=event.timestamp)
            if done % 2_000 == 0:
                producer.poll(0)
                tell(done)
        unsent = producer.flush(DEADLINE_SECONDS)
        if failures or unsent:
            raise DemoError(f"{len(failures) + unsent} events were not written: {[*failures, 'no answer'][0]}")

    def _ends(self, isolation: str) -> list[int]:
        wanted = {TopicPartition(lane.topic, lane.partition): OffsetSpec.latest() for lane in LANES}
        answers = self._admin.list_offsets(wanted, isolation_level=IsolationLevel[isolation])
        return [answer.result(DEADLINE_SECONDS).offset for answer in answers.values()]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a reader got, in order: the numbers and timestamps of events; and where it stopped."""

    events: Numbers
    times: Numbers
    seconds: float
    ends: dict[tuple[str, int], int]


NOTHING = Reading(np.empty(0, np.int64), np.empty(0, np.int64), 0.0, {})


def read(servers: str, topics: Sequence[str], tell: Tell, earlier: Reading = NOTHING) -> Reading:
    """Read the topics with one consumer, from where the earlier reading stopped to their present ends."""
    began = time.monotonic()
    settings = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"orderedkafka-demo-{uuid.uuid4().hex}", **settings})
    try:
        ends = {
            (topic, partition): int(
                consumer.get_watermark_offsets(TopicPartition(topic, partition), DEADLINE_SECONDS)[1]
            )
            for topic in topics
            for partition in sorted(consumer.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions)
        }
        left = {place: end for place, end in ends.items() if earlier.ends.get(place, 0) < end}
        consumer.assign([TopicPartition(*place, earlier.ends.get(place, 0)) for place in left])
        rows = [(json.loads(each.value())["event"], each.timestamp()[1]) for each in until(consumer, left, tell)]
    finally:
        consumer.close()
    events, times = np.concatenate(
        [np.array([earlier.events, earlier.times]).T, np.array(rows, np.int64).reshape(-1, 2)]
    ).T
    return Reading(events, times, earlier.seconds + time.monotonic() - began, ends)


def until(consumer: Any, left: dict[tuple[str, int], int], tell: Tell) -> Iterator[Any]:
    """Records as they come, until each partition is at its end, even if a transaction marker is there."""
    to_read, done, last = dict(left), 0, time.monotonic()
    while to_read:
        messages = consumer.consume(5_000, timeout=0.2)
        last = time.monotonic() if messages else last
        if time.monotonic() - last > DEADLINE_SECONDS:
            raise DemoError(f"the broker sent nothing for {DEADLINE_SECONDS:g} seconds; still to be read: {to_read}")
        for message in messages:
            place, error = (message.topic(), message.partition()), message.error()
            if error and error.code() != KafkaError._PARTITION_EOF:
                raise DemoError(f"{place[0]}[{place[1]}] cannot be read: {error}")
            if not error and message.offset() < left[place]:
                done += 1
                yield message
            if message.offset() >= left[place] - (0 if error else 1):
                to_read.pop(place, None)
        tell(done)
