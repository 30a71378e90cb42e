"""The applications as people run them: a range in, an output and a report out."""

import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import lit, raise_error
from support.applications import Application, events, lane_of, source_and_output
from support.messages import says
from support.outputs import FLAWLESS, by_key, by_partition, check, expected_of, stamp
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics
from support.transforms import unchanged

from airflow_provider_orderedkafka.core.documents import Destination, Report
from airflow_provider_orderedkafka.core.progress import Progress

CORES = 1_000
EXAMPLE = Path(__file__).parents[2] / "spark_apps" / "enrich_orders.py"


@pytest.mark.versions
@pytest.mark.parametrize("transform", [None, unchanged], ids=["direct", "frames"])
def test_a_plain_copy_has_every_record_once_unchanged_and_in_order_for_each_key(
    app: Application, topics: Topics, records: Records, transform: Any
) -> None:
    first, second, output = topics.create("a", 3), topics.create("b", 3), topics.create("out", 4)
    records.produce(first, events(200, 1))
    records.produce(second, events(100, 2))
    loaded = whole_range(app.servers, first, second, batch_offsets=70)
    report = app.load(loaded, "--output-topic", output, transform=transform)
    expected = expected_of(records, first, second)
    assert check(expected, records.read(output)) == FLAWLESS
    assert report.complete
    assert report.stop == loaded.end
    assert (report.rows_read, report.rows_emitted, report.replayed, report.may_be_doubled) == (300, 300, 0, 0)
    assert report.batches == 5
    late = Counter(each.position[:2] for each in expected if each.record.timestamp < each.order_time)
    assert (report.late, dict(report.late_in)) == (late.total(), late)
    assert dict(report.read_in) == Counter(each.position[:2] for each in expected)
    assert report.range == loaded
    assert report.destination == Destination(
        f"topic:{output}", copied=transform is None, headers=True, keep_order="key", placed_by="key"
    )
    assert report.before is not None
    assert report.after is not None
    assert sum(report.before.topics.values()) == 0
    assert sum(report.after.topics.values()) == 300
    assert report.before.ids == report.after.ids == {output: report.before.ids[output]}
    assert report.bytes_read == sum(len(each.record.key) + len(each.record.value) for each in expected)
    assert (report.bytes_written, report.files_written) == (report.bytes_read, 0)
    assert 0 < report.core_ms < CORES * (report.ended_at - report.started_at)
    assert app.left() == ["report.json"]


@pytest.mark.parametrize(
    "argv",
    [
        ["--output-topic", "{source}"],
        ["--output-topic", "{output}", "--bad-records", "1", "--dead-letters", "{source}"],
    ],
)
def test_a_range_is_not_written_into_a_topic_that_it_is_read_from(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    source, output = source_and_output(topics, records, 10)
    loaded = whole_range(app.servers, source)
    with pytest.raises(SystemExit) as caught:
        app.load(loaded, *(each.format(source=source, output=output) for each in argv))
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert says(said, f"{source!r} ... {source!r}")
    assert (len(records.read(source)), len(records.read(output))) == (10, 0)
    app.load(loaded, "--output-topic", output)
    assert len(records.read(output)) == 10


def test_each_batch_is_told_the_report_is_copied_and_what_is_loaded_is_loaded_once_and_is_no_other_range(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = source_and_output(topics, records, 90)
    copy = app.folder / "report.json"
    loaded = whole_range(app.servers, source, batch_offsets=30)
    report = app.load(loaded, "--output-topic", output, "--report", str(copy))
    lines = capsys.readouterr().out.splitlines()
    reported = [progress for progress in map(Progress.of_line, lines) if progress is not None]
    assert [each.offsets_done for each in reported if not each.running] == [30, 60, 90]
    assert {each.offsets_planned for each in reported} == {90}
    assert [each.sentence for each in reported] == [line for line in lines if line.startswith("batch ")]
    assert Report.from_text(copy.read_text()) == report
    assert app.load(loaded, "--output-topic", output) == report
    assert says(capsys.readouterr().out, "range r1 ... attempt 1")
    with pytest.raises(SystemExit) as caught:
        app.load(whole_range(app.servers, source, name="r2"), "--output-topic", output)
    assert caught.value.code == 2
    assert "name a new --checkpoint" in capsys.readouterr().err
    assert len(records.read(output)) == 90


@pytest.mark.versions
def test_what_an_arrow_transform_makes_is_written(app: Application, topics: Topics, records: Records) -> None:
    source, output = source_and_output(topics, records, 120)
    report = app.load(
        whole_range(app.servers, source, batch_offsets=50), "--output-topic", output, arrow_transform=paid()
    )
    expected = [each for each in expected_of(records, source) if json.loads(each.record.value)["paid"]]
    assert check(expected, records.read(output)) == FLAWLESS
    assert (report.rows_read, report.rows_emitted) == (120, len(expected))


def paid() -> Any:
    """A transform that keeps what is paid; made here, so that it travels by value."""

    def transform(batch: Any) -> Any:
        import json

        import pyarrow as pa

        keep = [json.loads(value)["paid"] for value in batch.column("value").to_pylist()]
        return batch.filter(pa.array(keep, pa.bool_()))

    return transform


@pytest.mark.parametrize("kind", ["transform", "arrow_transform"])
def test_a_transform_may_say_the_partition_and_each_partition_keeps_its_order(
    app: Application, topics: Topics, records: Records, kind: str
) -> None:
    source, output = source_and_output(topics, records, 300)
    transform = {"transform": lambda frame: frame.withColumn("partition", lit(1))}
    options = ("keepOrder=partition", "usePartition=true", "writers=3")
    app.load(
        whole_range(app.servers, source),
        *("--output-topic", output, *(part for option in options for part in ("--sink-option", option))),
        **{kind: {**transform, "arrow_transform": into_partition_1()}[kind]},
    )
    seen = sorted(records.read(output), key=lambda each: (each.partition, each.offset))
    assert {each.partition for each in seen} == {1}
    assert [stamp(each).source for each in seen] == [each.position for each in expected_of(records, source)]


def test_an_arrow_transform_that_changes_keys_keeps_the_order_of_the_new_keys(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = source_and_output(topics, records, 120)
    app.load(whole_range(app.servers, source), "--output-topic", output, arrow_transform=rekeyed())
    seen = sorted(records.read(output), key=lambda each: (each.partition, each.offset))
    assert {each.key for each in seen} == {b"new-0", b"new-1", b"new-2"}
    places = {each.position: place for place, each in enumerate(expected_of(records, source))}
    for key in {each.key for each in seen}:
        order = [places[stamp(each).source] for each in seen if each.key == key]
        assert order == sorted(order)


def rekeyed() -> Any:
    """A transform that gives other keys, each from several partitions."""

    def transform(batch: Any) -> Any:
        import json

        import pyarrow as pa

        keys = [f"new-{json.loads(value)['number'] % 3}".encode() for value in batch.column("value").to_pylist()]
        return batch.set_column(batch.schema.names.index("key"), "key", pa.array(keys, pa.binary()))

    return transform


def into_partition_1() -> Any:
    """A transform that sends all rows to one partition."""

    def transform(batch: Any) -> Any:
        import pyarrow as pa

        ones = pa.array([1] * batch.num_rows, pa.int32())
        return batch.set_column(batch.schema.names.index("partition"), "partition", ones)

    return transform


@pytest.mark.versions
@pytest.mark.parametrize(
    ("options", "keeps", "lane"),
    [
        ((), by_key, "direct"),
        (("writers=3",), by_key, "frames"),
        (("keepOrder=partition",), by_partition, "direct"),
        (("keepOrder=partition", "writers=3"), by_partition, "frames"),
    ],
    ids=["key", "key, several writers", "partition", "partition, several writers"],
)
def test_the_order_that_is_asked_for_is_kept_of_keys_that_are_in_several_partitions_few_of_them_by_one_task(
    app: Application,
    topics: Topics,
    records: Records,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    keeps: Any,
    lane: str,
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 4)
    records.produce(source, events(200, 1, by_key=False))
    argv = (part for option in options for part in ("--sink-option", option))
    app.load(whole_range(app.servers, source, batch_offsets=90), "--output-topic", output, *argv)
    assert lane_of(capsys.readouterr().out) == lane
    assert check(expected_of(records, source), records.read(output), keeps) == FLAWLESS


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "--output-topic"),
        (("--output-topic", "{out}", "--sink-option", "keep_order=key"), "'keep_order' ... 'keepOrder'"),
        (("--output-topic", "not-there"), "'not-there'"),
    ],
)
def test_a_wrong_setting_is_one_message_before_anything_is_written(
    app: Application,
    topics: Topics,
    records: Records,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    message: str,
) -> None:
    source, output = source_and_output(topics, records, 5)
    with pytest.raises(SystemExit) as caught:
        app.load(whole_range(app.servers, source), *(each.format(out=output) for each in argv))
    assert caught.value.code in {2, 65}
    error = capsys.readouterr().err
    assert says(error, message)
    assert "Traceback" not in error
    assert records.read(output) == []


def test_a_transform_that_loses_the_order_or_its_source_is_refused_with_the_way_out(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = source_and_output(topics, records, 5)
    loaded = whole_range(app.servers, source)
    wrong = {
        "the rows do not keep the order of the records: HashAggregate": lambda frame: frame.distinct(),
        "Union does not keep it": lambda frame: frame.where("offset > 1").union(frame.where("offset < 2")),
        "keep it in the transform, or switch provenance off": lambda frame: frame.select("key", "value"),
        "the transform failed: AnalysisException": lambda frame: frame.select("nothing"),
        "must return a DataFrame, found NoneType": lambda frame: None,
    }
    for message, transform in wrong.items():
        with pytest.raises(SystemExit):
            app.load(loaded, "--output-topic", output, transform=transform)
        assert message in capsys.readouterr().err
    assert records.read(output) == []


@pytest.mark.parametrize("writers", [1, pytest.param(2, marks=pytest.mark.versions)])
def test_a_transform_that_begins_to_sort_in_a_later_batch_is_refused_there(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], writers: int
) -> None:
    source, output = source_and_output(topics, records, 90)
    queries: list[str] = []

    def transform(frame: Any) -> Any:
        queries.extend(query.name for query in frame.sparkSession.streams.active)
        return frame.orderBy("key") if len(queries) > 1 else frame

    with pytest.raises(SystemExit):
        app.load(
            whole_range(app.servers, source, batch_offsets=30),
            *("--output-topic", output, "--sink-option", f"writers={writers}", "--option", "sliceOffsets=10"),
            transform=transform,
        )
    assert "Sort [key#" in (error := capsys.readouterr().err)
    assert "--sink-option keepOrder=none" in error
    assert queries == ["orderedkafka: range r1"] * 2
    assert len(records.read(output)) == 30


def test_rows_are_not_relied_on_where_a_later_batch_begins_to_shuffle_them(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = source_and_output(topics, records, 90)
    loaded = whole_range(app.servers, source, batch_offsets=30)
    argv = ("--output-topic", output, "--sink-option", "keepOrder=none", "--option", "sliceOffsets=10")
    batches: list[int] = []

    def transform(frame: Any) -> Any:
        batches.append(frame.rdd.getNumPartitions())
        return frame if len(batches) in {1, 2, 4} else frame.repartition(2)

    with pytest.raises(SystemExit):
        app.load(loaded, *argv, transform=transform)
    error = capsys.readouterr().err
    assert "--sink-option provenance=false" in error
    assert len(records.read(output)) == 30
    report = app.load(loaded, *argv, "--sink-option", "provenance=false", transform=transform)
    assert (report.rows_emitted, report.may_be_doubled) == (90, 0)
    assert len(records.read(output)) == 90


def test_rows_that_cannot_be_known_again_are_written_again_and_counted_as_perhaps_doubled(
    app: Application, topics: Topics, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    source, output = source_and_output(topics, records, 60)
    fails = [True]

    def transform(frame: Any) -> Any:
        rows = frame.repartition(2)
        return rows.withColumn("value", raise_error(lit("not yet")).cast("binary")) if fails[0] else rows

    argv = ("--output-topic", output, "--sink-option", "keepOrder=none")
    loaded = whole_range(app.servers, source)
    with pytest.raises(SystemExit):
        app.load(loaded, *argv, transform=transform)
    records.produce(output, events(5, 2, partitions=2))  # whose they are cannot be told either
    there, fails[0] = len(records.read(output)), False
    report = app.load(loaded, *argv, transform=transform)
    assert (report.rows_emitted, report.may_be_doubled, report.replayed) == (60, there, 0)
    assert ": Exchange" in caplog.text


@pytest.mark.versions
def test_the_example_with_a_transform_writes_paid_orders_with_their_customers_country(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    states = ("paid", "open", "paid", "cancelled")
    orders = [
        {"order": number, "customer": f"customer-{number % 4 + 1}", "state": states[number % 4], "amount": 12.5}
        for number in range(40)
    ]
    records.produce(
        source,
        [
            Record(json.dumps(order).encode(), 1_700_000_000_000 + order["order"], order["order"] % 3, b"k")
            for order in orders
        ],
    )
    enrich = runpy.run_path(str(EXAMPLE))["enrich"]
    report = app.load(whole_range(app.servers, source), "--output-topic", output, transform=enrich)
    countries = {"customer-1": "DK", "customer-3": "NO"}
    expected = [
        {
            "order": order["order"],
            "customer": order["customer"],
            "country": countries[order["customer"]],
            "amount": 12.5,
        }
        for order in orders
        if order["state"] == "paid"
    ]
    assert [json.loads(each.value) for each in records.read(output)] == expected
    assert (report.rows_read, report.rows_emitted) == (40, 20)
