"""How a batch is one write of a folder of files, or one commit of a table of Iceberg or Delta.

Each write to a folder of files has a folder of its own, and a manifest says which one counts:
`range_id=<range>/batch=<number>/<token>/` is a write. `_orderedkafka/<range>/<number>.json`, the manifest, lists the
files of the write that was complete first: it is created, and never replaced while the range counts. So an attempt that
continues after another one took over leaves files that no manifest names, and changes none that a manifest names.

A table's commit names the batch: Iceberg has the name in a snapshot's property `orderedkafka`, Delta in `userMetadata`,
with its number as a transaction.
"""

import json
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...compat.spark import iceberg_table
from ...core.codec import canonical
from ...core.commits import MARK, Commit, History, TableVersion
from ...errors import SettingError
from ...outputs import DeltaOutput, FilesOutput, IcebergOutput, no_catalog
from .columns import Columns, columns, quoted
from .table import LakeTable, Write, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from ..state.hadoop_state import HadoopState


RANGE_ID, BATCH = "range_id", "batch"
MANIFESTS: Final = f"_{MARK}"
HIDDEN: Final = ("_", ".")


@dataclass(frozen=True, slots=True)
class Files:
    """A folder of files, to which a range adds batches under `range_name`.

    `state` has its manifests; `counted` is the last batch that was counted before this attempt, or 0.
    """

    state: "HadoopState"
    output: FilesOutput
    range_name: str
    counted: int = 0
    by_place: bool = True
    commits_once: bool = True
    location: str = ""

    def prepare(self, rows: "DataFrame") -> Columns:
        """Check the columns, and that manifests can be created; clean up what earlier attempts left."""
        _check_columns(rows)
        self.state.check_creates()
        self._tidy(self.counted + 1)
        return Columns()

    def settle(self, _rows: "StructType") -> Columns:
        """Files have the columns of their rows."""
        return Columns()

    def version(self, batch: int) -> TableVersion:
        """The batch's number if it has a manifest now: then the range was loaded with another checkpoint."""
        return TableVersion("", batch if self._manifest(batch) else None)

    def history(self, batch: int, noted: TableVersion | None) -> History:
        """The commit of this batch, if it has a manifest, and had none when it was noted."""
        found = self._manifest(batch)
        if found is None or (noted is not None and noted.version == batch):
            return History("")
        size = self.state.size(_folder(self.range_name, batch))
        return History("", [Commit(1, None, found["name"], found["rows"], size, len(found["files"]))])

    def append(self, rows: "DataFrame", write: Write) -> None:
        """Write a folder, and create the manifest; delete the folder if another write has created one."""
        folder = f"{_folder(self.range_name, write.batch)}/{write.name.rpartition('/')[2]}"
        rows.write.format(self.output.format).options(**self.output.options).save(f"{self.output.path}/{folder}")
        names = sorted(self.state.names(folder), key=_by_numbers)
        files = [f"{folder}/{name}" for name in names if not name.startswith(HIDDEN)]
        made = _document(write.name, files, write.count())
        self.state.create(_name(self.range_name, write.batch), made)
        found = self._manifest(write.batch)
        if found is not None and found["name"] != write.name:
            self.state.delete(folder)
        self._tidy(write.batch)

    def rows_of(self, _called: str, _batch: int) -> tuple[int, int]:
        """None: the rows have no identities."""
        return 0, 0

    def owned(self, _names: Sequence[str]) -> tuple[int, int]:
        """None: a range's rows are in its own folders."""
        return 0, 0

    def forget(self, names: Sequence[str]) -> None:
        """Empty the manifests of a range's earlier names, then delete its files.

        An empty manifest stays for each batch, and for the one after the last: so nothing counts that a frozen attempt
        may still write under such a name.
        """
        for name in names:
            numbers = [*self._numbers(f"{MANIFESTS}/{name}"), *self._numbers(f"{RANGE_ID}={name}")]
            for batch in range(1, max(numbers, default=0) + 2):
                self.state.put(_name(name, batch), _document("", [], 0))
            self.state.delete(f"{RANGE_ID}={name}")

    def _manifest(self, batch: int) -> dict[str, Any] | None:
        """The manifest of a batch; None if it has none."""
        text = self.state.get(_name(self.range_name, batch))
        found: dict[str, Any] | None = None if text is None else json.loads(text)
        return found

    def _tidy(self, batch: int) -> None:
        """Delete all other writes of a batch that has a manifest."""
        found, folder = self._manifest(batch), _folder(self.range_name, batch)
        if found is None or not found["name"]:
            return
        named = {file.removeprefix(f"{folder}/").partition("/")[0] for file in found["files"]}
        for name in self.state.names(folder):
            if name not in named and not name.startswith(HIDDEN):
                self.state.delete(f"{folder}/{name}")

    def _numbers(self, folder: str) -> list[int]:
        """The batches in a folder of manifests, or of files."""
        found = (name.removeprefix(f"{BATCH}=").removesuffix(".json") for name in self.state.names(folder))
        return [int(each) for each in found if each.isdecimal()]


def _by_numbers(name: str) -> list[str | int]:
    """What names of files are sorted by: Spark numbers tasks and their files, and not always by as many digits."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def _folder(name: str, batch: int) -> str:
    return f"{RANGE_ID}={name}/{BATCH}={batch}"


def _name(name: str, batch: int) -> str:
    return f"{MANIFESTS}/{name}/{batch}.json"


def _document(name: str, files: Sequence[str], rows: int) -> str:
    return canonical({"version": 1, "name": name, "rows": rows, "files": list(files)})


def _check_columns(rows: "DataFrame") -> None:
    taken = {RANGE_ID, BATCH} & {name.lower() for name in rows.columns}
    if taken:
        raise SettingError(
            f"the column {sorted(taken)[0]!r} is this output's own: it says which batch a row belongs to. Rename the "
            f"transform's, found {', '.join(map(repr, rows.columns))}"
        )


_log = logging.getLogger(__name__)

AS_IT_COMES = {"distribution-mode": "none", "fanout-enabled": "true"}
"""No shuffle before the write, and no sort by partition: the rows are in order already."""

ADDED: Final = ("added-records", "added-files-size", "added-data-files")


UNBUCKETED: Final = ("boolean",)
"""The types that Iceberg has no buckets of."""

APART: Final = ("spark.wap.branch", "spark.wap.id")
"""With these settings of a session, what is written to a table that allows it is not in its main branch."""


@dataclass(frozen=True, slots=True)
class IcebergTable(LakeTable[IcebergOutput]):
    def prepare(self, rows: "DataFrame") -> Columns:
        self._check_session()
        if not self.session.catalog.tableExists(self.name):
            by_key = [f"bucket(16, {key})" for key in self.laid_out_by(rows, UNBUCKETED)[:1]]
            self.make(rows, columns(rows), [*self.output.layout, *by_key])
        self._check_main()
        self.check_key(rows)
        return self.settle(rows.schema)

    def version(self, batch: int) -> TableVersion:  # noqa: ARG002 - as it is for every batch
        """The newest snapshot."""
        return TableVersion(self._id(), self._newest())

    def history(self, batch: int, noted: TableVersion | None) -> History:  # noqa: ARG002 - all since then
        """The snapshots that lead to the newest one, as far as they have not expired."""
        newest = self._newest()
        found = self.sql(f"SELECT snapshot_id, parent_id, summary FROM {self.name}.snapshots").collect()  # noqa: S608
        there = {row["snapshot_id"]: row for row in found}
        commits = []
        while newest in there:
            row, summary = there[newest], there[newest]["summary"] or {}
            added = [int(summary.get(name) or 0) for name in ADDED]  # null if it added none
            commits.append(Commit(row["snapshot_id"], row["parent_id"], summary.get(MARK), *added))
            newest = row["parent_id"]
        return History(self._id(), commits)

    def append(self, rows: "DataFrame", write: Write) -> None:
        from pyspark.sql import functions as f

        there, known = {name.lower() for name in rows.columns}, self.schema().fields
        lacking = {field.name: f.lit(None).cast(field.dataType) for field in known if field.name.lower() not in there}
        options = {**AS_IT_COMES, **self.output.options, f"snapshot-property.{MARK}": write.name}
        rows.withColumns(lacking).writeTo(self.name).options(**options).append()

    def _found(self) -> str:
        return str(iceberg_table(self.session, self.name).location())

    def _check_session(self) -> None:
        catalog, *rest = self.output.table.split(".")
        if len(rest) > 1 and self.session.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            raise SettingError(no_catalog(self.output))

    def _check_main(self) -> None:
        """`SettingError` where batches would be written to where no load looks for them."""
        apart = [name for name in APART if self.session.conf.get(name, None)]
        if apart and self.properties().get("write.wap.enabled", "").lower() == "true":
            raise SettingError(
                f"{self.output.of}: the table has write.wap.enabled, and the Spark session has {apart[0]}, so batches "
                f"would not be in its main branch, where they are looked for: leave {apart[0]} out"
            )

    def _newest(self) -> int | None:
        refs = self.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'").collect()  # noqa: S608
        return next((int(row["snapshot_id"]) for row in refs), None)

    def _id(self) -> str:
        self.session.sql(f"REFRESH TABLE {self.name}")
        return str(iceberg_table(self.session, self.name).uuid())

    def sql(self, statement: str) -> "DataFrame":
        """Run a statement on the table as it is now: a catalog may keep what it read before."""
        self.session.sql(f"REFRESH TABLE {self.name}")
        return self.session.sql(statement)


FEW_PARTITIONS: Final = "spark.databricks.delta.snapshotPartitions"
"""Delta reads its log with 50 tasks, for every batch, if nothing else is set."""

REMEMBERS: Final = "delta.setTransactionRetentionDuration"
"""For how long Delta remembers the transactions of batches; without end, if it is not set."""

WIDENS: Final = "delta.enableTypeWidening"

WEEK: Final = "INTERVAL 7 DAYS"
"""How long a range may stay open until an attempt continues it."""

NOT_EMPTY: Final = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
POLLS: Final = 20
POLL_SECONDS: Final = 0.5
"""How often, and at what interval in seconds, to poll for a table that another application is creating."""

UNBOUNDED: Final = ("binary", "boolean")
MOST_CLUSTERED: Final = 4
"""The types that Delta does not cluster by, and by how many columns it does."""

METRICS: Final = ("numOutputRows", "numOutputBytes", "numFiles")
DAY: Final = "_day"
INTO_DAYS: Final = "days("
DATE: Final = "CAST({0} AS DATE)"
UTC_DATE: Final = "date_add(DATE'1970-01-01', CAST(floor(CAST({0} AS BIGINT) / 86400) AS INT))"
"""The date of a time with a zone, whatever the zone of the session. `DATE` has that of the session that writes.

And by `DATE` Delta also leaves out partitions, in the zone of the session that reads, which misses rows of others.
"""


@dataclass(frozen=True, slots=True)
class DeltaTable(LakeTable[DeltaOutput]):
    commits_once: bool = True

    @property
    def name(self) -> str:
        if self.output.table is not None:
            return quoted(*self.output.table.split("."))
        return f"delta.{quoted(str(self.output.path))}"

    def prepare(self, rows: "DataFrame") -> Columns:
        self._check_session()
        if self.session.conf.get(FEW_PARTITIONS, None) is None:
            self.session.conf.set(FEW_PARTITIONS, "2")
        if self._exists():
            self._check_partitions(rows, self._partitions())
        else:
            self._check_partitions(rows, self.output.layout)
            self._make(rows)
        self.check_key(rows)
        self._check_memory()
        return self.settle(rows.schema)

    def _check_partitions(self, rows: "DataFrame", named: Sequence[str]) -> None:
        """`SettingError` for bytes that partition the table: Delta writes them as text there, and loses most."""
        by = {name.lower() for name in named}
        wrong = [name for name, kind in rows.dtypes if name.lower() in by and kind == "binary"]
        if wrong:
            raise SettingError(
                f"{self.output.of}: no table of Delta keeps bytes as they are in a column that partitions it, as "
                f"{wrong[0]!r} would: leave it out of partition_by= of a new table, or make it text in a transform"
            )

    def kept(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        by = {name.lower() for name in self._partitions()}
        texts = [name for name, kind in rows.dtypes if name.lower() in by and kind == "string"]
        return rows.withColumns({name: f.nullif(f.col(quoted(name)), f.lit("")) for name in texts})

    def _partitions(self) -> list[str]:
        [row] = self.sql(f"DESCRIBE DETAIL {self.name}").select("partitionColumns").collect()
        return list(row["partitionColumns"])

    def generated(self, names: Sequence[str]) -> list[str]:
        """Spark does not show which these are; those that `_make` makes are known by their names and as partitions."""
        there = {name.lower() for name in self.schema().names}
        found = [name for name in names if name.endswith(DAY) and name.lower().removesuffix(DAY) in there]
        parts = self._partitions() if found else []
        return [name for name in found if name in parts]

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

    def append(self, rows: "DataFrame", write: Write) -> None:
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

    def before_widening(self) -> str:
        """Its owner has to allow it once: older readers do not know how to read such a table."""
        allowed = self.properties().get(WIDENS, "").lower() == "true"
        return "" if allowed else f"ALTER TABLE {self.name} SET TBLPROPERTIES ('{WIDENS}' = 'true'); "

    def _check_memory(self) -> None:
        """Warn if the table may forget a batch that a frozen attempt could still commit again."""
        if (kept := self.properties().get(REMEMBERS)) is None:
            return
        shorter = f"TRY_CAST({literal(kept)} AS INTERVAL) + TIMESTAMP '2000-01-01' < TIMESTAMP '2000-01-01' + {WEEK}"
        [row] = self.sql(f"SELECT {shorter} AS short").collect()
        if row["short"]:
            _log.warning(
                "%s: the table forgets after %r (%s) which batches it has had: an attempt that was frozen for longer "
                "may commit one again, and a range that is loaded with another checkpoint is not refused. Keep that "
                "for a week or more: ALTER TABLE %s UNSET TBLPROPERTIES ('%s')",
                self.output.of,
                kept,
                REMEMBERS,
                self.name,
                REMEMBERS,
            )

    def _exists(self) -> bool:
        from pyspark.errors import AnalysisException

        if self.output.table is not None:
            return bool(self.session.catalog.tableExists(self.name))
        try:
            self.sql(f"TABLE {self.name}")
        except AnalysisException:
            return False
        return True

    def _make(self, rows: "DataFrame") -> None:
        """Create the table, with a generated column of dates for each `days(...)` that partitions it."""
        by = self.output.layout
        days = {each: each[len(INTO_DAYS) : -1] for each in by if each.startswith(INTO_DAYS)}
        zoned = {name.lower() for name, kind in rows.dtypes if kind == "timestamp"}
        dates = {day: (UTC_DATE if day.lower() in zoned else DATE).format(quoted(day)) for day in days.values()}
        made = [f"{quoted(day + DAY)} DATE GENERATED ALWAYS AS ({date})" for day, date in dates.items()]
        parts = [quoted(days[each] + DAY if each in days else each) for each in by]
        refused = f"{self.output.of}: its folder is not empty, and is not a Delta table"
        try:
            clustered = self.laid_out_by(rows, UNBOUNDED)[:MOST_CLUSTERED]
            self.make(rows, ", ".join([columns(rows), *made]), parts, clustered)
        except SettingError as error:
            refused = str(error)
            if NOT_EMPTY not in refused:
                raise
        if not self._exists():
            self._await(refused)

    def _await(self, refused: str) -> None:
        """Wait for a table that another application is creating: while only its folder is there, Delta refuses."""
        _log.warning("%s: waiting for another application, which may be creating the table", self.output.of)
        for _ in range(POLLS):
            time.sleep(POLL_SECONDS)
            if self._exists():
                return
        raise SettingError(
            f"{refused.rstrip('.')}: it has other files, or an application was killed while it created the table. Name "
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
    found = map((row["operationMetrics"] or {}).get, METRICS)
    parent = row["version"] - 1 if row["version"] else None
    counts = (None if count is None else int(count) for count in found)
    return Commit(row["version"], parent, row["userMetadata"], *counts)


Table = IcebergTable | DeltaTable | Files
"""A table to which a batch is added by one commit.

In one that is `by_place` each batch has a folder of its own, which shows whether it landed, and whose rows it has;
otherwise each row has its identity. One that `commits_once` refuses a second commit of a batch, whoever makes it. Its
`location` is where it lies, if its name does not say that and Spark does; to be asked once it is made.
"""
