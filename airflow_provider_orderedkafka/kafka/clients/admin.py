"""Admin clients: one for each process and configuration, shared by all callers."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from typing import Any, Final

from airflow_provider_orderedkafka.kafka.clients.config import client_config, new_client
from airflow_provider_orderedkafka.kafka.clients.per_process import PerProcess, key_of

_KEPT_TROUBLES: Final = 20
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
        self._controller: int | None = None

    @property
    def client(self) -> Any:
        return self._clients[0]

    def side_by_side(self, count: int) -> list[Any]:
        """Up to `count` clients: a broker answers the requests of one connection one by one."""
        with self._lock:
            while len(self._clients) < min(count, _MOST_SIDE_BY_SIDE):
                self._clients.append(self._connect())
            return self._clients[: max(count, 1)]

    def relearn(self, topics: Iterable[str], seconds: float) -> None:
        """Refresh which brokers lead the topics, within this many seconds."""
        from confluent_kafka import KafkaException

        end = time.monotonic() + seconds
        for client, topic in product(self._clients, topics):
            left = end - time.monotonic()
            if left > 0:
                with suppress(KafkaException):  # told by the question, which is asked again
                    client.list_topics(topic, timeout=left)

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

    def look_again(self, seconds: float) -> bool:
        """Refresh which broker is the controller, which gets many requests; whether it is another one now.

        Kafka goes on naming a broker that is gone until its session ends, so the one named last is not taken again.
        """
        from confluent_kafka import KafkaException

        silent, end = self._controller, time.monotonic() + seconds
        with suppress(KafkaException):  # told by the question, which is asked again
            for _ in range(_LOOKS):
                found = self.metadata(end - time.monotonic())
                self._controller = found.controller_id
                if self._controller != silent or len(found.brokers) == 1:
                    break
        return self._controller != silent

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
    key = key_of(config)
    with _admins.held() as kept:
        if key not in kept:
            kept[key] = Admin(config)
        return kept[key]
