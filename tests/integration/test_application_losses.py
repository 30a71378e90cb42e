"""What retention takes before it is loaded: an error, or counted once where that is asked for."""

from typing import Any

import pytest
from support.applications import IN_THE_DIRECT_LANE, Application, dying_once, lane_of, source_and_output
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

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
