"""How records that arrived are put in order, on plain numbers."""

import numpy as np
import pyarrow as pa
import pytest
from support.slices import slice_of, stretch

from airflow_provider_orderedkafka.errors import OrderViolationError
from airflow_provider_orderedkafka.kafka.read.columns import (
    LAST_MILLISECOND,
    BatchBuilder,
    Columns,
    Ordered,
    Part,
    Payloads,
    arrange,
)


def arranged(slice_, *arrived):
    """The order of records that arrived as (rank, offset, timestamp)."""
    rank, offset, timestamp = (np.array(column, np.int64) for column in zip(*arrived, strict=True))
    return arrange(slice_, rank, offset, timestamp)


def two_partitions(floor=-1, latest=1_000):
    return slice_of(stretch("a", 0, 0, 9, floor=floor), stretch("a", 1, 0, 9, floor=floor), latest=latest)


def test_an_offset_that_arrives_twice_is_a_violation_that_names_it():
    with pytest.raises(OrderViolationError) as caught:
        arranged(two_partitions(), (1, 3, 5), (1, 4, 5), (0, 4, 5), (1, 4, 5))
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("a", 1, 4)


def test_a_wrong_order_is_found_where_it_is():
    right = arranged(two_partitions(), (0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4))
    columns = {name: getattr(right, name) for name in Ordered.__slots__}
    wrong = Ordered(**{**columns, "offset": np.array([0, 2, 1, 3]), "order_time": np.array([1, 2, 2, 4])})
    assert right.first_violation(slice(0, 4)) is None
    assert wrong.first_violation(slice(0, 4)) == 1
    assert wrong.first_violation(slice(2, 4)) is None


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
    part = Part(Columns(*[np.zeros(4, np.int64)] * 4), none, none, None)
    builder = BatchBuilder(two_partitions(), part, ordered)
    shown = builder.column("timestamp", slice(0, 4)).cast("int64").to_pylist()
    assert shown == [-1_000, 0, 1_500_000, LAST_MILLISECOND * 1_000]
