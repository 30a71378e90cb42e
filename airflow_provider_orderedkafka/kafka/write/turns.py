"""Exactly once: who may write rows of a range is decided by the brokers, and what was written counts once committed.

Writers have transactional ids, numbered within the range. Whoever initialises an id fences all that had it before, but
cannot tell whether it is older itself: a process may have been frozen before its first call. So an attempt takes a
*turn*: it commits a new name with the range's consumer group, beside the first partition of each output, by a producer
that all attempts share; then it fences the writers of earlier turns, and looks for what they have committed.

    attempt   takes its turn, fences every writer that any attempt noted, looks for what is committed
    writer    initialises its id, then reads the turn: if that is another one, it ends without a row

A writer that reads its own turn is fenced by any later one: that is taken before the fence, and the fence comes after
the writer's own initialisation. Rows are written in transactions of bounded time and size, one after the other.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ...core.order.positions import TopicPartition
from ...errors import (
    AccessDeniedError,
    DeliveryError,
    OrderedKafkaError,
    SettingError,
    TaskFailedError,
    UnreachableError,
)
from ..clients.config import TRANSACTIONAL_ID, client_config, new_client, without_transactions
from ..lookup.topics import read_commits
from .producer import Chunk, Deliveries, PooledProducer, make_producer

MOST_SECONDS: Final = 10.0
MOST_BYTES: Final = 64 * 2**20
"""When a transaction is committed, whatever comes first: well before a broker would abort it."""

PREFIX: Final = "orderedkafka"
_TIMEOUT: Final = "transaction.timeout.ms"
_CALL_SECONDS: Final = 5.0
_FENCED_AT_ONCE: Final = 8
_FENCED: Final = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_DENIED: Final = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "WRITE on the transactional ids",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "READ on the groups",
}


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of an attempt; `group` is that of the range, and what the ids of its writers begin with."""

    group: str
    name: str
    topics: tuple[str, ...]
    writers: int

    @contextmanager
    def writing(self, config: Mapping[str, str], writer: str) -> Iterator["Transaction"]:
        """What a writer writes with; what is not settled in the block is aborted."""
        if int(writer.removeprefix(LETTERS)) >= self.writers:
            raise TaskFailedError(f"writer {writer!r} is one more than the {self.writers} that a later attempt fences")
        with _initialised(config, f"{self.group}-{writer}") as pooled:
            self._check(config)
            transaction = Transaction(pooled, min(MOST_SECONDS, int(config.get(_TIMEOUT, "60000")) / 3_000))
            pooled.begin()
            try:
                yield transaction
            finally:
                pooled.end()
                transaction.end()

    def _check(self, config: Mapping[str, str]) -> None:
        found = read_commits(config, self.group, _places(self.topics))
        if {commit.metadata for commit in found.values()} != {self.name}:
            raise TaskFailedError(
                f"another attempt has begun to write since: the turn of group {self.group!r} is not {self.name!r} any "
                "more. Nothing was written; the newest attempt goes on"
            )


class Turns:
    """The turns that one attempt takes: the first before its first row, others before it writes a batch again."""

    def __init__(self, config: Mapping[str, str], group: str, topics: tuple[str, ...]) -> None:
        self._config = config
        self._group = group
        self._topics = topics
        self._name: str | None = None

    def of_writers(self, writers: int) -> Turn:
        """The turn for tasks of so many writers, taken now if none was."""
        if self._name is None:
            self.take()
        return Turn(self._group, str(self._name), self._topics, writers)

    def take(self) -> None:
        """Take a new turn; return once every task would see it."""
        name = token_hex(8)
        places = [KafkaPartition(*place, 0, metadata=name) for place in _places(self._topics)]
        ours = {"group.id": self._group, "enable.auto.commit": "false"}
        consumer = new_client(Consumer, client_config(self._config, "consumer", ours))
        with closing(consumer), _initialised(self._config, self._group) as pooled:
            producer, group = pooled.producer, consumer.consumer_group_metadata()
            producer.begin_transaction()
            _retry(pooled, lambda: producer.send_offsets_to_transaction(places, group, _CALL_SECONDS), self._group)
            _retry(pooled, lambda: producer.commit_transaction(_CALL_SECONDS), self._group)
        Turn(self._group, name, self._topics, 0)._check(self._config)  # what is committed shows a moment later
        self._name = name

    def fence(self, writers: int, *, letters: bool = False) -> None:
        """End the transactions of all writers of earlier turns; what they have not committed never will be."""
        kinds = ("", LETTERS) if letters else ("",)
        with ThreadPoolExecutor(_FENCED_AT_ONCE) as pool:
            list(pool.map(self._fence, [f"{kind}{number}" for kind in kinds for number in range(writers)]))

    def _fence(self, writer: str) -> None:
        with _initialised(self._config, f"{self._group}-{writer}"):
            pass


LETTERS: Final = "letters-"
"""What the number of a writer of dead letters begins with, where another one of the same task writes rows."""


def begins_with(config: Mapping[str, str]) -> str:
    """What ids of transactions begin with."""
    return config.get(TRANSACTIONAL_ID, PREFIX)


def check(config: Mapping[str, str], name: str, topics: tuple[str, ...]) -> None:
    """Raise what would keep the load of this name from writing exactly once: a permission, or no answer."""
    group = f"{begins_with(config)}-{name}"
    bare = without_transactions(config)
    with _initialised(bare, f"{group}-check"):
        read_commits(bare, group, _places(topics))


def _places(topics: tuple[str, ...]) -> list[TopicPartition]:
    return [TopicPartition(topic, 0) for topic in topics]


@contextmanager
def _initialised(config: Mapping[str, str], name: str) -> Iterator[PooledProducer]:
    """A producer with this transactional id; all that had it before are fenced, and their transactions ended."""
    pooled = make_producer(config, name)
    try:
        _retry(pooled, lambda: pooled.producer.init_transactions(_CALL_SECONDS), name)
        yield pooled
    finally:
        pooled.discard()


def _retry(pooled: PooledProducer, call: Callable[[], object], name: str) -> None:
    """Call until it succeeds, or what it says is final, or the deadline has passed."""
    until = time.monotonic() + pooled.deadline
    while True:
        try:
            call()
        except KafkaException as failure:
            error = failure.args[0]
            if not error.retriable() or time.monotonic() > until:
                raise _reason(pooled, error, name) from failure
        else:
            return


def _reason(pooled: PooledProducer, error: KafkaError, name: str) -> OrderedKafkaError:
    said = f"{error.str()} ({error.name()})"
    if error.code() in _DENIED:
        return AccessDeniedError(
            f"Kafka refuses transactions of {name!r}: {said}; exactly once needs {_DENIED[error.code()]} that begin "
            "like this one, up to the load's name, for this principal"
        )
    if refused := pooled.refusal():
        return refused
    if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return SettingError(
            f"Kafka refuses transactions of {name!r}: {said}; 'kafka.transaction.timeout.ms' (60000 unless it is set) "
            "is more than the brokers allow by 'transaction.max.timeout.ms': lower the first, or raise the second"
        )
    if error.code() in _FENCED:
        return TaskFailedError(f"another attempt has begun to write since: {name!r} was fenced ({said})")
    if error.retriable():
        return UnreachableError(
            f"the coordinator of transactions did not answer for {name!r} within {pooled.deadline:g} s: {said}"
        )
    return DeliveryError(f"Kafka has ended a transaction of {name!r}: {said}; its rows are written again")


class Transaction:
    """Sends what it gets in transactions; each is committed after some seconds, even if its writer waits for rows."""

    def __init__(self, pooled: PooledProducer, seconds: float) -> None:
        self._pooled = pooled
        self._seconds = seconds
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._bytes = 0
        self._failure: OrderedKafkaError | None = None

    def send(self, chunk: Chunk, deliveries: Deliveries) -> None:
        with self._lock:
            self._begin()
            self._pooled.send(chunk, deliveries)
            self._bytes += sum(map(len, filter(None, chunk.values)))
            if self._bytes >= MOST_BYTES:
                self._commit()

    def settle(self, deliveries: Deliveries) -> None:
        """Return once all that was sent is committed."""
        with self._lock:
            self._check()
            self._pooled.settle(deliveries)
            self._commit()

    def end(self) -> None:
        """Commit nothing any more; what is open is aborted with its producer, or by the next one that has the id."""
        with self._lock:
            self._over()

    def _begin(self) -> None:
        self._check()
        if self._timer is None:
            self._pooled.producer.begin_transaction()
            self._timer = threading.Timer(self._seconds, self._at_last)
            self._timer.daemon = True
            self._timer.start()

    def _at_last(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread():
                try:
                    self._commit()
                except OrderedKafkaError as error:
                    self._failure = error

    def _commit(self) -> None:
        if self._timer is not None:
            producer = self._pooled.producer
            _retry(self._pooled, lambda: producer.commit_transaction(_CALL_SECONDS), "a writer")
            self._over()

    def _over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._bytes = None, 0

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
