"""A lake: Spark with a table format in a process of its own, which loads ranges and answers questions in SQL."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput
from support import quick_java
from support.children import ROOT, SETTINGS, TESTS
from support.plain import as_argument
from support.table_formats import Format, rows_of


class Lake:
    """The process, with Spark and this table format; everything is under one folder. `close` ends it."""

    def __init__(self, folder: Path, table_format: Format) -> None:
        self.folder, self.format = folder, table_format
        own = {"spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        usual = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
        settings = {**SETTINGS, **usual, **own, **table_format.settings(folder), **table_format.session}
        home = table_format.home()
        python = str(home / "bin" / "python")
        read, write = os.pipe()
        paths = {"PYTHONPATH": f"{ROOT}:{TESTS}", "PYSPARK_PYTHON": python}
        environment = {**os.environ, **quick_java.environment(home), **paths}
        environment.pop("SPARK_HOME", None)
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [python, str(Path(__file__).with_name("lake_child.py")), json.dumps(settings), str(write)],
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

    def load(
        self,
        *argv: str,
        die: str | None = None,
        file_bytes: int | None = None,
        beside: str | None = None,
        during: str | None = None,
    ) -> dict[str, Any]:
        """Run an application there; it may die `before` or `after` its first commit, and may write smaller files.

        `beside` is what somebody else does whenever it has asked a Delta table for its newest version, `during` what
        somebody does while its first commit is being written.
        """
        others = {"beside": beside, "during": during}
        return self._ask({"load": argv, "die": die, "file_bytes": file_bytes, **others})

    def maintain(self, output: str, since: int) -> None:
        """Maintain a table as the application does, but that files of no version are kept for a day at least."""
        self._ask({"maintain": output, "since": since})

    def until_said(self, words: str, seconds: float = 60) -> None:
        """Wait until its log says so."""
        deadline = time.monotonic() + seconds
        while words not in (said := (self.folder / "log").read_text("utf-8", "replace")):
            assert time.monotonic() < deadline, f"not said in {seconds} s: {said[-3000:]}"
            time.sleep(0.1)

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
    """One range, its checkpoint in a folder, and a table of a lake."""

    def __init__(
        self, lake: Lake, servers: str, folder: Path, loaded: Range, output: DeltaOutput | IcebergOutput
    ) -> None:
        self.lake, self.servers, self.folder, self.loaded, self.output = lake, servers, folder, loaded, output
        self.checkpoint = folder / "checkpoint"

    @property
    def table(self) -> str:
        """The table, for SQL."""
        return self.output.table or f"delta.`{self.output.place}`"

    def run(self, *argv: str, **how: Any) -> dict[str, Any]:
        """One attempt."""
        where = ("--checkpoint", str(self.checkpoint), "--option", f"kafka.bootstrap.servers={self.servers}")
        return self.lake.load(
            *where, "--range", self.loaded.to_text(), "--output", as_argument(self.output), *argv, **how
        )

    def again(self) -> "Loading":
        """The same range, to be loaded again: with a checkpoint of its own."""
        self.checkpoint = self.folder / f"{self.loaded.id}-again-1"
        return self

    def compact(self) -> None:
        """Write the table's files anew, as its owner does."""
        self.lake.format.compact(self.lake.sql, self.table)

    def maintain(self, since: int) -> None:
        """What `ordered_maintenance.py` does, for what was there before."""
        self.lake.maintain(as_argument(self.output), since)

    def stored(self) -> list[Path]:
        """The files with rows that are there, of all versions."""
        return [file for file in self._place.rglob("*.parquet") if "_delta_log" not in file.parts]

    def expire(self) -> None:
        """Let the table's history expire, but for its newest version."""
        self.lake.format.expire(self.lake.sql, self.table, self._place)

    def replace(self) -> None:
        """Replace the table by itself, as its owner does to partition it otherwise."""
        again = f"CREATE OR REPLACE TABLE {self.table} USING {self.lake.format.name} AS SELECT * FROM {self.table}"
        self.lake.sql(again)

    def positions(self) -> list[tuple[str, int, int]]:
        """Which records the table's rows came from."""
        rows = self.lake.sql(f"SELECT topic, partition, offset FROM {self.table}")
        return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)

    def files(self) -> dict[Path, list[tuple[Any, ...]]]:
        """The table's files, with the order and the records of their rows."""
        columns = ["order_time", "topic", "partition", "offset"]
        return {file: rows_of(file, *columns) for file in self.lake.format.files(self._place)}

    def named(self) -> dict[str, int]:
        """The commits that say whose they are, with their rows."""
        return self.lake.format.named(self.lake.sql, self.table)

    @property
    def first_batch(self) -> int:
        """How many rows the first batch has."""
        [rows] = [rows for name, rows in self.named().items() if name.startswith(f"{self.loaded.id}/1/")]
        return rows

    @property
    def _place(self) -> Path:
        return self.lake.format.place(self.lake.folder, self.output)


MakeLoading = Callable[..., Loading]


def added_with(said: str) -> str:
    """The statement that is the way out."""
    [statement] = re.findall(r"add it with (ALTER TABLE .*), or by new_columns='add'", said)
    return str(statement)
