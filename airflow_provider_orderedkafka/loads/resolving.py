"""Resolve: keep a run's range, take one over, or plan one and store it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

from ..core import lifecycle
from ..core.documents import CLAIMS_KEPT, OUTCOMES_KEPT, Claim, Intervals, Kind, Ledger, Range, Times
from ..core.lifecycle import Action, RangeState, RangeStatus, Step, parted
from ..core.next_range import NO_BOUND, AtMost, NothingToLoad
from ..core.notation.starts import Moment
from ..core.upserts import upserting
from ..errors import LifecycleError
from ..job import Job
from .books import Books, Memory, opened
from .loading import store_changes, with_changes, with_job

RANGE_KEY = "range_id"
REVISION_KEY = "revision"

PlanOwn = Callable[[], Range | NothingToLoad]
PlanNext = Callable[[Ledger], Range | NothingToLoad]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The range to load, or None to skip the run, and why; `times` is how often it was loaded before.

    `job` is what it is loaded with, `checkpoint` where an attempt has begun.
    """

    action: Action
    reason: str
    range: Range | None = None
    times: int = 0
    job: Job | None = None
    checkpoint: str | None = None


def resolve(
    books: Books,
    memory: Memory,
    ledger: Ledger,
    plan: PlanNext,
    job: Job | None = None,
    *,
    upserts: bool = False,
    most: AtMost = NO_BOUND,
) -> Resolved:
    """Keep, take over or plan the range of an incremental run; it takes over none that may load more than `most`.

    `upserts` tells whether its rows are, where there is no job that does.
    A range that this run has committed is returned too, so that its commit emits the event again; nothing is loaded.
    """
    found = _remembered(books, memory, ledger) or opened(books, ledger)
    if found is None:
        return _plan(books, memory, ledger, plan, job, upserts=upserts)
    if isinstance(found, NothingToLoad):
        return Resolved(Action.SKIP, found.reason)
    does = books.decide(found, Step.RESOLVE)
    if does is Action.SKIP:
        return Resolved(does, found.sentence)
    loaded = books.range(found.range_id)
    after, job = with_changes(books, ledger, found, loaded, job)
    if does is Action.TAKE_OVER:
        most.check_taken_over(loaded)
        books.store.save(lifecycle.taken_over(ledger, books.run), ledger)
    memory.set(RANGE_KEY, found.range_id)
    store_changes(books, after, job, loaded)
    where = None if ledger.open is None else ledger.open.checkpoint
    return Resolved(does, f"{does}: {found.sentence}; {after.reason}", after, 0, job, where)


def resolve_own(
    books: Books, planned: PlanOwn, key: str, *, again: bool, job: Job | None = None, memory: Memory
) -> Resolved:
    """The range under a claim: a replay's belongs to its run alone, an interval's to the run that claimed it.

    With `again`, a committed range is opened again, to be loaded anew. It keeps its id: tables replace the rows with
    that id, and in a topic a batch looks for its rows only after its own note, behind those of the first time. A range
    that was committed and forgotten is not planned again: its rows would be written twice.
    """
    if books.store.claim(key) is None and memory.get(RANGE_KEY) == key:
        return _forgotten(key, again=again)
    found = _own(books, planned, key, again=again, job=job)
    if found.range is not None:
        memory.set(RANGE_KEY, key)
    return found


def resolve_interval(
    books: Books, planned: PlanOwn, times: Times, *, again: bool, job: Job | None = None, memory: Memory
) -> Resolved:
    """The range of an interval: of all runs that are asked for these times, one loads it.

    Other runs skip it, and take it over where its run has ended without a commit. With `again`, the run that committed
    it loads it anew.
    """
    key = claim_key(books.store.load, "interval", (times.begin, times.end))
    if books.store.claim(key) is None:
        known = books.store.intervals()
        if memory.get(RANGE_KEY) == key:
            return _forgotten(key, again=again)
        if known.cover(times):
            reason = f"all records {_between(times)} belong to intervals of earlier runs"
            return _refuse_or_skip(reason, again=again)
        _check_unclaimed(books.store.load, times, known)
    return resolve_own(books, planned, key, again=again, job=job, memory=memory)


def _check_unclaimed(load: str, times: Times, known: Intervals) -> None:
    if known.meet(times):
        raise LifecycleError(
            f"some records {_between(times)} belong to intervals of load {load!r} that earlier runs took, with other "
            "times: load the others with a replay"
        )


def _between(times: Times) -> str:
    return f"between {Moment(times.begin)} and {Moment(times.end)}"


def _forgotten(key: str, *, again: bool) -> Resolved:
    reason = f"the range of {key!r} was committed, and is not among the last {CLAIMS_KEPT:,} of this load that are kept"
    return _refuse_or_skip(reason, again=again)


def _refuse_or_skip(reason: str, *, again: bool) -> Resolved:
    if again:
        raise LifecycleError(f"{reason}: it cannot be opened again; load its offsets with a replay")
    return Resolved(Action.SKIP, reason)


def _own(books: Books, planned: PlanOwn, key: str, *, again: bool, job: Job | None) -> Resolved:
    claim = books.store.claim(key)
    if claim is None:
        return _claim(books, planned, key, None, job)
    range_id = claim.range_id
    where = books.status(claim, range_id)
    _check_dag(books, where)
    does = books.decide(where, Step.RESOLVE)
    if does is Action.PLAN:
        return _claim(books, planned, key, claim, job)
    if does is Action.SKIP:
        return Resolved(does, where.sentence)
    if does is Action.TAKE_OVER:
        before, claim = claim, lifecycle.taken_over(claim, books.run)
        books.store.save(claim, before, key)
        books.store.check_stands(claim, key)
    loaded, times = books.range(range_id), len(claim.outcomes)
    if again and where.state is RangeState.COMMITTED:
        after = loaded if job is None else with_job(books, loaded, job)
        store_changes(books, after, job, loaded)
        books.store.save(lifecycle.reopened(claim, books.run), claim, key)
        return Resolved(Action.KEEP, f"loaded again: {where.sentence}", after, times, job)
    after, job = with_changes(books, claim, where, loaded, job)
    store_changes(books, after, job, loaded)
    begun = None if claim.open is None else claim.open.checkpoint
    return Resolved(does, f"{does}: {where.sentence}; {after.reason}", after, times, job, begun)


def _check_dag(books: Books, found: RangeStatus) -> None:
    """Raise `LifecycleError` where another DAG loads intervals under the same name."""
    home = (found.owner or books.run).partition("/")[0]
    if home != books.run.partition("/")[0]:
        raise LifecycleError(
            f"{found.sentence}, a run of DAG {home!r}: two DAGs load intervals as {books.store.load!r}. Give each load "
            "a name of its own; or, if the DAG was renamed, mark the tasks of loaded intervals success"
        )


def _plan(books: Books, memory: Memory, ledger: Ledger, plan: PlanNext, job: Job | None, *, upserts: bool) -> Resolved:
    found = plan(ledger)
    if isinstance(found, NothingToLoad):
        return Resolved(Action.SKIP, found.reason)
    planned = upserting(ledger, found, upserts=upserts) if job is None else _with_job(books, found, job)
    memory.set(REVISION_KEY, ledger.revision)
    memory.set(RANGE_KEY, planned.id)
    books.store.add_range(planned)
    books.store.save(lifecycle.opened(ledger, planned.id, books.run), ledger)
    return Resolved(Action.PLAN, planned.reason, planned, 0, job)


def _with_job(books: Books, planned: Range, job: Job | None) -> Range:
    """The range with its job, which is stored before anything points at it."""
    if job is None:
        return planned
    found = with_job(books, planned, job)
    books.store.add_job(job)
    return found


def replay_key(books: Books, memory: Memory, *facts: object) -> str:
    """The key of the claim on a replay's range: of one made in Airflow's own store, without the Airflow of its run."""
    runs = dict.fromkeys((books.run, parted(books.run)[0]))
    keys = [claim_key(books.store.load, "replay", run, *facts) for run in runs]
    known = (key for key in keys if key == memory.get(RANGE_KEY) or books.store.claim(key) is not None)
    return next(known, keys[0])


def claim_key(load: str, kind: Kind, *facts: object) -> str:
    return f"{load}-{kind}-{sha256(repr(facts).encode()).hexdigest()[:12]}"


def _claim(books: Books, planned: PlanOwn, key: str, before: Claim | None, job: Job | None) -> Resolved:
    """Store the claim with the range's id, then the range, then open it; continues after a kill in between."""
    found = None if before is None else books.store.range(before.range_id)
    planning = found or planned()
    if isinstance(planning, NothingToLoad):
        return Resolved(Action.SKIP, planning.reason)
    claim = before or Claim(None, (), planning.id)
    if before is None:
        books.store.save(claim, None, key)
    books.store.name_claim(key)
    if found is None:
        found = _with_job(books, replace(planning, id=claim.range_id, claim=key), job)
        books.store.add_range(found)
    elif job is not None and found.job != job.key:  # nothing is open yet
        loaded, found = found, _with_job(books, found, job)
        books.store.replace_range(found, loaded)
    after = lifecycle.opened(claim, found.id, books.run)
    if found.times is not None:
        books.store.add_interval(found.times, partial(_check_unclaimed, books.store.load, found.times))
    books.store.save(after, claim, key)
    if found.times is not None:
        books.store.check_stands(after, key)
    return Resolved(Action.PLAN, found.reason, found, 0, job)


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
