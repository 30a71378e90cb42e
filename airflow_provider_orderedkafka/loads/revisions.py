"""A store in a location: the values of each key are numbered revisions, files that are created once and never changed.

    <location>/<load>/<key>/000000000042.json

What `set` writes goes in place of what this store last saw under the key: it creates the next number, and of several
writers one does. So a writer that lost is told, and no reader sees less than a whole revision or, after a newer one, an
older one. A few old revisions are kept, so that a reader that has listed them still finds the newest.
"""

import json
import secrets
import sys
from typing import Any

from airflow_provider_orderedkafka.core.codec import canonical
from airflow_provider_orderedkafka.errors import DocumentError, LedgerChangedError, StateError
from airflow_provider_orderedkafka.storage import State

from .ledger import LedgerStore

KEPT = 8
"""How many revisions of a key are kept. They are deleted from the oldest on."""

TRIES = 20
"""How often a key is listed again where each time the newest revision is outdated and gone before it is read."""

SUFFIX = ".json"


class Revisions:
    """Values under keys, each as numbered revisions in a folder of its own. For one thread."""

    def __init__(self, state: State, kept: int = KEPT) -> None:
        self._state = state
        self._kept = kept
        self._seen: dict[str, int] = {}

    def get(self, key: str) -> Any:
        for _ in range(TRIES):
            newest = max(self._numbers(key), default=0)
            text = self._state.get(_name(key, newest)) if newest else None
            if text is not None or not newest:
                self._seen[key] = newest
                return None if text is None else self._value(key, text)
        raise StateError(f"{key!r} in {self._state.location!r} cannot be read: it changes all the time; try again")

    def set(self, key: str, value: Any) -> None:
        """Put a value in place of the one that was seen last; `LedgerChangedError` if another one stands there.

        A writer that has slept may create a number that was there and was deleted. Whoever deletes it has seen as
        many newer ones as are kept, and they are seen here too.
        """
        before = self._seen.pop(key, None)
        before = max(self._numbers(key), default=0) if before is None else before
        name, text = _name(key, before + 1), canonical({"writer": secrets.token_hex(8), "value": value})
        created = self._state.create(name, text) or self._state.get(name) == text
        numbers = self._numbers(key)
        newest = max(numbers, default=0)
        if not created or newest > before + self._kept:
            raise LedgerChangedError(
                f"{key!r} in {self._state.location!r} was written by another step at the same moment; "
                "try again: the next attempt starts from what it says now"
            )
        self._seen[key] = before + 1
        self._delete(key, [number for number in numbers if number <= newest - self._kept])

    def delete(self, key: str) -> None:
        self._seen.pop(key, None)
        self._delete(key, self._numbers(key))
        if not self._numbers(key):
            self._state.delete(key)

    def keys(self) -> list[str]:
        return [key for folder in self._state.names() for key in self._keys(folder)]

    def _keys(self, folder: str) -> list[str]:
        names = self._state.names(folder)
        if any(name.endswith(SUFFIX) for name in names):
            return [folder]
        return [key for name in names for key in self._keys(f"{folder}/{name}")]

    def _numbers(self, key: str) -> list[int]:
        names = (name.removesuffix(SUFFIX) for name in self._state.names(key))
        return sorted(int(name) for name in names if name.isdecimal())

    def _delete(self, key: str, numbers: list[int]) -> None:
        for number in numbers:  # from the oldest on: a reader never sees one come back
            self._state.delete(_name(key, number))

    def _value(self, key: str, text: str) -> Any:
        try:
            return json.loads(text)["value"]
        except (ValueError, TypeError, KeyError) as error:
            raise DocumentError(f"{key!r} in {self._state.location!r} is no revision, found {text[:80]!r}") from error


def _name(key: str, number: int) -> str:
    return f"{key}/{number:012d}{SUFFIX}"


def store_in(load: str, state: State, kept: int = KEPT) -> LedgerStore:
    """The documents of a load in a folder of its own; nothing settles there, and nothing is cut into parts."""
    return LedgerStore(load, Revisions(state, kept), settle=lambda: None, part=sys.maxsize)
