"""Admin clients: one for each process and configuration, made after a fork, shared by all that ask."""

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from airflow_provider_orderedkafka.kafka.config import client_config, understood

_KEPT_TROUBLES: Final = 20


class Admin:
    """An admin client, and what it told of its troubles in the background."""

    def __init__(self, config: Mapping[str, str]) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._troubles: deque[tuple[float, Any]] = deque(maxlen=_KEPT_TROUBLES)
        self.servers = config["bootstrap.servers"]
        settings = client_config(config, "admin", {"error_cb": self._note})
        try:
            self.client = AdminClient(settings)
        except (KafkaException, ValueError, TypeError) as error:
            raise understood(error, config) from error

    def troubles(self, since: float) -> list[Any]:
        """The errors told since a moment of the monotonic clock, the newest last."""
        self.client.poll(0)
        return [error for moment, error in list(self._troubles) if moment >= since]

    def _note(self, error: Any) -> None:
        self._troubles.append((time.monotonic(), error))


_Key = tuple[int, frozenset[tuple[str, str]]]
_admins: dict[_Key, Admin] = {}
_lock = threading.Lock()


def admin(config: Mapping[str, str]) -> Admin:
    """The admin client of this process for this configuration; a `SettingError` when librdkafka refuses it."""
    key = (os.getpid(), frozenset(config.items()))
    with _lock:
        if key not in _admins:
            _admins[key] = Admin(config)
        return _admins[key]
