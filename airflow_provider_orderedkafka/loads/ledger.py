"""The documents of one load in a store: the ledger, ranges, claims and boundaries, each under one key.

Small documents are stored as they are. Large ones (thousands of partitions) are split into parts, because Airflow's API
refuses values of more than 65,535 bytes. Parts are named by their content and written first, the document that points
at them last, so that a reader sees either the old or the new document. Every write is read back.

Airflow's store has no compare-and-set. `save` compares with what the step has read immediately before it writes, and
again after: of two steps that write at the same moment at most the last one goes on. Where more hangs on it,
`check_stands` waits until whoever compared at the same moment has written too, and compares once more. The
store in a location, `Revisions`, refuses the write of whoever comes second, so nothing has to settle there.
"""

import json
import secrets
import sys
import time as clock
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Protocol, TypeVar, cast

from ..core.codec import Document, canonical
from ..core.documents import (
    CLAIMS_KEPT,
    Boundaries,
    Boundary,
    Claim,
    Claims,
    Intervals,
    Jobs,
    Ledger,
    Moved,
    Range,
    Times,
    Uncertain,
)
from ..core.order.positions import Offsets
from ..core.pacing import WatcherState
from ..errors import DocumentError, LedgerChangedError, LifecycleError, StateError
from ..job import Job
from ..storage import State

LEDGER = "ledger"
AIRFLOW = "airflow"
"""The name of Airflow's asset state store, among locations."""

JOBS_KEPT = 2 * CLAIMS_KEPT
"""How many jobs are kept: each range that is kept may have one of its own."""

PART = 30_000
"""Characters of a part: at most 65,535 bytes, even if each one is escaped."""

TRIES = 3
"""How often to read a document again while another writer replaces its parts."""

ROUNDS = 20
"""How often to add to a document that others add to: in each round at least one of them is done."""

SETTLE_SECONDS = 0.5
"""The time after which a concurrent write of another step is visible."""

_NESTED = {
    **dict.fromkeys(("ledger", "claims", "intervals", "boundaries", "jobs", "watch"), 0),
    **dict.fromkeys(("range", "claim", "boundary", "uncertain", "job", "memory"), 1),
}
"""How many slashes a key of each kind has; the names of parts have one more."""

Stored = TypeVar("Stored", bound=Document)


class Store(Protocol):
    """A key-value store for documents. Each `set` is atomic; there is no compare-and-set."""

    def get(self, key: str) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...

    def delete(self, key: str) -> None: ...


class LedgerStore:
    def __init__(self, load: str, store: Store, settle: Callable[[], None] | None = None, part: int = PART) -> None:
        self.load = load
        self._part = part
        self._store = store
        self.settle = settle or (lambda: clock.sleep(SETTLE_SECONDS))

    def ledger(self) -> Ledger | None:
        """The ledger, or None before the first look; `LifecycleError` if it was moved to another store."""
        return self._read(Ledger, LEDGER)

    def moved(self) -> Moved | None:
        """What stands in the ledger's place since it was moved."""
        text = self.text(LEDGER)
        return Moved.from_text(text) if text is not None and "moved_to" in json.loads(text) else None

    def mark_moved(self, to: str, before: Ledger | None) -> Moved:
        """Replace the ledger by a pointer to its new store."""
        self._expect(LEDGER, Ledger, before)
        moved = Moved(to, before)
        self._write(LEDGER, moved.to_text())
        self.settle()
        self._expect_text(LEDGER, moved.to_text())
        return moved

    def drop_damaged(self) -> None:
        """Delete the ledger if its parts are missing, so that a restored one can take its place."""
        try:
            self._whole(LEDGER)
        except DocumentError:
            self._remove(LEDGER)

    def take(self, ledger: Ledger | None) -> None:
        """Go on from here with a ledger that was moved here, in place of word that it was moved away."""
        if ledger is None:
            self._remove(LEDGER)
        else:
            self._write(LEDGER, ledger.to_text())

    def save(self, book: Ledger | Claim, before: Ledger | Claim | None, key: str = "") -> None:
        """Replace a ledger, or the claim under this key; `LedgerChangedError` if it is not `before` any more."""
        self._replace(LEDGER if isinstance(book, Ledger) else f"claim/{key}", book, before)

    def check_stands(self, book: Ledger | Claim, key: str = "") -> None:
        """Raise `LedgerChangedError` if the document was overwritten within a moment after it was saved."""
        self.settle()
        self._expect(LEDGER if isinstance(book, Ledger) else f"claim/{key}", type(book), book)

    def range(self, range_id: str) -> Range | None:
        return self._read(Range, f"range/{range_id}")

    def add_range(self, planned: Range) -> None:
        """Store a range, before anything points at it."""
        self._replace(f"range/{planned.id}", planned, None)

    def replace_range(self, planned: Range, before: Range) -> None:
        self._replace(f"range/{planned.id}", planned, before)

    def job(self, key: str) -> Job | None:
        return self._read(Job, f"job/{key}")

    def add_job(self, job: Job) -> None:
        """Store a job, before a range points at it; forget those that none of the kept ranges can have."""
        before = self._read(Jobs, "jobs")
        keys = (before or Jobs()).keys
        if keys[-1:] == (job.key,):
            return
        if job.key not in keys:
            with suppress(LedgerChangedError):  # by another run with the same job
                self._write(f"job/{job.key}", job.to_text())
        keys = (*(each for each in keys if each != job.key), job.key)
        with suppress(LedgerChangedError):  # a job that another run's list lacks is kept for ever
            self._replace("jobs", Jobs(keys[-JOBS_KEPT:]), before)
            for key in keys[:-JOBS_KEPT]:
                self._remove(f"job/{key}")

    def claim(self, key: str) -> Claim | None:
        return self._read(Claim, f"claim/{key}")

    def open_ranges(self) -> list[Range]:
        """The ranges that are open, whoever loads them; `LifecycleError` where that is not known here."""
        ledger, claims = self.ledger(), self._read(Claims, "claims")
        if ledger is None and claims is None:
            raise LifecycleError(
                f"load {self.load!r} has no documents here, so its open ranges are not known: its first run writes "
                "them; if it has run already, name the ledger= that it has"
            )
        books = (ledger, *(self.claim(key) for key in (claims or Claims()).keys))
        return [self._opened(book.open.range_id) for book in books if book is not None and book.open is not None]

    def _opened(self, range_id: str) -> Range:
        if (found := self.range(range_id)) is None:
            raise LifecycleError(
                f"range {range_id!r} of load {self.load!r} is open, but its document is gone, and with it the time "
                "since when it is open: end it first; if it is the ledger's own, abandon it with `orderedkafka ledger "
                f"abandon {self.load} --reason ...`"
            )
        return found

    def name_claim(self, key: str) -> None:
        """Add a claim to those that can be listed, before it is opened."""
        self._grow("claims", Claims(), lambda known: key in known.keys, lambda known: Claims((*known.keys, key)))

    def name_ended(self, key: str, kept: int) -> None:
        """Put a claim last; forget the oldest beyond `kept` that are not open, with their ranges."""
        before = self._read(Claims, "claims")
        keys = (before or Claims()).keys
        if keys[-1:] == (key,) and len(keys) <= kept:
            return
        keys = (*(each for each in keys if each != key), key)
        spared = tuple(each for each in keys[:-kept] if not self._forget_claim(each))
        self._replace("claims", Claims((*spared, *keys[-kept:])), before)

    def intervals(self) -> Intervals:
        """The times that runs have claimed."""
        return self._read(Intervals, "intervals") or Intervals()

    def add_interval(self, times: Times, check: Callable[[Intervals], None] = lambda _: None) -> None:
        """Add these times to those that are claimed, unless `check` raises for these."""

        def joined(known: Intervals) -> Intervals:
            check(known)
            return known.joined(times)

        self._grow("intervals", Intervals(), lambda known: times in known.last, joined)

    def _grow(self, key: str, none: Stored, has: Callable[[Stored], bool], grown: Callable[[Stored], Stored]) -> None:
        """Add to a document that others add to at the same moment; what is added stands after a moment."""
        for _ in range(ROUNDS):
            before = self._read(type(none), key)
            if not has(before or none):
                with suppress(LedgerChangedError):
                    self._replace(key, grown(before or none), before)
            self.settle()
            if has(self._read(type(none), key) or none):
                return
        raise self._changed(key)

    def memory(self, run: str) -> dict[str, dict[str, Any]]:
        """What the tasks of a run remember, where they have no other place for it."""
        return self._store.get(_memory_key(run)) or {}

    def remember(self, run: str, memory: Mapping[str, Mapping[str, Any]]) -> None:
        self._store.set(_memory_key(run), memory)

    def forget_runs(self, runs: Iterable[str]) -> None:
        for run in runs:
            self._store.delete(_memory_key(run))

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
        self._write(f"boundary/{boundary.time}", boundary.to_text())

    def uncertain(self, time: int) -> Uncertain:
        """Where it is not known for a boundary what was deleted before it was decided."""
        return self._read(Uncertain, f"uncertain/{time}") or Uncertain(Offsets(), Offsets(), 0)

    def add_uncertain(self, time: int, found: Uncertain) -> None:
        before = self.uncertain(time)
        maybe, older = before.maybe.updated(found.maybe), before.older.updated(found.older)
        self._write(f"uncertain/{time}", Uncertain(maybe, older, found.decided_at).to_text())

    def boundaries(self) -> tuple[int, ...]:
        return tuple(sorted(self._named()))

    def _named(self) -> tuple[int, ...]:
        return (self._read(Boundaries, "boundaries") or Boundaries()).times

    def name_boundary(self, time: int, kept: int) -> None:
        """Add a time to the boundaries; forget those that are neither among the `kept` latest nor the last decided."""
        times = (*(each for each in self._named() if each != time), time)
        keep = {*sorted(times)[-kept:], *times[-kept:]}
        self._write("boundaries", Boundaries(tuple(each for each in times if each in keep)).to_text())
        for old in set(times) - keep:
            self._remove(f"boundary/{old}")
            self._remove(f"uncertain/{old}")

    def watch(self) -> WatcherState | None:
        return self._read(WatcherState, "watch")

    def save_watch(self, watch: WatcherState) -> None:
        self._write("watch", watch.to_text())

    def forget_ranges(self, range_ids: Iterable[str]) -> None:
        for range_id in range_ids:
            self._remove(f"range/{range_id}")

    def text(self, key: str) -> str | None:
        return self._whole(key)[0]

    def _whole(self, key: str) -> tuple[str | None, list[str]]:
        """What stands under the key, and the names of its parts."""
        for _ in range(TRIES):
            head = self._store.get(key)
            text = None if head is None else self._join(head)
            if head is None or text is not None:
                return text, _parts(head)
        raise DocumentError(
            f"{key!r} of load {self.load!r} is damaged: its parts are missing or do not belong together; "
            f"see `orderedkafka ledger restore {self.load} --reason ...`"
        )

    def copy(self, key: str, source: "LedgerStore") -> None:
        text = source.text(key)
        if text is not None:
            self._write(key, text)

    def kept(self) -> list[str]:
        """The keys of all that is kept, where the store has `keys`: Airflow's has none. Parts are no documents."""
        found: list[str] = cast("Any", self._store).keys()
        return [key for key in found if key.count("/") == _NESTED.get(key.partition("/")[0])]

    def _replace(self, key: str, document: Document, before: Document | None) -> None:
        head, parts = _taken_apart(key, document.to_text(), self._part)
        outdated = set(self._expect(key, type(document), before))
        if parts:
            self._put(parts)
            self._expect(key, type(document), before)  # once more: many parts take a while
        self._point(key, head, document.to_text())
        for part in outdated - parts.keys():
            self._store.delete(part)

    def _write(self, key: str, text: str) -> None:
        head, parts = _taken_apart(key, text, self._part)
        self._put(parts)
        self._point(key, head, text)

    def _put(self, parts: Mapping[str, str]) -> None:
        for name, part in parts.items():
            self._store.set(name, part)

    def _point(self, key: str, head: Any, text: str) -> None:
        self._store.set(key, head)
        self._expect_text(key, text)

    def _expect_text(self, key: str, text: str) -> None:
        if self.text(key) != text:
            raise self._changed(key)

    def _expect(self, key: str, kind: type[Document], expected: Document | None) -> list[str]:
        """Raise if something else stands there; the names of its parts."""
        text, parts = self._whole(key)
        if self._parsed(kind, key, text) != expected:
            raise self._changed(key)
        return parts

    def _changed(self, key: str) -> LedgerChangedError:
        return LedgerChangedError(
            f"{key!r} of load {self.load!r} was written by another step at the same moment; "
            "try again: the next attempt starts from what it says now"
        )

    def _read(self, kind: type[Stored], key: str) -> Stored | None:
        return self._parsed(kind, key, self.text(key))

    def _parsed(self, kind: type[Stored], key: str, text: str | None) -> Stored | None:
        if text is not None and key == LEDGER and "moved_to" in json.loads(text):
            to = Moved.from_text(text).moved_to
            raise LifecycleError(
                f"the ledger of load {self.load!r} was moved to {to!r}: continue there, {setting_for(to)} in its "
                f"OrderedLoad; if the move was interrupted, finish it with `orderedkafka ledger move {self.load} --to "
                f"{to}`"
            )
        return None if text is None else kind.from_text(text)

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


def setting_for(place: str) -> str:
    """How a load says that its ledger is there."""
    return "without ledger=" if place == AIRFLOW else f"with ledger={place!r}"


def _memory_key(run: str) -> str:
    return f"memory/{sha256(run.encode()).hexdigest()[:32]}"


def _parts(head: Any) -> list[str]:
    return list(head.get("parts", ())) if isinstance(head, dict) else []


def _taken_apart(key: str, text: str, part: int) -> tuple[Any, dict[str, str]]:
    """The value to store under the key, and the parts of a large document."""
    if len(text) <= part:
        return json.loads(text), {}
    cut = (text[start : start + part] for start in range(0, len(text), part))
    parts = {f"{key}/{_digest(each)}": each for each in cut}
    return {"parts": list(parts), "digest": _digest(text)}, parts


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


REVISIONS_KEPT = 8
"""How many revisions of a key are kept. They are deleted from the oldest on."""

LOOKS = 20
"""How often a key is listed again where each time the newest revision is outdated and gone before it is read."""

SUFFIX = ".json"


class Revisions:
    """A store in a location, for one thread: the values of a key are numbered revisions, files that are created once.

        <location>/<load>/<key>/000000000042.json

    What `set` writes goes in place of what this store last saw under the key: it creates the next number, and of
    several writers one does. So who lost gets an error, and no reader sees less than a whole revision or, after a
    newer one, an older one. A few old revisions are kept, so that a reader that has listed them finds the newest.
    """

    def __init__(self, state: State, kept: int = REVISIONS_KEPT) -> None:
        self._state = state
        self._kept = kept
        self._seen: dict[str, int] = {}

    def get(self, key: str) -> Any:
        for _ in range(LOOKS):
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
            raise DocumentError(
                f"{key!r} in {self._state.location!r} is not a revision, found {text[:80]!r}"
            ) from error


def _name(key: str, number: int) -> str:
    return f"{key}/{number:012d}{SUFFIX}"


def store_in(load: str, state: State, kept: int = REVISIONS_KEPT) -> LedgerStore:
    """The documents of a load in a folder of its own; nothing settles there, and nothing is cut into parts."""
    return LedgerStore(load, Revisions(state, kept), settle=lambda: None, part=sys.maxsize)
