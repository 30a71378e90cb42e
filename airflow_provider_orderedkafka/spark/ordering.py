"""Keep the order from source to sink: rows that belong together go through one task, in order.

    keep_order(frame, by="key", writers=None, partitions=None) -> DataFrame with `_seq`

Kafka keeps the order of one writer. After narrow transformations `monotonically_increasing_id()` is the order of the
rows, because Spark partition i holds slice i. The sink checks `_seq` in each task and writes it nowhere.
"""

from typing import TYPE_CHECKING, Final, get_args

from ..compat.spark import arrow_udf, distributed_by
from ..core.lanes import OrderBy
from ..core.notation.spelling import arguments
from ..errors import SettingError
from ..kafka.provenance import SEQUENCE, SOURCE
from .session.plans import read_any_plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ONE_WRITER_UP_TO: Final = 2
"""With so few cores a shuffle costs more than writing side by side gains."""


@arguments()
def keep_order(
    frame: "DataFrame", by: OrderBy = "key", writers: int | None = None, partitions: int | None = None
) -> "DataFrame":
    """Distribute the rows among writers, so that writing the result keeps their order.

    Each partition of the result is in order and is written by one task. Raises a `SettingError` for a plan that is not
    known to keep the order of what was read.

    :param frame: What was read in order, and what was made of it.
    :param by: `"key"`: rows with the same key stay in order, and so do all rows without a key. `"partition"`: rows of
        the same output partition stay in order.
    :param writers: Number of tasks that write. One keeps the order of all rows without a shuffle, and is the default
        on up to two cores.
    :param partitions: With `by="partition"`: how many partitions the output has, to compute the column `partition` from
        the key as Java's producers do. Rows without a key are spread by their `_source`, or in turns. Write the result
        with `usePartition`.
    """
    cores = frame.sparkSession.sparkContext.defaultParallelism
    found = distributed(frame, by, default_writers(cores) if writers is None else writers, partitions)
    read_any_plan(frame).check_ordered("write them in no order, without keep_order")
    return found


def distributed(frame: "DataFrame", by: OrderBy, writers: int, partitions: int | None = None) -> "DataFrame":
    """`keep_order` without its check of the plan: the caller checks the plan that runs."""
    from pyspark.sql import functions as f

    _check(frame, by, writers, partitions)
    frame = frame.withColumn(SEQUENCE, f.monotonically_increasing_id())
    if by == "partition" and partitions is not None:
        frame = _with_partition(frame, partitions)
    if writers == 1 or (by == "key" and "key" not in frame.columns):
        return frame.coalesce(1)
    return distributed_by(frame, by, writers, _writer(by, writers)).sortWithinPartitions(SEQUENCE)


def default_writers(cores: int) -> int:
    return 1 if cores <= ONE_WRITER_UP_TO else cores


def _check(frame: "DataFrame", by: OrderBy, writers: int, partitions: int | None) -> None:
    if by not in get_args(OrderBy):
        raise SettingError(f"keep_order by must be 'key' or 'partition', found {by!r}")
    for name, value in (("writers", writers), ("partitions", partitions)):
        if value is not None and value < 1:
            raise SettingError(f"keep_order {name} must be at least 1, found {value!r}")
    if SEQUENCE in frame.columns:
        raise SettingError(f"keep_order adds the column {SEQUENCE!r} itself: rename yours, and call keep_order once")
    if by == "partition" and partitions is None and "partition" not in frame.columns:
        raise SettingError(
            "keep_order by partition needs an int column 'partition', or partitions=<number of the output topic's>"
        )


def _writer(by: OrderBy, writers: int) -> "Column":
    from pyspark.sql import functions as f

    if by == "key":
        return f.pmod(f.hash("key"), f.lit(writers))
    return f.pmod(f.coalesce(f.col("partition"), f.lit(0)), f.lit(writers))


def _with_partition(frame: "DataFrame", partitions: int) -> "DataFrame":
    """Add the partition of each row; only keys are sent to Python."""
    from pyspark.sql import functions as f

    spread = _spread(frame, partitions)
    if "key" not in frame.columns:
        return frame.withColumn("partition", spread)
    from ..kafka.write.writing import partitions_of

    def partition(key):  # type: ignore[no-untyped-def]
        return partitions_of(key, partitions)

    by_key = arrow_udf(partition, "int")
    return frame.withColumn("partition", f.coalesce(by_key(f.col("key").cast("binary")), spread))


def _spread(frame: "DataFrame", partitions: int) -> "Column":
    """The partition of a row without a key, by its source alone, so that a rerun gives the same."""
    from pyspark.sql import functions as f

    place = f.col(SEQUENCE)
    if SOURCE in frame.columns:
        place = f.coalesce(f.col(f"{SOURCE}.offset") + f.col(f"{SOURCE}.partition"), place)
    return f.pmod(place, f.lit(partitions)).cast("int")
