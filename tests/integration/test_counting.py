"""What tasks tell the driver beside their rows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_orderedkafka.spark.session.counting import TaskCounter

pytestmark = pytest.mark.versions

PIECES = 5


@pytest.fixture
def counter(spark: SparkSession) -> TaskCounter:
    return TaskCounter(spark.sparkContext)


@pytest.fixture
def counted_frame(spark: SparkSession, counter: TaskCounter) -> DataFrame:
    """A frame whose tasks tell, of each piece, its number."""

    def tell(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            for piece in batch.column(0).to_pylist():
                counter.add(piece, piece)

    return spark.range(0, PIECES, 1, PIECES).mapInArrow(tell, "id long")


@pytest.mark.parametrize(
    "job",
    [
        lambda frame: frame,
        lambda frame: frame.repartition(2),
        lambda frame: frame.orderBy("id"),
        lambda frame: frame.union(frame),
    ],
    ids=["once", "shuffled", "sorted", "on both sides"],
)
def test_each_piece_counts_once_however_often_spark_does_it(
    counter: TaskCounter, counted_frame: DataFrame, job: Callable[[DataFrame], DataFrame]
) -> None:
    job(counted_frame).collect()
    assert counter.total() == sum(range(PIECES))


def test_a_task_that_fails_tells_nothing(counter: TaskCounter, counted_frame: DataFrame) -> None:
    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.column(0).to_pylist() == [4]:
                raise ValueError
            yield batch

    with pytest.raises(PythonException):
        counted_frame.mapInArrow(fail, "id long").collect()
    assert counter.total() <= 6
