"""Commit: move the ledger to where the application stopped, according to the report, once."""

from contextlib import suppress
from dataclasses import dataclass

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import CLAIMS_KEPT, Claim, Ledger, Outcome, Range, Report
from airflow_provider_orderedkafka.core.lifecycle import Action, Step, outcome_of, status_of
from airflow_provider_orderedkafka.errors import DocumentError, LedgerChangedError

from .books import Books, Mirror, checked, show
from .boundaries import check_interval
from .ledger import LedgerStore


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit. `outcome` is the one to emit an event for, if any.

    `range`, `report` and `ledger` are what was committed now; an interval or a replay has no ledger.
    """

    action: Action
    reason: str
    outcome: Outcome | None = None
    range: Range | None = None
    report: Report | None = None
    ledger: Ledger | None = None


def commit(books: Books, range_id: str | None, mirror: Mirror) -> CommitResult:
    """Move the ledger to where the application stopped, according to the report, once.

    Raises `LedgerChangedError`, and moves nothing, if the document has changed since it was read.
    """
    range_id, book = books.book(range_id)
    found = books.status(book, range_id)
    does = books.decide(found, Step.COMMIT)
    if does is Action.EMIT_AGAIN:
        if isinstance(book, Ledger):
            checked(books.store, mirror)
        else:
            _name_ended(books.store, books.range(range_id).key)
        return CommitResult(does, f"moved nothing: {found.sentence}", found.outcome)
    report = books.proof(book, range_id)
    if does is not Action.MOVE or report is None:
        return CommitResult(does, found.sentence)
    loaded = books.range(range_id)
    if loaded.kind == "interval":
        check_interval(books.store, loaded)
    after = _moved(books, book, loaded, report)
    books.store.save(after, book, loaded.key)
    if isinstance(after, Ledger):
        show(books.store, mirror, after)
        _forget(books.store, book, after)
    else:
        _name_ended(books.store, loaded.key)
    moved = after if isinstance(after, Ledger) else None
    return CommitResult(does, status_of(after, range_id).sentence, outcome_of(after, range_id), loaded, report, moved)


def _name_ended(store: LedgerStore, key: str) -> None:
    """Forget old claims. Must not fail the commit: if two runs do this at the same moment, a claim may stay forever."""
    with suppress(LedgerChangedError, DocumentError):
        store.name_ended(key, CLAIMS_KEPT)


def _moved(books: Books, book: Ledger | Claim, loaded: Range, report: Report) -> Ledger | Claim:
    if isinstance(book, Claim):
        return lifecycle.claim_committed(book, loaded, report, books.run, books.now())
    return lifecycle.committed(book, loaded, report, books.run, books.now())


def _forget(store: LedgerStore, before: Ledger | Claim, after: Ledger | Claim) -> None:
    kept = {outcome.range_id for outcome in after.outcomes}
    forgotten = [outcome for outcome in before.outcomes if outcome.range_id not in kept]
    store.forget_ranges(outcome.range_id for outcome in forgotten)
    store.forget_runs({outcome.by for outcome in forgotten} - {outcome.by for outcome in after.outcomes})
