"""The documents of one load in a store: the ledger, ranges, claims and boundaries, each under one key.

Small documents are stored as they are. Large ones (thousands of partitions) are split into parts, because Airflow's API
refuses values of more than 65,535 bytes. Parts are named by their content and written first, the document that points
at them last, so that a reader sees either the old or the new document. Every write is read back.

The store has no compare-and-set. `save` compares with what the step has read immediately before it writes, and again
after: of two steps that write at the same moment at most the last one goes on. Where more hangs on it, `check_stands`
waits until whoever compared at the same moment has written too, and compares once more.
"""

import json
import time as clock
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

from airflow_provider_orderedkafka.core.codec import Document, canonical
from airflow_provider_orderedkafka.core.documents import Boundaries, Boundary, Claim, Claims, Ledger, Range
from airflow_provider_orderedkafka.core.order.ports import Store
from airflow_provider_orderedkafka.core.watching import WatcherState
from airflow_provider_orderedkafka.errors import DocumentError, LedgerChangedError

PART = 30_000
"""Characters of a part: at most 65,535 bytes, even if each one is escaped."""

TRIES = 3
"""How often to read a document again while another writer replaces its parts."""

SETTLE_SECONDS = 0.5
"""The time after which a concurrent write of another step is visible."""

Stored = TypeVar("Stored", bound=Document)


class LedgerStore:
    """The documents of one load."""

    def __init__(self, load: str, store: Store, settle: Callable[[], None] | None = None, part: int = PART) -> None:
        self.load = load
        self._part = part
        self._store = store
        self.settle = settle or (lambda: clock.sleep(SETTLE_SECONDS))

    def ledger(self) -> Ledger | None:
        """The ledger, or None before the first look."""
        return self._read(Ledger, "ledger")

    def save(self, book: Ledger | Claim, before: Ledger | Claim | None, key: str = "") -> None:
        """Replace a ledger, or the claim under this key; `LedgerChangedError` if it is not `before` any more."""
        self._replace("ledger" if isinstance(book, Ledger) else f"claim/{key}", book, before)

    def check_stands(self, ledger: Ledger) -> None:
        """Raise `LedgerChangedError` if the ledger was overwritten within a moment after it was saved."""
        self.settle()
        self._expect("ledger", Ledger, ledger)

    def range(self, range_id: str) -> Range | None:
        return self._read(Range, f"range/{range_id}")

    def add_range(self, planned: Range) -> None:
        """Store a range, before anything points at it."""
        self._replace(f"range/{planned.id}", planned, None)

    def replace_range(self, planned: Range, before: Range) -> None:
        """Replace a range that was read before."""
        self._replace(f"range/{planned.id}", planned, before)

    def claim(self, key: str) -> Claim | None:
        return self._read(Claim, f"claim/{key}")

    def name_ended(self, key: str, kept: int) -> None:
        """Add a claim to the ended ones; forget the oldest beyond `kept`, with their ranges.

        One that was opened again stays until it has ended again.
        """
        before = self._read(Claims, "claims")
        keys = () if before is None else before.keys
        if keys[-1:] == (key,):
            return
        keys = (*(each for each in keys if each != key), key)
        spared = tuple(each for each in keys[:-kept] if not self._forget_claim(each))
        self._replace("claims", Claims((*spared, *keys[-kept:])), before)

    def _forget_claim(self, key: str) -> bool:
        """Delete a claim that is not open, and its range; whether they are gone."""
        claim = self.claim(key)
        if claim is not None and claim.open is not None:
            return False
        self.forget_ranges({outcome.range_id for outcome in claim.outcomes} if claim is not None else ())
        self._remove(f"claim/{key}")
        return True

    def boundary(self, time: int) -> Boundary | None:
        return self._read(Boundary, f"boundary/{time}")

    def add_boundary(self, boundary: Boundary) -> None:
        self._write(f"boundary/{boundary.time}", boundary)

    def boundaries(self) -> tuple[int, ...]:
        found = self._read(Boundaries, "boundaries")
        return () if found is None else found.times

    def name_boundary(self, time: int, kept: int) -> None:
        """Add a time to the boundaries; forget the oldest beyond `kept`."""
        times = sorted({*self.boundaries(), time})
        self._write("boundaries", Boundaries(tuple(times[-kept:])))
        for old in times[:-kept]:
            self._remove(f"boundary/{old}")

    def watch(self) -> WatcherState | None:
        """The state of the load's watcher."""
        return self._read(WatcherState, "watch")

    def save_watch(self, watch: WatcherState) -> None:
        """Store the state of the load's watcher."""
        self._write("watch", watch)

    def forget_ranges(self, range_ids: Iterable[str]) -> None:
        """Remove ranges that no outcome refers to any more."""
        for range_id in range_ids:
            self._remove(f"range/{range_id}")

    def _replace(self, key: str, document: Document, before: Document | None) -> None:
        outdated = set(_parts(self._store.get(key)))
        head, parts = _taken_apart(key, document, self._part)
        self._expect(key, type(document), before)
        if parts:
            self._put(parts)
            self._expect(key, type(document), before)  # once more: many parts take a while
        self._point(key, head, document)
        for part in outdated - parts.keys():
            self._store.delete(part)

    def _write(self, key: str, document: Document) -> None:
        head, parts = _taken_apart(key, document, self._part)
        self._put(parts)
        self._point(key, head, document)

    def _put(self, parts: Mapping[str, str]) -> None:
        for name, part in parts.items():
            self._store.set(name, part)

    def _point(self, key: str, head: Any, document: Document) -> None:
        self._store.set(key, head)
        self._expect(key, type(document), document)

    def _expect(self, key: str, kind: type[Document], expected: Document | None) -> None:
        found = self._read(kind, key)
        if found != expected:
            raise LedgerChangedError(
                f"{key!r} of load {self.load!r} was written by another step at the same moment; "
                "try again: the next attempt starts from what it says now"
            )

    def _read(self, kind: type[Stored], key: str) -> Stored | None:
        for _ in range(TRIES):
            head = self._store.get(key)
            if head is None:
                return None
            text = self._join(head)
            if text is not None:
                return kind.from_text(text)
        raise DocumentError(
            f"{key!r} of load {self.load!r} is damaged: its parts are missing or do not belong together; "
            f"see `orderedkafka ledger restore {self.load}`"
        )

    def _join(self, head: Any) -> str | None:
        names = _parts(head)
        if not names:
            return canonical(head)
        parts = [self._store.get(name) for name in names]
        text = "".join(part for part in parts if isinstance(part, str))
        return text if _digest(text) == head.get("digest") else None

    def _remove(self, key: str) -> None:
        parts = _parts(self._store.get(key))
        self._store.delete(key)
        for part in parts:
            self._store.delete(part)


def _parts(head: Any) -> list[str]:
    return list(head.get("parts", ())) if isinstance(head, dict) else []


def _taken_apart(key: str, document: Document, part: int) -> tuple[Any, dict[str, str]]:
    """The value to store under the key, and the parts of a large document."""
    text = document.to_text()
    if len(text) <= part:
        return json.loads(text), {}
    parts = {f"{key}/{_digest(each)}": each for each in _cut(text, part)}
    return {"parts": list(parts), "digest": _digest(text)}, parts


def _cut(text: str, part: int) -> list[str]:
    return [text[start : start + part] for start in range(0, len(text), part)]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
