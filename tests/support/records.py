"""Records for the tests: written with everything a producer can choose, read by a plain reader that shares no code."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

Isolation = Literal["read_committed", "read_uncommitted"]
Headers = list[tuple[str, bytes | None]]
_DEADLINE_SECONDS = 30.0
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_NOW_TO_LIBRDKAFKA = 0
_OF_ANOTHER_LEADER = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""What a broker says that has just begun, until it knows who leads a partition."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record to write. A timestamp of None is the moment of writing; so would 0 be, and it is refused."""

    value: bytes | None
    timestamp: int | None = None
    partition: int = 0
    key: bytes | None = None
    headers: Headers = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.timestamp == _NOW_TO_LIBRDKAFKA:
            raise ValueError("librdkafka takes timestamp 0 for now")


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def at(*times: int, partition: int = 0) -> list[Record]:
    """A record of each time, valued by it."""
    return [Record(b"%d" % time, time, partition) for time in times]


class Records:
    """Writes and reads records on one cluster, without the half seconds that clients wait by default."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._kept: Producer | None = None
        self._one_at_a_time = threading.Lock()

    def produce(self, topic: str, records: Iterable[Record], **config: object) -> list[int]:
        """Write records, in order for each partition; return each one's offset when all are acknowledged."""
        if config:
            return _write(self._producer(**config), topic, records)
        with self._one_at_a_time:
            producer = self._plain_producer()
            producer.list_topics(topic, _DEADLINE_SECONDS)  # the partitions that it had before may be fewer
            return _write(producer, topic, records)

    def commit(self, topic: str, records: Iterable[Record]) -> list[int]:
        """Write records in one transaction and commit it."""
        with self.transaction() as transaction:
            written = transaction.produce(topic, records)
            transaction.commit()
        return written

    def abort(self, topic: str, records: Iterable[Record]) -> list[int]:
        """Write records in one transaction and abort it: their offsets stay, no committed reader sees them."""
        with self.transaction() as transaction:
            written = transaction.produce(topic, records)
            transaction.abort()
        return written

    @contextmanager
    def transaction(self) -> Iterator["Transaction"]:
        """Open a transaction, with a producer of its own; what is still open at the end is aborted."""
        transaction = Transaction(partial(self._producer, **{"transactional.id": uuid.uuid4().hex}))
        try:
            yield transaction
        finally:
            transaction.abort()

    def behind_a_marker(self, topic: str, base: int) -> None:
        """Write 100 records, 20 that are aborted, 40 late ones, 100 newer ones; the marker of the 20 is of now.

        An index has it for the first record of every time from `base + 100` on, though 40 older ones come after it.
        """
        self.produce(topic, at(*range(base, base + 100)))
        self.abort(topic, at(*range(base, base + 20)))
        self.produce(topic, at(*range(base + 10, base + 50), *range(base + 1_000, base + 1_100)))

    def read(
        self, topic: str, isolation: Isolation = "read_committed", start: dict[int, int] | None = None
    ) -> list[Seen]:
        """Read a topic to its end as it is now, sorted by partition and offset."""
        ends = offsets(self._admin, topic, "latest", isolation)
        starts = offsets(self._admin, topic, "earliest") | (start or {})
        left = {p: end for p, end in ends.items() if starts[p] < end}
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"reader-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,  # else the broker keeps the news that there is no more for half a second
                "log_level": 0,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, p, starts[p]) for p in left])
            seen = list(_until_ends(consumer, left))
        finally:
            consumer.close()
        return sorted(seen, key=lambda record: (record.partition, record.offset))

    def ends(self, topic: str, isolation: Isolation = "read_committed") -> dict[int, int]:
        """Where a topic's partitions end for a reader of this isolation."""
        return offsets(self._admin, topic, "latest", isolation)

    def read_once_decided(self, topic: str) -> list[Seen]:
        """Read what is committed once all that is there by now is committed or aborted."""
        until, ends = time.monotonic() + _DEADLINE_SECONDS, self.ends(topic, "read_uncommitted")
        while any(stable < ends[p] for p, stable in self.ends(topic).items()):
            assert time.monotonic() < until, f"{topic} has a transaction that is open"
            time.sleep(_LOOK_SECONDS)
        return self.read(topic)

    def starts(self, topic: str) -> dict[int, int]:
        """Where a topic's partitions begin."""
        return offsets(self._admin, topic, "earliest")

    def delete_before(self, topic: str, before: dict[int, int]) -> None:
        """Make the records before these offsets go away, as retention does."""
        self._admin.list_topics(topic, timeout=_DEADLINE_SECONDS)  # it may have partitions that this client never saw
        wanted = [TopicPartition(topic, p, offset) for p, offset in before.items()]
        for answer in self._admin.delete_records(wanted).values():
            answer.result(_DEADLINE_SECONDS)

    def _plain_producer(self) -> Producer:
        """The one that is kept: to become idempotent takes each half a second."""
        if self._kept is None:
            self._kept = self._producer()
        return self._kept

    def _producer(self, **config: object) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "message.max.bytes": 16 * 2**20,
            }
            | config
        )


class Transaction:
    """One open transaction: left alone, it holds back the last stable offset."""

    def __init__(self, make_producer: Callable[[], Producer]) -> None:
        self._make_producer = make_producer
        self._producer = make_producer()
        self._open = True
        self._producer.init_transactions(_DEADLINE_SECONDS)
        self._producer.begin_transaction()

    def produce(self, topic: str, records: Iterable[Record]) -> list[int]:
        """Write records into the transaction; they are in the log when this returns."""
        return _write(self._producer, topic, records)

    def commit(self) -> None:
        """Commit what was written; return when the markers are in the log."""
        self._end(self._producer.commit_transaction)

    def abort(self) -> None:
        """Abort what was written, where it is still open; return when the markers are in the log."""
        if self._open:
            self._end(self._producer.abort_transaction)

    def _end(self, how: Callable[[float], None]) -> None:
        self._open = False
        how(_DEADLINE_SECONDS)
        # The coordinator answers before it has written the markers; a successor is let in only afterwards.
        self._make_producer().init_transactions(_DEADLINE_SECONDS)


def offsets(
    admin: AdminClient, topic: str, which: Literal["earliest", "latest"], isolation: Isolation = "read_uncommitted"
) -> dict[int, int]:
    """Ask the leaders of a topic's partitions where they begin or end."""
    metadata = admin.list_topics(topic, timeout=_DEADLINE_SECONDS).topics[topic]
    if metadata.error:
        raise KafkaException(metadata.error)
    spec = OffsetSpec.earliest() if which == "earliest" else OffsetSpec.latest()
    level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    wanted = {TopicPartition(topic, p): spec for p in metadata.partitions}
    until = time.monotonic() + _DEADLINE_SECONDS
    while True:
        # A broker that has just died is waited for as long as this; its successor is known by then.
        answers = admin.list_offsets(wanted, isolation_level=level, request_timeout=_ANSWER_SECONDS)
        try:
            found = {asked.partition: answer.result(_DEADLINE_SECONDS).offset for asked, answer in answers.items()}
            if OFFSET_INVALID not in found.values():  # it stands for an answer that was lost with its connection
                return found
        except KafkaException as error:
            if error.args[0].code() not in _OF_ANOTHER_LEADER or time.monotonic() > until:
                raise
        time.sleep(_LOOK_SECONDS)


def _write(producer: Producer, topic: str, records: Iterable[Record]) -> list[int]:
    written: dict[int, int] = {}
    failures: list[KafkaError] = []

    def delivered(number: int, error: KafkaError | None, message: Any) -> None:
        if error:
            failures.append(error)
        else:
            written[number] = message.offset()

    for number, record in enumerate(records):
        _send(producer, topic, record, partial(delivered, number))
        producer.poll(0)
    unsent = producer.flush(_DEADLINE_SECONDS)
    if failures or unsent:
        raise KafkaException(failures[0] if failures else KafkaError(KafkaError._TIMED_OUT, f"{unsent} not sent"))
    return [written[number] for number in sorted(written)]


def _send(producer: Producer, topic: str, record: Record, delivered: Callable[[KafkaError | None, Any], None]) -> None:
    fields: dict[str, Any] = {
        "value": record.value,
        "key": record.key,
        "partition": record.partition,
        "headers": record.headers,
    }
    if record.timestamp is not None:
        fields["timestamp"] = record.timestamp
    while True:
        try:
            producer.produce(topic, on_delivery=delivered, **fields)
        except BufferError:  # the queue is full
            producer.poll(0.1)
        else:
            return


def _until_ends(consumer: Consumer, ends: dict[int, int]) -> Iterator[Seen]:
    """Read until each partition is at its end: the last offsets may be markers, which nobody sees."""
    unfinished = dict(ends)
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while unfinished:
        if time.monotonic() > deadline:
            raise TimeoutError(f"these partitions did not reach their ends: {unfinished}")
        for message in consumer.consume(1_000, timeout=_LOOK_SECONDS):
            error = message.error()
            if error and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            end = ends[message.partition()]
            if not error and message.offset() < end:
                yield _seen(message)
            if message.offset() >= (end if error else end - 1):
                unfinished.pop(message.partition(), None)


def _seen(message: Any) -> Seen:
    _, timestamp = message.timestamp()
    return Seen(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp,
        message.key(),
        message.value(),
        message.headers() or [],
    )


def violations(seen: Iterable[Seen], by: Callable[[Seen], object]) -> int:
    """How many records have a number that is not above the last one of their kind."""
    last: dict[object, int] = {}
    wrong = 0
    for record in seen:
        number = int(record.value or b"-1")
        wrong += number <= last.get(by(record), -1)
        last[by(record)] = number
    return wrong
