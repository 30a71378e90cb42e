"""Resolve: the range of a run, kept, taken over, or planned and written down before anything points at it."""

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.documents import CLAIMS_KEPT, OUTCOMES_KEPT, Claim, Ledger, Range
from airflow_provider_orderedkafka.core.lifecycle import Action, Standing, State, Step
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.steps.books import Books, Memory
from airflow_provider_orderedkafka.steps.looking import NothingToLoad, opened
from airflow_provider_orderedkafka.steps.restating import restate, restated

RANGE_KEY = "range_id"
REVISION_KEY = "revision"


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a resolve did: the range to go on with, or None when the run is skipped; why; how often it was loaded."""

    action: Action
    reason: str
    range: Range | None = None
    times: int = 0


def resolve(
    books: Books, memory: Memory, ledger: Ledger, plan: Callable[[Ledger], Range], digest: str = ""
) -> Resolved:
    """Keep, take over or plan the range of an incremental run; `plan` raises `NothingToLoad`.

    The range that this run has committed is given on too, for the commit to emit its event again: nothing is loaded.
    """
    try:
        found = _remembered(books, memory, ledger) or opened(books, ledger)
        if found is None:
            return _plan(books, memory, ledger, plan)
    except NothingToLoad as reason:
        return Resolved(Action.SKIP, str(reason))
    does = books.decide(found, Step.RESOLVE)
    if does is Action.SKIP:
        return Resolved(does, found.sentence)
    loaded = books.range(found.range_id)
    after = restated(books, ledger, found, loaded, digest)
    if does is Action.TAKE_OVER:
        books.store.save(moves.taken_over(ledger, books.run), ledger)
    memory.set(RANGE_KEY, found.range_id)
    restate(books, after, loaded)
    return Resolved(does, f"{does}: {found.sentence}; {after.reason}", after)


def resolve_own(
    books: Books, planned: Callable[[], Range], range_id: str, *, again: bool, digest: str = "", memory: Memory
) -> Resolved:
    """The range of an interval's or a replay's run, which belongs to that run alone.

    With `again`, a range that was committed is opened once more, to be loaded anew. One that was committed so long ago
    that it is not kept any more is not planned a second time: its rows would be written twice.
    """
    if books.store.claim(range_id) is None and memory.get(RANGE_KEY) == range_id:
        return _forgotten(range_id, again=again)
    found = _own(books, planned, range_id, again=again, digest=digest)
    if found.range is not None:
        memory.set(RANGE_KEY, range_id)
    return found


def _forgotten(range_id: str, *, again: bool) -> Resolved:
    reason = f"range {range_id!r} was committed, longer ago than the last {CLAIMS_KEPT:,} of this load"
    if again:
        raise LifecycleError(f"{reason}: it cannot be opened once more; load its offsets with a replay")
    return Resolved(Action.SKIP, reason)


def _own(books: Books, planned: Callable[[], Range], range_id: str, *, again: bool, digest: str) -> Resolved:
    claim = books.store.claim(range_id)
    if claim is None:
        return _claim(books, planned, range_id)
    where = books.standing(claim, range_id)
    does = books.decide(where, Step.RESOLVE)
    if does is Action.SKIP:
        return Resolved(does, where.sentence)
    loaded, times = books.range(range_id), len(claim.outcomes)
    if again and where.state is State.COMMITTED:
        books.store.save(moves.reopened(claim, books.run), claim, range_id)
        return Resolved(Action.KEEP, f"loaded once more: {where.sentence}", loaded, times)
    after = restated(books, claim, where, loaded, digest)
    restate(books, after, loaded)
    return Resolved(does, f"{does}: {where.sentence}; {after.reason}", after, times)


def _plan(books: Books, memory: Memory, ledger: Ledger, plan: Callable[[Ledger], Range]) -> Resolved:
    planned = plan(ledger)
    memory.set(REVISION_KEY, ledger.revision)
    memory.set(RANGE_KEY, planned.id)
    books.store.add_range(planned)
    books.store.save(moves.opened(ledger, planned.id, books.run), ledger)
    return Resolved(Action.PLAN, planned.reason, planned)


def _claim(books: Books, planned: Callable[[], Range], range_id: str) -> Resolved:
    found = books.store.range(range_id)  # a try that was killed before the claim has written it: it never changes
    if found is None:
        try:
            found = planned()
        except NothingToLoad as reason:
            return Resolved(Action.SKIP, str(reason))
        books.store.add_range(found)
    books.store.save(moves.opened(Claim(None, ()), range_id, books.run), None, range_id)
    return Resolved(Action.PLAN, found.reason, found)


def _remembered(books: Books, memory: Memory, ledger: Ledger) -> Standing | None:
    """Where the range stands that this task remembers; one that was never opened does not exist."""
    range_id, revision = memory.get(RANGE_KEY), memory.get(REVISION_KEY) or 0
    if range_id is None:
        return None
    found = books.standing(ledger, range_id)
    if found.state is not State.UNKNOWN:
        return found
    if len(ledger.outcomes) == OUTCOMES_KEPT and revision < ledger.outcomes[0].revision:
        raise NothingToLoad(f"range {range_id!r} ended before the last {OUTCOMES_KEPT} outcomes of the ledger")
    books.store.forget_ranges([range_id])
    return None
