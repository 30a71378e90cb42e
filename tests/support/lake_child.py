"""A Spark with a table format, in a process of its own: takes questions line by line, and answers them.

Run by `support.lake`, perhaps with another Python that has another Spark.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark import register
from airflow_provider_orderedkafka.spark.app import run_available_now
from airflow_provider_orderedkafka.spark.application.command import output_of
from airflow_provider_orderedkafka.spark.maintenance import statements
from airflow_provider_orderedkafka.spark.tables import table as tables
from airflow_provider_orderedkafka.spark.tables.table_formats import DeltaTable, IcebergTable

DIED = "told to die"
A_WHILE_AGO = Moment(time.time_ns() // 1_000_000 - 2 * 86_400_000)


class Said(io.StringIO):
    """What an application says, which is in the log as well."""

    def write(self, text: str) -> int:
        sys.__stderr__.write(text)
        sys.__stderr__.flush()
        return super().write(text)


def load(
    argv: list[str], die: str | None, file_bytes: int | None, beside: str | None, during: str | None
) -> dict[str, Any]:
    """Run an application; it may die before its first commit, or after it, and others may commit beside it."""
    said = Said()
    smaller = mock.patch.object(tables, "FILE_BYTES", file_bytes or tables.FILE_BYTES)
    with _dying(die), smaller, _beside(beside), _during(during), contextlib.redirect_stderr(said):
        try:
            report = run_available_now(argv=argv)
        except SystemExit as ended:
            died = DIED in said.getvalue()
            found = {"code": "died" if died else ended.code, "said": said.getvalue()}
        else:
            given = None if report is None else json.loads(report.to_text())
            found = {"code": 0, "report": given, "said": said.getvalue()}
    return found


def maintain(session: SparkSession, output: str, since: int) -> dict[str, Any]:
    """Run each statement; Iceberg refuses to delete what is younger than a day, and may belong to a write."""
    table: Any = output_of("output", output)
    for statement in statements(session, table, Moment(since), time.time_ns() // 1_000_000):
        session.sql(re.sub(r"(remove_orphan_files.*TIMESTAMP ')[^']+", rf"\g<1>{A_WHILE_AGO}", statement)).collect()
    return {}


def copy(rows: DataFrame, servers: str, topic: str) -> dict[str, Any]:
    """Write them to a topic, as a user does."""
    register(rows.sparkSession)
    writer = rows.write.format("orderedkafka").mode("append")
    writer.option("kafka.bootstrap.servers", servers).option("topic", topic).save()
    return {}


def _beside(statement: str | None) -> Any:
    asked = DeltaTable._described

    def then(table: DeltaTable, limit: int | None = None) -> Any:
        found = asked(table, limit)
        if limit == 1:
            table.sql(str(statement))
        return found

    return mock.patch.object(DeltaTable, "_described", then) if statement else contextlib.nullcontext()


def _during(statement: str | None) -> Any:
    """Have somebody run a statement while the first commit to a Delta table is being written, which waits for it."""
    append, folder = DeltaTable.append, Path(tempfile.mkdtemp())
    begun, done = str(folder / "begun"), str(folder / "done")

    def waiting(batches: Any) -> Any:
        Path(begun).touch()
        while not Path(done).exists():
            time.sleep(0.02)
        yield from batches

    def others(table: DeltaTable) -> None:
        while not Path(begun).exists():
            time.sleep(0.02)
        table.sql(str(statement))
        Path(done).touch()

    def instead(table: DeltaTable, rows: DataFrame, write: Any) -> None:
        if not Path(begun).exists():
            threading.Thread(target=others, args=(table,)).start()
        append(table, rows.mapInArrow(waiting, rows.schema), write)

    return mock.patch.object(DeltaTable, "append", instead) if statement else contextlib.nullcontext()


@contextlib.contextmanager
def _dying(when: str | None) -> Any:
    kinds, twice = (DeltaTable, IcebergTable), [True]

    def both(commit: Any, *what: Any) -> None:
        """Two attempts at once, the first time."""
        with ThreadPoolExecutor() as pool:
            made = [pool.submit(commit, *what) for _ in range(1 + twice[0])]
            twice[0] = False
        for each in made:
            each.result()

    def dying(commit: Any) -> Any:
        def instead(*what: Any) -> None:
            if when == "twice":
                return both(commit, *what)
            if when == "after":
                commit(*what)
            raise SettingError(DIED)  # what no try of this attempt mends

        return instead

    with contextlib.ExitStack() as patched:
        for kind in kinds if when else ():
            for name in ("append", "merge"):
                patched.enter_context(mock.patch.object(kind, name, dying(getattr(kind, name))))
        yield


def main() -> None:
    settings = json.loads(sys.argv[1])
    answers = os.fdopen(int(sys.argv[2]), "w", buffering=1)
    builder = SparkSession.builder.master("local[2]").appName("lake")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "sql" in asked:
                found: Any = {"rows": [json.loads(row) for row in session.sql(asked["sql"]).toJSON().collect()]}
            elif "maintain" in asked:
                found = maintain(session, asked["maintain"], asked["since"])
            elif "copy" in asked:
                found = copy(session.sql(asked["copy"]), asked["servers"], asked["topic"])
            else:
                found = load(asked["load"], asked["die"], asked["file_bytes"], asked["beside"], asked["during"])
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), file=answers, flush=True)
    session.stop()


if __name__ == "__main__":
    main()
