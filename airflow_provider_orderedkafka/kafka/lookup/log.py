"""The log of some partitions: consumed, looked up as the planner asks for it, and seen to its very end.

`PartitionEvents` handles the events of a consumer: errors, ends of partitions, and silence. An event of a partition is
the end of its log, or an offset that the broker does not have; everything else is a refusal, a damaged record, or a
transient error. If nothing at all comes until the deadline, the error says what was waited for and what the client
reported.

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
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from functools import partial
from itertools import starmap
from typing import Any, Final, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from ...core.documents import Isolation
from ...core.notation.spelling import listed
from ...core.order.cuts import Bound, counts
from ...core.order.marks import NOT_KNOWN, Seen, digest
from ...core.order.positions import TopicPartition
from ...core.order.timeline import Answer, BatchSize, Sighting
from ...errors import AccessDeniedError, DataLossError, OrderedKafkaError, UnknownTopicError, UnreachableError
from ..clients.answers import DEADLINE, RECHECK_AFTER, UNKNOWN, refusal
from ..clients.pools import PROTOCOL, PooledConsumer, ReadSettings, pooled_consumer
from .topics import first_at, newest, recheck

_WATERMARK_SECONDS: Final = 10.0
_DAMAGED: Final = {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG}
# A consumer looks up its group's coordinator although it never joins, and does not need permission to.
_OF_NO_CONCERN: Final = {KafkaError.GROUP_AUTHORIZATION_FAILED}


class What(Enum):
    LOG_END = "the log ends here for now"
    NOT_THERE = "the broker does not have this offset"


class PartitionEvent(NamedTuple):
    what: What
    partition: TopicPartition
    offset: int


_EVENTS: Final = {KafkaError._PARTITION_EOF: What.LOG_END, KafkaError._AUTO_OFFSET_RESET: What.NOT_THERE}


class PartitionEvents:
    """`recheck` is called once whenever its consumer was silent for a while, and may raise what it finds out."""

    def __init__(self, pooled: PooledConsumer, deadline: float, recheck: Callable[[], None]) -> None:
        self._pooled = pooled
        self._deadline = deadline
        self._recheck = recheck
        self._rechecked = False
        self._log_ends: dict[TopicPartition, int] = {}
        self._last_progress = time.monotonic()

    def progress(self) -> None:
        self._last_progress = time.monotonic()
        self._rechecked = False

    def event(self, message: Message) -> PartitionEvent | None:
        """None for what can be ignored; raises AccessDeniedError, or DataLossError for a damaged record."""
        error = message.error()
        code = error.code()
        if message.topic() is None or message.partition() < 0:
            self._note(error)
            return None
        partition = TopicPartition(message.topic(), message.partition())
        if code in _EVENTS:
            event = PartitionEvent(_EVENTS[code], partition, message.offset())
            if event.what is What.LOG_END:
                self._log_ends[partition] = event.offset
            return event
        if refused := self._refusal(error, f"to give {partition}"):
            raise refused
        if code in _DAMAGED:
            damaged = f"{partition.at(message.offset())}: the record cannot be read: {error.str()}"
            raise DataLossError(damaged, **partition._asdict(), offset=message.offset())
        self._note(error)
        return None

    def log_start(self, partition: TopicPartition, position: int) -> int:
        """The start of the log of a partition whose broker does not have `position`.

        It is `position` or less if that exists after all, or if the broker cannot tell now. Raises DataLossError if the
        log ends before it.
        """
        try:
            start, end = self._pooled.consumer.get_watermark_offsets(KafkaPartition(*partition), _WATERMARK_SECONDS)
        except KafkaException as error:
            self._note(error.args[0])
            return position
        if position > end:
            self._recheck()
            gone = (
                f"{partition.at(position)} is gone, the log ends at {partition.at(end)}: it was truncated or recreated"
            )
            raise DataLossError(gone, **partition._asdict(), offset=position)
        return int(start)

    def silence(self, positions: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]) -> None:
        """Note that nothing arrived for a moment, while reading from these positions up to these stops.

        Raises AccessDeniedError, what `recheck` raises, or UnreachableError after the deadline.
        """
        for error in self._pooled.troubles:
            if refused := self._refusal(error, "this client"):
                raise refused
        silent = time.monotonic() - self._last_progress
        if silent > min(RECHECK_AFTER, self._deadline) and not self._rechecked:
            self._rechecked = True
            self._recheck()
        if silent > self._deadline:
            raise self._overdue(positions, stops)

    def _overdue(
        self, positions: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]
    ) -> OrderedKafkaError:
        wanted = listed([partition.at(position) for partition, position in positions.items()])
        waited = f"Kafka sent nothing for {self._deadline:g} s while waiting for {wanted}"
        unknown = [error for error in self._pooled.troubles if error.code() in UNKNOWN]
        if unknown:
            return UnknownTopicError(f"{waited}: {unknown[-1].str()}")
        for partition, end in self._log_ends.items():
            if positions.get(partition) == end:
                return UnreachableError(
                    f"{waited}: the log ends at {partition.at(end)}, but should go on to "
                    f"{partition.at(stops[partition])}; its leader may lag, or have lost records"
                )
        reported = [error.str() for error in self._pooled.troubles if error.code() != KafkaError._ALL_BROKERS_DOWN]
        return UnreachableError(f"{waited}: {reported[-1]}" if reported else waited)

    def _refusal(self, error: Any, what: str) -> AccessDeniedError | None:
        return None if error.code() in _OF_NO_CONCERN else refusal(error, self._pooled.config, what)

    def _note(self, error: Any) -> None:
        if error.code() not in _OF_NO_CONCERN:
            self._pooled.troubles.append(error)


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
        self, pooled: PooledConsumer, limits: Mapping[TopicPartition, int], deadline: float, recheck: Callable[[], None]
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.gone: Counter[TopicPartition] = Counter()
        self._pooled = pooled
        self._limits = limits
        self._events = PartitionEvents(pooled, deadline, recheck)

    @property
    def answered(self) -> int:
        """How many bytes brokers have answered with, compressed as they came; 0 where the client does not say it."""
        return self._pooled.answers.bytes

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
            return
        partition, position = event.partition, self.positions[event.partition]
        start = self._events.log_start(partition, position)
        self.gone[partition] += max(start - position, 0)
        self.let_go([partition])
        self.begin({partition: max(start, position)})


@contextmanager
def reading(
    config: Mapping[str, str],
    starts: Mapping[TopicPartition, int],
    limits: Mapping[TopicPartition, int],
    settings: ReadSettings,
) -> Iterator[PartitionReader]:
    """A reader of these partitions, from `starts` on; whoever has it lets go of those that reached their limits."""
    with pooled_consumer(settings) as pooled:
        reader = PartitionReader(pooled, limits, settings.deadline, partial(recheck, config, list(starts), {}))
        reader.begin(starts)
        yield reader


def reading_all(
    config: Mapping[str, str],
    starts: Mapping[TopicPartition, int],
    limits: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> AbstractContextManager[PartitionReader]:
    """The same for much: sources and outputs that are read back."""
    return reading(config, starts, limits, ReadSettings({**_MUCH, **config}, isolation=isolation))


_MUCH: Final = {"queued.max.messages.kbytes": "16384", "fetch.max.bytes": "16000000"}

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

    A log that is being written is always longer than the part that was read. So fetches are tried further and further
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
            further = min(max(1, self._ahead.get(partition, 0)) * _WIDER, _FARTHEST)
            self._ahead[partition] = 0 if partition in refused else further
        return not self._before(positions)

    def _before(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The partitions that were not read up to their fence, or have no fence yet."""
        return {partition: at for partition, at in positions.items() if at < self._ends.get(partition, at + 1)}


NO_TIMESTAMP: Final = -1

# A look needs one record of each partition, so the broker should send little.
_LITTLE: Final = {"fetch.message.max.bytes": "16384", "queued.min.messages": "1"}

# A broker sends the whole batch of a record, and beyond this limit only that of one partition at a time.
_WHOLE: Final = {"fetch.message.max.bytes": "131072", "queued.min.messages": "1"}

_ONE_BATCH: Final = {"fetch.message.max.bytes": "1", "queued.min.messages": "1", **PROTOCOL}

_FRAME: Final = 10
"""About the bytes of a record in a broker's log, besides key, value and headers: lengths, differences to the batch."""


class KafkaLog:
    """Raises UnreachableError after `deadline` seconds without progress, AccessDeniedError or UnknownTopicError."""

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
        records, size = 0, 0
        with self._reading({partition: start}, {partition: end}, _ONE_BATCH) as reader:
            while reader.positions[partition] < end and not records:
                messages = reader.take()
                records += len(messages)
                size += sum(len(each.key() or b"") + len(each.value() or b"") + _FRAME for each in messages)
            came = reader.answered
        return BatchSize(max(records, came * records // size), max(came, size), came) if records and came else None

    def last_records(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Seen]:
        """The last record of each span of offsets, which must lie before the log's end; none where it has none."""
        found: dict[TopicPartition, Seen] = {}
        limits = {partition: end for partition, (start, end) in spans.items() if start < end}
        if limits:
            with self._reading({p: spans[p][0] for p in limits}, limits, _WHOLE) as reader:
                while reader.positions:
                    for message in reader.take():
                        partition = TopicPartition(message.topic(), message.partition())
                        if message.offset() < limits[partition]:
                            found[partition] = _seen(message)
                    reader.let_go([p for p, position in reader.positions.items() if position >= limits[p]])
        return found

    def _reading(
        self, starts: Mapping[TopicPartition, int], limits: Mapping[TopicPartition, int], tuning: Mapping[str, str]
    ) -> AbstractContextManager[PartitionReader]:
        settings = ReadSettings({**self._config, **tuning}, isolation=self._isolation, deadline=self._deadline)
        return reading(self._config, starts, limits, settings)


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
        passed, least = self.open[partition], self._bounds[partition].time
        if least is None or (counts(timestamp, self._latest) and timestamp >= least):
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

    def _close(self, partition: TopicPartition, sighting: Sighting) -> None:
        del self.open[partition]
        self.seen[partition] = sighting


def _seen(message: Message) -> Seen:
    epoch = message.leader_epoch()
    epoch = NOT_KNOWN if epoch is None else epoch
    content = digest(epoch, _timestamp(*message.timestamp()), message.key(), message.value())
    return Seen(message.offset(), epoch, content)


def _timestamp(kind: int, timestamp: int) -> int:
    return NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
