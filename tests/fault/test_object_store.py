"""Applications whose checkpoint is in an object store: killed, slow, two at a time."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import hadoop_aws
from support.children import Moment, Submitted
from support.loads import DIRECT_FIRST, LANES, PARTITIONS, events
from support.object_store import BUCKET, ObjectStore
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.locations import has_notes, read_report
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BATCH = 1_000


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """One for the module: Airflow keeps its clients for a whole process."""
    with ObjectStore() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment.items():
            patch.setenv(name, value)
        yield started


class Load:
    """A copy of everything in a topic, batch by batch, by applications whose checkpoint is in the store."""

    def __init__(self, store: ObjectStore, jars: tuple[str, ...], servers: str, folder: Path, source: str) -> None:
        self._folder, self.name = folder, folder.name
        self.place = f"s3a://{BUCKET}/{folder.name}"
        settings = {"fs.s3a.endpoint": store.endpoint, "fs.s3a.path.style.access": "true"}
        conf = [part for name, value in settings.items() for part in ("--conf", f"spark.hadoop.{name}={value}")]
        self._submit = ["--master", "local[2]", "--jars", ",".join(jars), *conf]
        (folder / "range.json").write_text(whole_range(servers, source, batch_offsets=BATCH).to_text())
        self._argv = ["--range", str(folder / "range.json"), "--checkpoint", self.place]
        self._argv += ["--option", f"kafka.bootstrap.servers={servers}"]

    def start(self, *argv: str, hold: Moment | None = None, log: str = "log") -> Submitted:
        folder = self._folder / log
        folder.mkdir(exist_ok=True)
        return Submitted([*self._argv, *argv], folder / "log", submit=self._submit, hold=hold)


@pytest.fixture
def source(topics: Topics, records: Records) -> str:
    name = topics.create("in", PARTITIONS)
    records.produce(name, events(3 * BATCH, 1))
    return name


@pytest.fixture
def load(store: ObjectStore, spark: SparkSession, kafka: Any, source: str, tmp_path: Path) -> Load:
    return Load(store, hadoop_aws.jars(spark), kafka.bootstrap_servers, tmp_path, source)


@pytest.mark.parametrize("lane", DIRECT_FIRST)
def test_a_load_that_was_killed_is_finished_by_the_next_attempt_and_airflow_reads_its_report(
    store: ObjectStore, load: Load, source: str, topics: Topics, records: Records, lane: str
) -> None:
    output = topics.create("out", 3)
    argv = ("--output-topic", output, *LANES[lane])
    killed = load.start(*argv, hold=Moment(Checkpoint.put_counts, "call", 2))
    assert killed.until_held(), killed.log()[-3000:]
    killed.kill()
    assert has_notes(load.place)
    assert read_report(load.place) is None
    following = load.start(*argv)
    assert following.wait() == 0, following.log()[-3000:]
    assert lane in following.log()
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    for scheme in ("s3a", "s3"):
        report = read_report(load.place.replace("s3a", scheme))
        assert report is not None
        assert (report.attempt, report.complete, report.rows_emitted, report.replayed) == (2, True, 3 * BATCH, BATCH)
    assert store.keys(load.name) == [f"{load.name}/report.json"]


def test_of_two_attempts_on_a_slow_store_one_loads_the_range_and_the_other_says_so(
    store: ObjectStore, load: Load, source: str, topics: Topics, records: Records
) -> None:
    output = topics.create("out", 3)
    with store.slow(0.3):
        attempts = [load.start("--output-topic", output, log=name) for name in ("one", "other")]
        codes = sorted(attempt.wait() for attempt in attempts)
    logs = "".join(attempt.log() for attempt in attempts)
    assert codes in ([0, 75], [0, 0]), logs[-3000:]
    assert re.search(r"[Aa]ttempt [12]\b", logs)
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    report = read_report(load.place)
    assert report is not None
    assert report.complete
