"""Applications that are killed with -9 at named points, and run again: nothing lost, nothing doubled, order kept."""

import re
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from support.children import Moment, Submitted
from support.loads import DIRECT_FIRST, LANES, PARTITIONS, Load, events
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.kafka.write.producer import PooledProducer
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.table_sink import TableWriter

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BATCH, BATCHES = 1_500, 7
TOLD_TO_END = 128 + signal.SIGTERM
CANCELLED = r'Traceback .*\n(?:  File "[^"]*/pyspark/.*\n(?:    .*\n)*)+EOFError\n'
"""What PySpark's workers may print where a task is cancelled, whatever it ran."""


def written(records: Records, output: str) -> int:
    """How many offsets the output has."""
    return sum(records.ends(output, "read_uncommitted").values())


POINTS = {
    1: Moment(Checkpoint.put_note, "call"),
    2: Moment(Checkpoint.put_note, "return"),
    3: Moment(PooledProducer.send, "return"),
    4: Moment(PooledProducer.settle, "return"),
    5: Moment(Checkpoint.put_counts, "call"),
    6: Moment(Checkpoint.put_counts, "return"),
    7: Moment(Checkpoint.put_report, "call"),
    8: Moment(Checkpoint.put_report, "return"),
}
"""Where the attempts are killed, one after the other."""


def moment(load: Load, number: int) -> Moment:
    """Point number n is that of batch n: what happens before that is noted is not meant."""
    point, noted = POINTS[number], load.checkpoint / f"notes/{min(number, BATCHES)}"
    return Moment(point.function, point.event, 1, str(noted) if number > 1 else "/")


@pytest.mark.parametrize("lane", DIRECT_FIRST)
def test_a_load_killed_at_every_named_point_in_turn_is_completed_by_the_attempts_that_follow(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, lane: str
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    count = BATCHES * BATCH
    records.produce(source, events(count, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, "--output-topic", output, *LANES[lane])
    for number, point in POINTS.items():
        application = load.start(moment(load, number))
        assert application.until_held(), f"{point}: {application.log()[-3000:]}"
        application.kill_driver()
    report = load.finish()
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    load.prove()
    assert (report.attempt, report.complete, report.rows_emitted, report.may_be_doubled) == (8, True, count, 0)
    assert lane in application.log()


@dataclass(frozen=True)
class Held:
    """A load by one lane that stands in the middle of its second batch, a task having sent some of it."""

    lane: str
    load: Load
    application: Submitted
    source: str
    output: str


@pytest.fixture(params=LANES)
def held(request: Any, kafka: Any, topics: Topics, records: Records, tmp_path: Path) -> Held:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(3 * BATCH, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, "--output-topic", output, *LANES[request.param])
    application = load.start(Moment(PooledProducer.send, "return", 1, str(load.checkpoint / "notes/2")))
    assert application.until_held(), application.log()[-3000:]
    return Held(request.param, load, application, source, output)


def test_a_batch_whose_workers_are_killed_is_run_again_in_the_same_attempt(held: Held, records: Records) -> None:
    assert held.application.kill_workers()
    assert held.application.wait() == 0, held.application.log()[-3000:]
    assert check(expected_of(records, held.source), records.read(held.output)) == FLAWLESS
    held.load.prove()
    assert held.load.report().attempt == 1
    assert held.lane in held.application.log()


def test_an_older_attempt_that_still_lives_stops_and_the_newer_one_completes_the_range(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(3 * BATCH, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=40)
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, "--output-topic", output)
    older = load.start()
    assert older.until(load.there("counts/2"))
    newer = load.start()
    assert older.wait() == 75
    assert "attempt 2" in older.log()
    assert newer.wait() == 0
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    load.prove()
    assert load.report().attempt == 2


def test_a_load_that_is_told_to_end_while_its_cluster_gives_it_no_session_ends_at_once_and_lets_go(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(BATCH, 1))
    loaded = whole_range(kafka.bootstrap_servers, source)
    arguments = (kafka.bootstrap_servers, tmp_path, loaded, "--output-topic", output)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        waiting = Load(*arguments, submit=("--master", master)).start()
        assert waiting.until(lambda: list((tmp_path / "checkpoint/lease").glob("0*.json")))
        waiting.tell_driver_to_end()
        assert waiting.wait(60) == TOLD_TO_END  # Spark itself would wait for two minutes
    following = Load(*arguments)
    assert following.finish().attempt == 2
    assert "(process " not in (tmp_path / "log").read_text()
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS


def test_a_load_that_is_told_to_end_in_the_middle_of_a_batch_ends_its_tasks_and_lets_go(
    held: Held, records: Records
) -> None:
    held.application.tell_driver_to_end()
    assert held.application.wait(30) == TOLD_TO_END, held.application.log()[-3000:]
    assert not re.search(r"Traceback|batch \d+ failed|ERROR MicroBatch", re.sub(CANCELLED, "", held.application.log()))
    assert held.load.finish().attempt == 2
    assert "(process " not in held.application.log()
    assert check(expected_of(records, held.source), records.read(held.output)) == FLAWLESS
    held.load.prove()


def table_rows(table: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """The rows of each batch, as they lie in its files."""
    return [
        (folder.name, [row for file in sorted(folder.glob("*/part-*")) for row in parquet.read_table(file).to_pylist()])
        for folder in sorted(table.glob("range_id=r1/batch=*"))
    ]


def test_a_table_whose_load_was_killed_is_row_for_row_that_of_a_load_that_was_not(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source = topics.create("in", PARTITIONS)
    records.produce(source, events(3 * BATCH, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)

    def to_table(name: str) -> Load:
        (tmp_path / name).mkdir()
        options = ("--output", f"parquet:{tmp_path / name / 'table'}", "--option", "sliceOffsets=400")
        return Load(kafka.bootstrap_servers, tmp_path / name, loaded, *options, app="ordered_table.py")

    load, calm = to_table("killed"), to_table("calm")
    application = load.start(Moment(TableWriter.write, "return"))
    assert application.until_held(), application.log()[-3000:]
    application.kill()
    application = load.start()
    second = load.folder / "table/range_id=r1/batch=2"
    assert application.until(lambda: list(second.glob("*/_temporary"))), application.log()[-3000:]
    application.kill_driver()
    assert load.finish().rows_emitted == calm.finish().rows_emitted == 3 * BATCH
    expected = table_rows(calm.folder / "table")
    assert table_rows(load.folder / "table") == expected
    positions = [(row["topic"], row["partition"], row["offset"]) for _, rows in expected for row in rows]
    assert positions == [each.position for each in expected_of(records, source)]
    load.prove()
