"""About how much is older than a time: what a wait decides by, every few seconds, on a log in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated_log import Entry, SimulatedLog, span_of

from airflow_provider_orderedkafka.core.order.cuts import Floor
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import about

POISONED, SOUND = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOW, FUTURE = 1_790_000_000_000, 4_102_444_800_000
LATEST = NOW + 300_000


def an_hour(count, begin=0):
    """Records of the last hour, evenly."""
    return [Entry(begin + n, NOW - 3_600_000 + n * 3_600_000 // count) for n in range(count)]


def with_poison(place, count=50_000):
    found = an_hour(count)
    found[place] = Entry(place, FUTURE)
    return SimulatedLog({POISONED: found, SOUND: an_hour(100)})


@pytest.mark.parametrize("stands", [0, 10, 11, 40_000])
@pytest.mark.parametrize("ago", [0, 5_000, 1_800_000, 3_599_000])
def test_a_record_of_the_future_hides_nothing_wherever_it_lies_and_no_partition_is_read_for_it(stands, ago):
    log = with_poison(10)
    span = span_of(log, Floor(), LATEST, Offsets({POISONED: stands, SOUND: 0}))
    expected = Planner(log, span).end(None, NOW - ago).offsets
    log.scanned.clear()
    log.looks = 0
    assert about(log, span, NOW - ago) == expected
    assert log.scanned == []
    assert log.looks <= 8


def test_where_all_is_sound_the_index_alone_is_asked():
    log = SimulatedLog({POISONED: an_hour(50_000), SOUND: an_hour(100)})
    assert about(log, span_of(log, Floor(), LATEST), NOW - 5_000).since({POISONED: 0, SOUND: 0}) == 49_931 + 100
    assert (log.lookups, log.looks) == (1, 0)


def test_a_log_of_nothing_but_the_future_is_counted_whole():
    log = SimulatedLog({POISONED: [Entry(n, FUTURE) for n in range(5_000)]})
    assert about(log, span_of(log, Floor(), LATEST), NOW)[POISONED] == 5_000


@given(
    poison=st.sets(st.integers(0, 499), max_size=5),
    hidden=st.sets(st.integers(0, 499), max_size=5),
    stands=st.integers(0, 499),
    ago=st.integers(0, 3_700_000),
    floor=st.none() | st.integers(0, 3_700_000),
)
def test_it_agrees_with_the_planner_where_records_come_in_time(poison, hidden, stands, ago, floor):
    entries = [
        Entry(e.offset, FUTURE if e.offset in poison else e.timestamp, e.offset not in hidden) for e in an_hour(500)
    ]
    log = SimulatedLog({POISONED: entries})
    at = Floor() if floor is None else Floor(NOW - floor)
    span = span_of(log, at, LATEST, Offsets({POISONED: stands}))
    counted, planned = about(log, span, NOW - ago), Planner(log, span).end(None, NOW - ago).offsets
    assert abs(counted[POISONED] - planned[POISONED]) <= len(hidden)
