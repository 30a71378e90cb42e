"""Tables of Iceberg and Delta: each batch is one commit, which names the batch.

Iceberg has the name in a snapshot's property `orderedkafka`; Delta in `userMetadata`, with its number as a transaction.
"""

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_orderedkafka.compat.spark import iceberg_table
from airflow_provider_orderedkafka.core.commits import MARK, Commit, History, TableVersion
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput, no_catalog

from .table import LakeTable, asked, check_columns, columns, literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructField

    from .table import Write

_log = logging.getLogger(__name__)

AS_IT_COMES = {"distribution-mode": "none", "fanout-enabled": "true"}
"""No shuffle before the write, and no sort by partition: the rows are in order already."""


@dataclass(frozen=True, slots=True)
class IcebergTable(LakeTable[IcebergOutput]):
    def prepare(self, rows: "DataFrame") -> None:
        self._check_session()
        if not self.session.catalog.tableExists(self.output.table):
            self.make(rows, columns(rows), self.output.partition_by)
        check_columns(rows, [field.name for field in self._fields()], self.output.of, self.name)

    def version(self, batch: int) -> TableVersion:  # noqa: ARG002 - as it is for every batch
        """The newest snapshot."""
        return TableVersion(self._id(), self._newest())

    def history(self, batch: int, noted: TableVersion | None) -> History:  # noqa: ARG002 - all since then
        """The snapshots that lead to the newest one, as far as they have not expired."""
        newest = self._newest()
        summary = f"summary['{MARK}'] AS name, summary['added-records'] AS rows"
        found = self.sql(f"SELECT snapshot_id, parent_id, {summary} FROM {self.name}.snapshots").collect()  # noqa: S608
        there = {row["snapshot_id"]: row for row in found}
        commits = []
        while newest in there:
            row = there[newest]
            rows = int(row["rows"] or 0)  # null if it added none
            commits.append(Commit(row["snapshot_id"], row["parent_id"], row["name"], rows))
            newest = row["parent_id"]
        return History(self._id(), commits, self.output.table)

    def append(self, rows: "DataFrame", write: "Write") -> None:
        from pyspark.sql import functions as f

        there = {name.lower() for name in rows.columns}
        lacking = {
            field.name: f.lit(None).cast(field.dataType) for field in self._fields() if field.name.lower() not in there
        }
        options = {**AS_IT_COMES, **self.output.options, f"snapshot-property.{MARK}": write.name}
        rows.withColumns(lacking).writeTo(self.name).options(**options).append()

    def _found(self) -> str:
        return str(iceberg_table(self.session, self.name).location())

    def _check_session(self) -> None:
        catalog, *rest = self.output.table.split(".")
        if len(rest) > 1 and self.session.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            raise SettingError(no_catalog(self.output))

    def _newest(self) -> int | None:
        refs = self.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'").collect()  # noqa: S608
        return next((int(row["snapshot_id"]) for row in refs), None)

    def _id(self) -> str:
        self.session.sql(f"REFRESH TABLE {self.name}")
        return str(iceberg_table(self.session, self.name).uuid())

    def _fields(self) -> "list[StructField]":
        return list(asked(self.session, f"TABLE {self.name}", self.output.of).schema.fields)

    def sql(self, statement: str) -> "DataFrame":
        """Run a statement on the table as it is now: a catalog may keep what it read before."""
        self.session.sql(f"REFRESH TABLE {self.name}")
        return self.session.sql(statement)


FEW_PARTITIONS: Final = "spark.databricks.delta.snapshotPartitions"
"""Delta reads its log with 50 tasks, for every batch, if nothing else is set."""

REMEMBERS: Final = "delta.setTransactionRetentionDuration"
"""For how long Delta remembers the transactions of batches; without end, if it is not set."""

WEEK: Final = "INTERVAL 7 DAYS"
"""How long a range may stay open until an attempt continues it."""

NOT_EMPTY: Final = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
POLLS: Final = 20
POLL_SECONDS: Final = 0.5
"""How often, and at what interval in seconds, to poll for a table that another application is creating."""

ROWS: Final = "numOutputRows"
DAY: Final = "_day"
INTO_DAYS: Final = "days("


@dataclass(frozen=True, slots=True)
class DeltaTable(LakeTable[DeltaOutput]):
    @property
    def name(self) -> str:
        if self.output.table is not None:
            return quoted(*self.output.table.split("."))
        return f"delta.{quoted(str(self.output.path))}"

    def prepare(self, rows: "DataFrame") -> None:
        self._check_session()
        if self.session.conf.get(FEW_PARTITIONS, None) is None:
            self.session.conf.set(FEW_PARTITIONS, "2")
        if not self._is_there():
            self._make(rows)
        self._check_memory()
        there = asked(self.session, f"TABLE {self.name}", self.output.of).columns
        widens = self.output.options.get("mergeSchema", "").lower() == "true"
        check_columns(rows, there, self.output.of, self.name, widens=widens)

    def version(self, batch: int) -> TableVersion:  # noqa: ARG002 - as it is for every batch
        [newest] = self._described(1)
        return TableVersion(self._id(), newest.version)

    def history(self, batch: int, noted: TableVersion | None) -> History:  # noqa: ARG002 - all since then
        """The commits back to the noted version, even while others commit; all of them, if that was another table's."""
        table = self._id()
        if noted is None or noted.version is None or noted.table != table:
            return History(table, self._described())
        found, limit = self._described(1), 1
        while len(found) == limit and found[-1].version > noted.version:
            limit = found[0].version - noted.version + 1
            found = self._described(limit)
        return History(table, found)

    def append(self, rows: "DataFrame", write: "Write") -> None:
        """Append by one transaction, which Delta skips if it has this one already, or a later one of the range."""
        options = {
            **self.output.options,
            "txnAppId": f"{MARK}/{write.range_name}",
            "txnVersion": str(write.batch),
            "userMetadata": write.name,
            "optimizeWrite": "false",  # it shuffles
        }
        rows.writeTo(self.name).options(**options).append()  # save() would make a table that has gone away

    def _found(self) -> str:
        if self.output.path is not None:
            return ""
        [row] = self.sql(f"DESCRIBE DETAIL {self.name}").select("location").collect()
        return str(row["location"])

    def _check_session(self) -> None:
        asked_for = {name: self.session.conf.get(name, "") or "" for name in self.output.session}
        lacking = {name: value for name, value in self.output.session.items() if value not in asked_for[name]}
        if lacking and "databricks" not in asked_for["spark.sql.catalog.spark_catalog"]:
            raise SettingError(
                f"{self.output.of}: the Spark session was started without Delta: set "
                f"{', '.join(f'{name}={value}' for name, value in lacking.items())} where it is started"
            )

    def _check_memory(self) -> None:
        """Warn if the table may forget a batch that a frozen attempt could still commit again."""
        [row] = self.sql(f"DESCRIBE DETAIL {self.name}").select("properties").collect()
        if (kept := row["properties"].get(REMEMBERS)) is None:
            return
        shorter = f"TRY_CAST({literal(kept)} AS INTERVAL) + TIMESTAMP '2000-01-01' < TIMESTAMP '2000-01-01' + {WEEK}"
        [row] = self.sql(f"SELECT {shorter} AS short").collect()
        if row["short"]:
            _log.warning(
                "%s: the table forgets after %r (%s) which batches it has had: an attempt that was frozen for longer "
                "may commit one again, and a range that is loaded with another checkpoint is not refused. Keep them "
                "for a week or more: ALTER TABLE %s UNSET TBLPROPERTIES ('%s')",
                self.output.of,
                kept,
                REMEMBERS,
                self.name,
                REMEMBERS,
            )

    def _is_there(self) -> bool:
        from pyspark.errors import AnalysisException

        if self.output.table is not None:
            return bool(self.session.catalog.tableExists(self.output.table))
        try:
            self.sql(f"DESCRIBE DETAIL {self.name}").collect()
        except AnalysisException:
            return False
        return True

    def _make(self, rows: "DataFrame") -> None:
        """Create the table, with a generated column of dates for each `days(...)` that partitions it."""
        by = self.output.partition_by
        days = {each: each[len(INTO_DAYS) : -1] for each in by if each.startswith(INTO_DAYS)}
        made = [f"{quoted(day + DAY)} DATE GENERATED ALWAYS AS (CAST({quoted(day)} AS DATE))" for day in days.values()]
        parts = [quoted(days[each] + DAY if each in days else each) for each in by]
        refused = f"{self.output.of}: its folder is not empty, and is not a Delta table"
        try:
            self.make(rows, ", ".join([columns(rows), *made]), parts)
        except SettingError as error:
            refused = str(error)
            if NOT_EMPTY not in refused:
                raise
        if not self._is_there():
            self._await(refused)

    def _await(self, refused: str) -> None:
        """Wait for a table that another application is creating: while only its folder is there, Delta refuses."""
        _log.warning("%s: waiting for another application, which may be making it", self.output.of)
        for _ in range(POLLS):
            time.sleep(POLL_SECONDS)
            if self._is_there():
                return
        raise SettingError(
            f"{refused.rstrip('.')}: it has other files, or an application was killed as it made the table. Name "
            f"another place, or delete the folder if nobody needs what is in it"
        )

    def _id(self) -> str:
        [row] = self.sql(f"DESCRIBE DETAIL {self.name}").select("id").collect()
        return str(row["id"])

    def _described(self, limit: int | None = None) -> list[Commit]:
        """The newest commits, or all that are known."""
        described = self.sql(f"DESCRIBE HISTORY {self.name}{'' if limit is None else f' LIMIT {limit}'}")
        rows = described.select("version", "userMetadata", "operationMetrics").collect()
        return [_commit(row) for row in sorted(rows, key=lambda each: -int(each["version"]))]


def _commit(row: "Row") -> Commit:
    count = (row["operationMetrics"] or {}).get(ROWS)
    parent = row["version"] - 1 if row["version"] else None
    return Commit(row["version"], parent, row["userMetadata"], None if count is None else int(count))
