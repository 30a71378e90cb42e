"""What is kept for a process: clients are costly to make, and of no use after a fork.

A process should fork before it has clients, as Airflow and Spark do: where a client of the parent looks up a host name
in that very moment, the C library's lock for it stays held in the child, and the child's own clients never connect.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

Kept = TypeVar("Kept")
Key = frozenset[tuple[str, str]]


def key_of(config: Mapping[str, str]) -> Key:
    """What a configuration is found by."""
    return frozenset(config.items())


class PerProcess(Generic[Kept]):
    """Things by their configuration. After a fork there are none; what the parent had is neither used nor destroyed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._kept: dict[Key, Kept] = {}
        self._inherited: list[object] = []

    @contextmanager
    def held(self) -> Iterator[dict[Key, Kept]]:
        """What this process has, while no other thread changes it."""
        with self._lock:
            if self._pid != os.getpid():
                self._inherited.append(self._kept)
                self._pid, self._kept = os.getpid(), {}
            yield self._kept
