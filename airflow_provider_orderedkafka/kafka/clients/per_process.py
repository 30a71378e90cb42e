"""A cache for each process: clients are costly to make, and useless after a fork.

A process should fork before it has clients, as Airflow and Spark do: if a client of the parent is looking up a host
name at that moment, the C library's lock stays held in the child, and the child's own clients never connect.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

Kept = TypeVar("Kept")
Key = frozenset[tuple[str, str]]


def key_of(config: Mapping[str, str]) -> Key:
    return frozenset(config.items())


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
