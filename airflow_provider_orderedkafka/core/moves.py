"""Changes of a ledger or a claim, as functions from one document to the next.

Only `committed`, `rewound` and `restored` move the place of a ledger; each makes a new revision. A change that does not
fit the document it is given raises `LifecycleError`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from airflow_provider_orderedkafka.core.notation.spelling import counted
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import LifecycleError

from .documents import DOUBTS, OUTCOMES_KEPT, Claim, Ledger, Open, Outcome, Place, Range, Report
from .lifecycle import way_out

Book = TypeVar("Book", bound=Ledger | Claim)


def first_look(
    load: str,
    *,
    instance: str,
    home_dag: str | None,
    place: Place,
    topics: Mapping[str, str],
    now: int,
    chosen: bool | None = None,
    home_file: str = "",
) -> Ledger:
    """Revision 0, with the start resolved, so that "latest" does not move any more."""
    return Ledger(
        load=load,
        instance=instance,
        revision=0,
        place=place,
        topics=topics,
        first_looked_at=now,
        last_run_at=None,
        rows_emitted=0,
        open=None,
        outcomes=(),
        home_dag=home_dag,
        chosen=chosen,
        home_file=home_file,
    )


def joined(ledger: Ledger, offsets: Mapping[TopicPartition, int], topics: Mapping[str, str]) -> Ledger:
    """Add new topics or partitions at the load's start. Nothing moves, so the revision stays."""
    place = Place(ledger.place.offsets.updated(offsets), ledger.place.floor)
    return replace(ledger, place=place, topics={**topics, **ledger.topics})


def opened(book: Book, range_id: str, owner: str) -> Book:
    """Open a range that is stored already."""
    if book.open is not None:
        raise LifecycleError(
            f"cannot open range {range_id!r}: {book.open.range_id!r} of {book.open.owner} is still open"
        )
    return replace(book, open=Open(range_id, owner))


def taken_over(book: Book, owner: str) -> Book:
    """Give the open range to another run; its attempts continue to count."""
    return replace(book, open=replace(open_of(book), owner=owner))


def submitted(book: Book, checkpoint: str, machine: str) -> Book:
    """Record the next attempt; the checkpoint stays where the first attempt put it."""
    opened = open_of(book)
    place = opened.checkpoint or checkpoint
    return replace(book, open=replace(opened, attempt=opened.attempt + 1, checkpoint=place, machine=machine))


def reopened(claim: Claim, owner: str) -> Claim:
    """Open a committed range again, without its checkpoint."""
    return replace(claim, open=Open(_last(claim).range_id, owner))


def committed(ledger: Ledger, loaded: Range, report: Report, run: str, now: int) -> Ledger:
    """Move to where the application stopped; the delay counts from the range's planning time."""
    check_proof(open_of(ledger), loaded, report)
    if loaded.ledger_revision != ledger.revision:
        raise LifecycleError(
            f"range {loaded.id!r} was planned at revision {loaded.ledger_revision}, "
            f"the ledger of {ledger.load!r} is at {ledger.revision}: it was moved in between"
        )
    revision = ledger.revision + 1
    outcome = _success(loaded, report, revision, run, now)
    return replace(
        ledger,
        revision=revision,
        place=Place(ledger.place.offsets.updated(report.stop.offsets), report.stop.floor),
        topics={**ledger.topics, **loaded.topics},
        last_run_at=loaded.planned_at,
        rows_emitted=ledger.rows_emitted + report.rows_emitted,
        dead_letters=ledger.dead_letters + report.dead_letters,
        open=None,
        outcomes=_kept(ledger, outcome),
    )


def claim_committed(claim: Claim, loaded: Range, report: Report, run: str, now: int) -> Claim:
    """Close an interval's or a replay's range; no ledger moves, so its revision is the one it was planned at."""
    check_proof(open_of(claim), loaded, report)
    outcome = _success(loaded, report, loaded.ledger_revision, run, now)
    return replace(claim, open=None, outcomes=_kept(claim, outcome))


def abandoned(book: Book, by: str, reason: str, now: int) -> Book:
    """Give up the open range; nothing moves, and what it wrote stays."""
    revision = book.revision if isinstance(book, Ledger) else 0
    outcome = Outcome("abandoned", open_of(book).range_id, revision, by, now, reason)
    return replace(book, open=None, outcomes=_kept(book, outcome))


def rewound(ledger: Ledger, place: Place, by: str, reason: str, now: int, *, topics: Mapping[str, str]) -> Ledger:
    """Move to another place, as a person asked; another DAG may continue from there, and topics be said otherwise."""
    there = replace(ledger, topics={**ledger.topics, **topics})
    return _moved(there, place, Outcome("rewound", "", ledger.revision + 1, by, now, reason))


def restored(ledger: Ledger, by: str, reason: str, now: int) -> Ledger:
    """A ledger that was read back from its mirror."""
    return _moved(ledger, ledger.place, Outcome("restored", "", ledger.revision + 1, by, now, reason))


def _moved(ledger: Ledger, place: Place, outcome: Outcome) -> Ledger:
    if ledger.open is not None:
        raise LifecycleError(still_open(ledger.load, ledger.open, outcome.kind))
    after = replace(ledger, revision=outcome.revision, place=place, outcomes=_kept(ledger, outcome))
    return replace(after, home_dag=None, home_file="", chosen=None)


def still_open(load: str, opened: Open, moved: str) -> str:
    """Why a ledger cannot be moved."""
    return (
        f"the ledger of {load!r} cannot be {moved}: range {opened.range_id!r} of {opened.owner} is open; let it "
        "finish, or abandon it first"
    )


def open_of(book: Ledger | Claim) -> Open:
    if book.open is None:
        raise LifecycleError("no range is open")
    return book.open


def _last(claim: Claim) -> Outcome:
    if not claim.outcomes:
        raise LifecycleError("no range was ever loaded under this claim")
    return claim.outcomes[-1]


def check_proof(opened: Open, loaded: Range, report: Report) -> None:
    """Raise `LifecycleError` unless the report proves that the open range is loaded."""
    if not (opened.range_id == loaded.id == report.range_id):
        raise LifecycleError(
            f"the open range is {opened.range_id!r}, the range {loaded.id!r}, the report's {report.range_id!r}: "
            "they must be the same"
        )
    if not report.is_of(loaded):
        raise LifecycleError(
            f"the report of range {loaded.id!r} is about another range of the same name, such as another Airflow's in "
            f"the same checkpoint folder: it proves nothing. Give each Airflow a checkpoint= of its own, and "
            f"{way_out(loaded)}"
        )
    if not report.complete:
        raise LifecycleError(
            f"the report of range {loaded.id!r} is not complete: attempt {report.attempt} stopped early"
        )
    for partition, stop in report.stop.offsets.items():
        if not loaded.start.offsets.get(partition, stop + 1) <= stop <= loaded.end.offsets[partition]:
            raise LifecycleError(
                f"the report of range {loaded.id!r} stops at {partition.at(stop)}, outside the range: "
                f"it is not a report of this range"
            )


def _success(loaded: Range, report: Report, revision: int, run: str, now: int) -> Outcome:
    doubts = {name: getattr(report, name) for name in DOUBTS}
    reason = loaded.reason
    if report.limit_spent:
        reason = (
            f"as many rows as it may write were written after {report.stop.offsets.since(loaded.start.offsets):,} of "
            f"{counted(loaded.offsets, 'offset')}; the rest waits"
        )
    return Outcome("committed", loaded.id, revision, run, now, reason, report.rows_emitted, report.late, **doubts)


def _kept(book: Ledger | Claim, outcome: Outcome) -> tuple[Outcome, ...]:
    return (*book.outcomes, outcome)[-OUTCOMES_KEPT:]
