"""Loads that write exactly once, in this process: whatever fails meanwhile, `read_committed` sees each row once."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.applications import Application, dying_once, events, some_too_large, source_and_output
from support.audited import prove
from support.loads import EXACTLY_ONCE
from support.outputs import FLAWLESS, by_nothing, check_rows, expected_of
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics
from support.transforms import tripled, unchanged

from airflow_provider_orderedkafka.core.documents import Kind

COUNT, BATCH = 120, 60
UNORDERED = ("--sink-option", "keepOrder=none")


def is_whole(app: Application, records: Records, source: str, output: str, each_gives: int = 1, **how: Any) -> None:
    expected, found = expected_of(records, source), records.read_once_decided(output)
    assert check_rows(expected, found, each_gives, **how) == FLAWLESS
    prove(app.servers, app.checkpoint)


@pytest.mark.parametrize(("lane", "kind"), [("direct", "incremental"), ("frames", "interval"), ("frames", "replay")])
def test_a_batch_whose_worker_has_died_is_written_by_the_same_attempt_once(
    app: Application, topics: Topics, records: Records, tmp_path: Path, lane: str, kind: Kind
) -> None:
    source, output = source_and_output(topics, records, COUNT)
    loaded = replace(whole_range(app.servers, source, batch_offsets=BATCH), kind=kind)
    report = app.load(loaded, "--output-topic", output, *EXACTLY_ONCE, **dying_once(tmp_path / "died")[lane])
    assert (tmp_path / "died").exists()
    assert (report.rows_emitted, report.may_be_doubled, report.attempt) == (COUNT, 0, 1)
    is_whole(app, records, source, output)


@pytest.mark.parametrize(
    ("transform", "each_gives", "argv", "limit"),
    [(None, 1, (), 100), (unchanged, 1, (), 100), (unchanged, 1, UNORDERED, 100), (tripled, 3, (), 301)],
    ids=["direct", "frames", "frames in no order", "three rows for a record"],
)
def test_every_lane_writes_each_row_once_up_to_its_limit(
    app: Application,
    topics: Topics,
    records: Records,
    transform: Any,
    each_gives: int,
    argv: tuple[str, ...],
    limit: int,
) -> None:
    """The first batch is written whole, the second one in part; of a record that gives three rows, one of them."""
    source, output = source_and_output(topics, records, COUNT)
    loaded = whole_range(app.servers, source, batch_offsets=BATCH, rows_left=limit)
    report = app.load(loaded, "--output-topic", output, *EXACTLY_ONCE, *argv, transform=transform)
    assert (report.rows_emitted, report.may_be_doubled) == (limit, 0)
    keeps = {"keeps": by_nothing} if argv else {}
    is_whole(app, records, source, output, each_gives, most=limit, **keeps)


@pytest.mark.parametrize("transform", [None, unchanged], ids=["direct", "frames"])
def test_dead_letters_are_written_once_too(app: Application, topics: Topics, records: Records, transform: Any) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2, config={"max.message.bytes": 1_000})
    dead = topics.create("dead", 1)
    records.produce(source, some_too_large(events(COUNT, 1)))
    loaded = whole_range(app.servers, source, batch_offsets=BATCH)
    letters = ("--bad-records", str(COUNT), "--dead-letters", dead)
    report = app.load(loaded, "--output-topic", output, *letters, *EXACTLY_ONCE, transform=transform)
    assert (report.rows_emitted, report.dead_letters) == (COUNT * 3 // 4, COUNT // 4)
    assert (len(records.read_once_decided(output)), len(records.read_once_decided(dead))) == (
        COUNT * 3 // 4,
        COUNT // 4,
    )
    prove(app.servers, app.checkpoint)


def test_an_audit_waits_for_transactions_of_others_that_hide_rows(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = source_and_output(topics, records, COUNT)
    with records.transaction() as transaction:
        transaction.produce(output, [Record(b"of another application", partition=number) for number in range(2)])
        app.load(whole_range(app.servers, source), "--output-topic", output, *EXACTLY_ONCE)
        assert records.read(output) == []
        deciding = threading.Timer(2, transaction.commit)
        deciding.start()
        prove(app.servers, app.checkpoint)
        deciding.join()


def by_parity(frame: Any) -> Any:
    """Rows of even keys go to one topic, those of odd ones to another."""
    from pyspark.sql import functions as f

    even, odd = (f.lit(name) for name in OUTPUTS)
    return frame.withColumn("topic", f.when(f.col("key").cast("string").rlike("[02468]$"), even).otherwise(odd))


OUTPUTS: list[str] = []


def test_several_outputs_have_each_row_once(app: Application, topics: Topics, records: Records) -> None:
    source = topics.create("a", 3)
    OUTPUTS[:] = [topics.create("even", 2), topics.create("odd", 2)]
    records.produce(source, events(COUNT, 1))
    loaded = whole_range(app.servers, source, batch_offsets=BATCH)
    named = ("--sink-option", f"outputTopics={','.join(OUTPUTS)}")
    assert app.load(loaded, *named, *EXACTLY_ONCE, transform=by_parity).may_be_doubled == 0
    found = [records.read_once_decided(output) for output in OUTPUTS]
    assert all(found)
    assert check_rows(expected_of(records, source), [row for each in found for row in each], 1) == FLAWLESS
    prove(app.servers, app.checkpoint)


def test_a_load_that_has_begun_with_one_guarantee_is_not_continued_with_the_other(
    app: Application, topics: Topics, records: Records, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = source_and_output(topics, records, COUNT)
    loaded = whole_range(app.servers, source, batch_offsets=BATCH)
    with pytest.raises(SystemExit):
        app.load(loaded, "--output-topic", output, *EXACTLY_ONCE, arrow_transform=failing(tmp_path / "mended"))
    (tmp_path / "mended").touch()
    with pytest.raises(SystemExit) as refused:
        app.load(loaded, "--output-topic", output, arrow_transform=failing(tmp_path / "mended"))
    assert refused.value.code == 2
    assert "guarantee" in capsys.readouterr().err
    app.load(loaded, "--output-topic", output, *EXACTLY_ONCE, arrow_transform=failing(tmp_path / "mended"))
    is_whole(app, records, source, output)


def failing(mended: Path) -> Any:
    """A transform that changes nothing, and fails in a task with the last records until it is mended."""

    def transform(batch: Any) -> Any:
        from pyspark import TaskContext

        last = any(b'"number": 119,' in value for value in batch.column("value").to_pylist())
        if last and TaskContext.get() is not None and not mended.exists():
            raise ValueError("not mended")
        return batch

    return transform
