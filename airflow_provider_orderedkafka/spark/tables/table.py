"""What a table is to the writer of batches, and what a table format has to know to be one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from airflow_provider_orderedkafka.core.commits import IDENTITY, History, Seen
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput
from airflow_provider_orderedkafka.spark.tables.layout import asked, check_partitions, listed, of_range, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

LakeOutput = TypeVar("LakeOutput", IcebergOutput, DeltaOutput)


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a batch: how its range is called this time, the batch, and what the commit says of itself.

    `count` gives the number of rows, once they are written.
    """

    called: str
    batch: int
    name: str
    count: "Callable[[], int]"


class Table(Protocol):
    """A table to which a batch is added by one commit."""

    @property
    def identity(self) -> bool:
        """Whether its rows say where they came from."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether a batch is written in place of what is there of it, so that writing it again is always safe."""
        ...

    def prepare(self, rows: "DataFrame") -> None:
        """Make the table if it is missing; `SettingError` if such rows do not fit into it."""
        ...

    def seen(self) -> Seen:
        """The table as it is now, for the note."""
        ...

    def history(self, batch: int, seen: Seen | None) -> History:
        """The commits that may be this batch's, from the newest back to what was seen, as far as they are known."""
        ...

    def append(self, rows: "DataFrame", write: Write) -> None:
        """Add the rows of a batch by one commit, which has the write's name."""
        ...

    def rows_of(self, range_id: str, batch: int, /) -> tuple[int, int]:
        """How many rows of a batch there are, and how many different ones, by their identities."""
        ...

    def owned(self, range_id: str) -> tuple[int, int]:
        """How many rows say that they are of a range, and how many do not say of which."""
        ...

    def forget(self, range_id: str) -> None:
        """Delete the rows of a range, which is about to be loaded again."""
        ...


@dataclass(frozen=True, slots=True)
class LakeTable(Generic[LakeOutput]):
    """What a table of Iceberg and one of Delta have in common: names, how one is made, rows by their identities."""

    session: "SparkSession"
    output: LakeOutput
    replaces: bool = False

    @property
    def identity(self) -> bool:
        """Whether its rows say where they came from."""
        return self.output.identity

    @property
    def name(self) -> str:
        """The table, as SQL takes it."""
        return quoted(*str(self.output.table).split("."))

    def make(self, rows: "DataFrame", columns: str, parts: Sequence[str]) -> None:
        """Make the table, unless only one that is there is to be used."""
        if not self.output.create:
            raise SettingError(f"{self.output.of}: there is no such table, and create=False: create it")
        check_partitions(rows, self.output.partition_by, self.output.of)
        clause = f" PARTITIONED BY ({', '.join(parts)})" if parts else ""
        statement = f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {self.output.kind}{clause}"
        asked(self.session, statement + listed(self.output.properties), self.output.of)

    def rows_of(self, range_id: str, batch: int) -> tuple[int, int]:
        """How many rows of a batch there are, and how many different ones, by their identities."""
        counts = ("count(*) AS rows", f"count(DISTINCT {IDENTITY}) AS different")
        [row] = self.of_batch(range_id, batch).selectExpr(*counts).collect()
        return int(row["rows"]), int(row["different"])

    def of_batch(self, range_id: str, batch: int) -> "DataFrame":
        """The rows of a batch, by their identities."""
        return self.sql(f"SELECT * FROM {self.name} WHERE {of_range(range_id, batch)}")  # noqa: S608 - quoted

    def owned(self, range_id: str) -> tuple[int, int]:
        """How many rows say that they are of a range, and how many do not say of which."""
        counts = (f"count_if({of_range(range_id)}) AS own", f"count_if({IDENTITY} IS NULL) AS silent")
        [row] = self.sql(f"SELECT {', '.join(counts)} FROM {self.name}").collect()  # noqa: S608 - quoted
        return int(row["own"]), int(row["silent"])

    def forget(self, range_id: str) -> None:
        """Delete the rows of a range, by their identities."""
        self.sql(f"DELETE FROM {self.name} WHERE {of_range(range_id)}").collect()  # noqa: S608 - quoted

    def sql(self, statement: str) -> "DataFrame":
        """Run a statement on the table as it is now."""
        return self.session.sql(statement)
