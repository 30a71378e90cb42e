"""Records are decoded before the transform in both lanes, and those that cannot be are dead letters or an error."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from support.applications import Application
from support.messages import says
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.decoding.formats import Decode, Json
from airflow_provider_orderedkafka.kafka.provenance import read_provenance
from airflow_provider_orderedkafka.spark.rows import row_transform
from airflow_provider_orderedkafka.spark.table_sink import table_sink
from airflow_provider_orderedkafka.tools.cli import main

COUNT = 60
BAD = (7, 20, 21, 58)
ORDERS = Json(
    "number long, item struct<sku: string>, lines array<struct<n: int>>, at timestamp, day date, amount decimal(10, 2)"
)


MORE = {"lines": [{"n": 1}, {}], "at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "amount": 1.25}


def values() -> list[bytes]:
    good = [json.dumps({"number": n, "item": {"sku": f"s{n}"}, **MORE}).encode() for n in range(COUNT)]
    return [b"\xffnothing" if n in BAD else value for n, value in enumerate(good)]


def produced(records: Records, topic: str) -> None:
    start = 1_700_000_000_000
    records.produce(topic, [Record(v, start + n, n % 3, b"k%d" % (n % 3)) for n, v in enumerate(values())])


def by_frames(frame: Any) -> Any:
    return frame.where("value.number % 2 = 0").select("key", f.col("value.item.sku").alias("value"), "_source")


def by_arrow() -> Any:
    """A function inside of a function: tasks get it by value, as they cannot import this module."""

    def transform(batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        value = batch.column("value")
        even = pc.equal(pc.bit_wise_and(value.field("number"), 1), 0)
        made = batch.set_column(batch.schema.get_field_index("value"), "value", value.field("item").field("sku"))
        return made.select(["key", "value", "_source"]).filter(even)

    return transform


LANES = {"frames": {"transform": by_frames}, "direct": {"arrow_transform": by_arrow()}}
WRITTEN = sorted(b"s%d" % n for n in range(0, COUNT, 2) if n not in BAD)


def decoding(max_bad: int = 0, dead: str | None = None) -> list[str]:
    return ["--decode", Decode(value=ORDERS).to_text(), *([] if dead is None else allowing(max_bad, dead))]


@pytest.mark.parametrize("lane", LANES)
def test_the_first_bad_record_stops_the_load_and_the_way_out_leads_out(
    app: Application, topics: Topics, records: Records, lane: str, capfd: pytest.CaptureFixture[str]
) -> None:
    source, output, dead = (topics.create(name, 3) for name in ("a", "out", "dead"))
    produced(records, source)
    loaded = whole_range(app.servers, source, batch_offsets=20)
    more = ["--output-topic", output, "--sink-option", "keepOrder=none"]
    with pytest.raises(SystemExit) as error:
        app.load(loaded, *more, *decoding(), **LANES[lane])
    assert error.value.code == 65
    said = capfd.readouterr().err
    assert says(said, f"{source}[1]@2: ... value ... (json): ")
    assert "Allow(10, to=" in said
    with pytest.raises(SystemExit):
        app.load(loaded, *more, *decoding(2, dead), **LANES[lane])
    assert "most 2" in capfd.readouterr().err
    report = app.load(loaded, *more, *decoding(len(BAD), dead), **LANES[lane])
    assert sorted(each.value for each in records.read(output)) == WRITTEN
    assert (report.rows_emitted, report.dead_letters, report.rows_read) == (len(WRITTEN), len(BAD), COUNT)
    letters = records.read(dead)
    assert [each.value for each in letters] == [b"\xffnothing"] * len(BAD)
    found = {dict(each.headers)["orderedkafka.error"].decode() for each in letters}
    assert found == {"its value cannot be decoded (json): it is not a JSON object, found b'\\xffnothing'"}
    places = sorted((p.source.partition, p.offset) for p in (read_provenance(each.headers) for each in letters))
    assert places == sorted((n % 3, n // 3) for n in BAD)


def test_decoded_records_go_to_tables_and_bad_ones_to_the_dead_letter_topic_once(
    app: Application, topics: Topics, records: Records, spark: SparkSession
) -> None:
    source, dead = topics.create("a", 3), topics.create("dead", 1)
    produced(records, source)
    loaded = whole_range(app.servers, source, batch_offsets=20)
    path = app.folder / "table"
    argv = ["--output", f"parquet:{path}"]
    with pytest.raises(SystemExit):
        app.load(loaded, *argv, *decoding(2, dead), sink=table_sink)
    report = app.load(loaded, *argv, *decoding(len(BAD), dead), sink=table_sink)
    rows = spark.read.parquet(str(path)).collect()
    assert sorted(row.value.number for row in rows) == [n for n in range(COUNT) if n not in BAD]
    assert [row.n for row in rows[0].value.lines] == [1, None]
    assert (str(rows[0].value.day), str(rows[0].value.amount)) == ("2026-01-02", "1.25")
    assert len(records.read(dead)) == report.dead_letters == len(BAD)


def test_a_transform_of_dataframes_may_say_of_a_row_why_it_cannot_be_used(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output, dead = (topics.create(name, 3) for name in ("a", "out", "dead"))
    produced(records, source)
    argv = ["--output-topic", output, *allowing(1000, dead), "--sink-option", "keepOrder=none"]
    report = app.load(
        whole_range(app.servers, source),
        *argv,
        transform=lambda frame: frame.withColumn("_error", f.when(f.col("offset") == 2, "no second ones")),
    )
    assert (report.rows_emitted, report.dead_letters) == (COUNT - 3, 3)
    assert {dict(each.headers)["orderedkafka.error"] for each in records.read(dead)} == {b"no second ones"}


def raising(mended: Path) -> Any:
    """A function of one record that cannot take the bad ones, until it is mended."""

    @row_transform("key binary, value string, number long")
    def each(record: dict[str, Any]) -> dict[str, Any]:
        number = 3 * record["offset"] + record["partition"]
        if number in BAD and not mended.exists():
            raise ValueError(f"{number} is a bad number")
        return {"key": record["key"], "value": f"s{number}", "number": number}

    return each


def allowing(max_bad: int, dead: str) -> list[str]:
    return ["--bad-records", str(max_bad), "--dead-letters", dead]


@pytest.mark.parametrize(
    ("options", "lane"), [(["keepOrder=none"], "direct"), (["keepOrder=partition", "writers=2"], "DataFrame")]
)
def test_what_a_row_function_raises_on_is_a_dead_letter_with_its_own_bytes(
    app: Application, topics: Topics, records: Records, capfd: pytest.CaptureFixture[str], options: list[str], lane: str
) -> None:
    source, output, dead = topics.create("a", 3), topics.create("out", 2), topics.create("dead")
    produced(records, source)
    loaded = whole_range(app.servers, source, batch_offsets=20)
    argv = ["--output-topic", output, *(f"--sink-option={option}" for option in options)]
    function = raising(app.folder / "mended")
    with pytest.raises(SystemExit):
        app.load(loaded, *argv, arrow_transform=function)
    assert re.search(rf"{source}\[\d\]@\d+ .*: ValueError: \d+ is a bad number", capfd.readouterr().err)
    report = app.load(loaded, *argv, *allowing(len(BAD), dead), arrow_transform=function)
    assert f"{lane} lane" in capfd.readouterr().out
    assert (report.rows_emitted, report.dead_letters, report.rows_read) == (COUNT - len(BAD), len(BAD), COUNT)
    assert sorted(each.value for each in records.read(output)) == sorted(
        b"s%d" % n for n in range(COUNT) if n not in BAD
    )
    letters = {dict(each.headers)["orderedkafka.error"]: (each.key, each.value) for each in records.read(dead)}
    assert letters == {b"ValueError: %d is a bad number" % n: (b"k%d" % (n % 3), b"\xffnothing") for n in BAD}


def test_no_record_of_a_table_is_lost_where_one_bad_record_too_many_ends_a_load_that_is_mended_then(
    app: Application, topics: Topics, records: Records, spark: SparkSession
) -> None:
    source, dead = topics.create("a", 3), topics.create("dead")
    produced(records, source)
    loaded, mended = whole_range(app.servers, source), app.folder / "mended"
    argv = ["--output", f"parquet:{app.folder / 'table'}", *allowing(2, dead)]
    with pytest.raises(SystemExit):
        app.load(loaded, *argv, arrow_transform=raising(mended))
    mended.touch()
    report = app.load(loaded, *argv, arrow_transform=raising(mended))
    assert numbers(spark, app.folder / "table") == list(range(COUNT))
    assert (report.rows_emitted, report.dead_letters, records.read(dead)) == (COUNT, 0, [])


def numbers(spark: SparkSession, table: Path) -> list[int]:
    return sorted(row.number for row in spark.read.parquet(str(table)).select("number").collect())


def test_dead_letters_of_a_table_are_loaded_into_it_once_they_can_be_read(
    app: Application, topics: Topics, records: Records, spark: SparkSession
) -> None:
    source, dead, still = topics.create("a", 3), topics.create("dead"), topics.create("still")
    produced(records, source)
    table, mended = app.folder / "table", app.folder / "mended"
    argv = ["--output", f"parquet:{table}"]
    app.load(whole_range(app.servers, source), *argv, *allowing(9, dead), arrow_transform=raising(mended))
    assert numbers(spark, table) == [n for n in range(COUNT) if n not in BAD]

    @row_transform("number long")
    def by_source(record: dict[str, Any]) -> dict[str, Any]:
        found = read_provenance({each["key"]: each["value"] for each in record["headers"]})
        assert found is not None
        assert found.source is not None
        return {"number": 3 * found.offset + found.source.partition}

    app.checkpoint = app.folder / "again"
    by_hand = [
        "--option",
        f"subscribe={dead}",
        "--option",
        "startingOffsets=earliest",
        "--option",
        "includeHeaders=true",
    ]
    for _ in range(2):  # a second run finds nothing that is new
        app.run(*by_hand, *argv, *allowing(9, still), arrow_transform=by_source)
        assert numbers(spark, table) == list(range(COUNT))


def test_what_cannot_be_loaded_is_refused_with_what_is_in_the_way(
    app: Application, topics: Topics, records: Records, capfd: pytest.CaptureFixture[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 3)
    produced(records, source)
    to_topic, to_table = ["--output-topic", output], ["--output", f"parquet:{app.folder / 'table'}"]
    for number, (argv, transform, rows_left, said) in enumerate(
        (
            (to_table, lambda frame: frame.withColumn("_error", f.lit("wrong")), None, "row_transform"),
            ([*to_topic, *decoding()], None, None, "'value'"),
            ([*to_topic, *decoding(1, f"{output}x")], by_frames, 5, "1 bad "),
        )
    ):
        app.checkpoint = app.folder / f"checkpoint-{number}"
        with pytest.raises(SystemExit):
            app.load(whole_range(app.servers, source, rows_left=rows_left), *argv, transform=transform)
        assert said in capfd.readouterr().err


def test_dead_letters_are_shown_and_loaded_again_once_they_can_be_read(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output, dead = (topics.create(name, 3) for name in ("a", "out", "dead"))
    produced(records, source)
    loaded = whole_range(app.servers, source)
    more = ["--output-topic", output, "--sink-option", "keepOrder=none"]
    app.load(loaded, *more, *decoding(len(BAD), dead), transform=by_frames)

    def shown(*arguments: str) -> str:
        capsys.readouterr()
        assert main(["read", dead, "--bootstrap-servers", app.servers, "--headers", *arguments]) == 0
        return capsys.readouterr().out

    table = f"{dead}[ ... {source}[1]@2 ... r1 ... its value cannot be decoded (json): it is not a JSON object"
    assert says(shown("--format", "table"), table)
    letters = [json.loads(line) for line in shown().splitlines()]
    assert [each["from"] for each in letters] == [f"{source}[{n % 3}]@{n // 3}" for n in BAD]
    assert {each["range"] for each in letters} == {"r1"}
    assert all(each["error"].startswith("its value cannot be decoded (json): ") for each in letters)
    assert {each["value"]["base64"] for each in letters} == {b64encode(b"\xffnothing").decode()}

    def mended(frame: Any) -> Any:
        return frame.select("key", f.lit("mended").alias("value"), "_source")

    app.checkpoint = app.folder / "again"
    by_hand = ["--option", f"subscribe={dead}", "--option", "startingOffsets=earliest"]
    for expected in (len(BAD), len(BAD)):  # a second run finds nothing that is new
        app.run(*by_hand, *more, transform=mended)
        assert [each.value for each in records.read(output)].count(b"mended") == expected
