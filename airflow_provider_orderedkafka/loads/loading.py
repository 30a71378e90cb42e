"""Load and commit: what to do for a range, its attempt and its job before it starts, and how the ledger moves after it.

Before a batch is noted, nothing was written, so the range can start again over the same offsets with another job. After
that, the output would have rows of both jobs, and a person has to decide. The ledger moves to where the application
stopped, according to the report, once.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ..core import lifecycle
from ..core.documents import CLAIMS_KEPT, Claim, Ledger, Open, Outcome, Range, Report
from ..core.lifecycle import Action, RangeState, RangeStatus, Step, outcome_of, status_of, way_out
from ..core.notation.spelling import counted
from ..core.upserts import upserting
from ..errors import DocumentError, LedgerChangedError, LifecycleError
from ..job import Job
from .books import Books, Mirror, checked, show
from .boundaries import check_interval
from .ledger import LedgerStore


def with_changes(
    books: Books, book: Ledger | Claim, found: RangeStatus, loaded: Range, job: Job | None
) -> tuple[Range, Job | None]:
    """The range with the job that it goes on with; `LifecycleError` if a batch was begun with another one.

    That is the present job, at the place where the range was begun. Without a present one, it is the stored one.
    """
    before = books.store.job(loaded.job) if loaded.job else None
    if job is None or found.state not in {RangeState.PLANNED, RangeState.SUBMITTED}:
        return loaded, before
    change = _change(loaded, before, job)
    if change and book.open is not None and book.open.checkpoint and books.noted(book.open.checkpoint):
        raise LifecycleError(_refusal(loaded, change, book.open.checkpoint))
    after = job if change or before is None else job.at(before)
    return with_job(books, loaded, after), after


def with_job(books: Books, loaded: Range, job: Job) -> Range:
    """The range as it is loaded with this job."""
    return replace(upserting(books.store.ledger(), loaded, upserts=job.upserts), job=job.key)


def store_changes(books: Books, after: Range, job: Job | None, before: Range) -> None:
    if job is not None:
        books.store.add_job(job)
    if after != before:
        books.store.replace_range(after, before)


def _change(loaded: Range, before: Job | None, now: Job) -> str:
    """What stays once a batch is begun, and is otherwise now, in words."""
    if not loaded.job:
        return ""
    return f"its job {loaded.job!r} is not kept any more" if before is None else before.changes(now)


def _refusal(loaded: Range, change: str, checkpoint: str) -> str:
    return (
        f"range {loaded.id!r} of load {loaded.load!r} was started with other settings, and some rows may be written "
        f"already ({checkpoint!r} has a batch): {change}. Change that back and clear this task to finish the range; or "
        f"{way_out(loaded)}"
    )


AGAIN = "-again-"


@dataclass(frozen=True, slots=True)
class Loading:
    """What a load has to do: start attempt `attempt` at `checkpoint` with `job`, return `report`, or neither."""

    action: Action
    reason: str
    range: Range | None = None
    attempt: int = 0
    checkpoint: str | None = None
    report: Report | None = None
    job: Job | None = None


def place_of(root: str, range_id: str, times: int) -> str:
    """The folder of a range, another one each time that it is loaded again."""
    return f"{root.rstrip('/')}/{range_id}" + (f"{AGAIN}{times}" if times else "")


def name_at(location: str, range_id: str) -> str:
    """How a range is called at this place: by its id, or by another name if it is loaded again."""
    folder = location.rstrip("/").rpartition("/")[2]
    return folder if folder.startswith(f"{range_id}{AGAIN}") else range_id


def names_before(range_id: str, name: str) -> tuple[str, ...]:
    """How the range was called each time before it was loaded again under this name; none the first time."""
    if name == range_id:
        return ()
    times = name.removeprefix(f"{range_id}{AGAIN}")
    return (range_id, *(f"{range_id}{AGAIN}{each}" for each in range(1, int(times) if times.isdecimal() else 1)))


def stored_job(books: Books, range_id: str | None) -> Job | None:
    """The job of a range, or of the open range of this run; None if none was stored with it."""
    found = books.store.range(books.book(range_id)[0])
    return books.store.job(found.job) if found is not None and found.job else None


def committed_at(books: Books, root: str, range_id: str) -> str:
    """The folder in which a range was loaded when it was committed last; that of an open one, as far as it is begun."""
    _, book = books.book(range_id)
    if book.open is not None and book.open.range_id == range_id and book.open.checkpoint is not None:
        return book.open.checkpoint
    ends = book.outcomes if isinstance(book, Claim) else ()
    return place_of(root, range_id, max((n for n, each in enumerate(ends) if each.kind == "committed"), default=0))


def load(
    books: Books, range_id: str | None, checkpoint: Callable[[Range, int], str], job: Job | None = None
) -> Loading:
    """Decide what to do for a range; an attempt is recorded before it starts.

    `checkpoint` makes the location for a range without one, given how often it was loaded before. The range is written
    there before the attempt is counted: an attempt that finds neither it nor a report is refused, as it would write
    everything again.
    """
    range_id, book = books.book(range_id)
    found = books.status(book, range_id)
    does = books.decide(found, Step.LOAD)
    if does in {Action.SKIP, Action.REFUSE}:
        return Loading(does, found.sentence)
    loaded = books.range(range_id)
    proof = books.proof(book, range_id) if does is Action.GIVE_REPORT else None
    if proof is not None:
        opened = lifecycle.open_of(book)
        lifecycle.check_proof(opened, loaded, proof)
        return Loading(does, f"{found.sentence}; {loaded.reason}", loaded, found.attempt, opened.checkpoint, proof)
    todo, job = with_changes(books, book, found, loaded, job)
    times = len(book.outcomes) if isinstance(book, Claim) else 0
    opened = lifecycle.open_of(book)
    place = opened.checkpoint or checkpoint(todo, times)
    if opened.attempt and not books.bound(place):
        raise LifecycleError(_lost(todo, opened, place, books.machine))
    books.bind(place, todo)
    after = lifecycle.submitted(book, place, books.machine)
    books.store.save(after, book, loaded.claim)
    store_changes(books, todo, job, loaded)
    said = f"{does}: {found.sentence}; {todo.reason}"
    return Loading(does, said, todo, lifecycle.open_of(after).attempt, place, job=job)


def _lost(loaded: Range, opened: Open, place: str, machine: str) -> str:
    return (
        f"attempt {opened.attempt} of range {loaded.id!r} ran on machine {opened.machine!r}, and this is {machine!r}: "
        f"its state should be at {place!r}, but is not there. Without that state, another attempt would write the same "
        "rows again. Bring it back, or run this task on the machine that has it; name a checkpoint= that all workers "
        f"and Spark reach; or {way_out(loaded)}"
    )


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
            _name_ended(books.store, books.range(range_id).claim)
        return CommitResult(does, f"moved nothing: {found.sentence}", found.outcome)
    report = books.proof(book, range_id)
    if does is not Action.MOVE or report is None:
        return CommitResult(does, found.sentence)
    loaded = books.range(range_id)
    if loaded.kind == "interval":
        check_interval(books.store, loaded)
    after = _moved(books, book, loaded, report)
    books.store.save(after, book, loaded.claim)
    if isinstance(after, Ledger):
        show(books.store, mirror, after)
        _forget(books.store, book, after)
    else:
        _name_ended(books.store, loaded.claim)
    moved = after if isinstance(after, Ledger) else None
    return CommitResult(does, status_of(after, range_id).sentence, outcome_of(after, range_id), loaded, report, moved)


@dataclass(frozen=True, slots=True)
class LateReport:
    """Word of a committed range: `more` rows may be doubled than its `outcome` had, and the `ledger` has them now."""

    ledger: Ledger
    outcome: Outcome
    report: Report
    more: int

    @property
    def sentence(self) -> str:
        return (
            f"up to {counted(self.more, 'row')} of range {self.outcome.range_id!r}, committed at revision "
            f"{self.outcome.revision}, may be doubled: an earlier attempt has reported them since"
        )


def late_report(books: Books, ledger: Ledger, place: Callable[[str], str]) -> LateReport | None:
    """Look once whether an overtaken attempt has left word of the range that was committed last, since it was."""
    last = next((each for each in reversed(ledger.outcomes) if each.kind == "committed"), None)
    report = None if last is None else books.report(place(last.range_id))
    if last is None or report is None or not report.complete or report.range_id != last.range_id:
        return None
    after, more = lifecycle.recounted(ledger, report), report.may_be_doubled - last.may_be_doubled
    if after == ledger:
        return None
    books.store.save(after, ledger)
    return LateReport(after, last, report, more)


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
