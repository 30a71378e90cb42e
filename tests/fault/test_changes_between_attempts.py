"""A load is killed in the middle of a batch, something changes, and it is run again: no row is lost or doubled.

Whatever changed: what arrived, expired or was compacted meanwhile; by which lane, how many writers and in which slices
the rest is written; how many partitions the output has; which Spark; the transform's code.
`tests/property/test_attempts.py` holds the same, and much more that changes, on a Kafka and a Spark in memory.
"""

import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from support import another_spark
from support.children import HOLDING, Moment, end_what_was_started
from support.loads import START, Load, events, sink
from support.outputs import FLAWLESS, Expected, by_key, by_nothing, by_partition, check_rows, expected_of, stamp
from support.quick_java import OURS
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.order.cuts import OnDataLoss
from airflow_provider_orderedkafka.errors import SettingError, exit_code
from airflow_provider_orderedkafka.kafka.write.producer import PooledProducer
from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]

COUNT = 6_000
SETTING_ERROR = exit_code(SettingError(""))
PARTITIONS = 4
FRAMES = ("--transform", "support.transforms:unchanged")
HALF = Moment(PooledProducer.send, "return", 2)
"""A worker that has sent its second chunk stands still; the others go on."""


SMALL_CHUNKS = ("--master", "local[2]", "--conf", "spark.sql.execution.arrow.maxRecordsPerBatch=200")


def slices(offsets: int) -> tuple[str, ...]:
    return ("--option", f"sliceOffsets={offsets}")


def without_keys(count: int) -> list[Record]:
    return [Record(b"%d:" % n, START + n * 3, n % PARTITIONS, None) for n in range(count)]


def keys_anywhere(count: int) -> list[Record]:
    """Keys that are in several partitions, as a producer with a partitioner of its own puts them."""
    chance = random.Random(3)
    return [Record(b"%d:" % n, START + n * 3, chance.randrange(4), b"key-%d" % (n % 50)) for n in range(count)]


@dataclass
class Scene:
    """One load between two attempts."""

    topics: Topics
    records: Records
    source: str
    output: str
    servers: str

    def newer(self) -> None:
        """Records come that the range does not hold: slices are cut in other places."""
        self.records.produce(self.source, [Record(b"newer", START + 10**7 + n, n % PARTITIONS) for n in range(200)])

    def growth(self) -> None:
        self.topics.grow(self.output, 7)


@dataclass(frozen=True)
class Case:
    """What is loaded, how it is begun, what changes, and how it is gone on with."""

    name: str
    first: tuple[str, ...]
    then: tuple[str, ...]
    change: Callable[[Scene], None] = Scene.newer
    made: Callable[[int], list[Record]] = lambda count: events(count, 1)
    each_gives: int = 1
    keeps: Callable[[Any], object] = by_key
    picks: Callable[[Expected], bool] = lambda _: True


TRIPLED = ("--transform", "support.transforms:tripled")
BY_PARTITION = (*FRAMES, *sink(keepOrder="partition"))
CASES = [
    Case(
        "newer records, order by partition, rows without keys",
        (*BY_PARTITION, *sink(writers=3), *slices(500)),
        (*BY_PARTITION, *sink(writers=3), *slices(500)),
        made=without_keys,
        keeps=by_partition,
    ),
    Case(
        "other slices and writers, order by partition",
        (*BY_PARTITION, *sink(writers=3), *slices(500)),
        (*BY_PARTITION, *sink(writers=2), *slices(700)),
        keeps=by_partition,
    ),
    Case(
        "newer records and other slices, no order",
        (*FRAMES, *sink(keepOrder="none"), *slices(500)),
        (*FRAMES, *sink(keepOrder="none"), *slices(900)),
        keeps=by_nothing,
    ),
    Case("another lane", (*sink(writers=3), *slices(500)), sink(writers=1), made=keys_anywhere),
    Case(
        "three rows for a record",
        (*TRIPLED, *sink(writers=3), *slices(500)),
        (*TRIPLED, *sink(writers=2), *slices(900)),
        each_gives=3,
    ),
    Case(
        "a filter",
        ("--transform", "support.transforms:odd_ones", *sink(writers=3), *slices(500)),
        ("--transform", "support.transforms:odd_ones", *sink(writers=3), *slices(900)),
        picks=lambda each: each.position[2] % 2 == 1,
    ),
    Case("an output that grew, directly", (*sink(writers=3), *slices(500)), sink(writers=3), Scene.growth),
]


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    yield
    end_what_was_started()


def begun(
    scene: Scene, folder: Path, first: tuple[str, ...], home: Path = OURS, on_data_loss: OnDataLoss = "fail", **how: Any
) -> Load:
    """The first attempt, killed when some of its rows have landed; at least one chunk, and not all."""
    loaded = whole_range(scene.servers, scene.source, on_data_loss=on_data_loss)
    load = Load(scene.servers, folder, loaded, "--output-topic", scene.output, submit=SMALL_CHUNKS, **how)
    application = load.start(HALF, first, home)
    assert application.until_held(), application.log()[-3000:]
    time.sleep(2)  # what the others have sent by then is there, or comes once they are dead
    application.kill()
    return load


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_changes_between_two_attempts_neither_loses_nor_doubles_a_row(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, case: Case
) -> None:
    scene = Scene(topics, records, topics.create("in", PARTITIONS), topics.create("out", 3), kafka.bootstrap_servers)
    records.produce(scene.source, case.made(COUNT))
    expected = [each for each in expected_of(records, scene.source) if case.picks(each)]
    load = begun(scene, tmp_path, case.first)
    landed = len(records.read(scene.output))
    assert 0 < landed < len(expected) * case.each_gives
    case.change(scene)
    report = load.finish_here(*case.then)
    assert check_rows(expected, records.read(scene.output), case.each_gives, case.keeps) == FLAWLESS
    load.prove()
    assert (report.rows_emitted, report.replayed) == (len(expected) * case.each_gives, landed)
    assert (report.may_be_doubled, report.may_be_out_of_order) == (0, 0)


def test_what_an_older_spark_began_is_finished_by_this_one(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    scene = Scene(topics, records, topics.create("in", PARTITIONS), topics.create("out", 3), kafka.bootstrap_servers)
    records.produce(scene.source, events(COUNT, 1))
    expected = expected_of(records, scene.source)
    argv = (*FRAMES, *sink(writers=3), *slices(500))
    load = begun(scene, tmp_path, argv, another_spark.environment())
    landed = len(records.read(scene.output))
    assert 0 < landed < len(expected)
    report = load.finish(*argv)
    said = re.findall(r"Running Spark version (\S+)", (tmp_path / "log").read_text())
    assert said == ["3.5.8", pyspark.__version__]
    assert check_rows(expected, records.read(scene.output), 1) == FLAWLESS
    load.prove()
    assert (report.rows_emitted, report.replayed, report.may_be_doubled) == (len(expected), landed, 0)


def test_what_was_compacted_since_takes_no_other_row_along(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    compaction = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01}
    source = topics.create("in", PARTITIONS, config={**compaction, "max.compaction.lag.ms": 100})
    scene = Scene(topics, records, source, topics.create("out", 3), kafka.bootstrap_servers)
    chance = random.Random(1)
    made = [Record(b"%d:" % n, START + n * 3, chance.randrange(4), b"key-%d" % n) for n in range(COUNT)]
    records.produce(source, made)
    load = begun(scene, tmp_path, (*sink(writers=3), *slices(500)))
    before = {stamp(each).source for each in records.read(scene.output)}
    ends = records.ends(source)
    records.produce(source, [Record(b"newer", START + 10**7 + n, made[n].partition, made[n].key) for n in range(500)])
    compacted(records, source)
    load.finish_here(*sink(writers=3))
    there = [each for each in expected_of(records, source) if each.position[2] < ends[each.position[1]]]
    landed = [stamp(each).source for each in records.read(scene.output)]
    assert len(landed) == len(set(landed))
    assert set(landed) == before | {each.position for each in there}
    assert len(there) < COUNT


def compacted(records: Records, topic: str) -> None:
    """Write on until the broker has compacted something of the topic away."""
    deadline = time.monotonic() + 120
    count = len(records.read(topic))
    while len(records.read(topic)) >= count:
        assert time.monotonic() < deadline, "nothing was compacted"
        for partition in range(PARTITIONS):
            records.produce(topic, [Record(b"on", START + 2 * 10**7, partition, b"on")])
        count += PARTITIONS
        time.sleep(1)


def test_what_retention_took_since_is_counted_and_takes_no_other_row_along(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    scene = Scene(topics, records, topics.create("in", PARTITIONS), topics.create("out", 3), kafka.bootstrap_servers)
    records.produce(scene.source, events(COUNT, 1))
    expected = {each.position for each in expected_of(records, scene.source)}
    first = (*sink(writers=3), *slices(500))
    load = begun(scene, tmp_path, first, on_data_loss="count")
    before = {stamp(each).source for each in records.read(scene.output)}
    records.delete_before(scene.source, {1: 900})
    report = load.finish_here(*first)
    landed = [stamp(each).source for each in records.read(scene.output)]
    gone = {position for position in expected if position[1] == 1 and position[2] < 900}
    assert len(landed) == len(set(landed))
    assert set(landed) == before | (expected - gone)
    assert (report.rows_emitted, report.lost) == (len(landed), len(gone - before))


def test_a_key_in_a_partition_where_the_direct_lane_did_not_expect_it_is_written_and_reported(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    made = events(COUNT, 1)
    astray = made[COUNT // 2]
    made[COUNT // 2] = Record(astray.value, astray.timestamp, (astray.partition + 1) % PARTITIONS, astray.key)
    records.produce(source, made)
    load = Load(kafka.bootstrap_servers, tmp_path, whole_range(kafka.bootstrap_servers, source))
    report = load.finish_here("--output-topic", output, *sink(writers=3))
    found = check_rows(expected_of(records, source), records.read(output), 1)
    assert (found.missing, found.doubled) == ([], [])
    assert (report.rows_emitted, report.may_be_doubled, report.may_be_out_of_order) == (COUNT, 0, 1)


@pytest.mark.parametrize("said", ["--option", "in the environment: sink."])
def test_a_partitioner_that_is_new_is_refused_before_a_row_is_written_wherever_it_is_said(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    scene = Scene(topics, records, topics.create("in", PARTITIONS), topics.create("out", 3), kafka.bootstrap_servers)
    records.produce(scene.source, events(COUNT, 1))
    first = (*sink(writers=3), *slices(500))
    load = begun(scene, tmp_path, first)
    landed = len(records.read(scene.output))
    name, argv = "kafka.partitioner", (said, "kafka.partitioner=consistent_random")
    if not said.startswith("--"):
        argv = ()
        monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps({said.partition(": ")[2] + name: "consistent_random"}))
    assert load.ending_here(*first, *argv) == SETTING_ERROR
    assert len(records.read(scene.output)) == landed
    monkeypatch.delenv(OPTIONS_VARIABLE, raising=False)
    load.finish_here(*first, "--option", "kafka.linger.ms=20", "--sink-option", f"{name}=murmur2_random")
    assert check_rows(expected_of(records, scene.source), records.read(scene.output), 1) == FLAWLESS


OF_SEVERAL = "from pyspark.sql import functions as f\n\n\ndef several(frame):\n    {}"
EXPLODED = "return frame.withColumn('value', f.explode(f.array(*map(f.lit, {}))))\n"
ITSELF = OF_SEVERAL.format(EXPLODED)
ONE_ROW = ITSELF.replace("f.explode(f.array(*map(f.lit, {})))", "f.lit(*{})")


@pytest.mark.parametrize("edited", ["several rows", "to one row"])
def test_changed_code_of_a_transform_loses_none_of_several_rows_and_counts_what_may_be_doubled(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, edited: str
) -> None:
    scene = Scene(topics, records, topics.create("in", PARTITIONS), topics.create("out", 3), kafka.bootstrap_servers)
    records.produce(scene.source, events(COUNT, 1))
    after = ("new",) if edited == "to one row" else ("new", "a", "b")

    def write(parts: tuple[str, ...]) -> None:
        (tmp_path / "changing.py").write_text((ITSELF if len(parts) > 1 else ONE_ROW).format(parts))

    write(("a", "b"))
    environment = {"PYTHONPATH": ":".join([str(tmp_path), str(HOLDING), *sys.path])}
    argv = ("--transform", "changing:several", *sink(writers=3), *slices(500))
    load = begun(scene, tmp_path, argv, environment=environment)
    landed = len(records.read(scene.output))
    assert landed
    write(after)
    report = load.finish(*argv)
    values = {(stamp(each).source, each.value) for each in records.read(scene.output)}
    positions = [each.position for each in expected_of(records, scene.source)]
    assert values >= {(position, part) for position in positions for part in map(str.encode, after)}
    assert report.may_be_doubled == landed
