"""What retention takes before it is loaded: an error, or counted once where that is asked for."""

from typing import Any

import pytest
from support.applications import IN_THE_DIRECT_LANE, Application, dying_once, lane_of, source_and_output
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics
from support.transforms import unchanged

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.order.positions import TopicPartition


@pytest.mark.parametrize("transform", [None, unchanged], ids=["direct", "frames"])
def test_what_retention_took_is_counted_where_that_is_asked_for(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], transform: Any
) -> None:
    source, output = source_and_output(topics, records, 120)
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
    source, output = source_and_output(topics, records, 120)
    loaded = whole_range(app.servers, source, on_data_loss="count")
    records.delete_before(source, {0: 3, 1: 2})
    writing = ("--output-topic", output, *ALL_IN_ONE_TASK)
    report = app.load(loaded, *writing, **expiring(app.servers, source, 10)[lane])
    assert lane_of(capsys.readouterr().out) == lane
    assert records.starts(source) == {0: 10, 1: 2, 2: 0}
    assert (report.lost, report.rows_emitted, len(records.read(output))) == (5, 115, 115)


@pytest.mark.parametrize("transform", [None, unchanged], ids=["direct", "frames"])
def test_what_a_row_limit_counts_ahead_is_lost_once(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], transform: Any
) -> None:
    source, output = source_and_output(topics, records, 120)
    loaded = whole_range(app.servers, source, batch_offsets=40, on_data_loss="count", rows_left=50)
    records.delete_before(source, {0: 5, 1: 2})
    report = app.load(loaded, "--output-topic", output, *IN_THE_DIRECT_LANE, transform=transform)
    assert lane_of(capsys.readouterr().out) == ("frames" if transform else "direct")
    assert (report.lost, report.rows_emitted, report.limit_spent) == (7, 50, True)


@pytest.mark.parametrize("lane", ["direct", "frames"])
def test_what_retention_took_is_counted_once_where_a_batch_is_run_again(
    app: Application, topics: Topics, records: Records, caplog: pytest.LogCaptureFixture, lane: str
) -> None:
    source, output = source_and_output(topics, records, 120)
    loaded = whole_range(app.servers, source, on_data_loss="count")
    records.delete_before(source, {0: 3, 1: 2})
    writing = ("--output-topic", output, *IN_THE_DIRECT_LANE, "--option", "sliceOffsets=20")
    report = app.load(loaded, *writing, **dying_once(app.folder / "died")[lane])
    assert [record.args[0] for record in caplog.records if record.module == "batch_loop"] == [1]
    assert (report.lost, report.rows_emitted, len(records.read(output))) == (5, 115, 115)


@pytest.mark.parametrize("transform", [None, unchanged], ids=["direct", "frames"])
def test_what_retention_took_is_an_error_that_no_retry_mends_where_nothing_else_is_said(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], transform: Any
) -> None:
    source, output = source_and_output(topics, records, 120)
    loaded = whole_range(app.servers, source)
    records.delete_before(source, {0: 10})
    with pytest.raises(SystemExit) as caught:
        app.load(loaded, "--output-topic", output, transform=transform)
    assert caught.value.code == 65
    assert f"{source}[0]@" in capsys.readouterr().err
    failed = Report.from_text((app.checkpoint / "failure.json").read_text())
    assert (failed.complete, failed.rows_emitted, failed.stop) == (False, 0, loaded.start)
