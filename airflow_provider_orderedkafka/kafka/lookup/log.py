"""The log of some partitions: consumed, looked up as the planner asks for it, and seen to its very end.

A `PartitionReader`'s position follows its records and the ends of its log that the client reports, so it also passes
markers and compacted records, which consumers do not see. If retention has deleted a position, reading continues at the
log's start. `KafkaLog` answers the planner.

A leader tells consumers its high watermark, which may lag behind the log while a follower does. But it answers a fetch
from between the two with nothing, and refuses one from past the log's end. So a refusal proves that the log ends there:
that is what a `Fence` finds out.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.cuts import Bound, counts
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Answer, BatchSize, Sighting
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE
from airflow_provider_orderedkafka.kafka.clients.events import PartitionEvents, What
from airflow_provider_orderedkafka.kafka.clients.pools import PooledConsumer, pooled_consumer
from airflow_provider_orderedkafka.kafka.clients.traffic import FRAME, sent
from airflow_provider_orderedkafka.kafka.read_settings import ReadSettings

from .offsets import first_at, newest
from .topics import recheck

_ASK: Final = 2_000
_BLINK: Final = 0.05
_TOPIC, _PARTITION, _OFFSET = Message.topic, Message.partition, Message.offset
_TIME, _ERROR = Message.timestamp, Message.error


class PartitionReader:
    """Reads partitions until they are let go; `positions` has the next offset of each.

    `gone` counts offsets of each that retention deleted before they were read. `recheck` is called when nothing arrived
    for a while, and may raise what it finds out about the partitions.
    """

    def __init__(
        self,
        pooled: PooledConsumer,
        limits: Mapping[TopicPartition, int],
        deadline: float,
        recheck: Callable[[], None],
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.gone: Counter[TopicPartition] = Counter()
        self._pooled = pooled
        self._limits = limits
        self._events = PartitionEvents(pooled, deadline, recheck)

    def begin(self, starts: Mapping[TopicPartition, int]) -> None:
        self.positions |= starts
        if starts:
            self._pooled.consumer.incremental_assign([KafkaPartition(*p, offset) for p, offset in starts.items()])

    def let_go(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these, so that the broker stops sending them."""
        gone = [
            KafkaPartition(*partition) for partition in partitions if self.positions.pop(partition, None) is not None
        ]
        if gone:
            self._pooled.consumer.incremental_unassign(gone)

    def take(self) -> list[Message]:
        """The next records, in order within each partition; none if nothing arrived for a moment.

        Raises UnreachableError if nothing arrives until the deadline, AccessDeniedError, UnknownTopicError, or
        DataLossError if a log was truncated or a record is damaged.
        """
        messages: list[Message] = self._pooled.consumer.consume(_ASK, 0) or self._pooled.consumer.consume(1, _BLINK)
        if any(map(_ERROR, messages)):
            for event in [message for message in messages if message.error() is not None]:
                self._hear(event)
            messages = [message for message in messages if message.error() is None]
        if not messages:
            self._events.silence(self.positions, self._limits)
        places = zip(map(_TOPIC, messages), map(_PARTITION, messages), strict=True)
        for (topic, number), offset in dict(zip(places, map(_OFFSET, messages), strict=True)).items():
            self._move(TopicPartition(topic, number), offset + 1)
        return messages

    def _move(self, partition: TopicPartition, position: int) -> None:
        if partition in self.positions:
            self._events.progress()
            self.positions[partition] = max(position, self.positions[partition])

    def _hear(self, message: Message) -> None:
        event = self._events.event(message)
        if event is None or event.partition not in self.positions:
            return
        if event.what is What.LOG_END:
            self._move(event.partition, event.offset)
        else:
            self._go_on_at_log_start(event.partition)

    def _go_on_at_log_start(self, partition: TopicPartition) -> None:
        position = self.positions[partition]
        start = self._events.log_start(partition, position)
        self.gone[partition] += max(start - position, 0)
        self.let_go([partition])
        self.begin({partition: max(start, position)})


_ANSWER_SECONDS: Final = 0.5
_WIDER: Final = 16
_FARTHEST: Final = _WIDER**8


def ended(config: Mapping[str, str], offsets: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """The partitions whose log is proven to end at or before the offset; nothing is known of the others."""
    # Without a rack the leader itself answers: a follower's log may be shorter.
    settings = ReadSettings({**config, "client.rack": ""}, isolation="read_uncommitted")
    refused: set[TopicPartition] = set()
    unanswered = dict(offsets)
    until = time.monotonic() + _ANSWER_SECONDS
    with pooled_consumer(settings) as pooled:
        pooled.consumer.incremental_assign([KafkaPartition(*partition, at + 1) for partition, at in offsets.items()])
        while unanswered and (message := pooled.consumer.poll(max(until - time.monotonic(), 0.0))) is not None:
            partition = TopicPartition(message.topic(), message.partition())
            asked = unanswered.pop(partition, None)
            error = message.error()
            if asked is not None and error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                refused.add(partition)
    return refused


class Fence:
    """Marks, for each log, an end that it had at some moment after the fence was made.

    A log that is being written is always longer than what was read of it. So fetches are tried further and further
    ahead until one is refused; the fence is passed once the log was read that far.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._ends: dict[TopicPartition, int] = {}
        self._ahead: dict[TopicPartition, int] = {}

    def passed(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Whether everything was read that the logs held at some moment after this fence was made."""
        before = self._before(positions)
        asked = {partition: at + self._ahead.get(partition, 0) for partition, at in before.items()}
        refused = ended(self._config, asked) if asked else set()
        for partition, at in asked.items():
            if partition in refused:
                self._ends[partition] = min(at, self._ends.get(partition, at))
            self._ahead[partition] = 0 if partition in refused else self._further(partition)
        return not self._before(positions)

    def _further(self, partition: TopicPartition) -> int:
        return min(max(1, self._ahead.get(partition, 0)) * _WIDER, _FARTHEST)

    def _before(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The partitions that were not read up to their fence, or have no fence yet."""
        return {partition: at for partition, at in positions.items() if at < self._ends.get(partition, at + 1)}


NO_TIMESTAMP: Final = -1

# A look needs one record of each partition, so the broker should send little.
_LITTLE: Final = {"fetch.message.max.bytes": "16384", "queued.min.messages": "1"}

_ONE_BATCH: Final = {"fetch.message.max.bytes": "1", "queued.min.messages": "1"}


class KafkaLog:
    """A log on a cluster, at one isolation level. `deadline` is how many seconds may pass without progress.

    All methods raise UnreachableError, AccessDeniedError or UnknownTopicError.
    """

    def __init__(
        self, config: Mapping[str, str], isolation: Isolation = "read_committed", deadline: float = DEADLINE
    ) -> None:
        self._config = config
        self._isolation: Isolation = isolation
        self._deadline = deadline

    def first_at(
        self, partitions: Sequence[TopicPartition], times: Sequence[int]
    ) -> Sequence[Mapping[TopicPartition, Answer]]:
        return first_at(self._config, partitions, times, self._isolation, self._deadline)

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        return newest(self._config, partitions, self._deadline)

    def look(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> Mapping[TopicPartition, Sighting]:
        search = BoundSearch(bounds, limits, latest, patience)
        if search.open:
            with self._reading({p: bounds[p].offset for p in search.open}, limits, _LITTLE) as reader:
                while search.open:
                    for message in reader.take():
                        partition = TopicPartition(message.topic(), message.partition())
                        search.judge(partition, message.offset(), _timestamp(*message.timestamp()))
                    search.reached(reader.positions)
                    reader.let_go([partition for partition in reader.positions if partition not in search.open])
        return search.seen

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        if start >= end:
            return
        with self._reading({partition: start}, {partition: end}, {}) as reader:
            while reader.positions[partition] < end:
                messages = reader.take()
                times = starmap(_timestamp, map(_TIME, messages))
                yield from (seen for seen in zip(map(_OFFSET, messages), times, strict=True) if seen[0] < end)

    def batch_at(self, partition: TopicPartition, start: int, end: int) -> BatchSize | None:
        # A batch comes whole, and without what stands before the start: so its records are reckoned by its bytes.
        before, records, size = sent(), 0, 0
        with self._reading({partition: start}, {partition: end}, _ONE_BATCH) as reader:
            while reader.positions[partition] < end and not records:
                messages = reader.take()
                records += len(messages)
                size += sum(len(each.key() or b"") + len(each.value() or b"") + FRAME for each in messages)
        came = (sent() - before).fetched_bytes
        return BatchSize(max(records, came * records // size), max(came, size), came) if records and came else None

    @contextmanager
    def _reading(
        self, starts: Mapping[TopicPartition, int], limits: Mapping[TopicPartition, int], tuning: Mapping[str, str]
    ) -> Iterator[PartitionReader]:
        settings = ReadSettings({**self._config, **tuning}, isolation=self._isolation)
        with pooled_consumer(settings) as pooled:
            reader = PartitionReader(pooled, limits, self._deadline, partial(recheck, self._config, list(limits), {}))
            reader.begin(starts)
            yield reader


class BoundSearch:
    """Finds the first visible record at or after each bound, while records arrive.

    `seen` has the results, `open` how many records have failed the bound in each partition that is not done.
    """

    def __init__(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> None:
        self.open = dict.fromkeys(bounds, 0)
        self.seen: dict[TopicPartition, Sighting] = {}
        self._bounds = bounds
        self._limits = limits
        self._latest = latest
        self._patience = patience
        self.reached({partition: bound.offset for partition, bound in bounds.items()})

    def judge(self, partition: TopicPartition, offset: int, timestamp: int) -> None:
        if partition not in self.open or offset >= self._limits[partition]:
            return
        passed = self.open[partition]
        if self._satisfied(self._bounds[partition], timestamp):
            self._close(partition, Sighting(offset, timestamp, passed))
        elif passed >= self._patience:
            self._close(partition, Sighting(offset, timestamp, passed + 1, gave_up=True))
        else:
            self.open[partition] = passed + 1

    def reached(self, positions: Mapping[TopicPartition, int]) -> None:
        """Close partitions that were read up to their limit."""
        for partition, position in positions.items():
            if partition in self.open and position >= self._limits[partition]:
                self._close(partition, Sighting(None, NO_TIMESTAMP, self.open[partition]))

    def _satisfied(self, bound: Bound, timestamp: int) -> bool:
        return bound.time is None or (counts(timestamp, self._latest) and timestamp >= bound.time)

    def _close(self, partition: TopicPartition, sighting: Sighting) -> None:
        del self.open[partition]
        self.seen[partition] = sighting


def _timestamp(kind: int, timestamp: int) -> int:
    return NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
