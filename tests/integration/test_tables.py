"""Ranges as rows of files and of tables."""

import json
from collections import Counter

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType
from support.applications import Application, events, filtered, paid
from support.outputs import expected_of
from support.ranges import whole_range
from support.records import Records
from support.table_formats import rows_of
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Destination
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.table_sink import table_sink
from airflow_provider_orderedkafka.spark.tables.columns import alterations, compared, holds
from airflow_provider_orderedkafka.spark.tables.upserts import with_deletes


@pytest.mark.versions
def test_a_table_of_files_has_every_row_once_and_what_was_left_of_a_batch_goes(
    app: Application, topics: Topics, records: Records, spark: SparkSession
) -> None:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    loaded = whole_range(app.servers, source, batch_offsets=40)
    path = app.folder / "table"
    before = path / "range_id=r1" / "batch=2"
    before.mkdir(parents=True)
    spark.range(5).write.mode("overwrite").parquet(str(before))  # what a killed attempt left of batch 2
    report = app.load(loaded, "--output", f"parquet:{path}", sink=table_sink, transform=filtered)
    rows = spark.read.parquet(str(path)).collect()
    late = Counter(
        each.position[:2] for each in expected_of(records, source) if each.record.timestamp < each.order_time
    )
    assert dict(report.late_in) == late
    expected = [each for each in expected_of(records, source) if paid(each.record.value)]
    assert sorted((row.topic, row.partition, row.offset) for row in rows) == sorted(each.position for each in expected)
    assert {row.range_id for row in rows} == {"r1"}
    assert {row.batch for row in rows} == {1, 2, 3}
    assert (report.rows_read, report.rows_emitted) == (90, len(expected))
    assert report.destination == Destination(f"parquet:{path}", identity=False, called="r1")
    assert sum(report.read_in.values()) == 90
    sizes = [file.stat().st_size for file in path.glob("range_id=*/batch=*/*/*.parquet")]
    assert (report.files_written, report.bytes_written) == (len(sizes), sum(sizes))


def test_files_of_a_range_that_is_loaded_again_stand_in_place_of_those_before(
    app: Application, topics: Topics, records: Records
) -> None:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    path = app.folder / "table"
    for name, batch_offsets in (("r1", 30), ("r1-again-1", 50), ("r1-again-2", 40)):
        app.checkpoint = app.folder / name
        loaded = whole_range(app.servers, source, batch_offsets=batch_offsets)
        app.load(loaded, "--output", f"parquet:{path}", sink=table_sink)
        assert [folder.name for folder in path.glob("range_id=*")] == [f"range_id={name}"]
        files = [file for each in path.glob("_orderedkafka/*/*.json") for file in json.loads(each.read_text())["files"]]
        rows = [row for file in files for row in rows_of(path / file, "topic", "partition", "offset")]
        assert sorted(rows) == sorted(each.position for each in expected_of(records, source))


def test_two_loads_by_hand_into_one_table_keep_each_its_own_rows(
    app: Application, topics: Topics, records: Records, spark: SparkSession
) -> None:
    path = app.folder / "table"
    for name in ("a", "b"):
        source = topics.create(name, 3)
        records.produce(source, events(1_000, 1))
        app.checkpoint = app.folder / name
        report = app.run(
            *("--option", f"subscribe={source}", "--option", "startingOffsets=earliest"),
            "--output",
            f"parquet:{path}",
            sink=table_sink,
        )
        assert report is not None
        assert report.rows_emitted == 1_000
    rows = spark.read.parquet(str(path)).collect()
    assert len({(row.topic, row.partition, row.offset) for row in rows}) == len(rows) == 2_000


def test_what_retention_took_of_a_table_is_counted_once_where_a_sort_reads_it_twice(
    app: Application, topics: Topics, records: Records
) -> None:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    loaded = whole_range(app.servers, source, on_data_loss="count")
    records.delete_before(source, {0: 7})
    argv = ("--output", f"parquet:{app.folder / 'table'}", "--option", "sliceOffsets=10")
    report = app.load(loaded, *argv, sink=table_sink, transform=lambda frame: frame.orderBy("key"))
    assert (report.lost, report.rows_emitted) == (7, 83)


def test_a_table_that_is_not_said_is_asked_for(
    app: Application, topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        app.load(whole_range(app.servers, topics.create("a", 3)), sink=table_sink)
    assert caught.value.code == 2
    assert "--output" in capsys.readouterr().err


def a_type(text: str) -> DataType:
    return DataType.fromDDL(text)


@pytest.mark.parametrize(
    ("there", "held", "not_held"),
    [
        ("int", ["smallint", "int", "void"], ["bigint", "double", "string", "decimal(5,0)", "timestamp"]),
        ("float", ["smallint"], ["double", "int"]),
        ("double", ["float", "int"], ["bigint", "decimal(5,0)"]),
        ("decimal(12,2)", ["decimal(10,2)", "decimal(11,1)", "int"], ["decimal(12,3)", "decimal(13,2)", "bigint"]),
        ("string", ["int", "binary", "timestamp_ntz"], ["array<int>", "timestamp"]),
        ("date", ["date"], ["timestamp", "int"]),
        ("timestamp", [], ["bigint", "string", "timestamp_ntz", "date"]),
        ("timestamp_ntz", ["date"], ["timestamp"]),
        ("boolean", [], ["int"]),
        ("binary", [], ["string"]),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_column_holds_what_it_keeps_as_it_is(there: str, held: list[str], not_held: list[str]) -> None:
    assert {each: holds(a_type(there), a_type(each)) for each in (*held, *not_held)} == {
        **dict.fromkeys(held, True),
        **dict.fromkeys(not_held, False),
    }


@pytest.mark.usefixtures("spark")
def test_what_a_table_lacks_or_does_not_hold_is_named_at_any_depth_and_in_any_case() -> None:
    there = a_type("A int, s struct<a: int, z: int>, l array<struct<a: int>>, m map<int, int>, d decimal(9,2), t date, "
                   "k map<struct<a: int>, int>, same map<struct<a: int>, int>")  # fmt: skip
    rows = a_type("a int, S struct<b: int, A: bigint>, l array<struct<a: int, `b.c`: int>>, m map<bigint, int>, "
                  "d decimal(9,3), `a b` struct<`x-y`: int>, t timestamp, k map<struct<a: int, b: int>, int>, "
                  "same map<struct<A: smallint>, int>")  # fmt: skip
    gaps = {gap.name: gap.widens for gap in compared(rows, there) if not gap.held}
    assert gaps == {"s.b": False, "s.a": True, "l.element.b.c": False, "m.key": False} | dict.fromkeys(
        ("d", "a b", "t", "k.key"), False
    )
    lacking = [gap for gap in compared(rows, there) if gap.there is None]
    assert alterations(lacking, "t", " COMMENT 'c'") == [
        "ALTER TABLE t ADD COLUMNS (`s`.`b` int COMMENT 'c', `l`.`element`.`b.c` int COMMENT 'c', "
        "`a b` STRUCT<`x-y`: int> COMMENT 'c')"
    ]


@pytest.mark.parametrize(
    ("columns", "deleted"), [("true AS _IS_DELETED, 1 AS value", True), ("NULL AS VALUE", True), ("1 AS Value", False)]
)
def test_which_rows_delete_their_key_is_said_by_a_column_in_any_case(
    spark: SparkSession, columns: str, deleted: bool
) -> None:
    rows = with_deletes(spark.sql(f"SELECT 1 AS id, {columns}"), None, "a table")
    assert [row.asDict()["_is_deleted"] for row in rows.collect()] == [deleted]
    assert rows.columns.count("_is_deleted") == 1


def test_two_ways_to_say_which_rows_delete_their_key_are_refused_in_any_case(spark: SparkSession) -> None:
    with pytest.raises(SettingError):
        with_deletes(spark.sql("SELECT 1 AS id, true AS _IS_DELETED"), "false", "a table")
