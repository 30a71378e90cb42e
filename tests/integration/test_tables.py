"""Ranges as rows of files and of tables."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession
from support.applications import Application, events, filtered, paid
from support.outputs import expected_of
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.spark.table_sink import table_sink


def table(app: Application, *options: str) -> list[str]:
    return [argument for option in options for argument in ("--sink-option", option)]


@pytest.mark.versions
def test_a_table_of_files_has_every_row_once_and_a_batch_is_replaced_by_its_number(
    app: Application, topics: Topics, records: Records, spark: SparkSession
) -> None:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    loaded = whole_range(app.servers, source, batch_offsets=40)
    path = app.folder / "table"
    before = path / "range_id=r1" / "batch=2"
    before.mkdir(parents=True)
    spark.range(5).write.mode("overwrite").parquet(str(before))  # what a killed attempt left of batch 2
    report = app.load(loaded, *table(app, f"path={path}"), sink=table_sink, transform=filtered)
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


@pytest.mark.versions
def test_a_table_of_a_catalog_is_made_and_a_batch_replaces_its_partition(
    app: Application, topics: Topics, records: Records, spark: SparkSession
) -> None:
    source = topics.create("a", 3)
    records.produce(source, events(50, 1))
    name = f"orders_{source.replace('-', '_')[-20:]}"
    for attempt in ("first", "second"):
        app.checkpoint = app.folder / attempt
        loaded = whole_range(app.servers, source, batch_offsets=20)
        app.load(loaded, *table(app, f"table={name}", "format=parquet"), sink=table_sink)
        spark.sql(f"REFRESH TABLE {name}")
        rows = spark.table(name).collect()
        assert sorted(row.offset for row in rows) == sorted(each.position[2] for each in expected_of(records, source))
    spark.sql(f"DROP TABLE {name}")


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
            *table(app, f"path={path}"),
            sink=table_sink,
        )
        assert report is not None
        assert report.rows_emitted == 1_000
    rows = spark.read.parquet(str(path)).collect()
    assert len({(row.topic, row.partition, row.offset) for row in rows}) == len(rows) == 2_000


def test_what_retention_took_of_a_table_is_counted_where_that_is_asked_for(
    app: Application, topics: Topics, records: Records
) -> None:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    loaded = whole_range(app.servers, source, on_data_loss="count")
    records.delete_before(source, {0: 7})
    report = app.load(loaded, *table(app, f"path={app.folder / 'table'}"), sink=table_sink)
    assert (report.lost, report.rows_emitted) == (7, 83)


def test_what_retention_took_of_a_table_is_counted_once_where_a_sort_reads_it_twice(
    app: Application, topics: Topics, records: Records
) -> None:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    loaded = whole_range(app.servers, source, on_data_loss="count")
    records.delete_before(source, {0: 7})
    argv = (*table(app, f"path={app.folder / 'table'}"), "--option", "sliceOffsets=10")
    report = app.load(loaded, *argv, sink=table_sink, transform=lambda frame: frame.orderBy("key"))
    assert (report.lost, report.rows_emitted) == (7, 83)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "set either --sink-option path=... or table=..."),
        (("path=/x", "table=y"), "are both set"),
        (("pth=/x",), "unknown option 'pth' of the sink: did you mean 'path'?"),
    ],
)
def test_a_table_that_is_not_said_or_said_twice_is_one_message(
    app: Application,
    topics: Topics,
    records: Records,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    source = topics.create("a", 3)
    with pytest.raises(SystemExit) as caught:
        app.load(whole_range(app.servers, source), *table(app, *options), sink=table_sink)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
