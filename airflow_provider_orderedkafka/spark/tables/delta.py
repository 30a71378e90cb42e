"""A Delta table: each batch is one commit, which has its name in `userMetadata` and its number as a transaction."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_orderedkafka.core.commits import MARK, Commit, History, Seen
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import DeltaOutput
from airflow_provider_orderedkafka.spark.tables.layout import asked, check_columns, columns, literal, quoted
from airflow_provider_orderedkafka.spark.tables.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.spark.tables.table import Write

_log = logging.getLogger(__name__)

FEW_PARTITIONS: Final = "spark.databricks.delta.snapshotPartitions"
"""Delta reads its log with 50 tasks, for every batch, if nothing else is set."""

REMEMBERS: Final = "delta.setTransactionRetentionDuration"
"""For how long Delta knows which batches it has had; for ever, if it is not set."""

WEEK: Final = "INTERVAL 7 DAYS"
"""How long a range may stay open, with whoever comes back to it in the end."""

NOT_EMPTY: Final = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
LOOKS: Final = 20
BETWEEN_LOOKS: Final = 0.5
"""So often, and after so many seconds, is looked for a table that another application has begun to make."""

ROWS: Final = "numOutputRows"
DAY: Final = "_day"
INTO_DAYS: Final = "days("


@dataclass(frozen=True, slots=True)
class DeltaTable(LakeTable[DeltaOutput]):
    """A Delta table, by its path or in a catalog."""

    @property
    def name(self) -> str:
        """The table, as SQL takes it."""
        if self.output.table is not None:
            return quoted(*self.output.table.split("."))
        return f"delta.{quoted(str(self.output.path))}"

    def prepare(self, rows: "DataFrame") -> None:
        """Make the table if it is missing, and check that such rows fit into it."""
        self._check_session()
        if self.session.conf.get(FEW_PARTITIONS, None) is None:
            self.session.conf.set(FEW_PARTITIONS, "2")
        if not self._is_there():
            self._make(rows)
        self._check_memory()
        there = asked(self.session, f"TABLE {self.name}", self.output.of).columns
        widens = self.output.options.get("mergeSchema", "").lower() == "true"
        check_columns(rows, there, self.output.of, self.name, widens=widens)

    def seen(self) -> Seen:
        """The newest version."""
        [newest] = self._described(1)
        return Seen(self._id(), newest.version)

    def history(self, batch: int, seen: Seen | None) -> History:  # noqa: ARG002 - all since then
        """The commits back to the one that was seen."""
        if seen is None or seen.version is None:
            return History(self._id())
        [newest] = self._described(1)
        return History(self._id(), list(self._described(max(newest.version - seen.version, 0) + 1)))

    def append(self, rows: "DataFrame", write: "Write") -> None:
        """Append by one transaction, which Delta leaves out if it has had it, or a later one of the range."""
        options = {
            **self.output.options,
            "txnAppId": f"{MARK}/{write.called}",
            "txnVersion": str(write.batch),
            "userMetadata": write.name,
            "optimizeWrite": "false",  # it shuffles
        }
        rows.writeTo(self.name).options(**options).append()  # save() would make a table that has gone away

    def _check_session(self) -> None:
        asked_for = {name: self.session.conf.get(name, "") or "" for name in self.output.session}
        lacking = {name: value for name, value in self.output.session.items() if value not in asked_for[name]}
        if lacking and "databricks" not in asked_for["spark.sql.catalog.spark_catalog"]:
            raise SettingError(
                f"{self.output.of}: the Spark session was started without Delta: set "
                f"{', '.join(f'{name}={value}' for name, value in lacking.items())} where it is started"
            )

    def _check_memory(self) -> None:
        """Warn of a table that may forget a batch while an attempt that was frozen can still commit it again."""
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
        """Make the table; where it is by days, with a generated column of dates for each."""
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
        """Wait for a table that another application makes: its folder comes first, and Delta makes none there."""
        _log.warning("%s: waiting for another application, which may be making it", self.output.of)
        for _ in range(LOOKS):
            time.sleep(BETWEEN_LOOKS)
            if self._is_there():
                return
        raise SettingError(
            f"{refused.rstrip('.')}: it has other files, or an application was killed as it made the table. Name "
            f"another place, or delete the folder if nobody needs what is in it"
        )

    def _id(self) -> str:
        [row] = self.sql(f"DESCRIBE DETAIL {self.name}").select("id").collect()
        return str(row["id"])

    def _described(self, limit: int) -> Iterator[Commit]:
        described = self.sql(f"DESCRIBE HISTORY {self.name} LIMIT {limit}")
        rows = described.select("version", "userMetadata", "operationMetrics").collect()
        for row in sorted(rows, key=lambda each: -int(each["version"])):
            count = (row["operationMetrics"] or {}).get(ROWS)
            parent = row["version"] - 1 if row["version"] else None
            yield Commit(row["version"], parent, row["userMetadata"], None if count is None else int(count))
