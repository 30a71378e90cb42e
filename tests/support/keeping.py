"""The stores that a ledger can be kept in, for tests: values by hand, as Airflow keeps them, and files in a folder.

Every access is a touch of the outside; `opened(untouched=True)` and `values` are for those who look on.
"""

import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any

from airflow_provider_orderedkafka.loads.ledger import LedgerStore, Revisions, store_in
from airflow_provider_orderedkafka.storage import LocalState
from support.interleaving import touch


class Values(dict[str, Any]):
    """A store that nobody else touches: values under keys."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


class DictStore:
    """The port by hand: values under keys."""

    def __init__(self) -> None:
        self.values = Values()

    def get(self, key: str) -> Any:
        touch(f"get {key}")
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        touch(f"set {key}")
        self.values[key] = value

    def delete(self, key: str) -> None:
        touch(f"delete {key}")
        self.values.pop(key, None)

    def keys(self) -> list[str]:
        touch("list the keys")
        return sorted(self.values)

    def opened(self, load: str, settle: Callable[[], None]) -> LedgerStore:
        return LedgerStore(load, self, settle)

    def watched(self, load: str) -> LedgerStore:
        return LedgerStore(load, self.values)

    def put(self, key: str, value: Any) -> None:
        self.values[key] = value


MEMORY = "/dev/shm"
KEPT = 2
"""Few revisions, so that they are deleted under those who read them."""


class FolderStore:
    """Revisions in a folder, as real files."""

    def __init__(self, folder: Path | None = None) -> None:
        memory = MEMORY if Path(MEMORY).is_dir() else None
        made = folder or Path(tempfile.mkdtemp(prefix="orderedkafka-ledger-", dir=memory))
        self.state = LocalState(made)
        self._tidy = weakref.finalize(self, rmtree, made, ignore_errors=True)

    def opened(self, load: str, settle: Callable[[], None]) -> LedgerStore:
        return store_in(load, Touched(self.state), KEPT)

    def watched(self, load: str) -> LedgerStore:
        return store_in(load, self.state)

    def put(self, key: str, value: Any) -> None:
        Revisions(self.state).set(key, value)

    @property
    def values(self) -> Mapping[str, Any]:
        found = Revisions(self.state)
        return {key: found.get(key) for key in found.keys()}  # noqa: SIM118 - no mapping


class Touched:
    """A location each access to which is a touch, named by the key that it is about."""

    def __init__(self, state: LocalState) -> None:
        self._state = state
        self.location = state.location

    def get(self, name: str) -> str | None:
        touch(f"read {_key(name)}")
        return self._state.get(name)

    def names(self, folder: str = "") -> list[str]:
        touch(f"get {folder}")
        return self._state.names(folder)

    def create(self, name: str, text: str) -> bool:
        touch(f"set {_key(name)}")
        return self._state.create(name, text)

    def delete(self, name: str) -> None:
        touch(f"delete {name}")
        self._state.delete(name)


def _key(name: str) -> str:
    return name.rpartition("/")[0]
