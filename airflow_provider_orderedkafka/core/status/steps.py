"""What each step of a run changes in the status."""

from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_orderedkafka.core.documents import DOUBTS, Ledger, Outcome, Range, Report
from airflow_provider_orderedkafka.core.lifecycle import outcome_of
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.pacing import Pace, Verdict
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.core.status.documents import (
    BATCHES_KEPT,
    RANGES_KEPT,
    TOPICS_KEPT,
    Backlog,
    BatchRow,
    RangeRow,
    Status,
)
from airflow_provider_orderedkafka.core.status.partitions import At, places_of, table

LONGEST = 500
"""Characters of a sentence."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Who tells of a load: its name, topics and settings, the DAG, the run, the task, the time."""

    load: str
    topics: tuple[str, ...]
    row_limit: int | None
    pace: Pace
    dag: str
    run: str
    task: str
    now: int

    def begin(self, status: Status | None) -> Status:
        """The status to change; a watcher knows no DAG."""
        before = status or Status(self.load, self.dag, (), 0, self.now)
        return replace(
            before,
            dag=self.dag or before.dag,
            topics=self.topics[:TOPICS_KEPT],
            of_topics=len(self.topics),
            row_limit=self.row_limit,
            updated_at=self.now,
        )


def looked(status: Status, teller: Teller, ledger: Ledger, verdict: Verdict) -> Status:
    """After a look at Kafka: the lag, and what became of ranges whose end nobody told."""
    settled = tuple(_settled(row, ledger) for row in status.ranges)
    status = replace(status, ranges=settled, revision=ledger.revision, rows=ledger.rows)
    if verdict.span is None:
        return (
            status if status.lag is None else replace(status, lag=replace(status.lag, reason=_clipped(verdict.reason)))
        )
    late = {} if status.lag is None else {p: at.late for p, at in places_of(status.lag.partitions).items()}
    places = {p: At(begin, 0, verdict.span.end[p] - begin, late.get(p, 0)) for p, begin in verdict.span.start.items()}
    return replace(
        status,
        lag=Backlog(
            at=teller.now,
            offsets=verdict.span.offsets if verdict.lag is None else verdict.lag,
            waiting=verdict.waiting,
            enough=teller.pace.enough,
            due=verdict.due,
            loaded_to=_time(verdict.span.floor),
            reason=_clipped(verdict.reason),
            partitions=table(places),
            of_partitions=len(places),
        ),
    )


def planned(status: Status, teller: Teller, loaded: Range) -> Status:
    """A range was resolved, or taken over."""
    row = _row(status, teller, loaded)
    row = replace(row, run=teller.run, state=row.state if row.open else "planned")
    if loaded.kind != "incremental":
        return _with(status, row)
    lag = _taking(status.lag, teller, loaded)
    return _with(replace(status, lag=lag), replace(row, lag=lag.offsets if row.lag is None else row.lag))


def begun(status: Status, teller: Teller, loaded: Range, attempt: int) -> Status:
    row = replace(_row(status, teller, loaded), run=teller.run, task=teller.task, state="loading", attempts=attempt)
    return _with(status, replace(row, begun_at=teller.now, ended_at=None, error="", progress=None, written=()))


def progressed(status: Status, teller: Teller, loaded: Range, found: Progress) -> Status:
    """The application told how far it is."""
    row = _row(status, teller, loaded)
    written = row.written
    if not written or found.offsets_done > written[-1].offsets_done:
        sums = (found.offsets_done, found.rows_read, found.rows_emitted, found.late)
        written = (*written, BatchRow(found.batch, teller.now, *sums))[-BATCHES_KEPT:]
    told = replace(row, rows_read=found.rows_read, rows_written=found.rows_emitted, late=found.late)
    return _with(status, replace(told, progress=found, written=written))


def failed(status: Status, teller: Teller, loaded: Range, why: str) -> Status:
    row = replace(_row(status, teller, loaded), state="failed", ended_at=teller.now, error=_clipped(why))
    return _with(status, row)


def done(status: Status, teller: Teller, loaded: Range, report: Report) -> Status:
    """The range is loaded, and not yet committed."""
    return _with(status, _reported(_row(status, teller, loaded), report))


def committed(
    status: Status,
    teller: Teller,
    loaded: Range,
    report: Report,
    ledger: Ledger | None,
    *,
    left: Offsets | None = None,
    task: str = "",
) -> Status:
    """The range is committed. An interval or a replay has no ledger. `left` is what waits, if somebody looked.

    `task` is the one that loaded the range, where it could not tell so itself.
    """
    row = _reported(_row(status, teller, loaded), report)
    row = replace(row, state="committed", task=row.task or task, progress=None, written=())
    status = _with(status, row)
    if ledger is None:
        return status
    lag = status.lag if left is None else _seen(teller, report.stop, left)
    return replace(status, revision=ledger.revision, rows=ledger.rows, lag=lag and _after(lag, loaded, report, left))


def _row(status: Status, teller: Teller, loaded: Range) -> RangeRow:
    new = RangeRow(
        id=loaded.id,
        kind=loaded.kind,
        reason=_clipped(loaded.reason),
        planned_at=loaded.planned_at,
        offsets=loaded.offsets,
        partitions=len(loaded.end.offsets),
        begin=_time(loaded.start.floor),
        end=_time(loaded.end.floor),
        run=teller.run,
    )
    return next((row for row in status.ranges if row.id == loaded.id), new)


def _with(status: Status, row: RangeRow) -> Status:
    known = {each.id: each for each in status.ranges}
    return replace(status, ranges=tuple({**known, row.id: row}.values())[-RANGES_KEPT:])


def _reported(row: RangeRow, report: Report) -> RangeRow:
    return replace(
        _counted(row, report, report.rows_emitted),
        state="loaded",
        attempts=report.attempt,
        begun_at=report.started_at,
        ended_at=report.ended_at,
        batches=report.batches,
        rows_read=report.rows_read,
        replayed=report.replayed,
        bytes_read=report.bytes_read,
    )


def _settled(row: RangeRow, ledger: Ledger) -> RangeRow:
    """The row as the ledger has it, where the range has ended without word of it."""
    outcome = outcome_of(ledger, row.id) if row.open and row.kind == "incremental" else None
    if outcome is None:
        return row
    ended = replace(row, ended_at=row.ended_at or outcome.at, progress=None, written=())
    if outcome.kind != "committed":
        return replace(ended, state="abandoned", error=_clipped(outcome.reason))
    return replace(_counted(ended, outcome, outcome.rows), state="committed")


def _counted(row: RangeRow, found: Report | Outcome, rows: int) -> RangeRow:
    doubts: dict[str, Any] = {name: getattr(found, name) for name in DOUBTS}
    return replace(row, rows_written=rows, late=found.late, error="", **doubts)


def _taking(lag: Backlog | None, teller: Teller, loaded: Range) -> Backlog:
    """The lag with what the range takes of it. Nobody may have looked before, without a wait."""
    known = {} if lag is None else places_of(lag.partitions)
    places = dict(known)
    for partition, begin in loaded.start.offsets.items():
        before, taken = known.get(partition, At(begin)), loaded.end.offsets[partition] - begin
        places[partition] = At(begin, taken, max(before.begin + before.lag - begin, taken), before.late)
    if lag is None:
        offsets, due, reason = loaded.offsets, None, ""
        to = _time(loaded.start.floor)
        lag = Backlog(teller.now, offsets, None, teller.pace.enough, due, to, reason, {}, 0, at_least=True)
    return replace(lag, partitions=table(places), of_partitions=max(lag.of_partitions, len(places)))


def _seen(teller: Teller, stop: Place, left: Offsets) -> Backlog:
    """The lag as the commit saw it."""
    places = table({p: At(stop.offsets[p], 0, lag) for p, lag in left.items()})
    offsets, enough = sum(left.values()), teller.pace.enough
    return Backlog(teller.now, offsets, None, enough, None, _time(stop.floor), "", places, len(left))


def _after(lag: Backlog, loaded: Range, report: Report, left: Offsets | None) -> Backlog:
    """The lag once a range is loaded up to here; what nobody saw then is what was seen before, less the range."""
    places = places_of(lag.partitions)
    for partition, begin in report.stop.offsets.items():
        before = places.get(partition)
        if before is not None:
            waits = max(before.begin + before.lag - begin, 0)
            places[partition] = At(begin, 0, waits, report.late_in.get(partition, 0))
    offsets = lag.offsets if left is not None else lag.offsets - report.stop.offsets.since(loaded.start.offsets)
    to = _time(report.stop.floor)
    known = replace(lag, offsets=max(offsets, 0), waiting=None, due=None, reason="", loaded_to=to)
    return replace(known, partitions=table(places), at_least=lag.at_least and offsets > 0)


def _time(floor: Floor) -> int | None:
    return floor.time if floor.time >= 0 else None


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
