"""Loads that went through this and that, with the statuses that the steps of their runs leave."""

from dataclasses import replace
from typing import Any

from airflow_provider_orderedkafka.core import lifecycle, status
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Pace, Since, Situation, decide
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.core.status import AuditRow, Status, Updater
from airflow_provider_orderedkafka.reporting.status import LARGEST_EVENT, outlets
from support.plain import plain_range, plain_report

DISK_IS_FULL = "the disk is full: free some space"
MINUTE = 60_000
RUN = "scheduled__2026-01-31T12:{:02}:00+00:00"


class Story:
    """A load whose runs come every five minutes.

    `statuses` are those of the events by which an Airflow without state stores tells of it.
    """

    def __init__(self, load: str, now: int, partitions: int = 6, row_limit: int | None = None) -> None:
        self.load, self.now = load, now
        self.at = now
        places = [TopicPartition(("orders", "refunds")[p % 2], p // 2) for p in range(partitions)]
        self.place = Place(Offsets({p: 1_000_000 + 997 * n for n, p in enumerate(places)}), Floor())
        self.ledger = lifecycle.first_look(load, instance="i", home_dag=load, place=self.place, topics={}, now=self.at)
        self.row_limit = row_limit
        self.status: Status | None = None
        self.statuses: list[Status] = []
        self.runs = 0

    @property
    def found(self) -> Status:
        """The status as it is stored."""
        assert self.status is not None
        return self.status.fitting()

    def updater(self) -> Updater:
        run = f"{self.load}/{RUN.format(self.runs % 60)}"
        topics, pace = ("orders", "refunds"), Pace(50_000, 15 * MINUTE)
        task, output = f"{self.load}.load", f"topic:{self.load}-ordered"
        return Updater(self.load, topics, self.row_limit, pace, self.load, run, task, self.at, output)

    def look(self, share: float = 1.0) -> None:
        """See new offsets: each partition has other numbers, and each look too."""
        lag = {
            p: int(share * (9_000 + n * 613 % 5_000 + self.runs * 977 % 4_000))
            for n, p in enumerate(self.place.offsets)
        }
        end = Offsets({p: offset + lag[p] for p, offset in self.place.offsets.items()})
        span = Span(self.place.offsets, end, self.place.floor, self.at)
        waiting = int(span.offsets * 0.9)
        since = Since(0, last_run=self.at - 3 * MINUTE)
        situation = Situation(waiting, since, self.at, young=span.offsets - waiting)
        verdict = replace(decide(self.updater().pace, situation), span=span)
        self.status = status.looked(self.updater().begin(self.status), self.updater(), self.ledger, verdict)

    def plan(self) -> Range:
        """Resolve a range of nine tenths of what was seen."""
        self.runs += 1
        assert self.status is not None
        assert self.status.lag is not None
        lags = {t: dict(_lags(words)) for t, words in self.status.lag.partitions.items()}
        end = {
            p: offset + int(lags.get(p.topic, {}).get(p.partition, 0) * 0.9) for p, offset in self.place.offsets.items()
        }
        loaded = plain_range(
            id=f"{self.load}-incremental-{self.runs:012x}",
            load=self.load,
            reason="up to the cut; the rest waits for the next run",
            start=self.place,
            end=Place(Offsets(end), Floor(self.at - 5_000)),
            planned_at=self.at,
        )
        reason = f"{loaded.offsets:,} offsets in {len(end):,} partitions, {loaded.reason}"
        loaded = replace(loaded, reason=reason)
        self.status = status.planned(self.status, self.updater(), loaded)
        self.statuses.append(status.planned(self.updater().begin(None), self.updater(), loaded).fitting(LARGEST_EVENT))
        return loaded

    def begin(self, loaded: Range, attempt: int = 1) -> None:
        self._change(status.begun, loaded, attempt)

    def write(self, loaded: Range, batches: int, of: int) -> None:
        """Write the first batches of a range, some seconds each."""
        for batch in range(batches):
            self.at += 4_200 + batch * 310 % 900
            done = loaded.offsets * (batch + 1) // of
            late, left = done // 90, 4 * (of - batch - 1)
            step = Progress(loaded.id, 1, batch + 1, done, loaded.offsets, done, done, late, 9_000, self.at, left, of)
            self._change(status.progressed, loaded, [step])

    def fail(self, loaded: Range, why: str) -> None:
        self._change(status.failed, loaded, why)

    def commit(self, loaded: Range, **doubts: int) -> None:
        opened = lifecycle.opened(self.ledger, loaded.id, self.updater().run)
        loaded = replace(loaded, ledger_revision=opened.revision)
        rows = loaded.offsets - 120
        took = min(rows // 9, MINUTE) + self.runs * 389 % 2_000
        report = plain_report(
            range=loaded,
            stop=loaded.end,
            rows_read=rows,
            rows_emitted=rows,
            late=rows // (60 + self.runs * 13 % 50),
            late_in=Offsets({p: loaded.end.offsets[p] % 97 for p in list(loaded.end.offsets)[::3]}),
            batches=1,
            started_at=self.at,
            ended_at=self.at + took,
            core_ms=took + 9_000,
            bytes_written=rows * 41,
            **doubts,
        )
        self.ledger = lifecycle.committed(opened, loaded, report, self.updater().run, self.at + took)
        self.place = self.ledger.place
        assert self.status is not None
        left = Offsets({p: 700 + 31 * p.partition for p in self.place.offsets})
        self.status = status.committed(self.status, self.updater(), loaded, report, self.ledger, left=left)
        more = {"left": left, "task": self.updater().task}
        alone = status.committed(self.updater().begin(None), self.updater(), loaded, report, self.ledger, **more)
        self.statuses.append(alone.fitting(LARGEST_EVENT))

    def run(self, times: int, **doubts: int) -> None:
        """Whole runs, the newest five minutes before now."""
        for left in range(times, 0, -1):
            self.at = self.now - left * 5 * MINUTE
            if self.runs == 0:
                self.place = Place(self.place.offsets, Floor(self.at - 6 * MINUTE))
            self.look()
            loaded = self.plan()
            self.commit(loaded, **(doubts if left == 1 else {}))

    def _change(self, change, loaded: Range, *more) -> None:
        assert self.status is not None
        self.status = change(self.updater().begin(self.status), self.updater(), loaded, *more)


def _lags(words: str):
    for word in words.split():
        partition, _, _, lag, *_ = map(int, word.split(","))
        yield partition, lag


def loading(now: int, load: str = "orders", partitions: int = 6) -> Story:
    """Twenty-four committed ranges, and one that is loaded right now."""
    story = Story(load, now, partitions, row_limit=5_000_000 if partitions < 100 else None)
    story.run(24)
    story.at = now - 40_000
    story.look()
    loaded = story.plan()
    story.begin(loaded)
    story.write(loaded, 7, 12)
    return story


def waiting(now: int, load: str) -> Story:
    """Four committed ranges, and too little for the next one."""
    story = Story(load, now)
    story.run(4)
    story.at = now - 25_000
    story.look(0.4)
    return story


def failing(now: int, load: str) -> Story:
    """A range with all that can be said of one, and the next one failed twice."""
    story = Story(load, now)
    story.run(3, dead_letters=12, may_be_doubled=3, may_be_out_of_order=1, lost=7, replayed=40)
    story.at = now - 3 * MINUTE
    story.look()
    loaded = story.plan()
    story.begin(loaded, 2)
    story.write(loaded, 2, 9)
    story.fail(loaded, f"attempt 2 of range 'payments' ended with exit code 1: {DISK_IS_FULL}")
    return story


def moved(now: int, load: str) -> Story:
    """A load whose last range was given up, and whose ledger was moved then."""
    story = Story(load, now)
    story.run(2)
    story.at = now - 2 * MINUTE
    story.look()
    loaded = story.plan()
    opened = lifecycle.opened(story.ledger, loaded.id, story.updater().run)
    given_up = lifecycle.abandoned(opened, "anna", "the output was dropped", now - MINUTE)
    story.ledger = lifecycle.rewound(given_up, story.place, "ben", "a bug in the transform", now - MINUTE, topics={})
    story.at = now - 20_000
    story.look(0.1)
    return story


def audited(now: int, load: str) -> Story:
    """A load whose last three ranges were audited: one is clean, one is not, and of one nobody can know."""
    story = Story(load, now)
    story.run(4)
    assert story.status is not None
    found = (
        AuditRow(now, "clean"),
        AuditRow(now, "found", missing=1_200, out_of_order=3, said="missing: orders[0]@7"),
        AuditRow(now, "unknown", unknown=4, said="unknown: its records are gone"),
    )
    for row, audit in zip(story.status.ranges[1:], found, strict=True):
        story.status = status.audited(story.status, story.updater(), row.id, audit)
    return story


def in_intervals(now: int, load: str) -> Story:
    """A load in intervals, which has no ledger: two hours are loaded."""
    story = Story(load, now)
    story.run(2)
    assert story.status is not None
    ranges = tuple(replace(row, kind="interval", lag=None) for row in story.status.ranges)
    story.status = replace(story.status, ranges=ranges, lag=None, revision=None, rows=0)
    story.statuses = [story.status]
    return story


def spent(now: int, load: str) -> Story:
    """A load that has reached its row limit."""
    story = Story(load, now)
    story.run(2)
    story.row_limit = story.ledger.rows
    story.at = now - MINUTE
    story.look(0.2)
    return story


def besides_status(task: Any) -> list[Any]:
    """What a task emits but for its load's status, which before Airflow 3.3 the page has from an asset's events."""
    return [each for each in task.outlets if each not in outlets(task.load)]
