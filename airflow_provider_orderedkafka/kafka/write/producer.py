"""Pass records to a producer, in order, and make sure that each one arrives; and keep producers for those who write.

`send` and `settle` raise DeliveryError with the first cause, the row it concerns, and how many records were not
acknowledged. The client itself never gives up a record because of its age: that would leave a gap, and a rerun would
write the record behind its successors. The deadline is kept here, for everything in flight.

There is one producer for each worker process and configuration, across tasks and batches. Worker processes exit without
`atexit`, so a borrower settles what it sent before it returns the producer. After a failure a producer is discarded
with its queue, so that nothing of a failed task is written after its end. One that was not used for
`connections.max.idle.ms`, if that is set, is closed.

While a producer is lent, a `Pulse` notices whether the process stood still, as on a virtual machine that was suspended.
Another attempt may have taken over meanwhile, so what is queued is thrown away, and the task ends with a DeliveryError.
"""

import logging
import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from ...core.notation.spelling import counted
from ...core.order.positions import whole_number
from ...errors import AccessDeniedError, DeliveryError, SettingError
from ..clients.answers import DENIED_WRITES, refusal
from ..clients.config import client_config, new_client
from ..clients.pools import PerProcess, key_in

_log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
_ROOM: Final = 0.9
_REPORTS: Final = 10
_ABORT_SECONDS: Final = 5.0
# A broker that is starting may refuse valid credentials for a moment.
_SURE_AFTER: Final = 5.0
# If a callback left an exception set, Python's next call raises a SystemError caused by it.
_GAVE_UP: Final = (KafkaException, SystemError)

Describe = Callable[[bytes | None, bytes | None], str]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Columns of equal length. `describe(key, value)` says which row a failed record was; it outlives the columns."""

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    partitions: Sequence[int]
    timestamps: Sequence[int]
    headers: Sequence[Any]
    describe: Describe


@dataclass(slots=True)
class Deliveries:
    """The failed records of one task."""

    failures: int = 0
    first: tuple[Describe, Any, Any] | None = None

    def callback(self, describe: Describe) -> Callable[[Any, Any], None]:
        """The producer's callback for a failed record. It must not raise: an exception may be set already."""

        def failed(error: Any, message: Any) -> None:
            if self.first is None:
                self.first = (describe, error, message)
            self.failures += 1

        return failed

    @property
    def purged(self) -> bool:
        """Whether the first failed record was purged, so that the reason is elsewhere."""
        return self.first is not None and self.first[1].code() == KafkaError._PURGE_QUEUE

    def check(self) -> None:
        if self.first is not None:
            describe, error, message = self.first
            if remedy := DENIED_WRITES.get(error.code()):
                where = describe(message.key(), message.value())
                raise AccessDeniedError(f"Kafka refuses to take {where}: {error.str()}; {remedy}")
            raise DeliveryError(
                f"Kafka did not take {counted(self.failures, 'record')}; the first: {error.str()} ({error.name()}), "
                f"for {describe(message.key(), message.value())}",
                topic=message.topic(),
                partition=message.partition() if message.partition() >= 0 else None,
            )


STILL: Final = 10.0
"""The seconds after which a process stood still: fewer than a lease outlives the last heartbeat that was to come."""

_PULSE_SECONDS: Final = 0.25
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # which goes on while the machine sleeps


def idle_clock() -> float:
    """Seconds in which this process did not compute: what keeps Python's other threads out is no standing still."""
    return time.clock_gettime(_CLOCK) - time.process_time()


class Pulse:
    """Looks at the clock all the time, in a thread of its own; `when_stopped` is called once a look came too late.

    Each look is before a pause or behind it, whoever's it is: none is missed, and `check` need not wait for the thread.
    """

    def __init__(self, when_stopped: Callable[[], None]) -> None:
        self.stood = 0.0
        self._when_stopped = when_stopped
        self._over = threading.Event()
        self._looked = idle_clock()
        threading.Thread(target=self._run, name="orderedkafka-pulse", daemon=True).start()

    def check(self) -> None:
        self._look()
        if self.stood:
            raise DeliveryError(
                f"this process stood still for {self.stood:.0f} s, and another attempt may be writing now: records "
                f"that were not sent within {STILL:g} s are dropped, and the batch is run again. Keep the machine "
                "running during a load"
            )

    def end(self) -> None:
        self._over.set()

    def _look(self) -> None:
        now = idle_clock()
        before, self._looked = self._looked, now
        if now - before > STILL:
            self.stood = now - before

    def _run(self) -> None:
        while not self._over.wait(_PULSE_SECONDS):
            self._look()
            if self.stood:
                self._when_stopped()
                return


@dataclass(eq=False, slots=True)
class PooledProducer:
    """A producer and how many use it. `lock` keeps one user's `send` out of another's `settle`.

    While it is `lent`, it has a pulse; `filling` keeps that from throwing away the first half of what is enqueued.
    """

    producer: Any
    deadline: float
    users: int = 0
    broken: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    troubles: deque[Any] = field(default_factory=lambda: deque(maxlen=1))
    lock: threading.Lock = field(default_factory=threading.Lock)
    filling: threading.Lock = field(default_factory=threading.Lock)
    pulse: Pulse | None = None
    idle: threading.Timer | None = None

    def send(self, chunk: Chunk, deliveries: Deliveries) -> None:
        """Enqueue a chunk, in order; waits while the queue is full."""
        sent, failed = 0, deliveries.callback(chunk.describe)
        with self._failing_well(deliveries):
            while sent < len(chunk.values):
                with self.lock, self.filling:
                    self.check_pulse()
                    sent = self._fill(chunk, sent, failed)
                if sent < len(chunk.values):
                    few = int(len(self.producer) * _ROOM)
                    self._wait(lambda: self.producer.poll(_POLL_SECONDS), few, deliveries)
            self.producer.poll(0)
            deliveries.check()

    def settle(self, deliveries: Deliveries) -> None:
        with self._failing_well(deliveries), self.lock:
            self._wait(lambda: self.producer.flush(_POLL_SECONDS), 0, deliveries)
            self.check_pulse()

    def check_pulse(self) -> None:
        """Raise DeliveryError if the process stood still since this was lent."""
        if self.pulse is not None:
            self.pulse.check()

    def begin(self) -> None:
        self.pulse = Pulse(self._stop)

    def end(self) -> None:
        if self.pulse is not None:
            self.pulse.end()
            self.pulse = None

    def _stop(self) -> None:
        """Drop what is queued, and let nobody use it any more."""
        self.broken = True
        with self.filling, suppress(*_GAVE_UP):
            self.producer.purge(in_queue=True, in_flight=False)

    def discard(self) -> None:
        """Close the producer; an error before that must not be replaced by one from here."""
        try:
            with suppress(*_GAVE_UP):
                self.producer.purge()
                self.producer.flush(_POLL_SECONDS)
            self._end_transaction()
            self.producer.close()
        except Exception as error:  # noqa: BLE001 - logged
            _log.warning("closing a producer: %s", error)

    def _end_transaction(self) -> None:
        """Raise if Kafka does not end what is open: `close` would wait for that as long as it takes."""
        try:
            self.producer.abort_transaction(_ABORT_SECONDS)
        except KafkaException as error:
            if error.args[0].retriable():
                raise

    def _fill(self, chunk: Chunk, sent: int, failed: Callable[[Any, Any], None]) -> int:
        """Enqueue from row `sent` on; return where the queue was full, or the end. No bytecode runs for a row."""
        topics = iter(chunk.topics[sent:])
        columns = [column[sent:] for column in (chunk.values, chunk.keys, chunk.partitions)]
        more = [column[sent:] for column in (chunk.timestamps, chunk.headers)]
        calls = map(self.producer.produce, topics, *columns, repeat(failed), repeat(None), *more)
        try:
            deque(calls, maxlen=0)
        except BufferError:
            return len(chunk.values) - operator.length_hint(topics) - 1
        except KafkaException as error:
            row = len(chunk.values) - operator.length_hint(topics) - 1
            where = chunk.describe(chunk.keys[row], chunk.values[row])
            raise DeliveryError(
                f"Kafka's client refused a record: {error.args[0].str()}, for {where}", topic=chunk.topics[row]
            ) from error
        return len(chunk.values)

    def _wait(self, look: Callable[[], object], target: int, deliveries: Deliveries) -> None:
        """Poll until at most `target` records are unacknowledged; a deadline without progress is an error."""
        fewest, last_progress = len(self.producer), time.monotonic()
        self.troubles.clear()
        while fewest > target:
            look()
            self.check_pulse()
            deliveries.check()
            left, silent = len(self.producer), time.monotonic() - last_progress
            if left < fewest:
                fewest, last_progress = left, time.monotonic()
                self.troubles.clear()
            elif silent > min(_SURE_AFTER, self.deadline) and (refused := self.refusal()):
                raise refused
            elif silent > self.deadline:
                heard = f" (last error: {self.troubles[-1].str()})" if self.troubles else ""
                raise DeliveryError(
                    f"Kafka acknowledged nothing for {self.deadline:g} s while {left:,} records waited{heard}; are its "
                    "brokers up and reachable? ('kafka.delivery.timeout.ms')"
                )
        deliveries.check()

    def refusal(self) -> AccessDeniedError | None:
        """The error for a refusal that the client reported since it last made progress."""
        found = (refusal(error, self.config, "to take records") for error in self.troubles)
        return next(filter(None, found), None)

    @contextmanager
    def _failing_well(self, deliveries: Deliveries) -> Iterator[None]:
        """On a failure, drop and count what is queued behind it; add the client's reason if it gave up."""
        try:
            yield
        except (AccessDeniedError, DeliveryError, *_GAVE_UP) as error:
            stalled, waiting = not isinstance(error, _GAVE_UP) and deliveries.first is None, len(self.producer)
            self._throw_away()
            self.check_pulse()  # what was dropped by it says less
            if stalled:
                raise
            if not isinstance(error, _GAVE_UP) or not deliveries.purged:
                deliveries.check()
            reason = error.__cause__ if isinstance(error, SystemError) else error
            if isinstance(reason, KafkaException) and (remedy := DENIED_WRITES.get(reason.args[0].code())):
                raise AccessDeniedError(f"Kafka refuses to take records: {reason.args[0].str()}; {remedy}") from error
            raise DeliveryError(
                f"Kafka's client gave up: {reason}; {waiting:,} records were not acknowledged"
            ) from error

    def _throw_away(self) -> None:
        """Drop queued records; serve their callbacks, and those of records in flight."""
        with suppress(*_GAVE_UP):
            self.producer.purge(in_queue=True, in_flight=False)
        for _ in range(_REPORTS):
            with suppress(*_GAVE_UP):
                self.producer.flush(_POLL_SECONDS)


DEADLINE_SECONDS: Final = 120.0
_TIMEOUTS: Final = ("message.timeout.ms", "delivery.timeout.ms")

_PROMISED: Final = {
    "enable.idempotence": ("true",),
    "acks": ("all", "-1"),
    "request.required.acks": ("all", "-1"),
    "enable.gapless.guarantee": ("true",),
}
# Defaults for writing batches; the user's configuration wins.
_DEFAULTS: Final = {
    "partitioner": "murmur2_random",
    "linger.ms": "20",
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": "65536",
    "message.max.bytes": "1000000000",
}
_OURS: Final = {
    "enable.idempotence": "true",
    "acks": "all",
    "enable.gapless.guarantee": "true",
    "delivery.report.only.error": True,
    "message.timeout.ms": "0",
}


def producer_config(config: Mapping[str, str]) -> dict[str, str]:
    """The user's configuration over the defaults; SettingError for a setting that breaks what the sink promises."""
    for name, allowed in _PROMISED.items():
        if config.get(name, allowed[0]).lower() not in allowed:
            raise SettingError(
                f"'kafka.{name}' is {config[name]!r}, but this sink promises at least once and in order, "
                f"which needs {allowed[0]!r}; leave it out"
            )
    if "transactional.id" in config:
        raise SettingError(
            "'kafka.transactional.id' begins the ids of transactions, and without guarantee='exactly_once' there are "
            "none: set that, too, or leave it out"
        )
    return {**_DEFAULTS, **{name: value for name, value in config.items() if name not in (*_TIMEOUTS, *_PROMISED)}}


def deadline_seconds(config: Mapping[str, str]) -> float:
    """The seconds without any acknowledgement after which a write fails: `delivery.timeout.ms`, if set."""
    given = [config[name] for name in _TIMEOUTS if name in config]
    if not given:
        return DEADLINE_SECONDS
    milliseconds = whole_number(str(given[0]))
    if milliseconds is None:
        raise SettingError(
            f"'kafka.delivery.timeout.ms' must be a number of milliseconds from 1 on, found {given[0]!r}"
        )
    return milliseconds / 1_000


def idle_seconds(config: Mapping[str, str]) -> float | None:
    """The seconds after which an unused producer is closed, as librdkafka closes connections; None: never."""
    milliseconds = whole_number(str(config.get("connections.max.idle.ms", "0")))  # librdkafka refuses what is none
    return milliseconds / 1_000 if milliseconds else None


def make_producer(config: Mapping[str, str], transactional_id: str | None = None) -> PooledProducer:
    """Make a producer; `SettingError` if librdkafka refuses the configuration."""
    troubles: deque[Any] = deque(maxlen=1)
    ours = _OURS if transactional_id is None else {**_OURS, "transactional.id": transactional_id}
    settings = client_config(producer_config(config), "producer", {**ours, "error_cb": troubles.append})
    return PooledProducer(new_client(Producer, settings), deadline_seconds(config), config=config, troubles=troubles)


class ProducerPool:
    def __init__(self, make: Callable[[Mapping[str, str]], PooledProducer] = make_producer) -> None:
        self._make = make
        self._pooled: PerProcess[PooledProducer] = PerProcess()

    @contextmanager
    def lend(self, config: Mapping[str, str]) -> Iterator[PooledProducer]:
        """The producer of this configuration. After an error in the block it is not used again."""
        pooled = self._take(config)
        try:
            yield pooled
        except BaseException:
            pooled.broken = True
            raise
        finally:
            self._give_back(pooled)

    def _take(self, config: Mapping[str, str]) -> PooledProducer:
        with self._pooled.held() as kept:
            key = key_in(kept, config)
            pooled = kept.get(key)
            if pooled is None or pooled.broken:
                pooled = kept[key] = self._make(config)
            pooled.users += 1
            if pooled.users == 1:
                pooled.begin()
            if pooled.idle is not None:
                pooled.idle.cancel()
        return pooled

    def _give_back(self, pooled: PooledProducer) -> None:
        with self._pooled.held():
            pooled.users -= 1
            last = not pooled.users
            if last:
                pooled.end()
            if last and not pooled.broken and (seconds := idle_seconds(pooled.config)):
                pooled.idle = threading.Timer(seconds, self._close_idle, (pooled, seconds))
                pooled.idle.daemon = True
                pooled.idle.start()
        if last and pooled.broken:
            pooled.discard()

    def _close_idle(self, pooled: PooledProducer, seconds: float) -> None:
        with self._pooled.held() as kept:
            if pooled.users or pooled.idle is not threading.current_thread():  # it was lent again since
                return
            for key in [key for key, each in kept.items() if each is pooled]:
                del kept[key]
        _log.info("closing the producer of %s: idle for %g s", pooled.config.get("bootstrap.servers"), seconds)
        pooled.discard()


POOL: Final = ProducerPool()


def lend(config: Mapping[str, str]) -> AbstractContextManager[PooledProducer]:
    return POOL.lend(config)
