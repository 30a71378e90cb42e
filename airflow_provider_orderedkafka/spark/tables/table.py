"""What a table is to the writer of batches, and what each format has to know of one.

Its columns, the names of SQL, and how many files a batch becomes.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ...core.commits import DELETED, IDENTITY, History, TableVersion
from ...core.documents import Upsert
from ...core.upserts import ANEW
from ...errors import SettingError, TaskFailedError
from ...kafka.provenance import ORDINAL, SOURCE
from ...kafka.replay.landed import Landed
from ...outputs import DeltaOutput, IcebergOutput
from ..lanes.engine import Engine
from ..lanes.kafka_output import missing
from .columns import Columns, Member, alterations, check_partitions, compared, kind_of, padded, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)

LakeOutput = TypeVar("LakeOutput", IcebergOutput, DeltaOutput)

FILE_BYTES: Final = 256 * 2**20
"""About how many bytes of records go into one file, which is smaller after columns and compression."""

LEAST_BYTES: Final = 32 * 2**20
"""The smallest file, where files are made smaller to keep all cores busy."""

CURRENT: Final = "_current"
"""The end of the name of the view that leaves such rows out."""

VIEWS_EVOLVE: Final = 4
"""The version of Spark from which on a view has columns that its table gets later."""

INTEGERS: Final = {"tinyint", "smallint", "int", "bigint"}

OWNER, KEY = "orderedkafka.load", "orderedkafka.upsert"
"""The properties of a table of upserts: the load with the instance of its ledger, and the columns of its key."""

TRIES: Final = 3
"""How often columns are added, where other applications may do so at the same moment."""


def identified(
    rows: "DataFrame", engine: Engine, range_name: str, batch: int, more: "Mapping[str, Column] | None" = None
) -> "DataFrame":
    """The rows with their identity in one column in place of `_source`."""
    if SOURCE not in rows.columns:
        raise SettingError(
            f"the transform makes no column {SOURCE!r}, from which each row gets its identity in the table: keep it, "
            f"found {', '.join(map(repr, rows.columns))}"
        )
    if not engine.facts(rows).at_most_one:
        rows = missing(rows, Landed(), "many", engine.counter())
    return engine.identified(rows, range_name, batch, more).drop(SOURCE, ORDINAL)


def in_few_files(rows: "DataFrame", cores: int, size: float | None) -> "DataFrame":
    """The rows of neighbouring slices in one task each, in their order, so that files are not too small."""
    if size is None:
        return rows
    busy = min(int(size // LEAST_BYTES), cores)
    return rows.coalesce(max(ceil(size / FILE_BYTES), busy, 1))


def listed(properties: Mapping[str, str]) -> str:
    """TBLPROPERTIES, if there are any."""
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    return f" TBLPROPERTIES ({pairs})" if pairs else ""


def literal(text: str) -> str:
    """A text as SQL takes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def run_sql(run: "Callable[[str], DataFrame]", statement: str, of: str) -> "DataFrame":
    """Run a statement; `SettingError` for what Spark says is wrong with it."""
    from pyspark.errors import AnalysisException

    try:
        return run(statement)
    except AnalysisException as error:
        raise SettingError(f"{of}: {str(error).strip().splitlines()[0]}") from error


def of_range(names: Sequence[str]) -> str:
    """The condition for the rows of a range, by its names."""
    return f"{IDENTITY}.range_id IN ({', '.join(map(literal, names))})"


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a batch: the name of its range in this loading, the batch, and the name of the commit.

    `count` gives the number of rows, once they are written.
    """

    range_name: str
    batch: int
    name: str
    count: Callable[[], int]


@dataclass(frozen=True, slots=True)
class LakeTable(ABC, Generic[LakeOutput]):
    """What tables of Iceberg and Delta have in common: names, their creation, rows by their identities."""

    session: "SparkSession"
    output: LakeOutput
    range_name: str = ""
    upsert: Upsert | None = None
    by_place: bool = False
    commits_once: bool = False

    @property
    def name(self) -> str:
        """The table, as SQL takes it."""
        return quoted(*str(self.output.table).split("."))

    @property
    def location(self) -> str:
        """Where it lies; empty where its name says that, or Spark does not. No load fails by it."""
        try:
            return self._found()
        except Exception as error:  # noqa: BLE001 - of Spark, Java or a catalog
            _log.warning("%s: its location could not be read, so an audit may not find it: %s", self.output.of, error)
            return ""

    @abstractmethod
    def _found(self) -> str: ...

    @abstractmethod
    def prepare(self, rows: "DataFrame") -> Columns:
        """Create the table if it is missing, and settle its columns."""

    @abstractmethod
    def version(self, batch: int) -> TableVersion: ...

    @abstractmethod
    def history(self, batch: int, noted: TableVersion | None) -> History:
        """The commits that may be this batch's, from the newest back to the noted version, as far as they are known."""

    @abstractmethod
    def append(self, rows: "DataFrame", write: Write) -> None:
        """Add the rows of a batch by one commit, which has the write's name."""

    def make(self, rows: "DataFrame", columns: str, parts: Sequence[str], clustered: Sequence[str] = ()) -> None:
        """Create the table; `SettingError` with `create=False`."""
        if not self.output.create:
            raise SettingError(f"{self.output.of}: there is no such table: create it, or leave create=False out")
        if self.upsert is not None and self.upsert.stage != "first":
            raise SettingError(
                f"{self.output.of}: there is no such table, and load {self.upsert.owner.partition('/')[0]!r} has "
                f"loaded ranges into it, which a new table would lack: bring it back, or {ANEW}'earliest'"
            )
        check_partitions(rows, self.output.layout, self.output.of)
        clause = f" PARTITIONED BY ({', '.join(parts)})" if parts else ""
        clause = f" CLUSTER BY ({', '.join(clustered)})" if clustered else clause
        statement = f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {self.output.kind}{clause}"
        run_sql(self.session.sql, statement + listed({**self._own, **self.output.properties}), self.output.of)
        if self.upsert is not None:
            self._show_current()

    def _show_current(self) -> None:
        """Make the view of what is not deleted, or say how to ask for that."""
        current = f"SELECT * FROM {self.name} WHERE NOT {DELETED}"  # noqa: S608 - quoted
        if self.output.table is None:
            _log.info("%s: to see the rows without deleted ones, run %s", self.output.of, current)
            return
        evolves = " WITH SCHEMA EVOLUTION" if int(self.session.version.partition(".")[0]) >= VIEWS_EVOLVE else ""
        try:
            view = quoted(*f"{self.output.table}{CURRENT}".split("."))
            self.session.sql(f"CREATE VIEW IF NOT EXISTS {view}{evolves} AS {current}")
        except Exception as error:  # noqa: BLE001 - of a catalog, which may have no views
            why = str(error).strip().splitlines()[0]
            message = "%s: no view can be made (%s): to see the rows without deleted ones, run %s"
            _log.warning(message, self.output.of, why, current)

    def laid_out_by(self, rows: "DataFrame", unfit: Sequence[str]) -> list[str]:
        """The columns of the key by which a new table is laid out, unless its owner says how: those of fit types."""
        if self.output.partition_by is not None:
            return []
        named = {name.lower(): (quoted(name), kind) for name, kind in rows.dtypes}
        keys = [named[key.lower()] for key in self.output.upsert]
        return [name for name, kind in keys if kind not in unfit]

    def generated(self, names: Sequence[str]) -> list[str]:  # noqa: ARG002 - as some tables need it
        """Those of these columns that the table makes by itself."""
        return []

    def kept(self, rows: "DataFrame") -> "DataFrame":
        """The rows as the table keeps them: Delta makes null of an empty text in a column that partitions it."""
        return rows

    def lacking(self, there: Sequence[str]) -> list[str]:
        """The columns that rows with these ones lack, and that the table does not make by itself."""
        known = {each.lower() for each in there}
        lacking = [each for each in self.schema().names if each.lower() not in known]
        generated = self.generated(lacking)
        return [each for each in lacking if each not in generated]

    @property
    def _own(self) -> Mapping[str, str]:
        """The properties of a new table that it has for itself."""
        if self.upsert is None:
            return {}
        return {**self.output.of_upserts, OWNER: self.upsert.owner, KEY: ", ".join(self.output.upsert)}

    def check_key(self, rows: "DataFrame") -> None:
        """`SettingError` where rows would meet others with which they are in no order, or keys of another type."""
        self._check_owner()
        there = {field.name.lower(): field.dataType.simpleString() for field in self.schema().fields}
        given = {name.lower(): kind for name, kind in rows.dtypes}
        for key in map(str.lower, self.output.upsert):
            if there.get(key) != given[key] and not {there.get(key), given[key]} <= INTEGERS:
                raise SettingError(
                    f"{self.output.of}: the key column {key!r} is of type {there.get(key)!r} in the table, and "
                    f"{given[key]!r} in the rows, so equal keys could not be matched: cast it in a transform"
                )

    def _check_owner(self) -> None:
        found = {name: value for name, value in self.properties().items() if name in {OWNER, KEY}}
        own = {name: value for name, value in self._own.items() if name in {OWNER, KEY}}
        if found == own:
            return
        has = f"upserts of load {found[OWNER]!r} by {found.get(KEY)!r}" if OWNER in found else "rows that were added"
        asks = f"upserts of load {own[OWNER]!r} by {own[KEY]!r}" if own else "to add rows"
        raise SettingError(
            f"{self.output.of} has {has}, and this load asks for {asks}: a table of upserts belongs to one load, its "
            "ledger and its key; name another table, or set upsert= back"
        )

    def properties(self) -> dict[str, str]:
        """The table's own, as they are now."""
        return {row["key"]: row["value"] for row in self.sql(f"SHOW TBLPROPERTIES {self.name}").collect()}

    def settle(self, rows: "StructType") -> Columns:
        """See that the table takes such rows, as its `new_columns` says, whoever else is at it, at any time.

        `SettingError` for what it is not to take, or cannot.
        """
        widened: list[str] = []
        comment = f"added by orderedkafka for range {self.range_name}"  # so any attempt knows what the range has added
        for left in reversed(range(TRIES + 1)):
            there = self.schema()
            _check_padded(padded(rows, there), self)
            members = list(compared(rows, there))
            gaps = [member for member in members if not member.held]
            _check(gaps, self)
            if not gaps or self.output.new_columns == "ignore":
                added: list[str] = [member.name for member in members if member.comment == comment]
                return Columns((*added, *widened), tuple(gap.name for gap in gaps), there)
            try:
                for statement in alterations(gaps, self.name, f" COMMENT {literal(comment)}"):
                    run_sql(self.sql, statement, self.output.of)
                    _log.warning("%s: the rows have new columns: %s", self.output.of, statement)
            except Exception as error:
                if left <= 1:
                    raise
                _log.warning("%s: the table's columns are read again: %s", self.output.of, error)
            else:
                widened += [gap.name for gap in gaps if gap.there is not None]
        raise TaskFailedError(f"{self.output.of}: other applications keep changing the table's columns: try again")

    def before_widening(self) -> str:
        """Statements that are needed before a column can be widened; empty if none is."""
        return ""

    def schema(self) -> "StructType":
        """The table's columns as they are now."""
        return run_sql(self.sql, f"TABLE {self.name}", self.output.of).schema

    def rows_of(self, range_name: str, batch: int) -> tuple[int, int]:
        """How many rows of a batch there are, and how many different ones, by their identities."""
        counts = ("count(*) AS rows", f"count(DISTINCT {IDENTITY}) AS different")
        [row] = self.of_batch(range_name, batch).selectExpr(*counts).collect()
        return int(row["rows"]), int(row["different"])

    def of_batch(self, range_name: str, batch: int) -> "DataFrame":
        of_batch = f"{of_range([range_name])} AND {IDENTITY}.batch = {batch}"
        return self.sql(f"SELECT * FROM {self.name} WHERE {of_batch}")  # noqa: S608 - quoted

    def owned(self, names: Sequence[str]) -> tuple[int, int]:
        """The number of rows whose identity has one of these names of a range, and of rows without an identity."""
        if self.upsert is not None:
            return 0, 0
        counts = (f"count_if({of_range(names)}) AS own", f"count_if({IDENTITY} IS NULL) AS silent")
        [row] = self.sql(f"SELECT {', '.join(counts)} FROM {self.name}").collect()  # noqa: S608 - quoted
        return int(row["own"]), int(row["silent"])

    def forget(self, names: Sequence[str]) -> None:
        """Delete the rows of a range under its earlier names; what this loading writes has another name.

        None of upserts, which are of several ranges.
        """
        if self.upsert is not None:
            return
        self.sql(f"DELETE FROM {self.name} WHERE {of_range(names)}").collect()  # noqa: S608 - quoted

    def merge(self, statement: str) -> None:
        """Change rows by one commit, which fails where another one has changed what the statement went by."""
        self.sql(statement).collect()

    def sql(self, statement: str) -> "DataFrame":
        """Run a statement on the table as it is now."""
        return self.session.sql(statement)


def _check_padded(names: Sequence[str], table: LakeTable[Any]) -> None:
    if names:
        raise SettingError(
            f"{table.output.of}: the table has CHAR in the column {', '.join(map(repr, names))}, which adds spaces to "
            f"shorter texts: make it STRING or VARCHAR, with ALTER TABLE {table.name} ALTER COLUMN {quoted(names[0])} "
            "TYPE STRING, or in a new table if CHAR is within a struct, an array or a map; or give the column another "
            "name in the transform"
        )


def _check(gaps: Sequence[Member], table: LakeTable[Any]) -> None:
    new = table.output.new_columns
    for gap in gaps:
        if gap.there is not None and (new != "add" or not gap.widens or table.before_widening()):
            raise SettingError(_narrow(gap, table))
    lacking = [gap for gap in gaps if gap.there is None]
    names = [gap.name for gap in lacking]
    if lacking and (new == "fail" or (new == "ignore" and IDENTITY in names)):
        [statement] = alterations(lacking, table.name)
        raise SettingError(
            f"{table.output.of}: the table has no column {', '.join(map(repr, names))}, which the rows have, and "
            f"new_columns={new!r}: add it with {statement}, or by new_columns='add', or leave it out in the transform "
            f"or by new_columns='ignore'; {IDENTITY!r} is required"
        )


def _narrow(gap: Member, table: LakeTable[Any]) -> str:
    ways = "cast it in the transform, or give it another name there"
    if gap.widens:
        first = table.before_widening()
        ways = f"widen it with {first}{alterations([gap], table.name)[0]}, or by new_columns='add'; or {ways}"
    return (
        f"{table.output.of}: the column {gap.name!r} is {gap.there and kind_of(gap.there)} in the table, which "
        f"cannot hold every value of the rows' {kind_of(gap.rows)}: {ways}"
    )
