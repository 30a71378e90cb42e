"""An Iceberg table: each batch is one snapshot, which has its name in the property `orderedkafka`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.commits import MARK, Commit, History, Seen
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import IcebergOutput
from airflow_provider_orderedkafka.spark.tables.layout import asked, check_columns, columns
from airflow_provider_orderedkafka.spark.tables.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.spark.tables.table import Write

AS_IT_COMES = {"distribution-mode": "none", "fanout-enabled": "true"}
"""No shuffle before the write, and no sort by partition: the rows come in their order."""


@dataclass(frozen=True, slots=True)
class IcebergTable(LakeTable[IcebergOutput]):
    """A table of an Iceberg catalog."""

    def prepare(self, rows: "DataFrame") -> None:
        """Make the table if it is missing, and check that such rows fit into it."""
        self._check_session()
        if not self.session.catalog.tableExists(self.output.table):
            self.make(rows, columns(rows), self.output.partition_by)
        check_columns(rows, self._columns(), self.output.of, self.name)

    def seen(self) -> Seen:
        """The newest snapshot."""
        return Seen(self.output.table, self._newest())

    def history(self, batch: int, seen: Seen | None) -> History:  # noqa: ARG002 - all since then
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
        return History(self.output.table, commits)

    def append(self, rows: "DataFrame", write: "Write") -> None:
        """Append by one snapshot."""
        from pyspark.sql import functions as f

        there = {name.lower() for name in rows.columns}
        lacking = {name: f.lit(None).cast(kind) for name, kind in self._schema() if name.lower() not in there}
        options = {**AS_IT_COMES, **self.output.options, f"snapshot-property.{MARK}": write.name}
        rows.withColumns(lacking).writeTo(self.name).options(**options).append()

    def _check_session(self) -> None:
        catalog, *rest = self.output.table.split(".")
        if len(rest) > 1 and self.session.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            raise SettingError(
                f"{self.output.of}: Spark knows no catalog {catalog!r}: set spark.sql.catalog.{catalog}="
                f"org.apache.iceberg.spark.SparkCatalog and its type and warehouse, by conf= in Airflow or --conf"
            )

    def _newest(self) -> int | None:
        refs = self.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'").collect()  # noqa: S608
        return next((int(row["snapshot_id"]) for row in refs), None)

    def _schema(self) -> list[tuple[str, str]]:
        return list(asked(self.session, f"TABLE {self.name}", self.output.of).dtypes)

    def _columns(self) -> list[str]:
        return [name for name, _ in self._schema()]

    def sql(self, statement: str) -> "DataFrame":
        """Run a statement on the table as it is now: a catalog may keep what it read before."""
        self.session.sql(f"REFRESH TABLE {self.name}")
        return self.session.sql(statement)
