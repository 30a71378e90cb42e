"""Spark, and what stands for it in the models of attempts: both give the lanes the same."""

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from support.small_spark import SmallEngine

from airflow_provider_orderedkafka.compat.spark import spark_schema
from airflow_provider_orderedkafka.core.commits import IDENTITY
from airflow_provider_orderedkafka.kafka.provenance import ORDINAL, SEQUENCE, SOURCE
from airflow_provider_orderedkafka.kafka.write.writing import partitions_of
from airflow_provider_orderedkafka.spark.lanes.engine import Engine
from airflow_provider_orderedkafka.spark.session.counting import each_partition, results
from airflow_provider_orderedkafka.spark.session.plans import PlanFacts
from airflow_provider_orderedkafka.spark.session.starting import LazySession

pytestmark = pytest.mark.versions

EACH = 4
"""How many records a part has."""

RECORDS = pa.schema(
    {
        "key": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "order_time": pa.timestamp("us", "UTC"),
    }
)


@pytest.fixture(params=["Spark", "small"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> Engine:
    return Engine(LazySession()) if request.param == "Spark" else SmallEngine(PlanFacts())


def frame_of(engine: Engine, parts: int = 3) -> Any:
    """Parts with a few records each, in two batches; every other one has a key."""

    def records(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in next(numbers).column(0).to_pylist():
            offsets = range(number * EACH, (number + 1) * EACH)
            keys = [b"abc"[offset % 3 : offset % 3 + 1] if offset % 2 else None for offset in offsets]
            columns = [keys, ["t"] * EACH, [1] * EACH, list(offsets), [1_000 * offset for offset in offsets]]
            made = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, RECORDS, strict=True)], schema=RECORDS)
            yield from (made.slice(0, 3), made.slice(3))

    return engine.sourced(engine.numbers(parts).mapInArrow(records, spark_schema(RECORDS)))


def offsets(rows: Iterable[Any]) -> list[int]:
    return [row.offset for row in rows]


def test_each_number_is_the_work_of_a_task(engine: Engine) -> None:
    def tripled(numbers: Iterator[pa.RecordBatch]) -> Generator[int, None, list[int]]:
        yield 1
        return [3 * number for batch in numbers for number in batch.column(0).to_pylist()]

    assert results(each_partition(engine.numbers(3), tripled)) == [[0], [3], [6]]


def test_the_parts_of_a_frame_are_read_in_order_and_some_of_them_alone(engine: Engine) -> None:
    frame = frame_of(engine)
    assert offsets(frame.collect()) == list(range(3 * EACH))
    assert offsets(engine.collected(frame, [1])) == list(range(EACH, 2 * EACH))
    assert offsets(engine.collected(frame, range(1, 9))) == list(range(EACH, 3 * EACH))
    assert engine.collected(frame, [3, 4]) == []


def test_records_have_their_source_beside_them_in_one_column(engine: Engine) -> None:
    frame = frame_of(engine)
    assert frame.columns == [*RECORDS.names, SOURCE]
    sources = [row[SOURCE] for row in frame.collect()]
    assert [(source["topic"], source["partition"], source["offset"]) for source in sources] == [
        ("t", 1, offset) for offset in range(3 * EACH)
    ]
    assert [row.partition for row in frame.select(f"{SOURCE}.partition").collect()] == [1] * 3 * EACH


def test_rows_are_counted_as_they_are_written(engine: Engine) -> None:
    frame, count = engine.counted(frame_of(engine))
    frame.write.format("noop").mode("overwrite").save()
    assert count() == 3 * EACH


def test_what_tasks_count_of_a_piece_is_told_once(engine: Engine) -> None:
    counter = engine.counter()

    def counts(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            counter.add(batch.column(0)[0].as_py() // 2, 2)
            yield batch

    numbers = engine.numbers(3)
    assert len(numbers.mapInArrow(counts, numbers.schema).collect()) == 3
    assert counter.counts == {0: 2, 1: 2}


@pytest.mark.parametrize("numbered", [False, True], ids=["one row for each", "numbered"])
def test_a_row_of_a_table_has_its_identity(engine: Engine, numbered: bool) -> None:
    frame = frame_of(engine, 1)
    if numbered:
        more = RECORDS.append(pa.field(SOURCE, pa.struct(list(RECORDS)[1:]))).append(pa.field(ORDINAL, pa.int32()))
        frame = frame.mapInArrow(
            lambda batches: (each.append_column(ORDINAL, pa.array([7] * len(each), pa.int32())) for each in batches),
            spark_schema(more),
        )
    found = [row[IDENTITY] for row in engine.identified(frame, "r1", 3).collect()]
    assert [list(each.asDict().values() if hasattr(each, "asDict") else each.values()) for each in found] == [
        ["r1", 3, "t", 1, offset, 7 if numbered else 0] for offset in range(EACH)
    ]


@pytest.mark.parametrize(("writers", "parts"), [(1, 1), (2, 2)])
def test_rows_of_a_key_are_one_writers_in_order(engine: Engine, writers: int, parts: int) -> None:
    distributed = engine.distributed(frame_of(engine), "key", writers)
    of_parts = [engine.collected(distributed, [part]) for part in range(parts + 1)]
    assert of_parts.pop() == []
    assert sorted(offset for rows in of_parts for offset in offsets(rows)) == list(range(3 * EACH))
    for rows in of_parts:
        assert [row[SEQUENCE] for row in rows] == sorted(row[SEQUENCE] for row in rows)
        assert offsets(rows) == sorted(offsets(rows))
    keys = [{row.key for row in rows} for rows in of_parts]
    assert sum(map(len, keys)) == len(set().union(*keys))


@pytest.mark.parametrize("writers", [1, 2])
def test_rows_without_a_key_go_where_their_source_says_whatever_rows_there_are_beside_them(
    engine: Engine, writers: int
) -> None:
    def keyless(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pc.is_null(batch.column("key")))

    frame = frame_of(engine)
    placed = [
        {
            row.offset: row.partition
            for row in engine.distributed(rows, "partition", writers, 5).collect()
            if row.key is None
        }
        for rows in (frame, frame.mapInArrow(keyless, frame.schema))
    ]
    assert placed[0] == placed[1] == {offset: (offset + 1) % 5 for offset in range(0, 3 * EACH, 2)}


def test_a_key_goes_where_javas_producers_put_it(engine: Engine) -> None:
    rows = engine.distributed(frame_of(engine), "partition", 2, 4).collect()
    keys = [b"a", b"b", b"c"]
    expected = zip(keys, partitions_of(pa.array(keys), 4).to_pylist(), strict=True)
    assert {row.key: row.partition for row in rows if row.key} == dict(expected)
