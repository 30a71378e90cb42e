"""How a load stands, for people: one small document, which each step updates and the page in Airflow shows.

Nothing is decided by it, so it may be lost or old at any time: the ledger is the truth, and `looked` puts right what it
says. It fits into one value of Airflow's state store, however many partitions and ranges there are.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Final, Literal, NamedTuple, Self

from .codec import Document, canonical
from .documents import Changes, Kind, Ledger, Outcome, Range, Report
from .lifecycle import outcome_of
from .order.cuts import Floor
from .order.positions import Offsets, TopicPartition
from .pacing import Pace, Verdict
from .progress import Progress

PARTITIONS_KEPT = 1_000
RANGES_KEPT = 50
BATCHES_KEPT = 50
MOVES_KEPT = 10
TOPICS_KEPT = 20

LARGEST = 64_000
"""Characters of the document: Airflow's API takes values of at most 65,535."""

LONGEST = 500
"""Characters of a sentence."""

RowState = Literal["planned", "loading", "failed", "loaded", "committed", "abandoned"]
OPEN: frozenset[RowState] = frozenset({"planned", "loading", "failed", "loaded"})


class PartitionLag(NamedTuple):
    """Its next offset, what the open range takes, how many there are; the late records of the last range."""

    begin: int
    taken: int = 0
    lag: int = 0
    late: int = 0


def table(places: Mapping[TopicPartition, PartitionLag], most: int = PARTITIONS_KEPT) -> dict[str, str]:
    """The partitions that lag most, by topic."""
    words: dict[str, list[str]] = {}
    for each in sorted(sorted(places, key=lambda partition: -places[partition].lag)[:most]):
        words.setdefault(each.topic, []).append(",".join(map(str, (each.partition, *places[each]))))
    return {topic: " ".join(found) for topic, found in words.items()}


def places_of(table: Mapping[str, str]) -> dict[TopicPartition, PartitionLag]:
    found = {}
    for topic, words in table.items():
        for word in words.split():
            partition, *place = map(int, word.split(","))
            found[TopicPartition(topic, partition)] = PartitionLag(*place)
    return found


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch that was written: when, and the sums of the range up to it."""

    batch: int
    at: int
    offsets_done: int
    rows_read: int
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
    stale: int = 0
    ahead: int = 0
    resurrected: int = 0
    undeleted: int = 0
    unknown: int = 0
    said: str = ""


COUNTED: Final = tuple(each.name for each in fields(AuditRow) if each.default == 0)
"""What an audit counts: all 0 for an output that is as promised."""


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """What came out of a range: so far by its progress, at last by its report."""

    rows_read: int = 0
    rows_emitted: int = 0
    late: int = 0
    replayed: int = 0
    dead_letters: int = 0
    may_be_doubled: int = 0
    may_be_out_of_order: int = 0
    lost: int = 0
    changes: Changes = Changes()  # noqa: RUF009 - it never changes
    columns_added: tuple[str, ...] = ()
    columns_left_out: tuple[str, ...] = ()
    core_ms: int | None = None
    bytes_written: int | None = None
    files_written: int | None = None

    def updated(self, found: Progress | Report | Outcome) -> Self:
        """The counts with those that this one has."""
        names = [each.name for each in fields(self) if hasattr(found, each.name)]
        return replace(self, **{name: getattr(found, name) for name in names})


@dataclass(frozen=True, slots=True)
class RangeRow:
    """A range: what it is, who loads it, how far that is, and what came out.

    `begin` and `end` are the times of its cuts; `lag` is how many offsets were not loaded when it was planned. `run` is
    `<dag id>/<run id>`, `task` the task that loads it. Times of the attempt are those of the last one. `by` is who gave
    it up, `audit` what was found when its output was read again. `replays` is a hash of what a replay loads, and where
    to; empty where that is not known.
    """

    id: str
    kind: Kind
    reason: str
    planned_at: int
    offsets: int
    begin: int | None
    end: int | None
    run: str
    lag: int | None = None
    task: str = ""
    state: RowState = "planned"
    attempts: int = 0
    begun_at: int | None = None
    ended_at: int | None = None
    counts: RangeCounts = RangeCounts()
    error: str = ""
    by: str = ""
    progress: Progress | None = None
    written: tuple[BatchRow, ...] = ()
    audit: AuditRow | None = None
    replays: str = ""

    @property
    def open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True, slots=True)
class Backlog:
    """What was not loaded yet `at` some moment, and what starts the next run.

    `waiting` is how many of the `offsets` a run would load now, `enough` how many of those start one, `due` when the
    delay runs out. All that is older than `loaded_to` is loaded. `partitions` has for each topic the partitions that
    lag most, as `<partition>,<next offset>,<offsets in the open range>,<lag>,<late records of the last range>` with
    blanks between them; `of_partitions` is how many there are in all. `at_least` means that Kafka was not asked: only
    the open range is known, or what is left of an earlier look.
    """

    at: int
    offsets: int
    waiting: int | None
    enough: int | None
    due: int | None
    loaded_to: int | None
    reason: str
    partitions: Mapping[str, str] = field(default_factory=dict)
    of_partitions: int = 0
    at_least: bool = False

    def over(self, places: Mapping[TopicPartition, PartitionLag]) -> Self:
        return replace(self, partitions=table(places), of_partitions=len(places))


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run ended before it had a range: when, which run, as `<dag id>/<run id>`, and which of its tasks."""

    at: int
    run: str
    task: str
    error: str


@dataclass(frozen=True, slots=True)
class Status(Document):
    """How a load stands. `rows` counts against `row_limit`; `ranges` are the newest ones, oldest first.

    `output` is where it writes to, `moves` the rewinds of its ledger, oldest first, `kafka_conn_id` what it reads by.
    `stop` is why the newest run has no range, until its task ends well, or nothing is left to load.
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
    moves: tuple[Outcome, ...] = ()
    kafka_conn_id: str = ""
    stop: Stop | None = None

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
    kafka_conn_id: str = ""

    def begin(self, status: Status | None) -> Status:
        """The status to change; a watcher knows no DAG."""
        before = status or Status(self.load, self.dag, (), 0, self.now)
        return replace(
            before,
            dag=self.dag or before.dag,
            output=self.output or before.output,
            kafka_conn_id=self.kafka_conn_id,
            topics=self.topics[:TOPICS_KEPT],
            of_topics=len(self.topics),
            row_limit=self.row_limit,
            updated_at=self.now,
        )


def looked(status: Status, updater: Updater, ledger: Ledger, verdict: Verdict) -> Status:
    """After Kafka was asked: the lag, and how ranges ended that did not report it."""
    status = _with_ledger(replace(status, ranges=tuple(_settled(row, ledger) for row in status.ranges)), ledger)
    if status.stop is not None and (status.stop.task == updater.task or not verdict.lag):
        status = replace(status, stop=None)
    reason, span = _clipped(verdict.reason), verdict.span
    if span is None:
        return status if status.lag is None else replace(status, lag=replace(status.lag, reason=reason))
    offsets, enough = span.offsets if verdict.lag is None else verdict.lag, updater.pace.enough
    lag = Backlog(updater.now, offsets, verdict.waiting, enough, verdict.due, _time(span.floor), reason)
    return replace(status, lag=lag.over(_places(status.lag, span.start, ends=span.end)))


def planned(status: Status, updater: Updater, loaded: Range) -> Status:
    """A range was resolved, or taken over."""
    row = _row(status, updater, loaded)
    row = replace(row if row.open else _new(updater, loaded), run=updater.run)
    status = replace(status, stop=None)
    if loaded.kind != "incremental":
        return _with(status, replace(row, replays=_replayed(loaded, updater.output)))
    lag = _taking(status.lag, updater, loaded)
    return _with(replace(status, lag=lag), replace(row, lag=lag.offsets if row.lag is None else row.lag))


def stopped(status: Status, updater: Updater, why: str) -> Status:
    """A run ended before it had a range; without a reason, there was nothing to load."""
    return replace(status, stop=Stop(updater.now, updater.run, updater.task, _clipped(why)) if why else None)


def begun(status: Status, updater: Updater, loaded: Range, attempt: int) -> Status:
    row = replace(_row(status, updater, loaded), run=updater.run, task=updater.task, state="loading", attempts=attempt)
    return _with(status, replace(row, begun_at=updater.now, ended_at=None, error="", progress=None, written=()))


def progressed(status: Status, updater: Updater, loaded: Range, found: Iterable[Progress]) -> Status:
    """What came of a range since it was shown last, in order."""
    row = _row(status, updater, loaded)
    for each in found:
        written = row.written
        if each.running is None and (not written or each.offsets_done > written[-1].offsets_done):
            batch = BatchRow(each.batch, updater.now, each.offsets_done, each.rows_read, each.late)
            written = (*written, batch)[-BATCHES_KEPT:]
        row = replace(row, counts=row.counts.updated(each), progress=each, written=written)
    return _with(status, row)


def failed(status: Status, updater: Updater, loaded: Range, why: str) -> Status:
    row = _row(status, updater, loaded)
    if not row.open:  # another run has loaded it, or a person gave it up
        return status
    return _with(status, replace(row, state="failed", ended_at=updater.now, error=_clipped(why)))


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
    status = _with(replace(status, ranges=tuple(_replaced(each, row) for each in status.ranges)), row)
    if ledger is None:
        return status
    return replace(_with_ledger(status, ledger), lag=_after(status.lag, updater, report, left))


def reported_late(status: Status, updater: Updater, report: Report, by: str) -> Status:
    """More is known of a range that the run `by` has committed."""
    row = _reported(_row(status, replace(updater, run=by), report.range), report)
    return _with(status, replace(row, state="committed"))


def audited(status: Status, _: Updater, range_id: str, found: AuditRow) -> Status:
    """A range's output was read again; one that is not among the newest any more is left out."""
    kept = replace(found, said=_clipped(found.said))
    rows = (replace(row, audit=kept) if row.id == range_id else row for row in status.ranges)
    return replace(status, ranges=tuple(rows))


def _row(status: Status, updater: Updater, loaded: Range) -> RangeRow:
    return next((row for row in status.ranges if row.id == loaded.id), _new(updater, loaded))


def _new(updater: Updater, loaded: Range) -> RangeRow:
    return RangeRow(
        id=loaded.id,
        kind=loaded.kind,
        reason=_clipped(loaded.reason),
        planned_at=loaded.planned_at,
        offsets=loaded.offsets,
        begin=_time(loaded.start.floor),
        end=_time(loaded.end.floor),
        run=updater.run,
    )


def _replayed(loaded: Range, output: str) -> str:
    if loaded.kind != "replay" or not output:
        return ""
    facts = [loaded.start.offsets.to_json(), loaded.end.offsets.to_json(), loaded.rows_left, output]
    return sha256(canonical(facts).encode()).hexdigest()[:16]


def _replaced(row: RangeRow, later: RangeRow) -> RangeRow:
    """The row of a replay that failed, once a later run has loaded the same to the same place: nobody mends it."""
    if row.state != "failed" or not row.replays or row.replays != later.replays:
        return row
    return replace(row, state="abandoned", by=later.run, error=_clipped(f"loaded the same, after: {row.error}"))


def _with(status: Status, row: RangeRow) -> Status:
    known = {each.id: each for each in status.ranges}
    return replace(status, ranges=tuple({**known, row.id: row}.values())[-RANGES_KEPT:])


def _with_ledger(status: Status, ledger: Ledger) -> Status:
    moves = [each for each in ledger.outcomes if each.kind in ("rewound", "restored")][-MOVES_KEPT:]
    shown = tuple(replace(each, reason=_clipped(each.reason)) for each in moves)
    return replace(status, revision=ledger.revision, rows=ledger.rows, moves=shown)


def _reported(row: RangeRow, report: Report) -> RangeRow:
    counts, began, ended = row.counts.updated(report), report.started_at, report.ended_at
    return replace(
        row, state="loaded", attempts=report.attempt, begun_at=began, ended_at=ended, counts=counts, error=""
    )


def _settled(row: RangeRow, ledger: Ledger) -> RangeRow:
    """The row with the range's outcome in the ledger, if the range ended without an update."""
    outcome = outcome_of(ledger, row.id) if row.open and row.kind == "incremental" else None
    if outcome is None:
        return row
    ended = replace(row, ended_at=row.ended_at or outcome.at, progress=None, written=())
    if outcome.kind != "committed":
        return replace(ended, state="abandoned", error=_clipped(outcome.reason), by=outcome.by)
    counts = replace(row.counts.updated(outcome), rows_emitted=outcome.rows)
    return replace(ended, state="committed", counts=counts, error="")


def _taking(lag: Backlog | None, updater: Updater, loaded: Range) -> Backlog:
    """The lag with the share of a range. There may be none yet: without a wait, Kafka was not asked."""
    places = _places(lag, loaded.start.offsets, taken_to=loaded.end.offsets)
    known = lag or Backlog(updater.now, 0, None, updater.pace.enough, None, _time(loaded.start.floor), "")
    waits = sum(place.lag for place in places.values())
    if waits > known.offsets:  # newer records, of which only this range is known
        known = replace(known, at=updater.now, offsets=waits, at_least=True)
    return known.over(places)


def _after(lag: Backlog | None, updater: Updater, report: Report, left: Offsets | None) -> Backlog | None:
    """The lag after a range was loaded: as the commit found it, or what is left of the one that was seen before."""
    if left is None and lag is None:
        return None
    stop, at = report.stop, lag.at if lag is not None and left is None else updater.now
    places = _places(lag, stop.offsets, ends=None if left is None else stop.offsets + left, late=report.late_in)
    waits = sum(place.lag for place in places.values())
    known = Backlog(at, waits, None, updater.pace.enough, None, _time(stop.floor), "", at_least=left is None)
    return known.over(places)


def _places(
    lag: Backlog | None,
    begins: Offsets,
    *,
    ends: Offsets | None = None,
    taken_to: Offsets | None = None,
    late: Offsets | None = None,
) -> dict[TopicPartition, PartitionLag]:
    """How the partitions stand from `begins` on; a log's end and late records that are not given are as they were."""
    known = {} if lag is None else places_of(lag.partitions)
    found = {}
    for partition, begin in begins.items():
        before = known.get(partition, PartitionLag(begin))
        taken = 0 if taken_to is None else taken_to[partition] - begin
        end = before.begin + before.lag if ends is None else ends[partition]
        were = before.late if late is None else late.get(partition, 0)
        found[partition] = PartitionLag(begin, taken, max(end - begin, taken), were)
    return found


def _time(floor: Floor) -> int | None:
    return floor.lowest if floor.lowest >= 0 else None


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
