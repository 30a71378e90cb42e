"""A lake: Spark with a table format in a process of its own, which loads ranges and answers questions in SQL."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput, to_text
from support import quick_java
from support.another_spark import environment, spark
from support.children import ROOT, SETTINGS, TESTS

PACKAGES, SPARK = os.environ.get("ORDEREDKAFKA_TEST_PACKAGES"), os.environ.get("ORDEREDKAFKA_TEST_SPARK")
"""The format and the Spark that `make versions` asks for, in place of the usual ones."""

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
OF_DELTA = {
    "spark.jars.packages": PACKAGES or DELTA,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}


def python_of(usual: str | None = None) -> str:
    """The Python of a lake: one with the Spark that is asked for, or the usual one, or this one."""
    version = SPARK or usual
    return str(environment(spark(version)) / "bin" / "python") if version else sys.executable


class Lake:
    """The process; everything is under one folder. `close` ends it."""

    def __init__(self, folder: Path, settings: Mapping[str, str], python: str = sys.executable) -> None:
        self.folder = folder
        own = {"spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        usual = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
        read, write = os.pipe()
        java = quick_java.environment(Path(python).parents[1])
        environment = {**os.environ, **java, "PYTHONPATH": f"{ROOT}:{TESTS}", "PYSPARK_PYTHON": python}
        environment.pop("SPARK_HOME", None)
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [
                python,
                str(Path(__file__).with_name("lake_child.py")),
                json.dumps({**SETTINGS, **usual, **own, **settings}),
                str(write),
            ],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[write],
            env=environment,
            cwd=folder,
            text=True,
        )
        os.close(write)
        self._answers = os.fdopen(read)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """The rows of an answer."""
        rows: list[dict[str, Any]] = self._ask({"sql": statement})["rows"]
        return rows

    def copy(self, query: str, servers: str, topic: str) -> None:
        """Write what a query gives to a topic."""
        self._ask({"copy": query, "servers": servers, "topic": topic})

    def load(self, *argv: str, die: str | None = None, spoil: tuple[str, ...] = ()) -> dict[str, Any]:
        """Run an application there; it may die `before` or `after` its first commit."""
        return self._ask({"load": argv, "die": die, "spoil": spoil})

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._answers.close()
        self._log.close()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._answers.readline()
        assert line, (self.folder / "log").read_text("utf-8", "replace")[-3000:]
        found: dict[str, Any] = json.loads(line)
        assert "error" not in found, found["error"]
        return found


class Loading:
    """One range, its checkpoint and a table of a lake."""

    def __init__(
        self, lake: Lake, servers: str, folder: Path, loaded: Range, output: DeltaOutput | IcebergOutput
    ) -> None:
        self.lake, self.servers, self.folder, self.loaded, self.output = lake, servers, folder, loaded, output
        self.checkpoint = folder / "checkpoint"

    @property
    def table(self) -> str:
        """The table, for SQL."""
        return self.output.table or f"delta.`{getattr(self.output, 'path', '')}`"

    def run(self, *argv: str, **how: Any) -> dict[str, Any]:
        """One attempt."""
        where = ("--checkpoint", str(self.checkpoint), "--option", f"kafka.bootstrap.servers={self.servers}")
        return self.lake.load(*where, "--range", self.loaded.to_text(), "--output", to_text(self.output), *argv, **how)

    def again(self) -> "Loading":
        """The same range, to be loaded again: with a checkpoint of its own."""
        self.checkpoint = self.folder / f"{self.loaded.id}-again-1"
        return self

    def positions(self) -> list[tuple[str, int, int]]:
        """Which records the table's rows came from."""
        rows = self.lake.sql(f"SELECT topic, partition, offset FROM {self.table}")
        return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)

    def named(self) -> dict[str, int]:
        """The commits that say whose they are, with their rows."""
        if isinstance(self.output, IcebergOutput):
            found = self.lake.sql(
                f"SELECT summary['orderedkafka'] AS name, summary['added-records'] AS rows FROM {self.table}.snapshots"
            )
            return {row["name"]: int(row["rows"]) for row in found if "name" in row}
        found = self.lake.sql(f"DESCRIBE HISTORY {self.table}")
        return {
            row["userMetadata"]: int(row["operationMetrics"]["numOutputRows"]) for row in found if "userMetadata" in row
        }

    @property
    def first_batch(self) -> int:
        """How many rows the first batch has."""
        [rows] = [rows for name, rows in self.named().items() if name.startswith(f"{self.loaded.id}/1/")]
        return rows


def reload_beside_another(load: Loading, other: Loading, expected: list[tuple[str, int, int]]) -> None:
    """One of two ranges in a table is loaded again, dies after its commit, and ends: each row is there once."""
    other.loaded, other.checkpoint = replace(other.loaded, id="other"), other.folder / "other"
    load.run()
    other.run()
    assert load.positions() == sorted([*expected, *expected])
    assert load.again().run(die="after")["code"] == "died"
    assert load.run()["report"]["rows_emitted"] == 90
    assert load.positions() == sorted([*expected, *expected])
