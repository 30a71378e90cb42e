"""Delta and Iceberg: the Spark that each runs on, what an owner does to a table, and which files a table has now."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import fastavro
from pyarrow import parquet

from airflow_provider_orderedkafka.outputs import PACKAGES as TRIED
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput
from airflow_provider_orderedkafka.spark.maintenance import SESSION
from airflow_provider_orderedkafka.spark.tables.table_formats import DeltaTable, IcebergTable
from support import quick_java
from support.another_spark import OLDEST, environment, spark

STRUCT = "STRUCT<range_id: STRING, batch: BIGINT, topic: STRING, partition: INT, offset: BIGINT, ordinal: INT>"
"""The type of the column of identities, as docs/tables.md has it."""

Sql = Callable[[str], list[dict[str, Any]]]
PACKAGES, SPARK = os.environ.get("ORDEREDKAFKA_TEST_PACKAGES"), os.environ.get("ORDEREDKAFKA_TEST_SPARK")
"""The format and the Spark that `make versions` asks for, in place of the usual ones."""


@dataclass(frozen=True)
class Delta:
    """Delta, on this environment's Spark or another; a table is named by its path."""

    package: str
    spark: str | None = None

    name = "delta"
    kind = DeltaTable
    session: ClassVar = {**SESSION[DeltaOutput], "spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    """What a session has that is there before a load begins, and that may delete files at once."""

    forgetful: ClassVar = {"delta.checkpointInterval": "1", "delta.deletedFileRetentionDuration": "interval 0 hours"}
    """Properties of a table whose history and old files can expire soon, and whose rows are deleted on the side."""

    shuffling: ClassVar = {"delta.autoOptimize.optimizeWrite": "true"}
    """Properties of a table that has its writers shuffle."""

    def home(self) -> Path:
        return environment(spark(self.spark)) if self.spark else quick_java.OURS

    def settings(self, folder: Path) -> dict[str, str]:
        """What a user sets for tables in this folder."""
        return {"spark.jars.packages": self.package}

    def output(self, folder: Path, name: str, **given: Any) -> DeltaOutput:
        path = None if "table" in given else str(folder / "warehouse" / name)
        return DeltaOutput(path=path, **given)

    def place(self, folder: Path, output: DeltaOutput) -> Path:
        """The folder of a table."""
        return Path(str(output.path))

    def named(self, sql: Sql, table: str) -> dict[str, int]:
        """The commits that say whose they are, with their rows."""
        found = sql(f"DESCRIBE HISTORY {table}")
        names = [row for row in found if "userMetadata" in row]
        return {row["userMetadata"]: int(row["operationMetrics"]["numOutputRows"]) for row in names}

    def compact(self, sql: Sql, table: str) -> None:
        sql(f"OPTIMIZE {table}")
        sql(f"VACUUM {table} RETAIN 0 HOURS")

    def expire(self, sql: Sql, table: str, at: Path) -> None:
        """Delete what Delta's own cleaning deletes of the log, after its retention: all before the last checkpoint."""
        sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
        sql(f"COMMENT ON TABLE {table} IS 'c'")
        log = at / "_delta_log"
        newest = max(int(file.name[:20]) for file in log.glob("*.checkpoint*.parquet"))
        for file in log.glob("*.json"):
            if file.name[:20].isdigit() and int(file.name[:20]) < newest:
                file.unlink()

    def files(self, at: Path) -> set[Path]:
        """The files that the table's log has now."""
        found: set[str] = set()
        for version in sorted((at / "_delta_log").glob("*.json")):
            for action in map(json.loads, version.read_text().splitlines()):
                found |= {action["add"]["path"]} if "add" in action else set()
                found -= {action["remove"]["path"]} if "remove" in action else set()
        return {at / file for file in found}


@dataclass(frozen=True)
class Iceberg:
    """Iceberg with a Hadoop catalog."""

    package: str
    spark: str

    name = "iceberg"
    kind = IcebergTable
    session: ClassVar[dict[str, str]] = {}
    forgetful: ClassVar = {"write.delete.mode": "merge-on-read"}
    shuffling: ClassVar = {"write.distribution-mode": "hash"}

    def home(self) -> Path:
        return environment(spark(self.spark))

    def settings(self, folder: Path) -> dict[str, str]:
        catalog = "spark.sql.catalog.lake"
        return {
            "spark.jars.packages": self.package,
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "hadoop",
            f"{catalog}.warehouse": str(folder / "warehouse"),
        }

    def output(self, folder: Path, name: str, **given: Any) -> IcebergOutput:
        return IcebergOutput(f"lake.shop.{name}", **given)

    def place(self, folder: Path, output: IcebergOutput) -> Path:
        return folder.joinpath("warehouse", *output.table.split(".")[1:])

    def named(self, sql: Sql, table: str) -> dict[str, int]:
        found = sql(f"SELECT summary['orderedkafka'] AS name, summary['added-records'] AS rows FROM {table}.snapshots")
        return {row["name"]: int(row["rows"]) for row in found if "name" in row}

    def compact(self, sql: Sql, table: str) -> None:
        sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")

    def expire(self, sql: Sql, table: str, at: Path) -> None:
        """Delete all snapshots but the newest, which is that of a compaction."""
        self.compact(sql, table)
        now = "TIMESTAMP '2100-01-01'"
        sql(f"CALL lake.system.expire_snapshots(table => '{table}', older_than => {now}, retain_last => 1)")

    def files(self, at: Path) -> set[Path]:
        """The files of the newest snapshot."""
        metadata = at / "metadata"
        version = (metadata / "version-hint.text").read_text().strip()
        table = json.loads((metadata / f"v{version}.metadata.json").read_text())
        newest = table["current-snapshot-id"]
        lists = [each["manifest-list"] for each in table["snapshots"] if each["snapshot-id"] == newest]
        manifests = [entry["manifest_path"] for each in lists for entry in avro(each)]
        entries = [entry for each in manifests for entry in avro(each) if entry["status"] != 2]
        return {Path(entry["data_file"]["file_path"].removeprefix("file:")) for entry in entries}


Format = Delta | Iceberg
DELTA = Delta(PACKAGES or TRIED["delta"].of("4.2"), SPARK)
ICEBERG = Iceberg(PACKAGES or TRIED["iceberg"].of("4.1"), SPARK or "4.1.3")
OLDEST_DELTA = Delta(TRIED["delta"].of("4.1"), "4.1.3")
OLDEST_ICEBERG = Iceberg(TRIED["iceberg"].of("3.5", "2.12"), OLDEST[0].rpartition("=")[2])


def rows_of(file: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a file, in the file's order."""
    rows = parquet.ParquetFile(file).read(columns).to_pylist()
    return [tuple(row[name] for name in columns) for row in rows]


def avro(path: str) -> Iterator[Any]:
    """The rows of a file."""
    with Path(path.removeprefix("file:")).open("rb") as file:
        yield from fastavro.reader(file)
