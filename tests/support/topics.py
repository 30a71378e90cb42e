"""Topics that belong to one test."""

import itertools
import re
import time
import uuid
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

_DEADLINE_SECONDS = 20.0
_LOOK_SECONDS = 0.05


class Topics:
    """Names and makes topics that no other test uses."""

    def __init__(self, bootstrap_servers: str, test_name: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._prefix = f"{re.sub(r'[^A-Za-z0-9]+', '-', test_name)[:60].strip('-')}-{uuid.uuid4().hex[:6]}"
        self._numbers = itertools.count(1)

    def name(self, hint: str = "records") -> str:
        """A new name; no topic is made."""
        return f"{self._prefix}-{next(self._numbers)}-{hint}"

    def create(
        self,
        hint: str = "records",
        partitions: int = 1,
        config: Mapping[str, str | int] | None = None,
        *,
        replicas: int = 1,
    ) -> str:
        """Make a topic with a new name; return the name when every partition has a leader that serves."""
        name = self.name(hint)
        self.create_named(name, partitions, config, replicas=replicas)
        return name

    def create_named(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str | int] | None = None,
        *,
        replicas: int = 1,
        assignment: list[list[int]] | None = None,
    ) -> None:
        """The same with a given name, and with given brokers for each partition where `assignment` says so."""
        where = {"replica_assignment": assignment} if assignment else {"replication_factor": replicas}
        topic = NewTopic(name, partitions, config={k: str(v) for k, v in (config or {}).items()}, **where)
        self.admin.create_topics([topic])[name].result(_DEADLINE_SECONDS)
        self.wait_for_leaders(name, partitions)

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions: `partitions` in all."""
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(_DEADLINE_SECONDS)
        self.wait_for_leaders(name, partitions)

    def delete(self, name: str) -> None:
        """Delete a topic and return when it is gone."""
        self.admin.delete_topics([name])[name].result(_DEADLINE_SECONDS)
        _until(lambda: name not in self.admin.list_topics(timeout=_DEADLINE_SECONDS).topics, f"{name} is still there")

    def recreate(self, name: str, partitions: int = 1, config: Mapping[str, str | int] | None = None) -> None:
        """Delete a topic and make it again: same name, another id."""
        self.delete(name)
        self.create_named(name, partitions, config)

    def wait_for_leaders(self, name: str, partitions: int) -> None:
        """Return when every partition answers a question that only its leader can answer."""
        _until(lambda: self._serves(name, partitions), f"{name} has no leaders")

    def _serves(self, name: str, partitions: int) -> bool:
        from support.records import offsets

        try:
            return len(offsets(self.admin, name, "latest")) == partitions
        except (KafkaException, TimeoutError):
            return False


def _until(true, otherwise: str) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{otherwise} after {_DEADLINE_SECONDS} s")
        time.sleep(_LOOK_SECONDS)
