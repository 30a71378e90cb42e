"""A pool of producers: one for each worker process and configuration, across tasks and batches.

Worker processes exit without `atexit`, so a borrower settles what it sent before it returns the producer. After a
failure a producer is discarded with its queue, so that nothing of a failed task is written after its end.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from airflow_provider_orderedkafka.core.order.positions import whole_number
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import client_config, new_client
from airflow_provider_orderedkafka.kafka.clients.per_process import PerProcess, key_of
from airflow_provider_orderedkafka.kafka.write.sending import PooledProducer

_log = logging.getLogger(__name__)

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
            "'kafka.transactional.id' is not for this sink, which writes without transactions; leave it out"
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


def make_producer(config: Mapping[str, str]) -> PooledProducer:
    """Make a producer; `SettingError` if librdkafka refuses the configuration."""
    from confluent_kafka import Producer

    troubles: deque[Any] = deque(maxlen=1)
    settings = client_config(producer_config(config), "producer", {**_OURS, "error_cb": troubles.append})
    return PooledProducer(new_client(Producer, settings), deadline_seconds(config), config=config, troubles=troubles)


class ProducerPool:
    """Shares producers between users, and keeps them for the next ones."""

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
        key = key_of(config)
        with self._pooled.held() as kept:
            pooled = kept.get(key)
            if pooled is None or pooled.broken:
                pooled = kept[key] = self._make(config)
            pooled.users += 1
        return pooled

    def _give_back(self, pooled: PooledProducer) -> None:
        with self._pooled.held():
            pooled.users -= 1
            last = not pooled.users
        if last and pooled.broken:
            _discard(pooled)


def _discard(pooled: PooledProducer) -> None:
    """Close a producer after an error, which must not be replaced by one from here."""
    try:
        pooled.discard()
    except Exception as error:  # noqa: BLE001 - logged
        _log.warning("closing the producer that failed: %s", error)


POOL: Final = ProducerPool()
