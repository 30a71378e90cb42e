"""What counts for the row limit, and which rows of the record in which it ends pass."""

from typing import Any

import pyarrow as pa
import pytest
from support.loop import PARTITION, place

from airflow_provider_orderedkafka.core.batches import Allotment, Batch, Surplus, Tally
from airflow_provider_orderedkafka.spark.lanes.limit import RowLimit, trimmed


def test_rows_that_became_dead_letters_count() -> None:
    assert Tally(rows_read=9, rows_emitted=5, dead_letters=2, replayed=1).rows == 7


def test_a_batch_in_which_the_limit_ends_goes_as_far_as_its_allotment_and_no_further() -> None:
    surplus = Surplus(PARTITION.topic, PARTITION.partition, 6, rows=2)
    frames: Any = None
    cut = RowLimit(frames, at_most_one=False).cut(Batch(1, place(0), place(10)), Allotment(1, (5,), place(7), surplus))
    assert (cut.start, cut.end, cut.surplus) == (place(0), place(7), surplus)


def rows(*offsets: int) -> pa.RecordBatch:
    """Rows of a plain copy, by the offsets of the records that they came from."""
    where = {"topic": ["a"] * len(offsets), "partition": pa.array([0] * len(offsets), pa.int32()), "offset": offsets}
    return pa.record_batch({**where, "order_time": [0] * len(offsets)})


@pytest.mark.parametrize("passing", [1, 2, 3, 4])
def test_of_the_last_record_the_first_rows_pass_over_batches(passing: int) -> None:
    come = [rows(3, 4, 4), rows(4, 4)]
    left = trimmed(iter(come), Surplus("a", 0, 4, passing))
    assert [offset for each in left for offset in each.column("offset").to_pylist()] == [3] + [4] * passing
