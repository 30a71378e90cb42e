"""Applications run in this process, and records for them to load."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.spark.app import run_available_now
from support.records import Record, Records
from support.topics import Topics

START = 1_700_000_000_000

IN_THE_DIRECT_LANE = ("--sink-option", "keepOrder=none")


def sink(arguments: Any, frames: Any) -> Any:
    """What the command line names; what an attempt has left counts as settled soon: nothing is underway for longer."""
    from airflow_provider_orderedkafka.kafka.replay.replays import OutputBrokers, Settle
    from airflow_provider_orderedkafka.spark.lanes.kafka_lanes import writer_for
    from airflow_provider_orderedkafka.spark.table_sink import table_sink

    soon = Settle(still=0.5)
    if arguments.job.table is None:
        return writer_for(arguments, frames, OutputBrokers(arguments.cluster, soon))
    return table_sink(arguments, frames, OutputBrokers(arguments.source.kafka, soon))


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


def source_and_output(topics: Topics, records: Records, count: int) -> tuple[str, str]:
    """A topic of three partitions with so many records, and an empty one of two."""
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(count, 1))
    return source, output


def some_too_large(records: list[Record], each: int = 4) -> list[Record]:
    """The same records, of which one in so many fits into no topic that takes a thousand bytes."""
    large = [json.dumps({**json.loads(record.value), "more": "x" * 2_000}).encode() for record in records]
    return [
        replace(record, value=value) if number % each == 0 else record
        for number, (record, value) in enumerate(zip(records, large, strict=True))
    ]


class Application:
    """Runs an application in this process; everything of one test is under one folder."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers = servers
        self.folder = folder
        self.checkpoint = folder / "checkpoint"

    def run(self, *argv: str, **how: Any) -> Any:
        """The report; None where there was nothing to load."""
        option = f"kafka.bootstrap.servers={self.servers}"
        arguments = ["--checkpoint", str(self.checkpoint), "--option", option, *argv]
        return run_available_now(argv=arguments, **{"sink": sink, **how})

    def load(self, loaded: Any, *argv: str, **how: Any) -> Report:
        report = self.run("--range", loaded.to_text(), *argv, **how)
        assert report is not None
        return report

    def left(self) -> list[str]:
        """What is left beside the checkpoint."""
        return sorted(each.name for each in self.checkpoint.iterdir())


def paid(value: bytes) -> bool:
    """What `filtered` lets pass."""
    return bool(json.loads(value)["paid"])


def filtered(frame: Any) -> Any:
    """A transform that gives at most one row for a record."""
    return frame.where("get_json_object(cast(value as string), '$.paid') = 'true'")


def dying_once(mark: Path) -> dict[str, Any]:
    """Transforms that change nothing, and whose worker dies once with the last of the records."""

    def die(batch: Any) -> None:
        import os

        from pyspark import TaskContext

        last = any(b'"number": 119,' in value for value in batch.column("value").to_pylist())
        if last and TaskContext.get() is not None and not mark.exists():
            mark.touch()
            os._exit(1)

    def passed(batches: Any) -> Any:
        for batch in batches:
            die(batch)
            yield batch

    def arrow_transform(batch: Any) -> Any:
        die(batch)
        return batch

    frames = {"transform": lambda frame: frame.mapInArrow(passed, frame.schema)}
    return {"frames": frames, "direct": {"arrow_transform": arrow_transform}}


def lane_of(said: str) -> str:
    """The lane that a run says it takes."""
    return {"direct": "direct", "DataFrame": "frames"}[re.findall(r"(direct|DataFrame) lane", said)[-1]]
