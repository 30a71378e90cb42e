"""What is said of a transform of DataFrames that raises in a task, or that makes other rows when it runs again."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from support.applications import START, Application
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

BAD = 170


def raising(kind: str) -> Any:
    """A transform whose function raises on one record; tasks get it as it is, and import nothing of the tests."""

    def price(value):
        return 100 // (int(value) - BAD)

    def prices(values: pd.Series) -> pd.Series:
        return values.map(price)

    def priced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column("value").to_pylist():
                price(value)
            yield batch

    def transform(frame: Any) -> Any:
        if kind == "mapInArrow":
            return frame.mapInArrow(priced, frame.schema)
        function = f.udf(price, "int") if kind == "udf" else f.pandas_udf(prices, "int")
        return frame.withColumn("value", function("value").cast("string"))

    return transform


@pytest.fixture
def source(topics: Topics, records: Records) -> str:
    """A topic of one partition whose records have the numbers of their offsets."""
    topic = topics.create("a", 1)
    records.produce(topic, [Record(str(number).encode(), START + number * 10) for number in range(300)])
    return topic


Failed = Callable[..., str]


@pytest.fixture
def failed(app: Application, topics: Topics, source: str, capsys: pytest.CaptureFixture[str]) -> Failed:
    """Load with a transform that raises, in slices of a hundred offsets; what is said of it."""

    def fail(transform: Any, *more: str) -> str:
        argv = (
            "--output-topic",
            topics.create("out", 2),
            "--option",
            "sliceOffsets=100",
            "--sink-option",
            "writers=2",
            *more,
        )
        with pytest.raises(SystemExit) as ended:
            app.load(whole_range(app.servers, source), *argv, transform=transform)
        assert ended.value.code == 65
        return capsys.readouterr().err

    return fail


@pytest.mark.versions
@pytest.mark.parametrize("kind", ["udf", "pandas_udf", "mapInArrow"])
def test_what_a_function_raises_in_a_task_is_said_with_its_line_and_the_records_of_that_task(
    failed: Failed, source: str, kind: str
) -> None:
    said = failed(raising(kind))
    assert "ZeroDivisionError" in said
    assert re.search(r"at test_transforms\.py:\d+, in price: return 100 // \(int\(value\) - BAD\)", said)
    found = re.search(rf"its task was reading about {source}\[0\]@(\d+) to (\d+)", said)
    assert found, said
    first, last = map(int, found.groups())
    assert first <= BAD < last < first + 200


def test_where_tasks_have_rows_of_several_slices_the_batch_is_said(failed: Failed, source: str) -> None:
    said = failed(lambda frame: raising("udf")(frame.coalesce(1)), "--sink-option", "keepOrder=none")
    assert re.search(rf"ZeroDivisionError.*; its batch has {source}\[0\]@0 to 300", said), said


def not_the_same_again(frame: Any) -> Any:
    more = [f"more_{number}" for number in range(30)]
    wide = frame.select("*", *(f.lit(name).alias(name) for name in more))
    chance = f.concat(f.rand(), f.expr("uuid()"), f.current_timestamp(), f.now(), f.current_date())
    return wide.withColumn("value", f.concat("value", chance.cast("binary"))).drop(*more)


def by_a_function(frame: Any) -> Any:
    return frame.withColumn("value", f.udf(lambda value: value, "binary").asNondeterministic()("value"))


def plainly(frame: Any) -> Any:
    return frame.withColumn("value", f.concat(f.lit("now and then at random ").cast("binary"), "value"))


@pytest.mark.versions
@pytest.mark.parametrize(
    ("transform", "named"),
    [
        (not_the_same_again, ["current_date, current_timestamp, now, rand, uuid"]),
        (by_a_function, ["a function that is not deterministic"]),
        (plainly, []),
    ],
)
def test_what_gives_other_rows_in_another_attempt_is_said(
    app: Application, topics: Topics, source: str, capsys: pytest.CaptureFixture[str], transform: Any, named: list[str]
) -> None:
    report = app.load(whole_range(app.servers, source), "--output-topic", topics.create("out"), transform=transform)
    assert report.rows_emitted == 300
    said = re.findall(r"^warning: the transform uses (.*), which gives other values", capsys.readouterr().out, re.M)
    assert said == named
