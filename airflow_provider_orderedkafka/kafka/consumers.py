"""Consumers that are kept from slice to slice: making one costs more than reading a small slice."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_orderedkafka.kafka.reading import ReadSettings

# What suits reading slices; a user's own configuration wins over it.
_DEFAULTS = {
    "group.id": "orderedkafka-reader",
    "log_level": "2",  # what fails is told by errors, with its reasons, not by lines on stderr
    "fetch.message.max.bytes": "1000000",
    "fetch.queue.backoff.ms": "5",
    "fetch.wait.max.ms": "10",
    "queued.max.messages.kbytes": "32768",
    "reconnect.backoff.max.ms": "1000",
}

# What the reader relies on.
_REQUIRED = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
}

_Key = tuple[int, frozenset[tuple[str, str]]]


@dataclass(slots=True)
class KeptConsumer:
    """A consumer, and the last trouble that its client told of on its own."""

    consumer: Any
    troubles: list[Any] = field(default_factory=list)


_idle: dict[_Key, list[KeptConsumer]] = {}
_lock = threading.Lock()


def configuration(settings: ReadSettings) -> dict[str, str]:
    """What a slice's consumer is made with."""
    isolation = {"isolation.level": "read_committed" if settings.read_committed else "read_uncommitted"}
    return {**_DEFAULTS, **settings.kafka, **_REQUIRED, **isolation}


@contextmanager
def lent(settings: ReadSettings) -> Iterator[KeptConsumer]:
    """Lend a consumer that nobody else uses; it is given back with nothing assigned, or closed after an error.

    Consumers belong to the process that made them: a fork makes its own.
    """
    config = configuration(settings)
    key = (os.getpid(), frozenset(config.items()))
    with _lock:
        idle = _idle.get(key)
        kept = idle.pop() if idle else None
    kept = kept or _make(config)
    kept.troubles.clear()
    try:
        yield kept
        kept.consumer.unassign()
    except BaseException:
        kept.consumer.close()
        raise
    with _lock:
        _idle.setdefault(key, []).append(kept)


def close_idle() -> None:
    """Close the consumers of this process that nobody uses."""
    with _lock:
        keys = [key for key in _idle if key[0] == os.getpid()]
        idle = [kept for key in keys for kept in _idle.pop(key)]
    for kept in idle:
        kept.consumer.close()


def _make(config: Mapping[str, str]) -> KeptConsumer:
    from confluent_kafka import Consumer

    troubles: list[Any] = []
    return KeptConsumer(Consumer({**config, "error_cb": troubles.append}), troubles)
