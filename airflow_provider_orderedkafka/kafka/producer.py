"""Producers that are kept: one for each worker process and configuration, over tasks and batches.

    POOL.lend(config) -> context of Lent       a producer, shared with whoever asks for the same configuration
    lent.send(chunk, deliveries)               hand a chunk of records over; a full queue waits
    lent.settle(deliveries)                    return when everything is acknowledged; raise DeliveryError otherwise
    producer_config(config) -> dict            the user's configuration over our defaults, checked

Worker processes leave without `atexit`, so whoever borrows a producer settles what was sent before giving it back. A
producer with a failure is never lent again: what waits in it is thrown away, so that nothing of a failed task is
written after its end. librdkafka itself never gives a record up for being old (a gap would follow, and the rerun
would write the record behind its successors): the deadline is held here, over everything that is under way.
"""

import operator
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from airflow_provider_orderedkafka.errors import DeliveryError, SettingError
from airflow_provider_orderedkafka.kafka.config import client_config, understood

IDLE_SECONDS: Final = 60.0
DEADLINE_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05
_ROOM: Final = 0.9
_TIMEOUTS: Final = ("message.timeout.ms", "delivery.timeout.ms")

_PROMISED: Final = {
    "enable.idempotence": ("true",),
    "acks": ("all", "-1"),
    "request.required.acks": ("all", "-1"),
}
# What suits writing batches; a user's own configuration wins over it.
_DEFAULTS: Final = {
    "partitioner": "murmur2_random",
    "linger.ms": "20",
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": "65536",
    "message.max.bytes": "1000000000",
    "enable.gapless.guarantee": "true",
}
_OURS: Final = {
    "enable.idempotence": "true",
    "acks": "all",
    "delivery.report.only.error": True,
    "message.timeout.ms": "0",
}


def producer_config(config: Mapping[str, str]) -> dict[str, str]:
    """What is the user's of a producer; a setting that breaks what the sink promises is a SettingError."""
    for name, allowed in _PROMISED.items():
        if config.get(name, allowed[0]).lower() not in allowed:
            raise SettingError(
                f"'kafka.{name}' is {config[name]!r}, but this sink promises at least once and in order, "
                f"which needs {allowed[0]!r}; leave it out"
            )
    if "transactional.id" in config:
        raise SettingError(
            "'kafka.transactional.id' is not for this sink, which writes without transactions; leave it out"
        )
    return {**_DEFAULTS, **{name: value for name, value in config.items() if name not in (*_TIMEOUTS, *_PROMISED)}}


def deadline_seconds(config: Mapping[str, str]) -> float:
    """How long nothing may be acknowledged before a write fails: `delivery.timeout.ms` where it is given."""
    given = [config[name] for name in _TIMEOUTS if name in config]
    if not given:
        return DEADLINE_SECONDS
    if not str(given[0]).isdecimal() or int(given[0]) < 1:
        raise SettingError(
            f"'kafka.delivery.timeout.ms' must be a number of milliseconds from 1 on, found {given[0]!r}"
        )
    return int(given[0]) / 1_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records to send, as columns of one length.

    `describe(key, value)` tells of a record that failed which row it was; it outlives the columns.
    """

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    partitions: Sequence[int]
    timestamps: Sequence[int]
    headers: Sequence[Any]
    describe: Callable[[bytes | None, bytes | None], str]


@dataclass(slots=True)
class Deliveries:
    """What one task sent and what of it failed."""

    failures: int = 0
    first: str = ""

    def callback(self, describe: Callable[[bytes | None, bytes | None], str]) -> Callable[[Any, Any], None]:
        """What the producer calls for each record that failed."""

        def failed(error: Any, message: Any) -> None:
            if not self.failures:
                self.first = f"{error.str()} ({error.name()}), for {describe(message.key(), message.value())}"
            self.failures += 1

        return failed

    def check(self) -> None:
        """Raise when a record failed."""
        if self.failures:
            raise DeliveryError(f"Kafka did not take {self.failures:,} records; the first: {self.first}")


@dataclass(eq=False, slots=True)
class Lent:
    """A producer and who uses it. `lock` keeps one user's sending out of another's settling."""

    producer: Any
    deadline: float
    users: int = 0
    broken: bool = False
    idle_since: float = 0.0
    complaint: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, chunk: Chunk, deliveries: Deliveries) -> None:
        """Hand a chunk over, in order; waits while the queue is full."""
        sent, failed = 0, deliveries.callback(chunk.describe)
        while sent < len(chunk.values):
            with self.lock:
                sent = self._fill(chunk, sent, failed)
            if sent < len(chunk.values):
                self._make_room(deliveries)
        self.producer.poll(0)
        deliveries.check()

    def _fill(self, chunk: Chunk, sent: int, failed: Callable[[Any, Any], None]) -> int:
        """Hand over from row `sent` on; return where the queue was full, or the end. No bytecode runs for a row."""
        from confluent_kafka import KafkaException

        columns = (chunk.topics, chunk.values, chunk.keys, chunk.partitions)
        more = (chunk.timestamps, chunk.headers)
        topics, *others = (iter(column[sent:]) for column in columns)
        calls = map(
            self.producer.produce, topics, *others, repeat(failed), repeat(None), *(column[sent:] for column in more)
        )
        try:
            deque(calls, maxlen=0)
        except BufferError:
            return len(chunk.values) - operator.length_hint(topics) - 1
        except KafkaException as error:
            row = len(chunk.values) - operator.length_hint(topics) - 1
            reason = f"{error.args[0].str()} ({error.args[0].name()})"
            raise DeliveryError(
                f"The producer refused a record: {reason}, for {chunk.describe(chunk.keys[row], chunk.values[row])}"
            ) from error
        return len(chunk.values)

    def _make_room(self, deliveries: Deliveries) -> None:
        target = int(len(self.producer) * _ROOM)
        self._wait(lambda: self.producer.poll(_POLL_SECONDS), target, deliveries)

    def settle(self, deliveries: Deliveries) -> None:
        """Return when everything sent is acknowledged; raise DeliveryError when it cannot be, or is not in time."""
        with self.lock:
            self._wait(lambda: self.producer.flush(_POLL_SECONDS), 0, deliveries)

    def _wait(self, look: Callable[[], object], target: int, deliveries: Deliveries) -> None:
        fewest, last_progress = len(self.producer), time.monotonic()
        while (left := len(self.producer)) > target:
            look()
            deliveries.check()
            if left < fewest:
                fewest, last_progress = left, time.monotonic()
            elif time.monotonic() - last_progress > self.deadline:
                raise DeliveryError(
                    f"Kafka acknowledged nothing for {self.deadline:g} s while {left:,} records waited"
                    f"{self._last_complaint()}; are its brokers up and reachable? ('kafka.delivery.timeout.ms')"
                )
        deliveries.check()

    def _last_complaint(self) -> str:
        return f" (last heard: {self.complaint[-1]})" if self.complaint else ""

    def discard(self) -> None:
        """Throw away what waits, and close."""
        self.producer.purge()
        self.producer.flush(_POLL_SECONDS)
        self.producer.close()


def make_producer(config: Mapping[str, str]) -> Lent:
    """A producer of its own."""
    from confluent_kafka import KafkaException, Producer

    complaint: list[str] = []

    def heard(error: Any) -> None:
        complaint[:] = [error.str()]

    settings = client_config(producer_config(config), "producer", {**_OURS, "error_cb": heard})
    try:
        producer = Producer(settings)
    except (KafkaException, ValueError, TypeError) as error:
        raise understood(error, config) from error
    return Lent(producer, deadline_seconds(config), complaint=complaint)


class ProducerPool:
    """Lends producers; keeps them for those who come after, and closes those that nobody asked for in a while."""

    def __init__(
        self, make: Callable[[Mapping[str, str]], Lent] = make_producer, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._make = make
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._lent: dict[frozenset[tuple[str, str]], Lent] = {}
        self._inherited: list[object] = []
        self._timer: threading.Timer | None = None

    @contextmanager
    def lend(self, config: Mapping[str, str]) -> Iterator[Lent]:
        """The producer of this configuration. An error in the block means that it is not lent again."""
        lent = self._take(config)
        try:
            yield lent
        except BaseException:
            lent.broken = True
            raise
        finally:
            self._give_back(lent)

    def __len__(self) -> int:
        return len(self._lent)

    def close_idle(self) -> None:
        """Close what nobody used for long enough."""
        now = time.monotonic()
        with self._lock:
            idle = [
                key
                for key, lent in self._lent.items()
                if not lent.users and now - lent.idle_since >= self._idle_seconds
            ]
            closing = [self._lent.pop(key) for key in idle]
            self._timer = None
            if self._lent:
                self._close_later()
        for lent in closing:
            lent.producer.close()

    def _take(self, config: Mapping[str, str]) -> Lent:
        key = frozenset(config.items())
        with self._lock:
            self._forget_inherited()
            lent = self._lent.get(key)
            if lent is None or lent.broken:
                lent = self._lent[key] = self._make(config)
            lent.users += 1
        return lent

    def _forget_inherited(self) -> None:
        """After a fork the parent's producers have no threads here: they are neither used nor destroyed."""
        if self._pid != os.getpid():
            self._inherited.append(self._lent)
            self._pid, self._lent, self._timer = os.getpid(), {}, None

    def _give_back(self, lent: Lent) -> None:
        with self._lock:
            lent.users -= 1
            lent.idle_since = time.monotonic()
            if lent.broken:
                self._lent = {key: kept for key, kept in self._lent.items() if kept is not lent}
            last = not lent.users
            if self._lent:
                self._close_later()
        if last and lent.broken:
            lent.discard()

    def _close_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._idle_seconds, self.close_idle)
            self._timer.daemon = True
            self._timer.start()


POOL: Final = ProducerPool()
