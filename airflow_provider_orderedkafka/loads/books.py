"""What all steps share: the documents of a load, the run, which runs are active, the reports; and whether to wait."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import uuid4

from ..core import lifecycle
from ..core.documents import Claim, Ledger, Place, Range, Report, costs, doubts
from ..core.lifecycle import (
    Action,
    Asker,
    RangeState,
    RangeStatus,
    Step,
    action,
    asker,
    is_same,
    of_another_airflow,
    status_of,
)
from ..core.next_range import limit_reached
from ..core.notation.spelling import counted, shown_duration
from ..core.notation.starts import Moment
from ..core.notation.subscriptions import Assigned, Subscription, lacking
from ..core.pacing import Verdict
from ..errors import LedgerChangedError, LifecycleError
from .ledger import LedgerStore

SHOWN = 20
"""How many partitions are named."""


def in_numbers(report: Report) -> str:
    took = shown_duration(report.ended_at - report.started_at)
    dead = "" if report.dead_letters else ", no dead letters"
    return (
        f"{counted(report.rows_read, 'row')} read, {report.rows_emitted:,} written{report.changes.words}, "
        f"{report.late:,} late{dead}{doubts(report)}{report.of_columns}, in {took} by attempt {report.attempt}"
        f"{costs(report)}"
    )


def in_words(loaded: Range) -> str:
    """A range by partition, with times in UTC."""
    return "\n".join(_lines(loaded))


def _lines(loaded: Range) -> Iterator[str]:
    spans = [(p, loaded.start.offsets[p], end) for p, end in loaded.end.offsets.items()]
    filled = [(p, start, end) for p, start, end in spans if start < end]
    begin, end = loaded.start.floor.lowest, loaded.end.floor.lowest
    partitions = f"{len(filled):,} of {counted(len(spans), 'partition')}"
    yield f"range {loaded.id}: {counted(loaded.offsets, 'offset')} in {partitions}"
    yield f"  planned at  {Moment(loaded.planned_at)}"
    yield f"  times       {'the beginning' if begin < 0 else Moment(begin)} to {'its end' if end < 0 else Moment(end)}"
    yield from (f"  {p}  {start:,} to {end:,}: {counted(end - start, 'offset')}" for p, start, end in filled[:SHOWN])
    if len(filled) > SHOWN:
        yield f"  and {counted(len(filled) - SHOWN, 'more partition')}"


class Memory(Protocol):
    """What a task remembers across retries and clears."""

    def get(self, key: str) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...


class RunMemory:
    """What a task remembers, besides the ledger; as long as the ledger knows how its run's range ended."""

    def __init__(self, store: LedgerStore, run: str, task: str) -> None:
        self._store = store
        self._run = run
        self._task = task

    def get(self, key: str) -> Any:
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

    `report` returns the report beside a checkpoint, or None; `noted` whether a batch was noted beside it. `bound` says
    whether a range was ever taken there, `bind` writes it there before an attempt is counted; `machine` is this one.
    """

    store: LedgerStore
    run: str
    is_active: Callable[[str], bool]
    now: Callable[[], int]
    report: Callable[[str], Report | None]
    noted: Callable[[str], bool]
    bound: Callable[[str], bool]
    bind: Callable[[str, Range], None]
    machine: str

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
        """What to do; `LifecycleError` where a run of another Airflow has the range open that is to be resolved."""
        does = action(found, step, self.asker(found))
        if does is Action.REFUSE and step is Step.RESOLVE:
            raise LifecycleError(of_another_airflow(found, self.store.load))
        return does

    def asker(self, found: RangeStatus) -> Asker:
        foreign = found.owner is not None and not is_same(found.owner, self.run)
        return asker(found, self.run, owner_active=foreign and self.is_active(str(found.owner)))

    def range(self, range_id: str) -> Range:
        """The document of a range; `LifecycleError` if it is gone, `LedgerChangedError` if another run has ended it."""
        found = self.store.range(range_id)
        if found is None:
            ledger = self.store.ledger()
            still_open = ledger is not None and ledger.open is not None and ledger.open.range_id == range_id
            if not still_open:
                raise LedgerChangedError(
                    f"range {range_id!r} of load {self.store.load!r} was open a moment ago, and is not any more: "
                    "another run has ended it; run again to go on from where the ledger stands"
                )
            raise without_document(self.store.load, range_id)
        return found

    def book(self, range_id: str | None) -> tuple[str, Ledger | Claim]:
        """The ledger or claim with this range; without an id, with the open range of this run."""
        ledger = self.store.ledger()
        if range_id is not None:
            claim = self._claim(ledger, range_id)
            if claim is not None:
                return range_id, claim
        elif ledger is not None and ledger.open is not None and is_same(ledger.open.owner, self.run):
            range_id = ledger.open.range_id
        if ledger is None or range_id is None:
            raise LifecycleError(
                f"no range of load {self.store.load!r} is open for {self.run}: run its resolve task first; if that was "
                "marked success by hand, clear it"
            )
        return range_id, ledger

    def _claim(self, ledger: Ledger | None, range_id: str) -> Claim | None:
        if ledger is not None and status_of(ledger, range_id).state is not RangeState.UNKNOWN:
            return None
        loaded = self.store.range(range_id)
        return None if loaded is None else self.store.claim(loaded.claim)


def without_document(load: str, range_id: str) -> LifecycleError:
    """The error for the ledger's open range, of which nothing else is known any more."""
    return LifecycleError(
        f"range {range_id!r} of load {load!r} is open, but its document is gone: abandon it with `orderedkafka ledger "
        f"abandon {load} --reason ...`; the next run plans a new range from the ledger"
    )


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


@dataclass(frozen=True, slots=True)
class First:
    """A resolved start: the place, the ids of its topics, and remarks for people about how it was found."""

    place: Place
    topics: Mapping[str, str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Home:
    """The DAG of a run, and the file that defines it, as Airflow names it; empty where it does not say.

    `is_elsewhere` tells of the name of another file whether that is there, and is not this one by another name.
    """

    dag: str
    file: str = ""
    is_elsewhere: Callable[[str], bool] = bool


Start = Callable[[Subscription | None], First]
"""Resolves a load's start policy for some of its topics or partitions, None for all of them."""


def look(books: Books, mirror: Mirror, start: Start, subscription: Subscription, *, home: Home | None) -> Ledger:
    """Read the ledger. At the first look, and for what is added, the start is resolved and stored for good."""
    ledger = checked(books.store, mirror)
    if ledger is not None:
        check_chosen(ledger, subscription)
        return _with_added(books, mirror, _at_home(books, ledger, home, subscription), start, subscription)
    first = start(None)
    ledger = lifecycle.first_look(
        books.store.load,
        instance=uuid4().hex[:12],
        home_dag=None if home is None else home.dag,
        home_file="" if home is None else home.file,
        place=first.place,
        topics=first.topics,
        now=books.now(),
        chosen=isinstance(subscription, Assigned),
    )
    books.store.save(ledger, None)
    show(books.store, mirror, ledger)
    return ledger


def check_chosen(ledger: Ledger, subscription: Subscription) -> None:
    """Raise `LifecycleError` where a load of whole topics has become one of chosen partitions, or the other way round.

    The other partitions would be taken for new ones, and be loaded from their beginning.
    """
    if ledger.chosen is None or ledger.chosen == isinstance(subscription, Assigned):
        return
    was, now = ("chosen partitions", "whole topics") if ledger.chosen else ("whole topics", "chosen partitions")
    raise LifecycleError(
        f"load {ledger.load!r} has loaded {was} until now, and topics= names {now} ({subscription}): the ledger does "
        "not say where the others begin. Give the load another name; or set where all begin, with `orderedkafka ledger "
        f"rewind {ledger.load} --to latest --reason ...` or another place"
    )


def _with_added(books: Books, mirror: Mirror, ledger: Ledger, start: Start, subscription: Subscription) -> Ledger:
    added = lacking(subscription, ledger.topics, ledger.place.offsets)
    if added is None:
        return ledger
    first = start(added)
    after = lifecycle.joined(ledger, first.place, first.topics)
    books.store.save(after, ledger)
    show(books.store, mirror, after)
    return after


def wait(books: Books, ledger: Ledger, row_limit: int | None) -> Verdict | None:
    """What the ledger alone decides: run for an open range, or skip; None if it depends on Kafka."""
    done = committed_by(books.run, ledger)
    if done is not None:
        return Verdict(run=True, reason=f"nothing to wait for: {done.sentence}")
    found = opened(books, ledger)
    if found is not None:
        mine = books.decide(found, Step.RESOLVE) is not Action.SKIP
        return Verdict(run=mine, reason=f"nothing to wait for: {found.sentence}", skip=not mine)
    reached = limit_reached(ledger, row_limit)
    return None if reached is None else Verdict(run=False, reason=reached, skip=True)


def opened(books: Books, ledger: Ledger) -> RangeStatus | None:
    return None if ledger.open is None else books.status(ledger, ledger.open.range_id)


def committed_by(run: str, ledger: Ledger) -> RangeStatus | None:
    """The status of the range that this run has committed, if it was cleared after that; it loads nothing new."""
    if ledger.open is not None and is_same(ledger.open.owner, run):
        return None
    mine = (each for each in reversed(ledger.outcomes) if each.kind == "committed" and is_same(each.by, run))
    return next((status_of(ledger, each.range_id) for each in mine), None)


def _at_home(books: Books, ledger: Ledger, home: Home | None, subscription: Subscription) -> Ledger:
    """The ledger at home where it moves; from elsewhere, a `LifecycleError` names both places."""
    dag, file = ("", "") if home is None else (home.dag, home.file)
    check_dag(ledger, dag, file)
    if home is not None and ledger.home_file not in {"", file} and home.is_elsewhere(ledger.home_file):
        raise LifecycleError(
            f"load {ledger.load!r} of DAG {dag!r} is defined by two files, {ledger.home_file!r} and {file!r}: the "
            "settings of the file that Airflow parsed last would count. Delete one of the files, or give the DAG and "
            f"the load in it names of their own; if {ledger.home_file!r} does not define it any more, "
            f"{_way_out(ledger, 'moved')}"
        )
    chosen = isinstance(subscription, Assigned)
    at_home = replace(ledger, home_dag=dag or None, home_file=file or ledger.home_file, chosen=chosen)
    if at_home != ledger:
        books.store.save(at_home, ledger)
    return at_home


def check_dag(ledger: Ledger, dag: str, file: str = "") -> None:
    """`LifecycleError` where a run of this DAG would find the ledger of another one."""
    if ledger.home_dag not in {None, dag or None}:
        raise LifecycleError(
            f"load {ledger.load!r} belongs to DAG {ledger.home_dag!r}{_of(ledger.home_file)}: DAG {dag!r}{_of(file)} "
            "cannot load incrementally under the same name. Give the load another name; or, if the DAG was renamed, "
            f"{_way_out(ledger, 'renamed')}"
        )


def _of(file: str) -> str:
    return f" of {file!r}" if file else ""


def _way_out(ledger: Ledger, reason: str) -> str:
    return (
        f"let this DAG take the ledger over with `orderedkafka ledger rewind {ledger.load} --to current --reason "
        f"{reason}`, or with a rewind to 'current' in the form of the ledger's operations"
    )
