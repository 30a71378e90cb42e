"""Producers that are kept: one for each worker process and configuration, over tasks and batches.

    POOL.lend(config) -> context of Lent       a producer, shared with whoever asks for the same configuration
    producer_config(config) -> dict            the user's configuration over our defaults, checked

Worker processes leave without `atexit`, so whoever borrows a producer settles what was sent before giving it back. A
producer with a failure is never lent again: what waits in it is thrown away, so that nothing of a failed task is
written after its end.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from airflow_provider_orderedkafka.core.positions import whole_number
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.config import SERVERS, client_config, understood
from airflow_provider_orderedkafka.kafka.sending import Lent

_log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 60.0
DEADLINE_SECONDS: Final = 120.0
_TIMEOUTS: Final = ("message.timeout.ms", "delivery.timeout.ms")

_PROMISED: Final = {
    "enable.idempotence": ("true",),
    "acks": ("all", "-1"),
    "request.required.acks": ("all", "-1"),
    "enable.gapless.guarantee": ("true",),
}
# What suits writing batches; a user's own configuration wins over it.
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
    milliseconds = whole_number(str(given[0]))
    if milliseconds is None:
        raise SettingError(
            f"'kafka.delivery.timeout.ms' must be a number of milliseconds from 1 on, found {given[0]!r}"
        )
    return milliseconds / 1_000


def make_producer(config: Mapping[str, str]) -> Lent:
    """A producer of its own."""
    from confluent_kafka import KafkaException, Producer

    troubles: deque[Any] = deque(maxlen=1)
    settings = client_config(producer_config(config), "producer", {**_OURS, "error_cb": troubles.append})
    try:
        return Lent(Producer(settings), deadline_seconds(config), troubles=troubles)
    except (KafkaException, ValueError, TypeError) as error:
        raise understood(error, config) from error


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
            closing = [(dict(key)[SERVERS], self._lent.pop(key)) for key in idle]
            self._timer = None
            if self._lent:
                self._close_later()
        for servers, lent in closing:
            _close(lent.producer.close, f"the producer for {servers}, which nobody used for {self._idle_seconds:g} s")

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
            _close(lent.discard, "the producer that failed")

    def _close_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._idle_seconds, self.close_idle)
            self._timer.daemon = True
            self._timer.start()


def _close(close: Callable[[], None], which: str) -> None:
    """Whoever comes by here has an error of their own, or is a thread of nobody's: this one is only told."""
    try:
        close()
    except Exception as error:  # noqa: BLE001
        _log.warning("closing %s failed: %s", which, error)
    else:
        _log.info("closed %s", which)


POOL: Final = ProducerPool()
