"""The shop of the demo: its topics, and its events written to them."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from airflow_provider_orderedkafka.tools.demo import DemoError
from airflow_provider_orderedkafka.tools.demo.story import LANES, Chapter, ShopEvent
from airflow_provider_orderedkafka.tools.embedded.process import comes_true
from airflow_provider_orderedkafka.tools.embedded.sample import send

OUTPUT = "orders-ordered"
_DEADLINE_SECONDS = 60.0
_TELL_EVERY = 2_000

Tell = Callable[[int], None]
"""Called with the number of records written."""


class Shop:
    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def open(self) -> None:
        """Create the topics; the output gets one partition, so that its order can be compared."""
        wanted = Counter(lane.topic for lane in LANES) + Counter({OUTPUT: 1})
        made = self._admin.create_topics([NewTopic(name, partitions) for name, partitions in wanted.items()])
        for answer in made.values():
            answer.result(_DEADLINE_SECONDS)

    def write(self, chapter: Chapter, tell: Tell) -> None:
        """Write the events of a chapter; return when all are acknowledged and can be read."""
        held = chapter.in_transaction
        _produce(self._producer(), chapter.events(~held), tell)
        producer = self._producer(**{"transactional.id": "orderedkafka-demo"})
        producer.init_transactions(_DEADLINE_SECONDS)
        producer.begin_transaction()
        _produce(producer, chapter.events(held), lambda done: tell(len(chapter) - int(held.sum()) + done))
        producer.commit_transaction(_DEADLINE_SECONDS)
        self._wait_for_markers()

    def written(self) -> int:
        """How many rows the output has by now."""
        (answer,) = self._admin.list_offsets({TopicPartition(OUTPUT, 0): OffsetSpec.latest()}).values()
        return int(answer.result(_DEADLINE_SECONDS).offset)

    def _producer(self, **more: Any) -> Any:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "delivery.report.only.error": True,
                "log_level": 0,
            }
            | more
        )

    def _wait_for_markers(self) -> None:
        """Wait for the transaction's markers: a commit is acknowledged before they are in the log."""
        if not comes_true(lambda: self._ends("READ_COMMITTED") == self._ends("READ_UNCOMMITTED"), _DEADLINE_SECONDS):
            raise DemoError(f"a committed transaction was not visible within {_DEADLINE_SECONDS:g} seconds")

    def _ends(self, isolation: str) -> list[int]:
        wanted = {TopicPartition(lane.topic, lane.partition): OffsetSpec.latest() for lane in LANES}
        answers = self._admin.list_offsets(wanted, isolation_level=IsolationLevel[isolation])
        return [answer.result(_DEADLINE_SECONDS).offset for answer in answers.values()]


def _produce(producer: Any, events: Iterable[ShopEvent], tell: Tell) -> None:
    failures: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        failures.append(error)

    done = 0
    for done, event in enumerate(events, start=1):
        at = event.lane
        send(producer, at.topic, event.value, event.key, at.partition, delivered, timestamp=event.timestamp)
        if done % _TELL_EVERY == 0:
            producer.poll(0)
            tell(done)
    unsent = producer.flush(_DEADLINE_SECONDS)
    if failures or unsent:
        why = failures[0] if failures else f"no answer within {_DEADLINE_SECONDS:g} seconds"
        raise DemoError(f"{len(failures) + unsent} events could not be written: {why}")
    tell(done)
