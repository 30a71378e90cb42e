"""What is replaced as a whole: a folder for each batch, or a partition of a table of Spark's own."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from airflow_provider_orderedkafka.core.codec import canonical
from airflow_provider_orderedkafka.core.commits import MARK, Commit, History, Seen
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import CatalogOutput, FilesOutput
from airflow_provider_orderedkafka.spark.tables.layout import asked, columns, literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState
    from airflow_provider_orderedkafka.spark.tables.table import Write

RANGE_ID, BATCH = "range_id", "batch"
MANIFESTS: Final = f"_{MARK}"
EMPTY: Final = Seen("", None)
HIDDEN: Final = ("_", ".")


class Replaced:
    """What is written in place of what is there of a batch: nobody asks which rows of it landed."""

    __slots__ = ()
    identity: bool = False
    replaces: bool = True

    def seen(self) -> Seen:
        """Nothing: a batch is where it belongs."""
        return EMPTY

    def rows_of(self, _range_id: str, _batch: int) -> tuple[int, int]:
        """None that are known: rows do not say where they came from."""
        return 0, 0

    def owned(self, _range_id: str) -> tuple[int, int]:
        """None: they are where they belong."""
        return 0, 0


@dataclass(frozen=True)
class Files(Replaced):
    """A folder of files for each batch, and a manifest that lists them once they are complete: it is the commit."""

    session: "SparkSession"
    output: FilesOutput
    range_id: str

    def prepare(self, rows: "DataFrame") -> None:
        """Check the columns."""
        _check_columns(rows)

    def history(self, batch: int, seen: Seen | None) -> History:  # noqa: ARG002 - found by its name
        """The commit of this batch, if it has a manifest."""
        text = self._state.get(self._manifest(batch))
        if text is None:
            return History(EMPTY.table)
        found = json.loads(text)
        return History(EMPTY.table, [Commit(1, None, found["name"], found["rows"])])

    def append(self, rows: "DataFrame", write: "Write") -> None:
        """Write the folder in place of what was there, and then its manifest."""
        folder = f"{RANGE_ID}={self.range_id}/{BATCH}={write.batch}"
        self._state.delete(self._manifest(write.batch))
        writer = rows.write.format(self.output.format).options(**self.output.options)
        writer.mode("overwrite").save(f"{self.output.path}/{folder}")
        files = [f"{folder}/{name}" for name in self._state.names(folder) if not name.startswith(HIDDEN)]
        found = {"version": 1, "name": write.name, "rows": write.count(), "files": files}
        self._state.put(self._manifest(write.batch), canonical(found))

    def forget(self, range_id: str) -> None:
        """Delete what there is of a range, its manifests first."""
        self._state.delete(f"{MANIFESTS}/{range_id}")
        self._state.delete(f"{RANGE_ID}={range_id}")

    def _manifest(self, batch: int) -> str:
        return f"{MANIFESTS}/{self.range_id}/{batch}.json"

    @cached_property
    def _state(self) -> "HadoopState":
        from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState

        return HadoopState.of(self.output.path, self.session)


@dataclass(frozen=True, slots=True)
class CatalogTable(Replaced):
    """A table of Hive's or Spark's own with a partition for each batch, which is overwritten as a whole."""

    session: "SparkSession"
    output: CatalogOutput
    range_id: str
    written: dict[int, Commit] = field(default_factory=dict)

    def prepare(self, rows: "DataFrame") -> None:
        """Make the table if it is missing, and check the columns."""
        _check_columns(rows)
        named = f"{columns(rows)}, {RANGE_ID} STRING, {BATCH} BIGINT"
        pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in self.output.options.items())
        options = f" OPTIONS ({pairs})" if pairs else ""
        statement = f"CREATE TABLE IF NOT EXISTS {self._name} ({named}) USING {self.output.format}{options}"
        asked(self.session, f"{statement} PARTITIONED BY ({RANGE_ID}, {BATCH})", self.output.of)

    def history(self, batch: int, seen: Seen | None) -> History:  # noqa: ARG002 - a partition is replaced
        """What this attempt has written."""
        return History(EMPTY.table, [self.written[batch]] if batch in self.written else [])

    def append(self, rows: "DataFrame", write: "Write") -> None:
        """Write the partition in place of what was there."""
        names = ", ".join(map(quoted, rows.columns))
        partition = f"{RANGE_ID} = {literal(self.range_id)}, {BATCH} = {write.batch}"
        insert = f"INSERT OVERWRITE TABLE {self._name} PARTITION ({partition}) ({names})"
        self.session.sql(f"{insert} SELECT {names} FROM {{rows}}", rows=rows)  # noqa: S608 - names are quoted
        self.written[write.batch] = Commit(1, None, write.name, write.count())

    def forget(self, range_id: str) -> None:
        """Drop the partitions of a range."""
        self.session.sql(f"ALTER TABLE {self._name} DROP IF EXISTS PARTITION ({RANGE_ID} = {literal(range_id)})")

    @property
    def _name(self) -> str:
        return quoted(*self.output.table.split("."))


def _check_columns(rows: "DataFrame") -> None:
    taken = {RANGE_ID, BATCH} & {name.lower() for name in rows.columns}
    if taken:
        raise SettingError(
            f"the column {sorted(taken)[0]!r} is this output's own: it says which batch a row belongs to. Rename the "
            f"transform's, found {', '.join(map(repr, rows.columns))}"
        )
