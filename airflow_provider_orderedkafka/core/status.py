"""How a load stands, for people: one small document, which each step updates and the page in Airflow shows.

Nothing is decided by it, so it may be lost or old at any time: the ledger is the truth, and `looked` puts right what it
says. It fits into one value of Airflow's state store, however many partitions and ranges there are.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, Self

from .batches import Progress
from .codec import Document
from .documents import DOUBTS, Kind, Ledger, Outcome, Range, Report
from .lifecycle import outcome_of
from .order.cuts import Floor, Place
from .order.positions import Offsets, TopicPartition
from .pacing import Pace, Verdict

PARTITIONS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Its next offset, what the open range takes, how many there are; the late records of the last range."""

    begin: int
    taken: int = 0
    lag: int = 0
    late: int = 0


def table(places: Mapping[TopicPartition, PartitionLag], most: int = PARTITIONS_KEPT) -> dict[str, str]:
    """The partitions that lag most, by topic."""
    kept = sorted(sorted(places, key=lambda partition: -places[partition].lag)[:most])
    words: dict[str, list[str]] = {}
    for topic, partition in kept:
        place = places[TopicPartition(topic, partition)]
        late = f",{place.late}" if place.late else ""
        words.setdefault(topic, []).append(f"{partition},{place.begin},{place.taken},{place.lag}{late}")
    return {topic: " ".join(found) for topic, found in words.items()}


def places_of(table: Mapping[str, str]) -> dict[TopicPartition, PartitionLag]:
    found = {}
    for topic, words in table.items():
        for word in words.split():
            partition, *place = map(int, word.split(","))
            found[TopicPartition(topic, partition)] = PartitionLag(*place)
    return found


RANGES_KEPT = 50
BATCHES_KEPT = 50
MOVES_KEPT = 10
TOPICS_KEPT = 20

LARGEST = 60_000
"""Characters of the document: Airflow's API takes values of at most 65,535."""

RowState = Literal["planned", "loading", "failed", "loaded", "committed", "abandoned"]
OPEN: frozenset[RowState] = frozenset({"planned", "loading", "failed", "loaded"})


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch that was written: when, and the sums of the range up to it."""

    batch: int
    at: int
    offsets_done: int
    rows_read: int
    rows_written: int
    late: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """The result of a range's audit: when, in a word, and the count of each finding; `said` is the first in words."""

    at: int
    verdict: Literal["clean", "found", "unknown"]
    missing: int = 0
    doubled: int = 0
    altered: int = 0
    out_of_order: int = 0
    stray: int = 0
    unknown: int = 0
    said: str = ""


COUNTED: Final = tuple(each.name for each in fields(AuditRow) if each.default == 0)
"""What an audit counts: all 0 for an output that is as promised."""


@dataclass(frozen=True, slots=True)
class RangeRow:
    """A range: what it is, who loads it, how far that is, and what came out.

    `begin` and `end` are the times of its cuts; `lag` is how many offsets were not loaded when it was planned. `run` is
    `<dag id>/<run id>`, `task` the task that loads it. Times of the attempt are those of the last one. `by` is who gave
    it up, `audit` what was found when its output was read again.
    """

    id: str
    kind: Kind
    reason: str
    planned_at: int
    offsets: int
    partitions: int
    begin: int | None
    end: int | None
    run: str
    lag: int | None = None
    task: str = ""
    state: RowState = "planned"
    attempts: int = 0
    begun_at: int | None = None
    ended_at: int | None = None
    batches: int = 0
    rows_read: int = 0
    rows_written: int = 0
    late: int = 0
    replayed: int = 0
    dead_letters: int = 0
    may_be_doubled: int = 0
    may_be_out_of_order: int = 0
    lost: int = 0
    bytes_read: int = 0
    error: str = ""
    by: str = ""
    progress: Progress | None = None
    written: tuple[BatchRow, ...] = ()
    audit: AuditRow | None = None

    @property
    def open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True, slots=True)
class MoveRow:
    at: int
    kind: Literal["rewound", "restored"]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What was not loaded yet `at` some moment, and what starts the next run.

    `waiting` is how many of the `offsets` a run would load now, `enough` how many of those start one, `due` when the
    delay runs out. All that is older than `loaded_to` is loaded. `partitions` has for each topic the partitions that
    lag most, as `<partition>,<next offset>,<offsets in the open range>,<lag>` with blanks between them, and `,<late>`
    after those that had late records in the last range; `of_partitions` is how many there are in all. `at_least` means
    that Kafka was not asked, and only the open range is known.
    """

    at: int
    offsets: int
    waiting: int | None
    enough: int | None
    due: int | None
    loaded_to: int | None
    reason: str
    partitions: Mapping[str, str]
    of_partitions: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Status(Document):
    """How a load stands. `rows` counts against `row_limit`; `ranges` are the newest ones, oldest first.

    `output` is where it writes to, `moves` the rewinds of its ledger, oldest first.
    """

    load: str
    dag: str
    topics: tuple[str, ...]
    of_topics: int
    updated_at: int
    revision: int | None = None
    rows: int = 0
    row_limit: int | None = None
    lag: Backlog | None = None
    ranges: tuple[RangeRow, ...] = ()
    output: str = ""
    moves: tuple[MoveRow, ...] = ()

    def fitting(self, most: int = LARGEST) -> Self:
        """The status in at most `most` characters: partitions are left out first, then old ranges."""
        if len(json.dumps(self.to_value())) <= most:  # as Airflow counts
            return self
        if self.lag is not None and self.lag.partitions:
            places = places_of(self.lag.partitions)
            return replace(self, lag=replace(self.lag, partitions=table(places, len(places) // 2))).fitting(most)
        if len(self.ranges) > 1:
            return replace(self, ranges=self.ranges[len(self.ranges) // 2 :]).fitting(most)
        return self


LONGEST = 500
"""Characters of a sentence."""


@dataclass(frozen=True, slots=True)
class Updater:
    """Who updates a status: the load with its settings, the DAG, the run, the task, the time, and the output."""

    load: str
    topics: tuple[str, ...]
    row_limit: int | None
    pace: Pace
    dag: str
    run: str
    task: str
    now: int
    output: str = ""

    def begin(self, status: Status | None) -> Status:
        """The status to change; a watcher knows no DAG."""
        before = status or Status(self.load, self.dag, (), 0, self.now)
        return replace(
            before,
            dag=self.dag or before.dag,
            output=self.output or before.output,
            topics=self.topics[:TOPICS_KEPT],
            of_topics=len(self.topics),
            row_limit=self.row_limit,
            updated_at=self.now,
        )


def looked(status: Status, updater: Updater, ledger: Ledger, verdict: Verdict) -> Status:
    """After Kafka was asked: the lag, and how ranges ended that did not report it."""
    settled = tuple(_settled(row, ledger) for row in status.ranges)
    status = replace(status, ranges=settled, revision=ledger.revision, rows=ledger.rows, moves=_moves(ledger))
    if verdict.span is None:
        return (
            status if status.lag is None else replace(status, lag=replace(status.lag, reason=_clipped(verdict.reason)))
        )
    late = {} if status.lag is None else {p: at.late for p, at in places_of(status.lag.partitions).items()}
    places = {
        p: PartitionLag(begin, 0, verdict.span.end[p] - begin, late.get(p, 0))
        for p, begin in verdict.span.start.items()
    }
    return replace(
        status,
        lag=Backlog(
            at=updater.now,
            offsets=verdict.span.offsets if verdict.lag is None else verdict.lag,
            waiting=verdict.waiting,
            enough=updater.pace.enough,
            due=verdict.due,
            loaded_to=_time(verdict.span.floor),
            reason=_clipped(verdict.reason),
            partitions=table(places),
            of_partitions=len(places),
        ),
    )


def planned(status: Status, updater: Updater, loaded: Range) -> Status:
    """A range was resolved, or taken over."""
    row = _row(status, updater, loaded)
    row = replace(row, run=updater.run, state=row.state if row.open else "planned")
    if loaded.kind != "incremental":
        return _with(status, row)
    lag = _taking(status.lag, updater, loaded)
    return _with(replace(status, lag=lag), replace(row, lag=lag.offsets if row.lag is None else row.lag))


def begun(status: Status, updater: Updater, loaded: Range, attempt: int) -> Status:
    row = replace(_row(status, updater, loaded), run=updater.run, task=updater.task, state="loading", attempts=attempt)
    return _with(status, replace(row, begun_at=updater.now, ended_at=None, error="", progress=None, written=()))


def progressed(status: Status, updater: Updater, loaded: Range, found: Progress) -> Status:
    row = _row(status, updater, loaded)
    written = row.written
    if found.running is None and (not written or found.offsets_done > written[-1].offsets_done):
        sums = (found.offsets_done, found.rows_read, found.rows_emitted, found.late)
        written = (*written, BatchRow(found.batch, updater.now, *sums))[-BATCHES_KEPT:]
    row = replace(row, rows_read=found.rows_read, rows_written=found.rows_emitted, late=found.late)
    return _with(status, replace(row, progress=found, written=written))


def failed(status: Status, updater: Updater, loaded: Range, why: str) -> Status:
    row = replace(_row(status, updater, loaded), state="failed", ended_at=updater.now, error=_clipped(why))
    return _with(status, row)


def done(status: Status, updater: Updater, loaded: Range, report: Report) -> Status:
    """The range is loaded, and not yet committed."""
    return _with(status, _reported(_row(status, updater, loaded), report))


def committed(
    status: Status,
    updater: Updater,
    loaded: Range,
    report: Report,
    ledger: Ledger | None,
    *,
    left: Offsets | None = None,
    task: str = "",
) -> Status:
    """The range is committed. An interval or a replay has no ledger. `left` is the lag now, if Kafka was asked.

    `task` loaded the range, where it could not update the status itself.
    """
    row = _reported(_row(status, updater, loaded), report)
    row = replace(row, state="committed", task=row.task or task, progress=None, written=())
    status = _with(status, row)
    if ledger is None:
        return status
    lag = status.lag if left is None else _seen(updater, report.stop, left)
    known = replace(status, revision=ledger.revision, rows=ledger.rows, moves=_moves(ledger))
    return replace(known, lag=lag and _after(lag, loaded, report, left))


def audited(status: Status, range_id: str, found: AuditRow) -> Status:
    """A range's output was read again; one that is not among the newest any more is left out."""
    kept = replace(found, said=_clipped(found.said))
    return replace(
        status, ranges=tuple(replace(row, audit=kept) if row.id == range_id else row for row in status.ranges)
    )


def _row(status: Status, updater: Updater, loaded: Range) -> RangeRow:
    new = RangeRow(
        id=loaded.id,
        kind=loaded.kind,
        reason=_clipped(loaded.reason),
        planned_at=loaded.planned_at,
        offsets=loaded.offsets,
        partitions=len(loaded.end.offsets),
        begin=_time(loaded.start.floor),
        end=_time(loaded.end.floor),
        run=updater.run,
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
    """The row with the range's outcome in the ledger, if the range ended without an update."""
    outcome = outcome_of(ledger, row.id) if row.open and row.kind == "incremental" else None
    if outcome is None:
        return row
    ended = replace(row, ended_at=row.ended_at or outcome.at, progress=None, written=())
    if outcome.kind != "committed":
        return replace(ended, state="abandoned", error=_clipped(outcome.reason), by=outcome.by)
    return replace(_counted(ended, outcome, outcome.rows), state="committed")


def _counted(row: RangeRow, found: Report | Outcome, rows: int) -> RangeRow:
    doubts: dict[str, Any] = {name: getattr(found, name) for name in DOUBTS}
    return replace(row, rows_written=rows, late=found.late, error="", **doubts)


def _taking(lag: Backlog | None, updater: Updater, loaded: Range) -> Backlog:
    """The lag with the share of a range. There may be none yet: without a wait, Kafka was not asked."""
    known = {} if lag is None else places_of(lag.partitions)
    places = dict(known)
    for partition, begin in loaded.start.offsets.items():
        before, taken = known.get(partition, PartitionLag(begin)), loaded.end.offsets[partition] - begin
        places[partition] = PartitionLag(begin, taken, max(before.begin + before.lag - begin, taken), before.late)
    if lag is None:
        offsets, due, reason = loaded.offsets, None, ""
        to = _time(loaded.start.floor)
        lag = Backlog(updater.now, offsets, None, updater.pace.enough, due, to, reason, {}, 0, at_least=True)
    of_partitions = max(lag.of_partitions, len(places))
    waits = sum(at.lag for at in places.values())
    if waits > lag.offsets:  # newer records, of which only this range is known
        lag = replace(lag, at=updater.now, offsets=waits, at_least=True)
    return replace(lag, partitions=table(places), of_partitions=of_partitions)


def _seen(updater: Updater, stop: Place, left: Offsets) -> Backlog:
    places = table({p: PartitionLag(stop.offsets[p], 0, lag) for p, lag in left.items()})
    offsets, enough = sum(left.values()), updater.pace.enough
    return Backlog(updater.now, offsets, None, enough, None, _time(stop.floor), "", places, len(left))


def _after(lag: Backlog, loaded: Range, report: Report, left: Offsets | None) -> Backlog:
    """The lag after a range was loaded: as the commit found it, or else as it was before, less the range."""
    places = places_of(lag.partitions)
    for partition, begin in report.stop.offsets.items():
        before = places.get(partition)
        if before is not None:
            waits = max(before.begin + before.lag - begin, 0)
            places[partition] = PartitionLag(begin, 0, waits, report.late_in.get(partition, 0))
    offsets = lag.offsets if left is not None else lag.offsets - report.stop.offsets.since(loaded.start.offsets)
    to = _time(report.stop.floor)
    known = replace(lag, offsets=max(offsets, 0), waiting=None, due=None, reason="", loaded_to=to)
    return replace(known, partitions=table(places), at_least=lag.at_least and offsets > 0)


def _moves(ledger: Ledger) -> tuple[MoveRow, ...]:
    found = [
        MoveRow(each.at, each.kind, each.by, _clipped(each.reason))
        for each in ledger.outcomes
        if each.kind in ("rewound", "restored")
    ]
    return tuple(found[-MOVES_KEPT:])


def _time(floor: Floor) -> int | None:
    return floor.lowest if floor.lowest >= 0 else None


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
