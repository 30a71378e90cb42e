"""Which lane is taken, and who reads what in the direct one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.lanes import FEW, Facts, KeepOrder, lane, share_out

COPY = Facts(
    offsets=FEW + 1,
    transformed=False,
    keep_order="key",
    writers=None,
    partitions={"a": 3, "b": 3},
    outputs=4,
    use_partition=False,
    placed=True,
    rekeyed=False,
    copied=True,
)


@pytest.mark.parametrize(
    ("facts", "kind", "one_task"),
    [
        (COPY, "direct", False),
        (replace(COPY, transformed=True), "frames", False),
        (replace(COPY, placed=False), "frames", False),
        (replace(COPY, partitions={"a": 3, "b": 4}), "frames", False),
        (replace(COPY, rekeyed=True), "frames", False),
        (replace(COPY, keep_order="partition"), "frames", False),
        (replace(COPY, keep_order="partition", use_partition=True), "direct", False),
        (replace(COPY, keep_order="partition", use_partition=True, copied=False), "frames", False),
        (replace(COPY, keep_order="none", placed=False), "direct", False),
        (replace(COPY, outputs=1, placed=False), "direct", True),
        (replace(COPY, writers=1, placed=False, rekeyed=True), "direct", True),
        (replace(COPY, partitions={"a": 1}, keep_order="partition"), "direct", True),
    ],
)
def test_the_direct_lane_is_taken_where_it_keeps_the_order(facts: Facts, kind: str, one_task: bool) -> None:
    found = lane(facts)
    assert (found.kind, found.one_task) == (kind, one_task)
    assert found.reason


@pytest.mark.parametrize("order", ["key", "partition"])
def test_one_task_writes_few_rows_in_whatever_order_and_says_why(order: KeepOrder) -> None:
    unplaced = replace(COPY, placed=False, keep_order=order)
    found = lane(replace(unplaced, offsets=FEW))
    assert (found.kind, found.one_task) == ("direct", True)
    assert found.reason == f"{lane(unplaced).reason}, and this range is small enough for one task"


@pytest.mark.parametrize("facts", [replace(COPY, transformed=True), replace(COPY, placed=False, writers=2)])
def test_few_rows_of_a_transform_of_dataframes_or_for_several_writers_take_the_other_lane(facts: Facts) -> None:
    assert lane(replace(facts, offsets=1)).kind == "frames"


@given(st.dictionaries(st.integers(0, 50), st.integers(0, 1_000), min_size=1), st.integers(1, 8))
def test_every_partition_number_has_one_task_and_no_task_has_much_more_than_its_share(
    sizes: dict[int, int], tasks: int
) -> None:
    task_of = share_out(sizes, tasks)
    assert task_of.keys() == sizes.keys()
    loads = [sum(size for number, size in sizes.items() if task_of[number] == task) for task in range(tasks)]
    assert max(loads) <= sum(sizes.values()) / tasks + max(sizes.values())
