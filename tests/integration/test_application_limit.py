"""The row limit of an application: exactly the first rows in order, dead letters among them."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.applications import (
    IN_THE_DIRECT_LANE,
    Application,
    events,
    filtered,
    lane_of,
    some_too_large,
    source_and_output,
)
from support.messages import says
from support.outputs import expected_of, stamp
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics
from support.transforms import unchanged

from airflow_provider_orderedkafka.spark.session.plans import OTHER_WAYS


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


@pytest.mark.parametrize(
    "limit", [pytest.param(1, marks=pytest.mark.fault), pytest.param(64, marks=pytest.mark.versions), 1_000]
)
@pytest.mark.parametrize("kind", LIMITED)
def test_a_row_limit_lets_exactly_the_first_rows_in_order_pass(
    app: Application, topics: Topics, records: Records, kind: str, limit: int
) -> None:
    source, output = source_and_output(topics, records, 150)
    loaded = whole_range(app.servers, source, batch_offsets=40, rows_left=limit)
    report = app.load(loaded, "--output-topic", output, "--option", "sliceOffsets=10", **LIMITED[kind])
    order = expected_of(records, source)
    rows = [each.position for each in order for _ in range(copies(each.record.value, kind))]
    written = sorted(stamp(each).source for each in records.read(output))
    assert written == sorted(rows[:limit])
    assert report.rows_emitted == len(rows[:limit])
    assert report.limit_spent == (limit <= len(rows))
    assert report.let_through == report.rows_emitted
    assert report.counting_ms > 0 or limit == 1_000
    if not report.limit_spent:
        assert report.stop == loaded.end
        return
    last = next(place for place, each in enumerate(order) if each.position == rows[limit - 1])
    assert set(report.stop.marked) == {p for p, offset in report.stop.offsets.items() if offset}
    stopped = {(p.topic, p.partition): offset for p, offset in report.stop.offsets.items()}
    before = {each.position for each in order if each.position[2] < stopped[each.position[:2]]}
    assert before == {each.position for each in order[: last + 1]}
    assert report.rows_read == last + 1


@pytest.mark.parametrize("kind", ["direct", "frames", "exploded"])
def test_rows_that_became_dead_letters_are_among_the_first_that_a_row_limit_lets_pass(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    source, dead = topics.create("a", 3), topics.create("dead")
    output = topics.create("out", 2, {"max.message.bytes": 1_000})
    records.produce(source, some_too_large(events(150, 1)))
    transform = {"direct": None, "frames": unchanged, "exploded": exploded}[kind]
    report = app.load(
        whole_range(app.servers, source, batch_offsets=40, rows_left=64),
        *("--output-topic", output, "--bad-records", "1000", "--dead-letters", dead, "--option", "sliceOffsets=10"),
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
    source, output = source_and_output(topics, records, 150)
    order = expected_of(records, source)
    vanishing = order.pop(45)
    number = json.loads(vanishing.record.value)["number"]
    report = app.load(
        whole_range(app.servers, source, batch_offsets=40, rows_left=60),
        *("--output-topic", output, *IN_THE_DIRECT_LANE),
        **without(number, app.checkpoint / "notes" / "2")[lane],
    )
    assert lane_of(capsys.readouterr().out) == lane
    assert {stamp(each).source for each in records.read(output)} == {each.position for each in order[:60]}
    assert (report.rows_emitted, report.limit_spent, report.batches) == (60, True, 3)
    stops = {(p.topic, p.partition): offset for p, offset in report.stop.offsets.items()}
    assert all((each.position[2] < stops[each.position[:2]]) == (place < 60) for place, each in enumerate(order))


def test_a_row_limit_over_rows_in_no_order_is_refused(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = source_and_output(topics, records, 30)
    loaded = whole_range(app.servers, source, rows_left=10)
    with pytest.raises(SystemExit):
        app.load(
            loaded,
            *("--output-topic", output, "--sink-option", "keepOrder=none"),
            transform=lambda frame: frame.sortWithinPartitions("key"),
        )
    assert "Sort [key#" in (error := capsys.readouterr().err)
    assert says(error, f"{OTHER_WAYS['Sort']} ... --row-limit")
    assert records.read(output) == []
