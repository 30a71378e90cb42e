"""A table in this process, as much of Iceberg or Delta as a load meets, and loads whose outputs are such tables.

The package's own are the writer, the notes, the search in the history, and files in folders with their manifests.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from airflow_provider_orderedkafka.core.commits import IDENTITY, Commit, History, TableVersion
from airflow_provider_orderedkafka.decoding.formats import Decode, Json
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.job import Allow, Job, Rows
from airflow_provider_orderedkafka.loads.loading import name_at
from airflow_provider_orderedkafka.outputs import DeltaOutput, FilesOutput, IcebergOutput
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.making import Arguments
from airflow_provider_orderedkafka.spark.table_sink import TABLES, table_sink
from airflow_provider_orderedkafka.spark.tables.columns import Columns
from airflow_provider_orderedkafka.spark.tables.table import Write
from airflow_provider_orderedkafka.spark.tables.table_formats import Files
from support.attempts import World
from support.draws import Attempt, Change, Shape
from support.memory_state import MemoryState
from support.small_kafka import DEAD
from support.small_loads import Load

FOLDER = "/lake/orders"
KEYS = (None, b'{"k": "a"}', b'{"k": "b"}', b"not JSON")
OWNERS = ("another", "expire", "forget", "replace", "empty")
"""What becomes of a table: a commit, its oldest ones go, its transaction numbers go, all of it, its identities."""
DECODE = Decode(key=Json("k string"))


@dataclass(frozen=True)
class TableShape(Shape):
    """What stays the same: what kind of table it is, and whether keys decode."""

    kind: Literal["iceberg", "delta", "files"] = "iceberg"
    decoded: bool = False

    @property
    def output(self) -> IcebergOutput | DeltaOutput | FilesOutput:
        made = {
            "iceberg": lambda: IcebergOutput("lake.orders"),
            "delta": lambda: DeltaOutput(FOLDER),
            "files": lambda: FilesOutput(FOLDER),
        }
        return made[self.kind]()

    def is_bad(self, key: bytes | None) -> bool:
        return self.decoded and key == KEYS[-1]


class TableRow(NamedTuple):
    """A row of a table, by whose commit it came, and by which write."""

    range_id: str
    values: dict[str, Any]
    write: int


@dataclass
class SmallTable:
    """A table with its history, of which the oldest `expired` commits are not known any more.

    Like Delta, one with `numbers` has a transaction number for each range, and leaves out a commit that is not newer.
    Its owner may replace it by itself, after which its history begins anew, and perhaps under another id; and may drop
    the column of identities and add it again.
    A commit that an attempt hands over as it dies may be lost, or `flying`: it lands beside the next one, or before
    anybody finds another one of its batch. (One that lands after its batch was counted is nowhere promised to be told.)
    """

    numbers: dict[str, int] | None
    touch: Callable[[], None]
    fate: Callable[[], int]
    writes: Callable[[], int]
    by_place: bool = False
    commits_once: bool = False
    location: str = ""
    rows: list[TableRow] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    versions: int = 0
    expired: int = 0
    id: str = "t"
    replaced: bool = False
    emptied: bool = False
    forgot: bool = False
    late: bool = False
    flying: list[tuple[Write, list[TableRow]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.numbers is not None:
            self._commit(None, 0)  # Delta's begins when it is made

    @property
    def unclear(self) -> bool:
        """Whether a load may not know by the history alone what it has written."""
        strange = self.numbers is None and any(commit.name is None for commit in self.commits[:1])
        return bool(self.expired) or self.replaced or strange

    def prepare(self, _rows: Any) -> Columns:
        self.touch()
        return Columns()

    def settle(self, _rows: Any) -> Columns:
        return Columns()

    def version(self, _batch: int) -> TableVersion:
        self.touch()
        return TableVersion(self.id, self.commits[-1].version if self.commits else None)

    def history(self, _batch: int, _seen: TableVersion | None) -> History:
        self.touch()
        of_batches = {commit.name.rpartition("/")[0] for commit in self.commits if commit.name is not None}
        if any(write.name.rpartition("/")[0] in of_batches for write, _ in self.flying):
            self._arrive()
        return History(self.id, self.commits[self.expired :][::-1])

    def append(self, rows: Any, write: Write) -> None:
        found = [TableRow(write.range_name, row.asDict(), self.writes()) for row in rows.collect()]
        if self.fate() % 2:
            self._arrive()
        try:
            self.touch()
        except BaseException:
            self.flying += [(write, found)] * (self.fate() % 2)
            raise
        self._land(write, found)
        self._arrive()
        self.touch()

    def rows_of(self, range_name: str, batch: int) -> tuple[int, int]:
        self.touch()
        said = [each for row in self.rows if (each := row.values[IDENTITY]) and each["range_id"] == range_name]
        found = [tuple(each.values()) for each in said if each["batch"] == batch]
        return len(found), len(set(found))

    def owned(self, names: Sequence[str]) -> tuple[int, int]:
        self.touch()
        said = [row.values.get(IDENTITY) for row in self.rows]
        return sum(each is not None and each["range_id"] in names for each in said), said.count(None)

    def forget(self, names: Sequence[str]) -> None:
        self.touch()
        self.rows = [row for row in self.rows if (row.values.get(IDENTITY) or {}).get("range_id") not in names]
        self._commit(None, 0)
        self.touch()

    def change(self, what: str, count: int) -> None:
        """What others do: they commit, such as a compaction does, and may let so many of the oldest commits expire.

        And a table may `forget` its transaction numbers.
        """
        if what == "replace" and self.numbers is None:
            self.commits, self.expired, self.replaced = [], 0, True
            self.id += "'" * (count % 2)
        if what == "empty":
            self.rows = [row._replace(values={**row.values, IDENTITY: None}) for row in self.rows]
            self.emptied |= bool(self.rows)
        self._commit(None, 0)
        if what == "forget" and self.numbers:
            self.numbers.clear()
            self.forgot = True
        if what == "expire":
            self.expired = min(self.expired + count, len(self.commits) - 1)

    def _arrive(self) -> None:
        self.late |= bool(self.flying)
        for write, rows in self.flying:
            self._land(write, rows)
        self.flying.clear()

    def _land(self, write: Write, rows: list[TableRow]) -> None:
        if self.numbers is not None:
            if self.numbers.get(write.range_name, 0) >= write.batch:
                return
            self.numbers[write.range_name] = write.batch
        self.rows += rows
        self._commit(write.name, len(rows))

    def _commit(self, name: str | None, rows: int) -> None:
        parent = self.commits[-1].version if self.commits else None
        self.versions += 1  # no snapshot of Iceberg has another's number, in whatever history
        self.commits.append(Commit(7 * self.versions % 10_007, parent, name, rows))


class TableWorld(World):
    """Loads into one table; `stopped` says why a load cannot go on, if it cannot."""

    shape: TableShape

    def __init__(self, shape: TableShape) -> None:
        super().__init__(shape, 1)
        self.stopped: dict[int, str] = {}
        self.table = SmallTable(
            {} if shape.kind == "delta" else None,
            lambda: self._touch("output"),
            lambda: next(self._fates),
            lambda: self.write,
        )

    def rows(self) -> Iterator[TableRow]:
        """The rows of the table, or of the files that manifests list."""
        if self.shape.kind != "files":
            yield from self.table.rows
            return
        for name, text in self.files.items():
            if name.endswith(".json"):
                for file in json.loads(text)["files"]:
                    for row in self.files[f"{FOLDER}/{file}"]:
                        yield TableRow(name.split("/")[-2], row.asDict(), 0)

    def run(self, attempt: Attempt, *, calm: bool = False) -> bool:
        if attempt.load in self.stopped:
            return False
        try:
            return super().run(attempt, calm=calm)
        except LifecycleError as error:
            self.stopped[attempt.load] = str(error)
            return False

    def change(self, change: Change) -> None:
        if change.what in OWNERS:
            self.table.change(change.what, change.offset)
        else:
            super().change(change)

    def _arguments(self, attempt: Attempt, load: Load) -> Arguments:
        rows = Rows(decode=DECODE, bad_records=Allow(1_000, to=DEAD)) if self.shape.decoded else Rows()
        return replace(super()._arguments(attempt, load), job=Job(self.shape.output, rows))

    def _writer(self, arguments: Arguments, frames: RangeFrames) -> Any:
        return table_sink(arguments, frames, self.outputs, dict.fromkeys(TABLES, self._table))

    def _table(self, frames: RangeFrames, output: Any, checkpoint: str) -> Any:
        if not isinstance(output, FilesOutput):
            return self.table
        state: Any = MemoryState(self.files, FOLDER, self._touch)
        return Files(state, output, name_at(checkpoint, frames.loaded.id))
