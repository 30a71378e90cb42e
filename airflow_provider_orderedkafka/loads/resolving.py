"""Resolve: keep a run's range, take one over, or plan one and store it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.documents import CLAIMS_KEPT, OUTCOMES_KEPT, Claim, Kind, Ledger, Range
from airflow_provider_orderedkafka.core.lifecycle import Action, RangeState, RangeStatus, Step
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads.books import Books, Memory
from airflow_provider_orderedkafka.loads.changed_settings import store_changes, with_changes
from airflow_provider_orderedkafka.loads.waiting import opened

RANGE_KEY = "range_id"
REVISION_KEY = "revision"

PlanOwn = Callable[[], Range | NothingToLoad]
PlanNext = Callable[[Ledger], Range | NothingToLoad]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The range to load, or None to skip the run, and why; `times` is how often it was loaded before."""

    action: Action
    reason: str
    range: Range | None = None
    times: int = 0


def resolve(books: Books, memory: Memory, ledger: Ledger, plan: PlanNext, digest: str = "") -> Resolved:
    """Keep, take over or plan the range of an incremental run.

    A range that this run has committed is returned too, so that its commit emits the event again; nothing is loaded.
    """
    found = _remembered(books, memory, ledger) or opened(books, ledger)
    if found is None:
        return _plan(books, memory, ledger, plan)
    if isinstance(found, NothingToLoad):
        return Resolved(Action.SKIP, found.reason)
    does = books.decide(found, Step.RESOLVE)
    if does is Action.SKIP:
        return Resolved(does, found.sentence)
    loaded = books.range(found.range_id)
    after = with_changes(books, ledger, found, loaded, digest)
    if does is Action.TAKE_OVER:
        books.store.save(moves.taken_over(ledger, books.run), ledger)
    memory.set(RANGE_KEY, found.range_id)
    store_changes(books, after, loaded)
    return Resolved(does, f"{does}: {found.sentence}; {after.reason}", after)


def resolve_own(books: Books, planned: PlanOwn, key: str, *, again: bool, digest: str = "", memory: Memory) -> Resolved:
    """The range of an interval's or a replay's run, which belongs to that run alone.

    With `again`, a committed range is opened again, to be loaded anew. It keeps its id: tables replace the rows with
    that id, and in a topic a batch looks for its rows only after its own note, behind those of the first time. A range
    that was committed and forgotten is not planned again: its rows would be written twice.
    """
    if books.store.claim(key) is None and memory.get(RANGE_KEY) == key:
        return _forgotten(key, again=again)
    found = _own(books, planned, key, again=again, digest=digest)
    if found.range is not None:
        memory.set(RANGE_KEY, key)
    return found


def _forgotten(key: str, *, again: bool) -> Resolved:
    reason = f"the range of {key!r} was committed, longer ago than the last {CLAIMS_KEPT:,} of this load"
    if again:
        raise LifecycleError(f"{reason}: it cannot be opened once more; load its offsets with a replay")
    return Resolved(Action.SKIP, reason)


def _own(books: Books, planned: PlanOwn, key: str, *, again: bool, digest: str) -> Resolved:
    claim = books.store.claim(key)
    if claim is None:
        return _claim(books, planned, key, None)
    range_id = claim.range_id or key
    where = books.status(claim, range_id)
    does = books.decide(where, Step.RESOLVE)
    if does is Action.PLAN:
        return _claim(books, planned, key, claim)
    if does is Action.SKIP:
        return Resolved(does, where.sentence)
    loaded, times = books.range(range_id), len(claim.outcomes)
    if again and where.state is RangeState.COMMITTED:
        books.store.save(moves.reopened(claim, books.run), claim, key)
        return Resolved(Action.KEEP, f"loaded once more: {where.sentence}", loaded, times)
    after = with_changes(books, claim, where, loaded, digest)
    store_changes(books, after, loaded)
    return Resolved(does, f"{does}: {where.sentence}; {after.reason}", after, times)


def _plan(books: Books, memory: Memory, ledger: Ledger, plan: PlanNext) -> Resolved:
    planned = plan(ledger)
    if isinstance(planned, NothingToLoad):
        return Resolved(Action.SKIP, planned.reason)
    memory.set(REVISION_KEY, ledger.revision)
    memory.set(RANGE_KEY, planned.id)
    books.store.add_range(planned)
    books.store.save(moves.opened(ledger, planned.id, books.run), ledger)
    return Resolved(Action.PLAN, planned.reason, planned)


def claim_key(load: str, kind: Kind, *facts: object) -> str:
    """The key of a run's claim, from the facts that identify its range."""
    return f"{load}-{kind}-{sha256(repr(facts).encode()).hexdigest()[:12]}"


def _claim(books: Books, planned: PlanOwn, key: str, before: Claim | None) -> Resolved:
    """Store the claim with the range's id, then the range, then open it; continues after a kill in between."""
    found = None if before is None else books.store.range(before.range_id)
    planning = found or planned()
    if isinstance(planning, NothingToLoad):
        return Resolved(Action.SKIP, planning.reason)
    claim = before or Claim(None, (), planning.id)
    if before is None:
        books.store.save(claim, None, key)
    if found is None:
        found = replace(planning, id=claim.range_id, claim=key)
        books.store.add_range(found)
    books.store.save(moves.opened(claim, found.id, books.run), claim, key)
    return Resolved(Action.PLAN, found.reason, found)


def _remembered(books: Books, memory: Memory, ledger: Ledger) -> RangeStatus | NothingToLoad | None:
    """The status of the range that this task remembers; None if it was never opened."""
    range_id, revision = memory.get(RANGE_KEY), memory.get(REVISION_KEY) or 0
    if range_id is None:
        return None
    found = books.status(ledger, range_id)
    if found.state is not RangeState.UNKNOWN:
        return found
    if len(ledger.outcomes) == OUTCOMES_KEPT and revision < ledger.outcomes[0].revision:
        return NothingToLoad(f"range {range_id!r} ended before the last {OUTCOMES_KEPT} outcomes of the ledger")
    books.store.forget_ranges([range_id])
    return None
