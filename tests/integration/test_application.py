"""The applications as people run them: a range in, an output and a report out."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.spark.app import run_available_now

START = 1_700_000_000_000


def events(count: int, seed: int, *, keys: int = 20, partitions: int = 3, by_key: bool = True) -> list[Record]:
    """Records whose keys stay in their partitions, unless asked otherwise; some come late."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        key = chance.randrange(keys)
        partition = key % partitions if by_key else chance.randrange(partitions)
        late = chance.randrange(5_000) if chance.random() < 0.1 else 0
        value = json.dumps({"number": number, "paid": number % 3 == 0}).encode()
        found.append(Record(value, START + number * 7 - late, partition, f"key-{key}".encode()))
    return found


class Application:
    """Runs an application in this process; everything of one test is under one folder."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers = servers
        self.folder = folder
        self.checkpoint = folder / "checkpoint"

    def run(self, *argv: str, **how: Any) -> Report | None:
        option = f"kafka.bootstrap.servers={self.servers}"
        return run_available_now(argv=["--checkpoint", str(self.checkpoint), "--option", option, *argv], **how)

    def load(self, loaded: Any, *argv: str, **how: Any) -> Report:
        report = self.run("--range", loaded.to_text(), *argv, **how)
        assert report is not None
        return report

    def left(self) -> list[str]:
        """What is left beside the checkpoint."""
        return sorted(each.name for each in self.checkpoint.iterdir())


@pytest.fixture
def app(kafka: Any, spark: SparkSession, tmp_path: Path) -> Application:
    return Application(kafka.bootstrap_servers, tmp_path)


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
