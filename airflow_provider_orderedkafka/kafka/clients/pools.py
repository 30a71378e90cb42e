"""Clients that are kept, and the settings of reading: making a client costs more than reading a small slice.

Consumers are borrowed, one user at a time; an admin client is shared by all callers of its process and configuration.
A client is useless after a fork, so a process should fork before it has clients, as Airflow and Spark do: if a client
of the parent is looking up a host name at that moment, the C library's lock stays held in the child, and the child's
own clients never connect.
"""

import math
import os
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from ...core.documents import Isolation, Range
from ...core.order.cuts import OnDataLoss, Slice
from ...core.order.positions import TopicPartition
from ...core.order.timeline import BatchSize
from .config import CLIENT_LOG, client_config, new_client

MIB = 2**20

Fetch = Callable[[Slice, int | None], Any]
"""Gives a `FetchedRecords`, or `OverBudget` for a slice of too many bytes."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings of readers, for all slices of a range; sent to tasks.

    `kafka` is librdkafka's configuration, to which the reader adds its own. `topic_ids` are the ids that the planner
    saw; if given, a topic that was created again is detected. `deadline` is how many seconds may pass without progress.
    `byte_budget` bounds the memory for one piece of a slice, and that for what has come of later ones, which may be up
    to 128 MiB where a batch of each partition needs it. `columns` are the requested ones, None for all. At most
    `sampled` records are looked at on each end of a partition. `fetch` gives what it has of a slice, in at most the
    bytes that it is given, None for any number; where it is None, each slice is fetched by itself.
    """

    kafka: Mapping[str, str]
    isolation: Isolation = "read_committed"
    include_headers: bool = False
    on_data_loss: OnDataLoss = "fail"
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    deadline: float = 120.0
    byte_budget: int = 128 * MIB
    batch_bytes: int = 3 * MIB // 2
    columns: tuple[str, ...] | None = None
    sampled: int = 50
    fetch: Fetch | None = None

    def asks_for(self, column: str) -> bool:
        return self.columns is None or column in self.columns

    @classmethod
    def of_range(cls, kafka: Mapping[str, str], loaded: Range) -> Self:
        lost = loaded.on_data_loss
        return cls(kafka, loaded.isolation, loaded.include_headers, lost, topic_ids=loaded.topics)


@dataclass(slots=True)
class ReadTally:
    """The counts of one reading task, updated as it goes.

    `bytes`, of keys and values as far as these were asked for, and, by partition, `read` and `late` are of the records
    handed on, of which those `beyond` belong behind the end of their batch; `lost` is how many offsets of each
    partition retention had deleted, if losses are counted instead of raised.
    """

    read: Counter[TopicPartition] = field(default_factory=Counter)
    bytes: int = 0
    late: Counter[TopicPartition] = field(default_factory=Counter)
    lost: Counter[TopicPartition] = field(default_factory=Counter)
    beyond: int = 0

    @property
    def records(self) -> int:
        return self.read.total()


Kept = TypeVar("Kept")
Key = frozenset[tuple[str, str]]


_FILE: Final = ".location"


def key_in(kept: dict[Key, Kept], config: Mapping[str, str]) -> Key:
    """The key of a configuration, with the state of the files that it names: a client has read them once.

    Where one was replaced since, such as a certificate that was renewed, what had been kept is let go of.
    """
    settings = frozenset(config.items())
    key = settings | {(name, _state(path)) for name, path in config.items() if name.endswith(_FILE)}
    for other in [each for each in kept if settings < each and each != key and len(each) == len(key)]:
        del kept[other]
    return key


def _state(path: str) -> str:
    try:
        found = Path(path).stat()
    except OSError:  # the client says what is wrong
        return ""
    return f"{found.st_mtime_ns} {found.st_size}"


class PerProcess(Generic[Kept]):
    """A cache by configuration. It is empty after a fork; the parent's entries are neither used nor destroyed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._kept: dict[Key, Kept] = {}
        self._inherited: list[object] = []

    @contextmanager
    def held(self) -> Iterator[dict[Key, Kept]]:
        """The entries of this process, locked against other threads."""
        with self._lock:
            if self._pid != os.getpid():
                self._inherited.append(self._kept)
                self._pid, self._kept = os.getpid(), {}
            yield self._kept


# Defaults for reading slices; the user's configuration wins. Little is fetched ahead: what is fetched past the
# last slice is thrown away; and the client counts its queue's bytes by the values alone, so that large headers are
# bounded by the number of records. A batch that was damaged on its way or on a broker's disk is an error.
_ANSWER_BYTES = 16_000_000
_DEFAULTS = {
    "check.crcs": "true",
    "group.id": "orderedkafka-reader",
    "fetch.error.backoff.ms": "100",
    "fetch.max.bytes": str(_ANSWER_BYTES),
    "fetch.queue.backoff.ms": "1",
    "fetch.wait.max.ms": "10",
    "queued.max.messages.kbytes": "2000",
    "queued.min.messages": "1000",
    "reconnect.backoff.max.ms": "1000",
    "socket.keepalive.enable": "true",
}

# A broker fills a request up with a part of a batch, in vain. Java's producers send batches of 16 KiB by default, of
# which each size has room for a whole number.
_FETCH_BYTES = (32_768, 262_144, 1_048_576)
_VARYING = 1.05
_MOST_IDLE = 8
_REQUEST_BYTES = (500_000, 8_000_000)
_REQUESTS = 32
_RECORD_BYTES = 1_000  # about
_MUCH = 50_000
_KEPT_TROUBLES = 20

PROTOCOL: Final = {"debug": "protocol"}
"""With this a consumer's `answers` are counted."""

_FETCHED: Final = re.compile(r"Received FetchResponse \(v\d+, (\d+) bytes")

# What the reader relies on.
_REQUIRED = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
}


class Answers:
    """The log of a consumer with `debug=protocol`, which says how many bytes each answer to a fetch has, as it comes.

    So it does with librdkafka 2.12 to 2.16. Where a release words it otherwise, `bytes` stays 0.
    """

    def __init__(self) -> None:
        self.bytes = 0

    def log(self, level: int, form: str, *said: Any) -> None:
        if found := _FETCHED.search(str(said[-1])):
            self.bytes += int(found[1])
        CLIENT_LOG.log(level, form, *said)


@dataclass(slots=True)
class PooledConsumer:
    """A consumer, the errors that its client reported in the background, its configuration, and what was answered."""

    consumer: Any
    troubles: deque[Any]
    config: Mapping[str, str] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)


_idle: PerProcess[list[PooledConsumer]] = PerProcess()


def fetch_bytes(offsets: Sequence[int], batches: Sequence[BatchSize] = ()) -> int:
    """The bytes to request from each partition at once, given how many offsets the slice has in each.

    A few dozen requests for a slice keep the pipe full, and fetch little past its end. The size is fixed when a
    consumer is made, so there are only a few sizes, with a consumer for each. Where partitions are thin, and some of
    their batches are known and about of one size, there is room for a whole number of these.
    """
    total, squares = sum(offsets), sum(count * count for count in offsets)
    low, high = _REQUEST_BYTES
    wanted = min(max(total * _RECORD_BYTES / _REQUESTS, low), high)
    ideal = wanted * squares / (total * total) if total else low
    usual = min(_FETCH_BYTES, key=lambda size: abs(math.log(size / ideal)))
    if not batches or usual != _FETCH_BYTES[0]:
        return usual
    least, most = min(each.sent for each in batches), max(each.sent for each in batches)
    room = most + 2 * (most - least)  # others may be larger than those that are known
    # An answer has to have room for all partitions: one that lags behind holds up what came of the others.
    count = min(math.ceil(usual / room), _ANSWER_BYTES // len(offsets) // room)
    return count * room if count and room <= most * _VARYING else usual


def thin(offsets: Sequence[int]) -> bool:
    """Whether so much is read of partitions so thin that the size of their batches is worth a look."""
    return len(offsets) > 1 and sum(offsets) >= _MUCH and fetch_bytes(offsets) == _FETCH_BYTES[0]


def configuration(settings: ReadSettings, fetch: int) -> dict[str, str]:
    size = {"fetch.message.max.bytes": str(fetch)}
    return {**_DEFAULTS, **size, **settings.kafka, **_REQUIRED, "isolation.level": settings.isolation}


@contextmanager
def pooled_consumer(settings: ReadSettings, fetch: int = _FETCH_BYTES[-1]) -> Iterator[PooledConsumer]:
    """A consumer from the pool. It returns there with nothing assigned, or is closed after an error."""
    config = configuration(settings, fetch)
    with _idle.held() as found:
        idle = found.setdefault(key_in(found, config), [])
        pooled = idle.pop() if idle else None
        spare = _spare(found, idle)
    for each in spare:
        each.consumer.close()
    pooled = pooled or _make(config)
    pooled.consumer.poll(0.0)  # what it heard while nobody read may be over
    pooled.troubles.clear()
    pooled.answers.bytes = 0
    try:
        yield pooled
        pooled.consumer.unassign()
    except GeneratorExit:  # whoever reads has enough
        pooled.consumer.unassign()
        idle.append(pooled)
        raise
    except BaseException:
        pooled.consumer.close()
        raise
    idle.append(pooled)


def _spare(found: Mapping[Key, list[PooledConsumer]], idle: list[PooledConsumer]) -> list[PooledConsumer]:
    """Take out the idle consumers of other configurations, those of the oldest ones first, if they are too many."""
    others = [kept for kept in found.values() if kept is not idle and kept]
    return [kept.pop() for kept in others[: max(len(others) - _MOST_IDLE, 0)]]


def _make(config: Mapping[str, str]) -> PooledConsumer:
    from confluent_kafka import Consumer

    troubles: deque[Any] = deque(maxlen=_KEPT_TROUBLES)
    answers = Answers()
    heard = {"logger": answers} if config.items() >= PROTOCOL.items() else {}
    consumer = new_client(Consumer, client_config(config, "consumer", {"error_cb": troubles.append, **heard}))
    return PooledConsumer(consumer, troubles, config, answers)


_MOST_SIDE_BY_SIDE: Final = 3
_LEAST_SECONDS: Final = 0.01
_LOOKS: Final = 8


class Admin:
    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        self._troubles: deque[tuple[float, Any]] = deque(maxlen=_KEPT_TROUBLES)
        self._lock = threading.Lock()
        self.servers = config["bootstrap.servers"]
        self._clients = [self._connect()]

    @property
    def client(self) -> Any:
        return self._clients[0]

    def side_by_side(self, count: int) -> list[Any]:
        """Up to `count` clients: a broker answers the requests of one connection one by one."""
        with self._lock:
            while len(self._clients) < min(count, _MOST_SIDE_BY_SIDE):
                self._clients.append(self._connect())
            return self._clients[: max(count, 1)]

    def leaders(self, topics: Iterable[str], seconds: float) -> tuple[Any, ...] | None:
        """Which brokers lead the topics, found out within this many seconds; None if Kafka does not say."""
        from confluent_kafka import KafkaException

        end, found = time.monotonic() + seconds, []
        try:
            for client, topic in product(self._clients, topics):
                metadata = client.list_topics(topic, timeout=max(end - time.monotonic(), _LEAST_SECONDS)).topics[topic]
                found += [(topic, number, each.leader) for number, each in sorted(metadata.partitions.items())]
        except KafkaException:  # the question shows it, which is asked again
            return None
        return tuple(found)

    def metadata(self, seconds: float) -> Any:
        """What a broker says of the cluster; raises KafkaException, and connects anew, if none says anything.

        librdkafka 2.16 may lose all brokers for good once a broker without a controller has named none.
        """
        from confluent_kafka import KafkaException

        try:
            return self.client.list_topics(timeout=max(seconds, _LEAST_SECONDS))
        except KafkaException:
            self.client.poll(0.0)  # its troubles are kept
            with self._lock:
                self._clients = [self._connect()]
            raise

    def controller(self, seconds: float, silent: int | None) -> int | None:
        """Which broker is the controller, which gets many requests; not the `silent` one, if Kafka names another.

        Kafka goes on naming a broker that is gone until its session ends. None if it does not say within the seconds.
        """
        from confluent_kafka import KafkaException

        named, end = None, time.monotonic() + seconds
        with suppress(KafkaException):  # the question shows it, which is asked again
            for _ in range(_LOOKS):
                named = int(self.metadata(end - time.monotonic()).controller_id)
                if named != silent:
                    break
        return named

    def troubles(self, since: float) -> list[Any]:
        """The errors reported since a time of the monotonic clock, the newest last."""
        for client in self._clients:
            client.poll(0.0)
        return [error for moment, error in list(self._troubles) if moment >= since]

    def _connect(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return new_client(AdminClient, client_config(self.config, "admin", {"error_cb": self._note}))

    def _note(self, error: Any) -> None:
        self._troubles.append((time.monotonic(), error))


_admins: PerProcess[Admin] = PerProcess()


def admin(config: Mapping[str, str]) -> Admin:
    """The admin client of this process for this configuration; `SettingError` if librdkafka refuses it."""
    with _admins.held() as kept:
        key = key_in(kept, config)
        if key not in kept:
            kept[key] = Admin(config)
        return kept[key]
