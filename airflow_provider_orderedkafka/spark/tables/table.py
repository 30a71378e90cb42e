"""What a table is to the writer of batches, and what each format has to know of one.

Its columns, the names of SQL, and how many files a batch becomes.
"""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from ...core.commits import IDENTITY, History, TableVersion
from ...core.documents import Upsert
from ...core.upserts import ANEW
from ...errors import SettingError
from ...kafka.provenance import ORDINAL, SOURCE
from ...kafka.replay.landed import Landed
from ...outputs import DeltaOutput, IcebergOutput, TableOutput
from ..lanes.engine import Engine
from ..lanes.kafka_output import missing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_log = logging.getLogger(__name__)

LakeOutput = TypeVar("LakeOutput", IcebergOutput, DeltaOutput)

FILE_BYTES: Final = 256 * 2**20
"""About how many bytes of records go into one file, which is smaller after columns and compression."""

LEAST_BYTES: Final = 32 * 2**20
"""The smallest file, where files are made smaller to keep all cores busy."""

DELETED: Final = "_is_deleted"
"""The column of upserts that says of a row that its key was deleted."""

CURRENT: Final = "_current"
"""The end of the name of the view that leaves such rows out."""

VIEWS_EVOLVE: Final = 4
"""The version of Spark from which on a view has columns that its table gets later."""

INTEGERS: Final = {"tinyint", "smallint", "int", "bigint"}

OWNER, KEY = "orderedkafka.load", "orderedkafka.upsert"
"""The properties of a table of upserts: the load with the instance of its ledger, and the columns of its key."""

STRUCT: Final = "STRUCT<range_id: STRING, batch: BIGINT, topic: STRING, partition: INT, offset: BIGINT, ordinal: INT>"
"""The type of the identity."""

_COLUMN: Final = re.compile(r"\((?:\d+, *)?(\w+)\)|^(\w+)$")


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


def columns(rows: "DataFrame") -> str:
    """The columns as CREATE TABLE takes them; all may be null, as columns that are added later have to."""
    return ", ".join(f"{quoted(field.name)} {_kind(field.dataType)}" for field in rows.schema.fields)


def _kind(kind: "DataType") -> str:
    """A type as SQL takes it: Spark's own text for one does not quote the names in it."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(each.name)}: {_kind(each.dataType)}' for each in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_kind(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_kind(kind.keyType)}, {_kind(kind.valueType)}>"
    return str(kind.simpleString())


def check_columns(rows: "DataFrame", there: Sequence[str], of: str, name: str, *, widens: bool = False) -> None:
    """`SettingError` for a column of the rows that the table lacks."""
    known = {column.lower() for column in there}
    lacking = [column for column in rows.columns if column.lower() not in known]
    if IDENTITY in lacking:
        raise SettingError(
            f"{of}: the table has no column {IDENTITY!r} for the rows' identity: add it with ALTER TABLE {name} ADD "
            f"COLUMN {IDENTITY} {STRUCT}, or name another table: a missing one is made with it"
        )
    if lacking and not widens:
        raise SettingError(
            f"{of}: the table has no column {lacking[0]!r}, which the rows have: add it with ALTER TABLE, or leave it "
            f"out in the transform; the table has {', '.join(map(repr, there))}"
        )


def check_partitions(rows: "DataFrame", partition_by: Sequence[str], of: str) -> None:
    """`SettingError` for a column that a new table would be partitioned by, and that the rows lack."""
    for each in partition_by:
        found = _COLUMN.search(each)
        column = "" if found is None else found[1] or found[2]
        if column.lower() not in {name.lower() for name in rows.columns}:
            raise SettingError(
                f"{of}: partition_by={each!r} names no column of the rows, which are "
                f"{', '.join(map(repr, rows.columns))}: name one of them, or none with partition_by=()"
            )


def listed(properties: Mapping[str, str]) -> str:
    """TBLPROPERTIES, if there are any."""
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    return f" TBLPROPERTIES ({pairs})" if pairs else ""


def quoted(*names: str) -> str:
    """A name as SQL takes it, part by part."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def literal(text: str) -> str:
    """A text as SQL takes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def asked(session: "SparkSession", statement: str, of: str) -> "DataFrame":
    """Run a statement; `SettingError` for what Spark says is wrong with it."""
    from pyspark.errors import AnalysisException

    try:
        return session.sql(statement)
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


class Table(Protocol):
    """A table to which a batch is added by one commit."""

    @property
    def output(self) -> TableOutput: ...

    @property
    def by_place(self) -> bool:
        """Whether each batch has a folder of its own, which shows whether it landed, and whose rows it has.

        Otherwise each row has its identity.
        """
        ...

    @property
    def commits_once(self) -> bool:
        """Whether a second commit of a batch is refused, whoever makes it."""
        ...

    @property
    def location(self) -> str:
        """Where it lies, if its name does not say that and Spark does; to be asked once it is made."""
        ...

    def prepare(self, rows: "DataFrame") -> None:
        """Create the table if it is missing; `SettingError` if such rows do not fit into it."""
        ...

    def version(self, batch: int) -> TableVersion: ...

    def history(self, batch: int, noted: TableVersion | None) -> History:
        """The commits that may be this batch's, from the newest back to the noted version, as far as they are known."""
        ...

    def append(self, rows: "DataFrame", write: Write) -> None:
        """Add the rows of a batch by one commit, which has the write's name."""
        ...

    def rows_of(self, range_name: str, batch: int, /) -> tuple[int, int]:
        """How many rows of a batch there are, and how many different ones, by their identities."""
        ...

    def owned(self, names: Sequence[str], /) -> tuple[int, int]:
        """The number of rows whose identity has one of these names of a range, and of rows without an identity."""
        ...

    def forget(self, names: Sequence[str], /) -> None:
        """Delete the rows of a range under its earlier names, before it is loaded again under another one."""
        ...


@dataclass(frozen=True, slots=True)
class LakeTable(ABC, Generic[LakeOutput]):
    """What tables of Iceberg and Delta have in common: names, their creation, rows by their identities."""

    session: "SparkSession"
    output: LakeOutput
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
            _log.warning("%s: where it lies is not known, and an audit may not find it: %s", self.output.of, error)
            return ""

    @abstractmethod
    def _found(self) -> str: ...

    def make(self, rows: "DataFrame", columns: str, parts: Sequence[str], clustered: Sequence[str] = ()) -> None:
        """Create the table; `SettingError` with `create=False`."""
        if not self.output.create:
            raise SettingError(f"{self.output.of}: there is no such table, and create=False: create it")
        if self.upsert is not None and self.upsert.stage != "first":
            raise SettingError(
                f"{self.output.of}: there is no such table, and load {self.upsert.owner.partition('/')[0]!r} has "
                f"loaded ranges into it: one that is made now would lack these; bring it back, or {ANEW}'earliest'"
            )
        check_partitions(rows, self.output.layout, self.output.of)
        clause = f" PARTITIONED BY ({', '.join(parts)})" if parts else ""
        clause = f" CLUSTER BY ({', '.join(clustered)})" if clustered else clause
        statement = f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {self.output.kind}{clause}"
        asked(self.session, statement + listed({**self._own, **self.output.properties}), self.output.of)
        if self.upsert is not None:
            self._show_current()

    def _show_current(self) -> None:
        """Make the view of what is not deleted, or say how to ask for that."""
        current = f"SELECT * FROM {self.name} WHERE NOT {DELETED}"  # noqa: S608 - quoted
        if self.output.table is None:
            _log.info("%s: what is there now is given by %s", self.output.of, current)
            return
        evolves = " WITH SCHEMA EVOLUTION" if int(self.session.version.partition(".")[0]) >= VIEWS_EVOLVE else ""
        try:
            view = quoted(*f"{self.output.table}{CURRENT}".split("."))
            self.session.sql(f"CREATE VIEW IF NOT EXISTS {view}{evolves} AS {current}")
        except Exception as error:  # noqa: BLE001 - of a catalog, which may have no views
            why = str(error).strip().splitlines()[0]
            _log.warning("%s: no view can be made (%s): what is there now is given by %s", self.output.of, why, current)

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Its columns, but for those that are generated."""
        ...

    def lacking(self, there: Sequence[str]) -> list[str]:
        """The columns that rows with these ones lack."""
        known = {each.lower() for each in there}
        return [each for each in self.names() if each.lower() not in known]

    @property
    def _own(self) -> Mapping[str, str]:
        """The properties of a new table that it has for itself."""
        if self.upsert is None:
            return {}
        return {**self.output.of_upserts, OWNER: self.upsert.owner, KEY: ", ".join(self.output.upsert)}

    def check_key(self, rows: "DataFrame") -> None:
        """`SettingError` where rows would meet others with which they are in no order, or keys of another type."""
        self._check_owner()
        there = {name.lower(): kind for name, kind in asked(self.session, f"TABLE {self.name}", self.output.of).dtypes}
        given = {name.lower(): kind for name, kind in rows.dtypes}
        for key in map(str.lower, self.output.upsert):
            if there.get(key) != given[key] and not {there.get(key), given[key]} <= INTEGERS:
                raise SettingError(
                    f"{self.output.of}: the column {key!r} of its key is of type {there.get(key)!r}, and that of the "
                    f"rows is {given[key]!r}: keys that are equal could not be told; cast it in a transform"
                )

    def _check_owner(self) -> None:
        rows = self.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        found = {row["key"]: row["value"] for row in rows if row["key"] in {OWNER, KEY}}
        own = {name: value for name, value in self._own.items() if name in {OWNER, KEY}}
        if found == own:
            return
        has = f"upserts of load {found[OWNER]!r} by {found.get(KEY)!r}" if OWNER in found else "rows that were added"
        asks = f"upserts of load {own[OWNER]!r} by {own[KEY]!r}" if own else "to add rows"
        raise SettingError(
            f"{self.output.of} has {has}, and this load asks for {asks}: a table of upserts belongs to one load, its "
            "ledger and its key; name another table, or set upsert= back"
        )

    def rows_of(self, range_name: str, batch: int) -> tuple[int, int]:
        counts = ("count(*) AS rows", f"count(DISTINCT {IDENTITY}) AS different")
        [row] = self.of_batch(range_name, batch).selectExpr(*counts).collect()
        return int(row["rows"]), int(row["different"])

    def of_batch(self, range_name: str, batch: int) -> "DataFrame":
        of_batch = f"{of_range([range_name])} AND {IDENTITY}.batch = {batch}"
        return self.sql(f"SELECT * FROM {self.name} WHERE {of_batch}")  # noqa: S608 - quoted

    def owned(self, names: Sequence[str]) -> tuple[int, int]:
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
