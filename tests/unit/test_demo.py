"""The demo's events are shaped as its story says, and its judgement catches what it must."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.messages import says
from support.plain import plain_report

from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from demo.__main__ import DemoError, claimed, environment
from demo.shop import Reading
from demo.story import IN_TRANSACTION, LANES, OFFLINE_MS, TRANSACTION_LANE, Chapter, chapter, order_times, right_order
from demo.verdict import Loaded, Order, Story, judge, summary

BEGIN = 1_700_000_000_000
FLOORS = [BEGIN + 190_000, BEGIN + 220_000]
CHAPTERS = [chapter(0, BEGIN, 3_000, 180), chapter(3_000, BEGIN + 190_000, 1_000, 20, 0.01)]
LARGE = chapter(500, BEGIN, 20_000, 180)
EVENTS = list(LARGE.events(np.ones(len(LARGE), dtype=bool)))


def test_every_event_carries_its_own_number_and_a_key_has_one_partition_of_a_topic():
    values = [json.loads(event.value) for event in EVENTS]
    assert [value["event"] for value in values] == list(range(500, 20_500))
    for event, value in zip(EVENTS, values, strict=True):
        assert event.lane.topic == value["kind"] + "s"
        assert event.key.decode() == value["customer"]
    places = {(event.lane.topic, event.key): event.lane for event in EVENTS}
    assert all(places[event.lane.topic, event.key] == event.lane for event in EVENTS)


def test_the_partitions_are_uneven_and_one_is_idle():
    counts = Counter(event.lane for event in EVENTS)
    for lane in LANES:
        assert counts[lane] == pytest.approx(lane.share * len(EVENTS), rel=0.15)
    assert sum(lane.share == 0 for lane in LANES) == 1
    assert list(LANES) == sorted(LANES, key=lambda lane: (lane.topic, lane.partition))


def test_a_few_of_a_hundred_events_are_late_and_those_that_were_offline_happened_before():
    assert 0.02 < (LARGE.times < order_times(LARGE, 0)).mean() < 0.04
    assert (LARGE.times >= BEGIN).all()
    assert LARGE.times.max() < LARGE.ends_at
    offline = chapter(0, BEGIN, 20_000, 20, 0.01).times
    assert (offline < BEGIN).sum() == pytest.approx(200, rel=0.3)
    assert offline.min() >= BEGIN - OFFLINE_MS


def test_the_last_events_of_one_partition_are_written_in_a_transaction():
    chosen = np.flatnonzero(LARGE.in_transaction)
    assert np.array_equal(chosen, np.flatnonzero(LARGE.lanes == TRANSACTION_LANE)[-IN_TRANSACTION:])


def test_the_order_time_is_the_highest_time_of_the_lane_so_far_and_never_below_the_floor():
    zeros = np.zeros(5, dtype=np.int64)
    small = Chapter(0, np.array([0, 1, 0, 1, 0]), np.array([50, 20, 40, 30, 60]), zeros, zeros, 0)
    assert order_times(small, 0).tolist() == [50, 20, 50, 30, 60]
    assert order_times(small, 25).tolist() == [50, 25, 50, 30, 60]


def test_the_right_order_goes_by_time_then_lane_then_place_in_the_lane():
    lanes, times = np.array([1, 0, 1, 0, 0]), np.array([5, 5, 5, 5, 3])
    assert right_order(lanes, times).tolist() == [4, 1, 3, 0, 2]


STORY = Story.of(CHAPTERS, FLOORS)
RIGHT = right_order(STORY.lanes, STORY.order_times)


def run(new, floor, end):
    stop, late = Place(Offsets(), Floor(end)), int((new.times < order_times(new, floor)).sum())
    rows = len(new)
    return Loaded(
        20.0, plain_report(stop=stop, batches=1, rows_read=rows, rows_emitted=rows, late=late, ended_at=2_000)
    )


RUNS = [run(new, floor, end) for new, floor, end in zip(CHAPTERS, [0, FLOORS[0]], FLOORS, strict=True)]
PLAIN = np.arange(4_000)


def reading(events):
    return Reading(events, STORY.times[events], 1.0, {("orders", 0): 4_002})


def broken(output, runs=RUNS):
    return judge(STORY, reading(PLAIN), output, runs).broken


def test_the_right_output_keeps_every_promise():
    assert broken(reading(RIGHT)) == ()


def test_two_neighbours_in_the_wrong_order_are_caught():
    swapped = RIGHT.copy()
    swapped[[2_000, 2_001]] = swapped[[2_001, 2_000]]
    assert len(broken(reading(swapped))) == 1


def test_a_missing_event_and_one_that_came_twice_are_caught():
    assert any(says(found, "1 of 4,000") for found in broken(reading(np.delete(RIGHT, 1_234))))
    assert any(says(found, "1 events") for found in broken(reading(np.insert(RIGHT, 500, RIGHT[500]))))


def test_a_changed_timestamp_is_caught():
    changed = reading(RIGHT)
    changed.times[7] += 1
    assert broken(changed) == ("timestamps were changed on the way",)


def test_a_report_that_counts_wrong_is_caught():
    wrong = replace(RUNS[0], report=replace(RUNS[0].report, late=RUNS[0].report.late + 1))
    assert len(broken(reading(RIGHT), [wrong, RUNS[1]])) == 1


def test_rows_behind_a_later_one_and_the_places_where_time_runs_backwards_are_counted():
    assert Order.of(np.array([1, 5, 2, 3, 6, 4])) == Order(rows=6, behind=3, violations=2, furthest_ms=3)
    assert Order.of(np.array([1, 1, 2])) == Order(rows=3, behind=0, violations=0, furthest_ms=0)


@pytest.mark.parametrize("output", [RIGHT, RIGHT[:-1]])
def test_the_summary_fits_a_screen_and_has_what_is_wrong(output):
    verdict = judge(STORY, reading(PLAIN), reading(output), RUNS)
    text = summary(verdict)
    assert max(map(len, text.splitlines())) <= 100
    assert all(sentence in text for sentence in verdict.broken)
    assert "4,002, 2 " in text


def test_a_directory_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "kafka").mkdir()
    with pytest.raises(DemoError, match="files"), claimed(tmp_path):
        pass
    assert (tmp_path / "kafka").is_dir()


def test_what_an_earlier_demo_left_is_replaced_and_two_never_share_a_directory(tmp_path):
    with claimed(tmp_path / "demo"):
        (tmp_path / "demo" / "kafka").mkdir()
        with pytest.raises(DemoError, match="running"), claimed(tmp_path / "demo"):
            pass
    with claimed(tmp_path / "demo"):
        assert not (tmp_path / "demo" / "kafka").exists()


def test_no_other_airflow_and_no_other_spark_reach_the_demo(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://production")
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    found = environment(tmp_path, "127.0.0.1:1")
    assert not {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "SPARK_HOME"} & found.keys()
    assert found["AIRFLOW_HOME"] == str(tmp_path)
