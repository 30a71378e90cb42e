"""The status of a load, as each step leaves it for the page."""

import json
from dataclasses import replace

import pytest
from support.plain import plain_range, plain_report

from airflow_provider_orderedkafka.core import lifecycle, status
from airflow_provider_orderedkafka.core.documents import Ledger
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Pace, Verdict
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.core.status import LARGEST, Status, Updater

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
BEGIN = Place(Offsets({FIRST: 100, SECOND: 50}), Floor(1_000))
END = Place(Offsets({FIRST: 130, SECOND: 60}), Floor(5_000))
RANGE = plain_range(reason="40 offsets in 2 partitions", start=BEGIN, end=END, planned_at=6_000)
REPORT = plain_report(
    range=RANGE,
    stop=END,
    rows_read=38,
    rows_emitted=37,
    late=2,
    dead_letters=1,
    batches=3,
    started_at=7_000,
    ended_at=9_000,
)
LEDGER = lifecycle.first_look("orders", instance="i", home_dag="d", place=BEGIN, topics={"orders": "id"}, now=0)
SEEN = Verdict(
    run=False,
    reason="60 of 100 offsets are there",
    due=20_000,
    waiting=60,
    lag=65,
    span=Span(BEGIN.offsets, Offsets({FIRST: 155, SECOND: 60}), BEGIN.floor, 10_000),
)


def updater(**more) -> Updater:
    plain = {
        "load": "orders",
        "topics": ("orders",),
        "row_limit": 1_000,
        "pace": Pace(100, 14_000),
        "dag": "d",
        "run": "d/run 1",
        "task": "orders.load",
        "now": 6_000,
    }
    return Updater(**{**plain, **more})


TELLER = updater()


def begun() -> Status:
    return TELLER.begin(None)


def looked(before: Status | None = None, ledger: Ledger = LEDGER) -> Status:
    return status.looked(before or begun(), TELLER, ledger, SEEN)


def progress(batch: int, done: int) -> Progress:
    return Progress("r1", 1, batch, done, 40, done, done, 1, 10, 4_000, 3, 3)


def test_a_look_says_how_far_the_load_is_behind_and_what_is_missing_to_the_next_run():
    lag = looked().lag
    assert (lag.offsets, lag.waiting, lag.enough, lag.due, lag.loaded_to) == (65, 60, 100, 20_000, 1_000)
    assert lag.partitions == {"orders": "0,100,0,55,0 1,50,0,10,0"}


def test_a_wait_that_the_ledger_alone_decides_keeps_what_was_seen_before():
    before = looked()
    after = status.looked(before, TELLER, LEDGER, Verdict(run=True, reason="nothing to wait for"))
    assert after.lag == replace(before.lag, reason="nothing to wait for")


def test_a_range_says_what_it_takes_of_the_lag():
    found = status.planned(looked(), TELLER, RANGE)
    (row,) = found.ranges
    assert (row.state, row.offsets, row.lag, row.run, row.begin, row.end) == (
        "planned",
        40,
        65,
        "d/run 1",
        1_000,
        5_000,
    )
    assert found.lag.partitions == {"orders": "0,100,30,55,0 1,50,10,10,0"}


def test_without_a_wait_the_range_is_all_that_is_known_of_the_lag():
    found = status.planned(begun(), TELLER, RANGE).lag
    assert (found.offsets, found.at_least) == (40, True)


def test_a_range_of_records_that_came_after_the_last_look_counts_as_lag():
    seen = looked()
    seen = replace(seen, lag=replace(seen.lag, offsets=0, partitions={}))
    found = status.planned(seen, updater(now=9_000), RANGE)
    assert (found.lag.offsets, found.lag.at, found.lag.at_least) == (40, 9_000, True)
    assert found.ranges[0].lag == 40


def test_who_gave_a_range_up_or_moved_the_ledger_is_told_with_the_reason():
    opened = lifecycle.opened(LEDGER, RANGE.id, "d/run 1")
    given_up = lifecycle.abandoned(opened, "anna", "the wrong output", 8_000)
    moved = lifecycle.rewound(given_up, LEDGER.place, "ben", "a bug", 9_000, topics={})
    found = status.looked(status.planned(looked(), TELLER, RANGE), TELLER, moved, SEEN)
    assert [(row.state, row.by, row.error) for row in found.ranges] == [("abandoned", "anna", "the wrong output")]
    (move,) = found.moves
    assert (move.at, move.kind, move.by, move.reason) == (9_000, "rewound", "ben", "a bug")


def test_where_a_load_writes_to_is_kept_when_a_step_does_not_know_it():
    known = replace(TELLER, output="topic:out").begin(None)
    assert TELLER.begin(known).output == "topic:out"


def test_each_batch_that_was_written_is_listed_once_however_often_progress_is_told():
    found = status.begun(status.planned(looked(), TELLER, RANGE), TELLER, RANGE, 1)
    for now, (batch, done) in enumerate([(0, 10), (1, 10), (1, 30)]):
        found = status.progressed(found, updater(now=7_000 + now), RANGE, [progress(batch, done)])
    (row,) = found.ranges
    assert [(each.batch, each.at, each.offsets_done) for each in row.written] == [(0, 7_000, 10), (1, 7_002, 30)]
    assert (row.state, row.counts.rows_read, row.progress.offsets_done) == ("loading", 30, 30)


def test_a_batch_that_runs_moves_the_range_and_is_no_batch_that_was_written():
    found = status.begun(status.planned(looked(), TELLER, RANGE), TELLER, RANGE, 1)
    found = status.progressed(found, TELLER, RANGE, [replace(progress(1, 20), running=12)])
    (row,) = found.ranges
    assert (row.written, row.counts.rows_read, row.progress.offsets_done) == ((), 20, 20)


def test_a_failed_attempt_says_why_until_the_next_one_begins():
    found = status.failed(begun(), TELLER, RANGE, "x" * 10_000)
    assert found.ranges[0].state == "failed"
    assert len(found.ranges[0].error) < 1_000
    (row,) = status.begun(found, TELLER, RANGE, 2).ranges
    assert (row.state, row.error, row.attempts) == ("loading", "", 2)


def test_a_run_without_a_range_says_why_until_its_task_ends_well_or_nothing_is_left_to_load():
    resolving = updater(task="orders.resolve", run="d/run 2")
    stopped = status.stopped(looked(), resolving, "orders is gone")
    assert (stopped.stop.run, stopped.stop.task, stopped.stop.error) == ("d/run 2", "orders.resolve", "orders is gone")
    assert looked(stopped).stop == stopped.stop
    assert status.planned(stopped, resolving, RANGE).stop is None
    assert status.stopped(stopped, resolving, "").stop is None
    assert status.looked(stopped, TELLER, LEDGER, replace(SEEN, lag=0, waiting=0)).stop is None
    assert looked(status.stopped(looked(), TELLER, "no broker answers")).stop is None


def test_a_commit_has_the_counts_of_the_report_and_leaves_what_still_waits():
    ledger = lifecycle.committed(lifecycle.opened(LEDGER, "r1", "d/run 1"), RANGE, REPORT, "d/run 1", 9_500)
    found = status.committed(status.planned(looked(), TELLER, RANGE), TELLER, RANGE, REPORT, ledger)
    (row,) = found.ranges
    counts = row.counts
    assert (counts.rows_read, counts.rows_emitted, counts.late, counts.dead_letters) == (38, 37, 2, 1)
    assert (row.state, row.begun_at, row.ended_at) == ("committed", 7_000, 9_000)
    assert (found.revision, found.rows) == (1, 38)
    assert found.lag.at_least  # Kafka was not asked again
    assert (found.lag.offsets, found.lag.loaded_to, found.lag.partitions) == (
        25,
        5_000,
        {"orders": "0,130,0,25,0 1,60,0,0,0"},
    )


def test_late_records_are_told_by_partition_until_the_next_range_is_loaded():
    ledger = lifecycle.committed(lifecycle.opened(LEDGER, "r1", "d/run 1"), RANGE, REPORT, "d/run 1", 9_500)
    report = replace(REPORT, late_in=Offsets({SECOND: 2}))
    found = status.committed(status.planned(looked(), TELLER, RANGE), TELLER, RANGE, report, ledger)
    assert found.lag.partitions == {"orders": "0,130,0,25,0 1,60,0,0,2"}
    again = looked(found, ledger)
    assert again.lag.partitions == {"orders": "0,100,0,55,0 1,50,0,10,2"}
    found = status.committed(status.planned(again, TELLER, RANGE), TELLER, RANGE, REPORT, ledger)
    assert found.lag.partitions == {"orders": "0,130,0,25,0 1,60,0,0,0"}


def test_a_commit_that_looks_tells_what_waits_whatever_was_known_before():
    ledger = lifecycle.committed(lifecycle.opened(LEDGER, "r1", "d/run 1"), RANGE, REPORT, "d/run 1", 9_500)
    left = Offsets({FIRST: 7, SECOND: 4})
    found = status.committed(begun(), updater(now=9_600), RANGE, REPORT, ledger, left=left).lag
    assert (found.at, found.offsets, found.at_least, found.loaded_to) == (9_600, 11, False, 5_000)
    assert found.partitions == {"orders": "0,130,0,7,0 1,60,0,4,0"}


def test_an_interval_leaves_lag_and_ledger_alone():
    interval = replace(RANGE, kind="interval")
    found = status.planned(begun(), TELLER, interval)
    assert found.lag is None
    assert status.committed(found, TELLER, interval, REPORT, None).revision is None


AGAIN = updater(run="d/run 2", output="topic:again")
SHORTER = Place(Offsets({FIRST: 120, SECOND: 60}), Floor(4_000))


@pytest.mark.parametrize(
    ("other", "to", "state"),
    [
        ({}, "topic:again", "abandoned"),
        ({}, "topic:elsewhere", "failed"),
        ({}, "", "failed"),
        ({"end": SHORTER}, "topic:again", "failed"),
        ({"rows_left": 5}, "topic:again", "failed"),
        ({"kind": "interval"}, "topic:again", "failed"),
    ],
)
def test_a_replay_that_failed_has_ended_once_another_run_has_loaded_the_same_to_the_same_place(other, to, state):
    replay, why = replace(RANGE, kind="replay"), "no room"
    first = replace(replay, id="r0", **other)
    before = status.failed(status.planned(begun(), updater(output=to), first), updater(output=to), first, why)
    after = status.planned(before, AGAIN, replay)
    assert [row.state for row in after.ranges if row.id == "r0"] == ["failed"]
    report = replace(REPORT, range=replay)
    (row,) = (row for row in status.committed(after, AGAIN, replay, report, None).ranges if row.id == "r0")
    assert row.state == state
    assert row.by == ("d/run 2" if state == "abandoned" else "")
    assert why in row.error


def test_a_range_that_is_loaded_again_is_planned_again():
    committed = status.committed(begun(), TELLER, RANGE, REPORT, None)
    proved = status.audited(committed, TELLER, RANGE.id, status.AuditRow(9_000, "clean"))
    (row,) = status.planned(proved, TELLER, RANGE).ranges
    assert (row.state, row.attempts, row.ended_at) == ("planned", 0, None)
    assert (row.counts, row.audit) == (status.RangeCounts(), None), "these are of what was loaded before"


@pytest.mark.parametrize("state", ["committed", "abandoned"])
def test_the_next_look_puts_right_a_range_whose_end_nobody_told(state):
    opened = lifecycle.opened(LEDGER, "r1", "d/run 1")
    ends = {
        "committed": lifecycle.committed(opened, RANGE, REPORT, "d/run 1", 9_500),
        "abandoned": lifecycle.abandoned(opened, "eve", "the output was dropped", 9_500),
    }
    (row,) = looked(status.begun(begun(), TELLER, RANGE, 1), ends[state]).ranges
    assert (row.state, row.ended_at) == (state, 9_500)
    assert row.counts.late == (2 if state == "committed" else 0)
    assert row.error == ("" if state == "committed" else "the output was dropped")


def test_ten_thousand_partitions_and_long_stories_fit_into_one_value_of_airflow():
    names = [str(number).ljust(249, "x") for number in range(10)]
    start = Offsets({TopicPartition(name, p): 10**12 + p for name in names for p in range(1_000)})
    end = Offsets({partition: offset + 10**6 for partition, offset in start.items()})
    verdict = replace(SEEN, span=Span(start, end, BEGIN.floor, 10_000), reason="é" * 10_000)
    found = status.looked(updater(topics=tuple(names)).begin(None), TELLER, LEDGER, verdict)
    for number in range(100):
        loaded = replace(RANGE, id=f"{number}-".ljust(120, "r"), reason="é" * 10_000)
        found = status.failed(found, updater(run="d/" + "r" * 250), loaded, "é" * 10_000)
    fitting = found.fitting()
    assert len(json.dumps(json.loads(fitting.to_text()))) <= LARGEST
    assert fitting.ranges[-1] == found.ranges[-1]
    assert fitting.lag.of_partitions == 10_000


def test_a_thousand_partitions_are_kept_beside_fifty_ranges_and_of_more_those_that_lag_most():
    start = Offsets({TopicPartition("orders", p): 10**9 for p in range(10_000)})
    end = Offsets({partition: offset + partition.partition * 1_000 for partition, offset in start.items()})
    found = status.looked(begun(), TELLER, LEDGER, replace(SEEN, span=Span(start, end, BEGIN.floor, 10_000)))
    for number in range(60):
        found = status.committed(found, TELLER, replace(RANGE, id=f"r{number}"), replace(REPORT, stop=BEGIN), None)
    words = found.fitting().lag.partitions["orders"].split()
    assert (len(words), words[0].split(",")[0], words[-1].split(",")[0]) == (1_000, "9000", "9999")
    assert [row.id for row in found.fitting().ranges] == [f"r{number}" for number in range(10, 60)]
