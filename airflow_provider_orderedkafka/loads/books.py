"""What all steps share: the documents of a load, the run, which runs are active, the reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_orderedkafka.core.documents import Claim, Ledger, Range, Report
from airflow_provider_orderedkafka.core.lifecycle import (
    Action,
    Asker,
    RangeState,
    RangeStatus,
    Step,
    action,
    asker,
    status_of,
)
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads.ledger import LedgerStore


class Memory(Protocol):
    """What a task remembers across retries and clears."""

    def get(self, key: str) -> Any: ...

    def set(self, key: str, value: Any) -> None:
        """Store a value, without expiry."""
        ...


class RunMemory:
    """What a task remembers, beside the ledger; as long as the ledger knows how its run's range ended."""

    def __init__(self, store: LedgerStore, run: str, task: str) -> None:
        self._store = store
        self._run = run
        self._task = task

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self._store.memory(self._run).get(self._task, {}).get(key)

    def set(self, key: str, value: Any) -> None:
        known = self._store.memory(self._run)
        self._store.remember(self._run, {**known, self._task: {**known.get(self._task, {}), key: value}})


class Mirror(Protocol):
    """The ledger's copy in the consumer group."""

    def check(self, ledger: Ledger | None) -> None:
        """Repair a mirror that is behind; `LifecycleError` if it is ahead, of another ledger, or without one."""
        ...

    def write(self, ledger: Ledger) -> None: ...


@dataclass(frozen=True, slots=True)
class Books:
    """What all steps share.

    `report` returns the report beside a checkpoint, or None; `noted` whether a batch was noted beside it.
    """

    store: LedgerStore
    run: str
    is_active: Callable[[str], bool]
    now: Callable[[], int]
    report: Callable[[str], Report | None]
    noted: Callable[[str], bool]

    def status(self, book: Ledger | Claim, range_id: str) -> RangeStatus:
        """The status of the range, including the report beside its checkpoint."""
        return status_of(book, range_id, complete=self.proof(book, range_id) is not None)

    def proof(self, book: Ledger | Claim, range_id: str) -> Report | None:
        """The complete report of the open range, if there is one."""
        opened = book.open
        if opened is None or opened.range_id != range_id or opened.checkpoint is None:
            return None
        report = self.report(opened.checkpoint)
        return report if report is not None and report.complete else None

    def decide(self, found: RangeStatus, step: Step) -> Action:
        return action(found, step, self.asker(found))

    def asker(self, found: RangeStatus) -> Asker:
        foreign = found.owner is not None and found.owner != self.run
        return asker(found, self.run, owner_active=foreign and self.is_active(str(found.owner)))

    def range(self, range_id: str) -> Range:
        """The document of a range; `LifecycleError` if it is gone."""
        found = self.store.range(range_id)
        if found is None:
            raise LifecycleError(
                f"range {range_id!r} of load {self.store.load!r} is open, but its document is gone: abandon it with "
                f"`orderedkafka ledger abandon {self.store.load}`; the next run plans a new range from the ledger"
            )
        return found

    def book(self, range_id: str | None) -> tuple[str, Ledger | Claim]:
        """The ledger or claim with this range; without an id, with the open range of this run."""
        ledger = self.store.ledger()
        if range_id is not None:
            claim = self._claim(ledger, range_id)
            if claim is not None:
                return range_id, claim
        elif ledger is not None and ledger.open is not None and ledger.open.owner == self.run:
            range_id = ledger.open.range_id
        if ledger is None or range_id is None:
            raise LifecycleError(
                f"no range of load {self.store.load!r} is open for {self.run}: let its resolve task run, clear it if "
                "it was marked success by hand"
            )
        return range_id, ledger

    def _claim(self, ledger: Ledger | None, range_id: str) -> Claim | None:
        """The claim on a range that is not in the ledger."""
        if ledger is not None and status_of(ledger, range_id).state is not RangeState.UNKNOWN:
            return None
        loaded = self.store.range(range_id)
        return None if loaded is None else self.store.claim(loaded.key)


def checked(store: LedgerStore, mirror: Mirror) -> Ledger | None:
    """The ledger, after checking its mirror; both are read again if the ledger moved in between."""
    ledger = store.ledger()
    try:
        mirror.check(ledger)
    except LifecycleError:
        moved = store.ledger()
        if moved == ledger:
            raise
        mirror.check(moved)
        return moved
    return ledger


def show(store: LedgerStore, mirror: Mirror, ledger: Ledger) -> None:
    """Mirror a ledger that was just saved, unless it is overwritten within a moment: the mirror must not be ahead."""
    store.check_stands(ledger)
    mirror.write(ledger)
