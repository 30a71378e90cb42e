"""A pool of consumers: making one costs more than reading a small slice."""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_orderedkafka.kafka.clients.config import client_config, new_client
from airflow_provider_orderedkafka.kafka.clients.per_process import PerProcess, key_of
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

# Defaults for reading slices; the user's configuration wins. Little is fetched ahead: what is fetched past a
# partition's end is thrown away; and the client counts its queue's bytes by the values alone, so that large headers are
# bounded by the number of records. A batch that was damaged on its way or on a broker's disk is an error.
_DEFAULTS = {
    "check.crcs": "true",
    "group.id": "orderedkafka-reader",
    "fetch.error.backoff.ms": "100",
    "fetch.max.bytes": "4000000",
    "fetch.queue.backoff.ms": "1",
    "fetch.wait.max.ms": "10",
    "queued.max.messages.kbytes": "2000",
    "queued.min.messages": "1000",
    "reconnect.backoff.max.ms": "1000",
    "socket.keepalive.enable": "true",
}

_FETCH_BYTES = (32_000, 256_000, 1_000_000)
_REQUEST_BYTES = (500_000, 2_000_000)
_REQUESTS = 32
_RECORD_BYTES = 1_000  # about
_KEPT_TROUBLES = 20

# What the reader relies on.
_REQUIRED = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
}


@dataclass(slots=True)
class PooledConsumer:
    """A consumer, the errors that its client reported in the background, and its configuration."""

    consumer: Any
    troubles: deque[Any]
    config: Mapping[str, str] = field(default_factory=dict)


_idle: PerProcess[list[PooledConsumer]] = PerProcess()


def fetch_bytes(offsets: Sequence[int]) -> int:
    """The bytes to request from each partition at once, given how many offsets the slice has in each.

    A few dozen requests for a slice keep the pipe full, and fetch little past its end. The size is fixed when a
    consumer is made, so there are only a few sizes, with a consumer for each.
    """
    total, squares = sum(offsets), sum(count * count for count in offsets)
    low, high = _REQUEST_BYTES
    wanted = min(max(total * _RECORD_BYTES / _REQUESTS, low), high)
    ideal = wanted * squares / (total * total) if total else low
    return min(_FETCH_BYTES, key=lambda size: abs(math.log(size / ideal)))


def configuration(settings: ReadSettings, fetch: int) -> dict[str, str]:
    """The configuration of a consumer that requests `fetch` bytes from each partition at once."""
    size = {"fetch.message.max.bytes": str(fetch)}
    return {**_DEFAULTS, **size, **settings.kafka, **_REQUIRED, "isolation.level": settings.isolation}


@contextmanager
def pooled_consumer(settings: ReadSettings, fetch: int = _FETCH_BYTES[-1]) -> Iterator[PooledConsumer]:
    """A consumer from the pool. It returns there with nothing assigned, or is closed after an error."""
    config = configuration(settings, fetch)
    with _idle.held() as found:
        idle = found.setdefault(key_of(config), [])
        pooled = idle.pop() if idle else None
    pooled = pooled or _make(config)
    pooled.troubles.clear()
    try:
        yield pooled
        pooled.consumer.unassign()
    except BaseException:
        pooled.consumer.close()
        raise
    idle.append(pooled)


def _make(config: Mapping[str, str]) -> PooledConsumer:
    from confluent_kafka import Consumer

    troubles: deque[Any] = deque(maxlen=_KEPT_TROUBLES)
    consumer = new_client(Consumer, client_config(config, "consumer", {"error_cb": troubles.append}))
    return PooledConsumer(consumer, troubles, config)
