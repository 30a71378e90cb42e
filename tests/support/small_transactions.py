"""As much of Kafka's transactions as a load uses, in this process, under the package's own turns.

Rows of a transaction lie in no output before it is committed. An id has an epoch: whoever initialises it ends what an
earlier one has open, and whose epoch is over is fenced. A group's commits are kept, as far as a turn looks for them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from confluent_kafka import KafkaError, KafkaException

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.lookup.topics import GroupOffset
from airflow_provider_orderedkafka.kafka.write import turns
from airflow_provider_orderedkafka.kafka.write.producer import PooledProducer
from airflow_provider_orderedkafka.spark.lanes import frames, kafka_lanes, kafka_output
from support.attempts import World
from support.small_kafka import Row, SmallProducer

MOST_BYTES = 20
"""So few that a write is several transactions."""


@dataclass
class Coordinator:
    """Who may write, what each one has open, and what groups have committed."""

    world: World
    epochs: Counter[str] = field(default_factory=Counter)
    open: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    commits: dict[str, dict[TopicPartition, GroupOffset]] = field(default_factory=lambda: defaultdict(dict))

    def make(self, _config: Any, name: str) -> PooledProducer:
        return PooledProducer(TransactionalProducer(self.world.outputs, coordinator=self, name=name), 1.0)

    def read_commits(self, _config: Any, group: str, _places: Any) -> dict[TopicPartition, GroupOffset]:
        self.world.outputs.touch()
        found = dict(self.commits[group])
        self.world.outputs.touch()
        return found


@dataclass
class TransactionalProducer(SmallProducer):
    coordinator: Coordinator = field(kw_only=True)
    name: str = field(kw_only=True)
    epoch: int = -1
    offsets: dict[str, dict[TopicPartition, GroupOffset]] = field(default_factory=dict)

    def init_transactions(self, _seconds: float) -> None:
        self.outputs.touch()
        self.coordinator.epochs[self.name] += 1
        self.coordinator.open[self.name].clear()
        self.epoch = self.coordinator.epochs[self.name]
        self.outputs.touch()

    def begin_transaction(self) -> None:
        pass

    def send_offsets_to_transaction(self, places: Any, group: str, _seconds: float) -> None:
        self._check()
        found = {TopicPartition(each.topic, each.partition): GroupOffset(each.offset, each.metadata) for each in places}
        self.offsets[group] = found

    def flush(self, _seconds: float) -> int:
        if self.waiting:
            self._check()
            self.coordinator.open[self.name] += self.waiting
            self.waiting.clear()
        return 0

    def commit_transaction(self, seconds: float) -> None:
        self.flush(seconds)
        self._check()
        for row in self.coordinator.open[self.name]:
            self.outputs.land(row)
        self.coordinator.open[self.name].clear()
        for group, found in self.offsets.items():
            self.coordinator.commits[group] |= found
        self.outputs.touch()

    def abort_transaction(self, _seconds: float) -> None:
        """What is left open is ended by the next one that has the id: so would this be, of a process that is gone."""

    def purge(self, **_: bool) -> None:
        self.waiting.clear()

    def _check(self) -> None:
        self.outputs.touch()
        if self.coordinator.epochs[self.name] != self.epoch:
            raise KafkaException(KafkaError(KafkaError._FENCED))


class OneAfterTheOther:
    """A pool of threads without threads, so that what happens is the same each time."""

    def __init__(self, _workers: int) -> None:
        pass

    def __enter__(self) -> "OneAfterTheOther":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    map = staticmethod(map)


@dataclass
class SmallConsumer:
    group: str

    def consumer_group_metadata(self) -> str:
        return self.group

    def close(self) -> None:
        pass


@contextmanager
def in_transactions(world: World) -> Iterator[Coordinator]:
    """Loads of this world are written exactly once."""
    coordinator = Coordinator(world)
    world.guarantee = "exactly_once"
    with ExitStack() as patched:
        for name, with_ in {
            "make_producer": coordinator.make,
            "read_commits": coordinator.read_commits,
            "new_client": lambda _, settings: SmallConsumer(settings["group.id"]),
            "ThreadPoolExecutor": OneAfterTheOther,
            "MOST_BYTES": MOST_BYTES,
        }.items():
            patched.enter_context(patch.object(turns, name, with_))
        for module in (frames, kafka_lanes, kafka_output):
            patched.enter_context(patch.object(module, "only_attempt", lambda: world.task))
        yield coordinator
