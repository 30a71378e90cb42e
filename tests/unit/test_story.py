"""The demo's story: the same for one seed, shaped as it is told, and put in order by code that stands alone."""

import json
from collections import Counter

import numpy as np
import pytest

from airflow_provider_orderedkafka.tools.demo.story import (
    IN_TRANSACTION,
    LANES,
    OFFLINE_MS,
    TRANSACTION_LANE,
    Chapter,
    Length,
    chapter,
    order_times,
    right_order,
)

BEGIN = 1_700_000_000_000
PLAN = Length(events=20_000, seconds=180)
NO_FLOORS = [0] * len(LANES)


def all_events(told: Chapter):
    return list(told.events(np.ones(len(told), dtype=bool)))


def test_one_seed_tells_one_story():
    assert all_events(chapter(7, PLAN, 0, BEGIN)) == all_events(chapter(7, PLAN, 0, BEGIN))


def test_another_seed_or_another_place_in_the_story_tells_another():
    told = all_events(chapter(7, PLAN, 0, BEGIN))
    assert all_events(chapter(8, PLAN, 0, BEGIN)) != told
    assert [event.timestamp for event in all_events(chapter(7, PLAN, 20_000, BEGIN))] != [
        event.timestamp for event in told
    ]


def test_a_story_that_begins_later_is_the_same_story_later():
    early, late = chapter(7, PLAN, 0, BEGIN), chapter(7, PLAN, 0, BEGIN + 5_000)
    assert np.array_equal(early.times + 5_000, late.times)
    assert np.array_equal(early.lanes, late.lanes)


def test_every_event_carries_its_own_number_and_says_what_it_is():
    events = all_events(chapter(7, PLAN, 500, BEGIN))
    values = [json.loads(event.value) for event in events]
    assert [value["event"] for value in values] == list(range(500, 500 + PLAN.events))
    for event, value in zip(events, values, strict=True):
        assert event.lane.topic == value["kind"] + "s"
        assert event.key.decode() == value["customer"]


def test_the_partitions_are_uneven_and_one_is_idle():
    counts = Counter(event.lane for event in all_events(chapter(7, PLAN, 0, BEGIN)))
    for lane in LANES:
        assert counts[lane] == pytest.approx(lane.share * PLAN.events, rel=0.15)
    assert sum(lane.share == 0 for lane in LANES) == 1
    assert [(lane.topic, lane.partition) for lane in LANES] == sorted((lane.topic, lane.partition) for lane in LANES)


def test_a_key_has_one_partition_of_a_topic():
    places = {(event.lane.topic, event.key): set() for event in all_events(chapter(7, PLAN, 0, BEGIN))}
    for event in all_events(chapter(7, PLAN, 0, BEGIN)):
        places[event.lane.topic, event.key].add(event.lane.partition)
    assert {len(partitions) for partitions in places.values()} == {1}


def test_everything_happens_within_the_chapter():
    told = chapter(7, PLAN, 0, BEGIN)
    assert told.times.min() >= BEGIN
    assert told.times.max() < BEGIN + 1_000 * PLAN.seconds


def test_what_was_offline_happened_before_the_chapter_began():
    told = chapter(7, Length(20_000, 20, offline=0.01), 20_000, BEGIN)
    before = told.times < BEGIN
    assert before.sum() == pytest.approx(200, rel=0.3)
    assert told.times.min() >= BEGIN - OFFLINE_MS


def test_a_few_of_a_hundred_events_are_late():
    told = chapter(7, PLAN, 0, BEGIN)
    late = (told.times < order_times(told, NO_FLOORS)).mean()
    assert 0.02 < late < 0.04


def test_the_last_events_of_one_partition_are_written_in_a_transaction():
    told = chapter(7, PLAN, 0, BEGIN)
    chosen = np.flatnonzero(told.in_transaction)
    assert len(chosen) == IN_TRANSACTION
    assert np.array_equal(chosen, np.flatnonzero(told.lanes == TRANSACTION_LANE)[-IN_TRANSACTION:])


def test_a_chapter_cannot_be_changed():
    told = chapter(7, PLAN, 0, BEGIN)
    with pytest.raises(ValueError, match="read-only"):
        told.times[0] = 0


def small(lanes, times):
    zeros = np.zeros(len(lanes), dtype=np.int64)
    return Chapter(0, np.array(lanes), np.array(times), zeros.copy(), zeros.copy())


def test_the_order_time_is_the_highest_time_of_the_lane_so_far():
    told = small([0, 1, 0, 1, 0], [50, 20, 40, 30, 60])
    assert order_times(told, NO_FLOORS).tolist() == [50, 20, 50, 30, 60]


def test_no_order_time_is_below_the_floor():
    told = small([0, 1, 0, 1], [50, 20, 40, 30])
    assert order_times(told, [25] * len(LANES)).tolist() == [50, 25, 50, 30]


def test_the_right_order_goes_by_time_then_lane_then_place_in_the_lane():
    lanes, times = np.array([1, 0, 1, 0, 0]), np.array([5, 5, 5, 5, 3])
    assert right_order(lanes, times).tolist() == [4, 1, 3, 0, 2]
