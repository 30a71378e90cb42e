"""How records that arrived are put in order, on plain numbers."""

import numpy as np
import pyarrow as pa
import pytest
from support.slices import slice_of, stretch

from airflow_provider_orderedkafka.errors import OrderViolationError
from airflow_provider_orderedkafka.kafka.read.columns import Arrivals, BatchBuilder, Ordered, Payloads, arrange


def arranged(slice_, *arrived):
    """The order of records that arrived as (rank, offset, timestamp)."""
    rank, offset, timestamp = (np.array(column, np.int64) for column in zip(*arrived, strict=True))
    return arrange(slice_, rank, offset, timestamp)


def places(ordered):
    return list(zip(ordered.order_time.tolist(), ordered.rank.tolist(), ordered.offset.tolist(), strict=True))


def two_partitions(floor=-1, latest=1_000):
    return slice_of(stretch("a", 0, 0, 9, floor=floor), stretch("a", 1, 0, 9, floor=floor), latest=latest)


def test_partitions_are_merged_by_time_and_ties_go_by_partition_then_offset():
    ordered = arranged(two_partitions(), (1, 0, 5), (1, 1, 5), (0, 0, 5), (0, 1, 7), (1, 2, 6))
    assert places(ordered) == [(5, 0, 0), (5, 1, 0), (5, 1, 1), (6, 1, 2), (7, 0, 1)]
    assert ordered.arrival.tolist() == [2, 0, 1, 4, 3]


def test_a_late_record_keeps_its_place_behind_the_record_before_it():
    ordered = arranged(two_partitions(), (0, 0, 10), (0, 1, 4), (0, 2, 10), (1, 0, 6))
    assert places(ordered) == [(6, 1, 0), (10, 0, 0), (10, 0, 1), (10, 0, 2)]
    assert ordered.late.tolist() == [False, False, True, False]


def test_what_is_older_than_the_floor_is_late():
    ordered = arranged(two_partitions(floor=8), (0, 0, 7), (0, 1, 8), (0, 2, 9))
    assert places(ordered) == [(8, 0, 0), (8, 0, 1), (9, 0, 2)]
    assert ordered.late.tolist() == [True, False, False]


@pytest.mark.parametrize("timestamp", [-1, 1_001], ids=["missing", "of the future"])
def test_a_timestamp_that_counts_for_nothing_takes_the_time_before_it_and_is_not_late(timestamp):
    ordered = arranged(two_partitions(), (0, 0, timestamp), (0, 1, 10), (0, 2, timestamp), (0, 3, 11))
    assert places(ordered) == [(-1, 0, 0), (10, 0, 1), (10, 0, 2), (11, 0, 3)]
    assert ordered.late.tolist() == [False] * 4
    assert ordered.timestamp.tolist() == [timestamp, 10, timestamp, 11]


def test_an_offset_that_arrives_twice_is_a_violation_that_names_it():
    with pytest.raises(OrderViolationError) as told:
        arranged(two_partitions(), (1, 3, 5), (1, 4, 5), (0, 4, 5), (1, 4, 5))
    assert (told.value.topic, told.value.partition, told.value.offset) == ("a", 1, 4)


def test_a_wrong_order_is_found_where_it_is():
    right = arranged(two_partitions(), (0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4))
    columns = {name: getattr(right, name) for name in Ordered.__slots__}
    wrong = Ordered(**{**columns, "offset": np.array([0, 2, 1, 3]), "order_time": np.array([1, 2, 2, 4])})
    assert right.first_violation(slice(0, 4)) is None
    assert wrong.first_violation(slice(0, 4)) == 1
    assert wrong.first_violation(slice(2, 4)) is None


def test_nothing_in_order_is_nothing():
    empty = np.empty(0, np.int64)
    assert places(arrange(two_partitions(), empty, empty, empty)) == []


def test_payloads_come_in_the_order_asked_for_and_null_is_not_empty():
    payloads = Payloads(np.array([b"a", b"", b"", b"dd"], object), np.array([1, -1, 0, 2], np.int64))
    taken = payloads.take(np.array([3, 1, 2, 0]))
    array = taken.array()
    array.validate(full=True)
    assert array.type == pa.binary()
    assert array.to_pylist() == taken.as_list() == [b"dd", None, b"", b"a"]


def test_moments_are_microseconds_and_what_no_moment_can_show_is_the_last_one():
    times = [-1, 0, 1_500, 2**63 - 1]
    ordered = arranged(two_partitions(), *((0, offset, time) for offset, time in enumerate(times)))
    none = Payloads(np.full(4, b"", object), np.full(4, -1))
    builder = BatchBuilder(two_partitions(), Arrivals(none, none, np.zeros(4), None), ordered)
    shown = builder.column("timestamp", slice(0, 4)).cast("int64").to_pylist()
    assert shown == [-1_000, 0, 1_500_000, 9_223_372_036_854_775_000]
