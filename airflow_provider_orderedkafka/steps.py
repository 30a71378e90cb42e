"""The steps of a run, over ports: look at the books, ask the table, do what it says.

Each step can be killed between any two writes and run again: a range is written before anything points at it, the
ledger is written in one piece, and everything is decided from the books alone. What a step found and did comes back as
one value with one sentence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import uuid4

from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.documents import (
    OUTCOMES_KEPT,
    Claim,
    Ledger,
    Open,
    Outcome,
    Place,
    Range,
    Report,
)
from airflow_provider_orderedkafka.core.lifecycle import (
    Action,
    Asker,
    Standing,
    State,
    Step,
    action,
    asker,
    outcome_of,
    standing,
)
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.ledger import LedgerStore

RANGE_KEY = "range_id"
REVISION_KEY = "revision"


class Memory(Protocol):
    """What a task remembers over its retries and clears."""

    def get(self, key: str) -> Any:
        """The value, or None."""
        ...

    def set(self, key: str, value: Any) -> None:
        """Remember it for good."""
        ...


class Mirror(Protocol):
    """The ledger's copy in the consumer group."""

    def check(self, ledger: Ledger | None) -> None:
        """Repair what is one behind; `LifecycleError` where it is ahead, another's, or has no ledger."""
        ...

    def write(self, ledger: Ledger) -> None:
        """Show the ledger's place."""
        ...


@dataclass(frozen=True, slots=True)
class First:
    """Where a load begins: its start policy, resolved, with what a person should know about how that came about."""

    place: Place
    topics: Mapping[str, str]
    remarks: tuple[str, ...] = ()


class NothingToLoad(Exception):  # noqa: N818 - not an error: a run may find nothing
    """Why there is no range to plan."""


@dataclass(frozen=True, slots=True)
class Books:
    """What every step needs: the documents, which run asks, which runs are active, the time, the reports.

    `report` gives the complete report beside a checkpoint, or None.
    """

    store: LedgerStore
    run: str
    is_active: Callable[[str], bool]
    now: Callable[[], int]
    report: Callable[[str], Report | None]

    def standing(self, book: Ledger | Claim, range_id: str) -> Standing:
        """Where the range stands, the report beside its checkpoint included."""
        return standing(book, range_id, complete=self.proof(book, range_id) is not None)

    def proof(self, book: Ledger | Claim, range_id: str) -> Report | None:
        """The complete report of the open range."""
        opened = book.open
        if opened is None or opened.range_id != range_id or opened.checkpoint is None:
            return None
        report = self.report(opened.checkpoint)
        return report if report is not None and report.complete else None

    def decide(self, found: Standing, step: Step) -> Action:
        """What the table says for this run."""
        return action(found, step, self.asker(found))

    def asker(self, found: Standing) -> Asker:
        """Who this run is to the range."""
        foreign = found.owner is not None and found.owner != self.run
        return asker(found, self.run, owner_active=foreign and self.is_active(str(found.owner)))


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a resolve did: the range to load, or None when the run is skipped, why, how often it was loaded before."""

    action: Action
    reason: str
    range: Range | None = None
    times: int = 0


@dataclass(frozen=True, slots=True)
class Loading:
    """What a load is to do: start attempt `attempt` at `checkpoint`, or give `report`, or neither."""

    action: Action
    reason: str
    range: Range | None = None
    attempt: int = 0
    checkpoint: str | None = None
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did: the outcome whose event is to be emitted, or None."""

    action: Action
    reason: str
    outcome: Outcome | None = None


def look(books: Books, mirror: Mirror, start: Callable[[], First], home: str) -> Ledger:
    """The ledger; at the first look it is written, with the start policy resolved once and for all."""
    ledger = books.store.ledger()
    mirror.check(ledger)
    if ledger is not None:
        return _at_home(books, ledger, home)
    first = start()
    ledger = moves.first_look(
        books.store.load,
        instance=uuid4().hex[:12],
        home_dag=home,
        place=first.place,
        topics=first.topics,
        now=books.now(),
    )
    books.store.save(ledger, None)
    mirror.write(ledger)
    return ledger


def wait(books: Books, ledger: Ledger, row_limit: int | None) -> Verdict | None:
    """What the ledger alone says to a run that waits: go on with an open range, or skip; None when Kafka decides."""
    found = _opened(books, ledger)
    if found is not None:
        mine = books.asker(found) is not Asker.OTHER
        return Verdict(run=mine, reason=f"nothing to wait for: {found.sentence}", skip=not mine)
    if row_limit is not None and ledger.rows_emitted >= row_limit:
        return Verdict(run=False, reason=limit_spent(ledger, row_limit), skip=True)
    return None


def limit_spent(ledger: Ledger, row_limit: int) -> str:
    """The sentence for a load that may write no more rows."""
    return f"limit spent: {ledger.rows_emitted:,} of {row_limit:,} rows are written; raise row_limit to go on"


def resolve(books: Books, memory: Memory, ledger: Ledger, plan: Callable[[Ledger], Range]) -> Resolved:
    """Keep, take over or plan the range of an incremental run; `plan` raises `NothingToLoad`."""
    found = _remembered(books, memory, ledger) or _opened(books, ledger)
    if found is None:
        return _plan(books, memory, ledger, plan)
    does = books.decide(found, Step.RESOLVE)
    if does is Action.SKIP:
        return Resolved(does, found.sentence)
    if does is Action.TAKE_OVER:
        books.store.save(moves.taken_over(ledger, books.run), ledger)
    memory.set(RANGE_KEY, found.range_id)
    return Resolved(does, f"{does}: {found.sentence}", _range(books.store, found.range_id))


def resolve_own(books: Books, planned: Callable[[], Range], range_id: str, *, again: bool) -> Resolved:
    """The range of an interval's or a replay's run, which belongs to that run alone.

    With `again`, a range that was committed is opened once more, to be loaded anew.
    """
    claim = books.store.claim(range_id)
    if claim is None:
        try:
            found = planned()
        except NothingToLoad as reason:
            return Resolved(Action.SKIP, str(reason))
        books.store.add_range(found)
        books.store.save(moves.opened(Claim(None, ()), range_id, books.run), None, range_id)
        return Resolved(Action.PLAN, found.reason, found)
    where = books.standing(claim, range_id)
    does = books.decide(where, Step.RESOLVE)
    if does is Action.SKIP and again and where.state is State.COMMITTED:
        books.store.save(moves.reopened(claim, books.run), claim, range_id)
        again_for = len(claim.outcomes)
        return Resolved(Action.KEEP, f"loaded once more: {where.sentence}", _range(books.store, range_id), again_for)
    if does is Action.SKIP:
        return Resolved(does, where.sentence)
    return Resolved(does, f"{does}: {where.sentence}", _range(books.store, range_id), len(claim.outcomes))


def load(books: Books, range_id: str | None, checkpoint: Callable[[Range, int], str]) -> Loading:
    """What a load has to do; the attempt is written down before it starts.

    `checkpoint` names the place of a range that has none yet, given how often it was loaded before.
    """
    range_id, book = _book(books, range_id)
    found = books.standing(book, range_id)
    does = books.decide(found, Step.LOAD)
    if does in {Action.SKIP, Action.REFUSE}:
        return Loading(does, found.sentence)
    loaded = _range(books.store, range_id)
    if does is Action.GIVE_REPORT:
        return Loading(does, found.sentence, loaded, found.attempt, _of(book).checkpoint, books.proof(book, range_id))
    times = len(book.outcomes) if isinstance(book, Claim) else 0
    after = moves.submitted(book, checkpoint(loaded, times))
    books.store.save(after, book, range_id)
    return Loading(does, f"{does}: {found.sentence}", loaded, _of(after).attempt, _of(after).checkpoint)


def commit(books: Books, range_id: str | None, mirror: Mirror) -> Committed:
    """Move the ledger to where the report says that the application stopped, once."""
    range_id, book = _book(books, range_id)
    found = books.standing(book, range_id)
    does = books.decide(found, Step.COMMIT)
    if does is Action.EMIT_AGAIN:
        if isinstance(book, Ledger):
            mirror.check(book)
        return Committed(does, f"moved nothing: {found.sentence}", found.outcome)
    report = books.proof(book, range_id)
    if does is not Action.MOVE or report is None:
        return Committed(does, found.sentence)
    loaded = _range(books.store, range_id)
    if isinstance(book, Claim):
        after: Ledger | Claim = moves.claim_committed(book, loaded, report, books.run, books.now())
    else:
        after = moves.committed(book, loaded, report, books.run, books.now())
    books.store.save(after, book, range_id)
    if isinstance(after, Ledger):
        mirror.write(after)
        _forget(books.store, book, after)
    outcome = outcome_of(after, range_id)
    return Committed(does, standing(after, range_id).sentence, outcome)


def _at_home(books: Books, ledger: Ledger, home: str) -> Ledger:
    if ledger.home_dag == home:
        return ledger
    if ledger.home_dag is None:
        adopted = replace(ledger, home_dag=home)
        books.store.save(adopted, ledger)
        return adopted
    raise LifecycleError(
        f"load {ledger.load!r} belongs to DAG {ledger.home_dag!r}, DAG {home!r} cannot load incrementally under the "
        f"same name: name the load differently, or, when the DAG was renamed, let the ledger move with "
        f"`orderedkafka ledger rewind {ledger.load} --to-current`"
    )


def _remembered(books: Books, memory: Memory, ledger: Ledger) -> Standing | None:
    """Where the range stands that this task remembers; one that was never opened does not exist."""
    range_id = memory.get(RANGE_KEY)
    if range_id is None:
        return None
    found = books.standing(ledger, range_id)
    if found.state is not State.UNKNOWN:
        return found
    if len(ledger.outcomes) == OUTCOMES_KEPT and (memory.get(REVISION_KEY) or 0) < ledger.outcomes[0].revision:
        gone = Outcome("committed", range_id, memory.get(REVISION_KEY) or 0, "an earlier run", 0, "")
        return Standing(range_id, State.COMMITTED, books.run, 0, gone)
    books.store.forget_ranges([range_id])
    return None


def _opened(books: Books, ledger: Ledger) -> Standing | None:
    return None if ledger.open is None else books.standing(ledger, ledger.open.range_id)


def _plan(books: Books, memory: Memory, ledger: Ledger, plan: Callable[[Ledger], Range]) -> Resolved:
    try:
        planned = plan(ledger)
    except NothingToLoad as reason:
        return Resolved(Action.SKIP, str(reason))
    memory.set(REVISION_KEY, ledger.revision)
    memory.set(RANGE_KEY, planned.id)
    books.store.add_range(planned)
    books.store.save(moves.opened(ledger, planned.id, books.run), ledger)
    return Resolved(Action.PLAN, planned.reason, planned)


def _book(books: Books, range_id: str | None) -> tuple[str, Ledger | Claim]:
    """The document that knows the range; without an id, the open range of this run."""
    ledger = books.store.ledger()
    if range_id is not None:
        claim = books.store.claim(range_id)
        if claim is not None:
            return range_id, claim
    elif ledger is not None and ledger.open is not None and ledger.open.owner == books.run:
        range_id = ledger.open.range_id
    if ledger is None or range_id is None:
        raise LifecycleError(
            f"no range of load {books.store.load!r} is open for {books.run}: let its resolve task run, clear it if it "
            "was marked success by hand"
        )
    return range_id, ledger


def _range(store: LedgerStore, range_id: str) -> Range:
    found = store.range(range_id)
    if found is None:
        raise LifecycleError(
            f"range {range_id!r} of load {store.load!r} is open, but its document is gone: abandon it with "
            f"`orderedkafka ledger abandon {store.load}`; the next run plans anew from where the ledger stands"
        )
    return found


def _of(book: Ledger | Claim) -> Open:
    if book.open is None:
        raise LifecycleError("no range is open")
    return book.open


def _forget(store: LedgerStore, before: Ledger | Claim, after: Ledger | Claim) -> None:
    kept = {outcome.range_id for outcome in after.outcomes}
    store.forget_ranges(outcome.range_id for outcome in before.outcomes if outcome.range_id not in kept)
