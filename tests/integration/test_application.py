"""The applications as people run them: a range in, an output and a report out."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import broadcast, lit, raise_error
from support.applications import Application, dying_once, events, filtered, some_too_large
from support.outputs import FLAWLESS, by_partition, check, expected_of, stamp
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.core.progress import Progress

EXAMPLE = Path(__file__).parents[2] / "spark_apps" / "enrich_orders.py"


def both(frame: Any) -> Any:
    """A DataFrame transform that changes nothing, to go by way of DataFrames."""
    return frame


@pytest.mark.parametrize("transform", [None, both], ids=["direct", "frames"])
@pytest.mark.parametrize("batch", [None, 70])
def test_a_plain_copy_has_every_record_once_unchanged_and_in_order_for_each_key(
    app: Application, topics: Topics, records: Records, transform: Any, batch: int | None
) -> None:
    first, second, output = topics.create("a", 3), topics.create("b", 3), topics.create("out", 4)
    records.produce(first, events(200, 1))
    records.produce(second, events(100, 2))
    loaded = whole_range(app.servers, first, second, batch_offsets=batch)
    report = app.load(loaded, "--output-topic", output, transform=transform)
    expected = expected_of(records, first, second)
    assert check(expected, records.read(output)) == FLAWLESS
    assert report.complete
    assert report.stop == loaded.end
    assert (report.rows_read, report.rows_emitted, report.replayed, report.may_be_doubled) == (300, 300, 0, 0)
    assert report.batches == (1 if batch is None else 5)
    assert report.late == sum(each.record.timestamp < each.order_time for each in expected)
    assert report.bytes_read == sum(len(each.record.key) + len(each.record.value) for each in expected)
    assert app.left() == ["report.json"]


@pytest.mark.parametrize(
    "argv",
    [["--output-topic", "{source}"], ["--output-topic", "{output}", "--sink-option", "deadLetterTopic={source}"]],
)
def test_a_range_is_not_written_into_a_topic_that_it_is_read_from(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(10, 1))
    loaded = whole_range(app.servers, source)
    with pytest.raises(SystemExit) as caught:
        app.load(loaded, *(each.format(source=source, output=output) for each in argv))
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert f"reads {source!r} and would write into {source!r}" in said
    assert "name a topic that it does not read" in said
    assert (len(records.read(source)), len(records.read(output))) == (10, 0)
    app.load(loaded, "--output-topic", output)
    assert len(records.read(output)) == 10


def test_a_second_run_of_the_same_range_does_nothing_and_says_so(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(50, 1))
    loaded = whole_range(app.servers, source)
    first = app.load(loaded, "--output-topic", output)
    capsys.readouterr()
    assert app.load(loaded, "--output-topic", output) == first
    assert "nothing to do: range r1 is loaded already, by attempt 1" in capsys.readouterr().out
    assert len(records.read(output)) == 50


def test_another_range_on_the_same_checkpoint_is_refused_with_the_way_out(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(10, 1))
    app.load(whole_range(app.servers, source, name="r1"), "--output-topic", output)
    with pytest.raises(SystemExit) as caught:
        app.load(whole_range(app.servers, source, name="r2"), "--output-topic", output)
    assert caught.value.code == 2
    assert "name a new --checkpoint" in capsys.readouterr().err
    assert len(records.read(output)) == 10


def test_each_batch_is_told_to_people_and_to_programs_and_the_report_is_copied(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(90, 1))
    copy = app.folder / "report.json"
    loaded = whole_range(app.servers, source, batch_offsets=30)
    report = app.load(loaded, "--output-topic", output, "--report", str(copy))
    lines = capsys.readouterr().out.splitlines()
    told = [progress for progress in map(Progress.of_line, lines) if progress is not None]
    assert [each.offsets_done for each in told] == [30, 60, 90]
    assert {each.offsets_planned for each in told} == {90}
    assert [each.sentence for each in told] == [line for line in lines if line.startswith("batch ")]
    assert Report.from_text(copy.read_text()) == report


def test_what_an_arrow_transform_makes_is_written(app: Application, topics: Topics, records: Records) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
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


def test_an_arrow_transform_that_changes_keys_keeps_the_order_of_the_new_keys(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
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


@pytest.mark.parametrize("kind", ["transform", "arrow_transform"])
def test_a_transform_may_say_the_partition_and_each_partition_keeps_its_order(
    app: Application, topics: Topics, records: Records, kind: str
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(300, 1))
    transform = {"transform": lambda frame: frame.selectExpr("* except (partition)", "1 as partition")}
    options = ("keepOrder=partition", "usePartition=true", "writers=3")
    app.load(
        whole_range(app.servers, source),
        *("--output-topic", output, *(part for option in options for part in ("--sink-option", option))),
        **{kind: {**transform, "arrow_transform": into_partition_1()}[kind]},
    )
    seen = sorted(records.read(output), key=lambda each: (each.partition, each.offset))
    assert {each.partition for each in seen} == {1}
    assert [stamp(each).source for each in seen] == [each.position for each in expected_of(records, source)]


def into_partition_1() -> Any:
    """A transform that sends all rows to one partition."""

    def transform(batch: Any) -> Any:
        import pyarrow as pa

        ones = pa.array([1] * batch.num_rows, pa.int32())
        return batch.set_column(batch.schema.names.index("partition"), "partition", ones)

    return transform


def test_keys_that_are_in_several_partitions_keep_their_order(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 4)
    records.produce(source, events(200, 1, by_key=False))
    app.load(whole_range(app.servers, source, batch_offsets=90), "--output-topic", output)
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS


def test_order_is_kept_in_each_output_partition_where_that_is_asked_for(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 4)
    records.produce(source, events(200, 1, by_key=False))
    loaded = whole_range(app.servers, source, batch_offsets=90)
    app.load(loaded, "--output-topic", output, "--sink-option", "keepOrder=partition", "--sink-option", "writers=3")
    assert check(expected_of(records, source), records.read(output), by_partition) == FLAWLESS


def exploded(frame: Any) -> Any:
    """None, one or two rows for a record."""
    from pyspark.sql import functions as f

    times = f.expr("cast(get_json_object(cast(value as string), '$.number') as int) % 3")
    return frame.withColumn("copy", f.explode(f.sequence(f.lit(1), f.lit(2)))).where(f.col("copy") <= times)


def copies(value: bytes, kind: str) -> int:
    """How many rows a record gives."""
    record = json.loads(value)
    return {"plain": 1, "filtered": int(record["paid"]), "exploded": record["number"] % 3}[kind]


LIMITED: dict[str, dict[str, Any]] = {
    "plain": {},
    "filtered": {"transform": filtered},
    "exploded": {"transform": exploded},
}


@pytest.mark.parametrize("limit", [1, 64, 1_000])
@pytest.mark.parametrize("kind", LIMITED)
def test_a_row_limit_lets_exactly_the_first_rows_in_order_pass(
    app: Application, topics: Topics, records: Records, kind: str, limit: int
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(150, 1))
    loaded = whole_range(app.servers, source, batch_offsets=40, rows_left=limit)
    report = app.load(loaded, "--output-topic", output, "--option", "sliceOffsets=10", **LIMITED[kind])
    order = expected_of(records, source)
    rows = [each.position for each in order for _ in range(copies(each.record.value, kind))]
    written = sorted(stamp(each).source for each in records.read(output))
    assert written == sorted(rows[:limit])
    assert report.rows_emitted == len(rows[:limit])
    assert report.limit_spent == (limit <= len(rows))
    if not report.limit_spent:
        assert report.stop == loaded.end
        return
    last = next(place for place, each in enumerate(order) if each.position == rows[limit - 1])
    stopped = {(p.topic, p.partition): offset for p, offset in report.stop.offsets.items()}
    before = {each.position for each in order if each.position[2] < stopped[each.position[:2]]}
    assert before == {each.position for each in order[: last + 1]}
    assert report.rows_read == last + 1


IN_THE_DIRECT_LANE = ("--sink-option", "keepOrder=none")


def lane_of(said: str) -> str:
    """The lane that a run says it takes."""
    return "direct" if "by the direct lane" in said else "frames"


@pytest.mark.parametrize("kind", ["direct", "frames", "exploded"])
def test_rows_that_became_dead_letters_are_among_the_first_that_a_row_limit_lets_pass(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    source, dead = topics.create("a", 3), topics.create("dead")
    output = topics.create("out", 2, {"max.message.bytes": 1_000})
    records.produce(source, some_too_large(events(150, 1)))
    transform = {"direct": None, "frames": both, "exploded": exploded}[kind]
    report = app.load(
        whole_range(app.servers, source, batch_offsets=40, rows_left=64),
        *("--output-topic", output, "--sink-option", f"deadLetterTopic={dead}", "--option", "sliceOffsets=10"),
        *(() if transform else IN_THE_DIRECT_LANE),
        transform=transform,
    )
    assert lane_of(capsys.readouterr().out) == ("frames" if transform else "direct")
    of = "exploded" if kind == "exploded" else "plain"
    order = [each for each in expected_of(records, source) for _ in range(copies(each.record.value, of))][:64]
    for topic, large in ((output, False), (dead, True)):
        written = sorted(stamp(each).source for each in records.read(topic))
        assert written == sorted(each.position for each in order if (len(each.record.value) > 1_000) == large)
    assert (report.rows_emitted, report.dead_letters) == (len(records.read(output)), len(records.read(dead)))
    assert (report.rows_emitted + report.dead_letters, report.limit_spent) == (64, True)


def without(number: int, noted: Path) -> dict[str, Any]:
    """Transforms that leave a record out once the second batch is noted, and so after its rows were counted."""

    def transform(frame: Any) -> Any:
        left_out = f"get_json_object(cast(value as string), '$.number') = '{number}'"
        return frame.where(f"not ({left_out})") if noted.exists() else frame

    def arrow_transform(batch: Any) -> Any:
        import json

        import pyarrow as pa

        keep = [json.loads(value)["number"] != number for value in batch.column("value").to_pylist()]
        return batch.filter(pa.array(keep, pa.bool_())) if noted.exists() else batch

    return {"frames": {"transform": transform}, "direct": {"arrow_transform": arrow_transform}}


@pytest.mark.parametrize("lane", ["direct", "frames"])
def test_the_rows_that_follow_fill_up_a_row_limit_where_a_batch_came_out_smaller_than_it_was_counted(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], lane: str
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(150, 1))
    order = expected_of(records, source)
    vanishing = order.pop(45)
    number = json.loads(vanishing.record.value)["number"]
    report = app.load(
        whole_range(app.servers, source, batch_offsets=40, rows_left=60),
        *("--output-topic", output, *IN_THE_DIRECT_LANE),
        **without(number, app.checkpoint / "notes" / "2.json")[lane],
    )
    assert lane_of(capsys.readouterr().out) == lane
    assert {stamp(each).source for each in records.read(output)} == {each.position for each in order[:60]}
    assert (report.rows_emitted, report.limit_spent, report.batches) == (60, True, 3)
    stops = {(p.topic, p.partition): offset for p, offset in report.stop.offsets.items()}
    assert all((each.position[2] < stops[each.position[:2]]) == (place < 60) for place, each in enumerate(order))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "where to write is not said: name --output-topic"),
        (("--output-topic", "{out}", "--sink-option", "keepOrder=time"), "must be 'key', 'partition' or 'none'"),
        (("--output-topic", "{out}", "--sink-option", "keep_order=key"), "unknown option 'keep_order' of the sink"),
        (("--output-topic", "not-there"), "topic 'not-there' does not exist"),
        (("--output-topic", "{out}", "--option", "subscribe=x"), "cannot stand beside 'range'"),
    ],
)
def test_a_wrong_setting_is_one_message_before_anything_is_written(  # noqa: PLR0917
    app: Application,
    topics: Topics,
    records: Records,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    message: str,
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(5, 1))
    with pytest.raises(SystemExit) as caught:
        app.load(whole_range(app.servers, source), *(each.format(out=output) for each in argv))
    assert caught.value.code in {2, 65}
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert records.read(output) == []


def test_a_transform_that_loses_the_order_or_its_source_is_refused_with_the_way_out(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(5, 1))
    loaded = whole_range(app.servers, source)
    wrong = {
        "the rows do not keep the order of the records: HashAggregate": lambda frame: frame.distinct(),
        "Union does not keep it": lambda frame: frame.where("offset > 1").union(frame.where("offset < 2")),
        "keep it in the transform, or switch provenance off": lambda frame: frame.select("key", "value"),
        "the transform failed: AnalysisException": lambda frame: frame.select("nothing"),
    }
    for message, transform in wrong.items():
        with pytest.raises(SystemExit):
            app.load(loaded, "--output-topic", output, transform=transform)
        assert message in capsys.readouterr().err
    assert records.read(output) == []


@pytest.mark.parametrize("writers", [1, 2])
def test_a_transform_that_begins_to_sort_in_a_later_batch_is_refused_there(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], writers: int
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(90, 1))
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
    assert "ask for no order with --sink-option keepOrder=none" in error
    assert queries == ["orderedkafka: range r1"] * 2
    assert len(records.read(output)) == 30


def test_rows_are_not_relied_on_where_a_later_batch_begins_to_shuffle_them(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(90, 1))
    loaded = whole_range(app.servers, source, batch_offsets=30)
    argv = ("--output-topic", output, "--sink-option", "keepOrder=none", "--option", "sliceOffsets=10")
    batches: list[int] = []

    def transform(frame: Any) -> Any:
        batches.append(frame.rdd.getNumPartitions())
        return frame if len(batches) in {1, 2, 4} else frame.repartition(2)

    with pytest.raises(SystemExit):
        app.load(loaded, *argv, transform=transform)
    error = capsys.readouterr().err
    assert "this batch is planned in another way than it was when the load began" in error
    assert "or switch provenance off with --sink-option provenance=false" in error
    assert len(records.read(output)) == 30
    report = app.load(loaded, *argv, "--sink-option", "provenance=false", transform=transform)
    assert (report.rows_emitted, report.may_be_doubled) == (90, 0)
    assert len(records.read(output)) == 90


def test_a_row_limit_over_rows_in_no_order_is_refused(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(30, 1))
    loaded = whole_range(app.servers, source, rows_left=10)
    with pytest.raises(SystemExit):
        app.load(
            loaded,
            *("--output-topic", output, "--sink-option", "keepOrder=none"),
            transform=lambda frame: frame.sortWithinPartitions("key"),
        )
    assert "Sort [key#" in (error := capsys.readouterr().err)
    assert "leave out orderBy, sort and sortWithinPartitions; or load without --row-limit" in error
    assert records.read(output) == []


@pytest.mark.parametrize("option", ["keepOrder=key", "keepOrder=none"])
def test_a_join_that_would_broadcast_the_records_is_refused_where_order_is_asked_for(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(60, 1))

    def joined(frame: Any, hint: Any = lambda table: table) -> Any:
        names = frame.sparkSession.range(20).selectExpr("cast(concat('key-', id) as binary) as key", "id as name")
        return frame.join(hint(names), "key")

    def load(transform: Any) -> Any:
        argv = ("--output-topic", output, "--sink-option", option)
        return app.load(whole_range(app.servers, source), *argv, transform=transform)

    if option == "keepOrder=none":
        assert load(joined).rows_emitted == 60
        return
    with pytest.raises(SystemExit):
        load(joined)
    error = capsys.readouterr().err
    assert "BroadcastHashJoin" in error
    assert "join with functions.broadcast(table); or ask for no order with --sink-option keepOrder=none" in error
    load(lambda frame: joined(frame, broadcast))
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS


def test_rows_that_cannot_be_known_again_are_written_again_and_counted_as_perhaps_doubled(
    app: Application, topics: Topics, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(60, 1))
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
    assert "is written again whole: the transform may make other rows each time: Exchange" in caplog.text


@pytest.mark.parametrize("transform", [None, both], ids=["direct", "frames"])
def test_what_retention_took_is_counted_where_that_is_asked_for(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], transform: Any
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
    loaded = whole_range(app.servers, source, batch_offsets=50, on_data_loss="count")
    gone = {0: 10, 1: loaded.end.offsets[TopicPartition(source, 1)]}
    records.delete_before(source, gone)
    report = app.load(loaded, "--output-topic", output, *IN_THE_DIRECT_LANE, transform=transform)
    assert lane_of(capsys.readouterr().out) == ("frames" if transform else "direct")
    assert report.lost == sum(gone.values())
    assert report.rows_read == report.rows_emitted == 120 - report.lost == len(records.read(output))


ALL_IN_ONE_TASK = ("--sink-option", "writers=1")


def expiring(servers: str, source: str, before: int) -> dict[str, Any]:
    """Transforms that change nothing, and let the first records expire once they were read."""

    def expire() -> None:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": servers})
        for answer in admin.delete_records([TopicPartition(source, 0, before)]).values():
            answer.result(30)

    def passed(batches: Any) -> Any:
        yield from batches
        expire()

    def arrow_transform(batch: Any) -> Any:
        from pyspark import TaskContext

        if TaskContext.get() is not None:  # before, it is looked at with a sample
            expire()
        return batch

    frames = {"transform": lambda frame: frame.mapInArrow(passed, frame.schema)}
    return {"frames": frames, "direct": {"arrow_transform": arrow_transform}}


@pytest.mark.parametrize("lane", ["direct", "frames"])
def test_what_retention_took_after_it_was_read_is_not_lost(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], lane: str
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
    loaded = whole_range(app.servers, source, on_data_loss="count")
    records.delete_before(source, {0: 3, 1: 2})
    writing = ("--output-topic", output, *ALL_IN_ONE_TASK)
    report = app.load(loaded, *writing, **expiring(app.servers, source, 10)[lane])
    assert lane_of(capsys.readouterr().out) == lane
    assert records.starts(source) == {0: 10, 1: 2, 2: 0}
    assert (report.lost, report.rows_emitted, len(records.read(output))) == (5, 115, 115)


@pytest.mark.parametrize("transform", [None, both], ids=["direct", "frames"])
def test_what_a_row_limit_counts_ahead_is_lost_once(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], transform: Any
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
    loaded = whole_range(app.servers, source, batch_offsets=40, on_data_loss="count", rows_left=50)
    records.delete_before(source, {0: 5, 1: 2})
    report = app.load(loaded, "--output-topic", output, *IN_THE_DIRECT_LANE, transform=transform)
    assert lane_of(capsys.readouterr().out) == ("frames" if transform else "direct")
    assert (report.lost, report.rows_emitted, report.limit_spent) == (7, 50, True)


@pytest.mark.parametrize("lane", ["direct", "frames"])
def test_what_retention_took_is_counted_once_where_a_batch_is_run_again(
    app: Application, topics: Topics, records: Records, caplog: pytest.LogCaptureFixture, lane: str
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
    loaded = whole_range(app.servers, source, on_data_loss="count")
    records.delete_before(source, {0: 3, 1: 2})
    writing = ("--output-topic", output, *IN_THE_DIRECT_LANE, "--option", "sliceOffsets=20")
    report = app.load(loaded, *writing, **dying_once(app.folder / "died")[lane])
    assert "batch 1 failed and is run again" in caplog.text
    assert (report.lost, report.rows_emitted, len(records.read(output))) == (5, 115, 115)


@pytest.mark.parametrize("transform", [None, both], ids=["direct", "frames"])
def test_what_retention_took_is_an_error_that_no_retry_mends_where_nothing_else_is_said(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], transform: Any
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
    loaded = whole_range(app.servers, source)
    records.delete_before(source, {0: 10})
    with pytest.raises(SystemExit) as caught:
        app.load(loaded, "--output-topic", output, transform=transform)
    assert caught.value.code == 65
    assert f"{source}[0]@" in capsys.readouterr().err
    failed = Report.from_text((app.checkpoint / "report.json").read_text())
    assert (failed.complete, failed.rows_emitted, failed.stop) == (False, 0, loaded.start)


def test_the_example_with_a_transform_writes_paid_orders_with_their_customers_country(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    states = ("paid", "open", "paid", "cancelled")
    orders = [
        {"order": number, "customer": f"c{number % 4 + 1}", "state": states[number % 4], "amount": 12.5}
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
    countries = {"c1": "DK", "c3": "NO"}
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
