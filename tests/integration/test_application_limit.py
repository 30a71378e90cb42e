"""The row limit of an application: exactly the first rows in order, dead letters among them."""

import json
from typing import Any

import pytest
from support.applications import Application, source_and_output
from support.messages import says
from support.outputs import expected_of, stamp
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.spark.session.plans import OTHER_WAYS


def exploded(frame: Any) -> Any:
    """None, one or two rows for a record."""
    from pyspark.sql import functions as f

    times = f.expr("cast(get_json_object(cast(value as string), '$.number') as int) % 3")
    return frame.withColumn("copy", f.explode(f.sequence(f.lit(1), f.lit(2)))).where(f.col("copy") <= times)


def copies(value: bytes, transform: Any) -> int:
    """How many rows a record gives."""
    return 1 if transform is None else int(json.loads(value)["number"]) % 3


@pytest.mark.parametrize(
    "limit", [pytest.param(1, marks=pytest.mark.fault), pytest.param(64, marks=pytest.mark.versions), 1_000]
)
@pytest.mark.parametrize("transform", [None, exploded], ids=["plain", "exploded"])
def test_a_row_limit_lets_exactly_the_first_rows_in_order_pass(
    app: Application, topics: Topics, records: Records, transform: Any, limit: int
) -> None:
    source, output = source_and_output(topics, records, 150)
    loaded = whole_range(app.servers, source, batch_offsets=40, rows_left=limit)
    report = app.load(loaded, "--output-topic", output, "--option", "sliceOffsets=10", transform=transform)
    order = expected_of(records, source)
    rows = [each.position for each in order for _ in range(copies(each.record.value, transform))]
    written = sorted(stamp(each).source for each in records.read(output))
    assert written == sorted(rows[:limit])
    assert report.rows_emitted == len(rows[:limit])
    assert report.limit_reached == (limit <= len(rows))
    assert report.let_through == report.rows_emitted
    assert report.counting_ms > 0 or limit == 1_000
    if not report.limit_reached:
        assert report.stop == loaded.end
        return
    last = next(place for place, each in enumerate(order) if each.position == rows[limit - 1])
    assert set(report.stop.marked) == {p for p, offset in report.stop.offsets.items() if offset}
    stopped = {(p.topic, p.partition): offset for p, offset in report.stop.offsets.items()}
    before = {each.position for each in order if each.position[2] < stopped[each.position[:2]]}
    assert before == {each.position for each in order[: last + 1]}
    assert report.rows_read == last + 1


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
