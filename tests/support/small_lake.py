"""A table in this process, as much of Iceberg or Delta as a load meets, and loads whose outputs are such tables.

The package's own are the writer, the notes, the search in the history, and files in folders with their manifests.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import pytest

from airflow_provider_orderedkafka.core.commits import IDENTITY, Commit, History, Seen
from airflow_provider_orderedkafka.decoding.formats import Decode, Json
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.outputs import DeltaOutput, FilesOutput, IcebergOutput
from airflow_provider_orderedkafka.spark import table_sink
from airflow_provider_orderedkafka.spark.connector.sink_options import SinkOptions
from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState
from airflow_provider_orderedkafka.spark.tables.table import Write
from support.attempts import Load, World
from support.draws import Attempt, Change, Shape
from support.memory_state import MemoryState
from support.small_kafka import DEAD

FOLDER = "/lake/orders"
KEYS = (None, b'{"k": "a"}', b'{"k": "b"}', b"not JSON")
DECODE = Decode(key=Json("k string"), max_bad_records=1_000, dead_letters=DEAD)


@dataclass(frozen=True)
class TableShape(Shape):
    """What stays the same: what kind of table it is, whether its rows say where they came from, whether keys decode."""

    kind: Literal["iceberg", "delta", "files"] = "iceberg"
    identity: bool = True
    decoded: bool = False

    @property
    def output(self) -> IcebergOutput | DeltaOutput | FilesOutput:
        made = {
            "iceberg": lambda: IcebergOutput("lake.orders", identity=self.identity),
            "delta": lambda: DeltaOutput(FOLDER, identity=self.identity),
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
    A commit that an attempt hands over as it dies may be lost, or `flying`: it lands beside the next one, or before
    anybody finds another one of its batch. (One that lands after its batch was counted is nowhere promised to be told.)
    """

    identity: bool
    numbers: dict[str, int] | None
    touch: Callable[[], None]
    fate: Callable[[], int]
    writes: Callable[[], int]
    replaces: bool = False
    rows: list[TableRow] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    expired: int = 0
    forgot: bool = False
    late: bool = False
    flying: list[tuple[Write, list[TableRow]]] = field(default_factory=list)

    def prepare(self, _rows: Any) -> None:
        self.touch()

    def seen(self) -> Seen:
        self.touch()
        return Seen("t", self.commits[-1].version if self.commits else None)

    def history(self, _batch: int, _seen: Seen | None) -> History:
        self.touch()
        of_batches = {commit.name.rpartition("/")[0] for commit in self.commits if commit.name is not None}
        if any(write.name.rpartition("/")[0] in of_batches for write, _ in self.flying):
            self._arrive()
        return History("t", self.commits[self.expired :][::-1])

    def append(self, rows: Any, write: Write) -> None:
        found = [TableRow(write.called, row.asDict(), self.writes()) for row in rows.collect()]
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

    def rows_of(self, range_id: str, batch: int) -> tuple[int, int]:
        self.touch()
        said = [each for row in self.rows if (each := row.values[IDENTITY])["range_id"] == range_id]
        found = [tuple(each.values()) for each in said if each["batch"] == batch]
        return len(found), len(set(found))

    def owned(self, range_id: str) -> tuple[int, int]:
        self.touch()
        said = [row.values.get(IDENTITY) for row in self.rows]
        return sum(each is not None and each["range_id"] == range_id for each in said), said.count(None)

    def forget(self, range_id: str) -> None:
        self.touch()
        self.rows = [row for row in self.rows if (row.values.get(IDENTITY) or {}).get("range_id") != range_id]
        self._commit(None, 0)
        self.touch()

    def change(self, what: str, count: int) -> None:
        """What others do: they commit, such as a compaction does, and may let so many of the oldest commits expire.

        And a table may `forget` its transaction numbers.
        """
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
            if self.numbers.get(write.called, 0) >= write.batch:
                return
            self.numbers[write.called] = write.batch
        self.rows += rows
        self._commit(write.name, len(rows))

    def _commit(self, name: str | None, rows: int) -> None:
        parent = self.commits[-1].version if self.commits else None
        self.commits.append(Commit(7 * (len(self.commits) + 1) % 10_007, parent, name, rows))


class TableWorld(World):
    """Loads into one table; `stopped` says why a load cannot go on, if it cannot."""

    shape: TableShape

    def __init__(self, shape: TableShape) -> None:
        super().__init__(shape, 1)
        self.stopped: dict[int, str] = {}
        self.table = SmallTable(
            shape.identity,
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
            with self._tables():
                return super().run(attempt, calm=calm)
        except LifecycleError as error:
            self.stopped[attempt.load] = str(error)
            return False

    def change(self, change: Change) -> None:
        if change.what in ("another", "expire", "forget"):
            self.table.change(change.what, change.offset)
        else:
            super().change(change)

    @contextmanager
    def _tables(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for kind in (IcebergOutput, DeltaOutput):
                patch.setitem(table_sink._TABLES, kind, lambda *_: self.table)  # type: ignore[arg-type]  # it stands for both
            state = MemoryState(self.files, FOLDER, self._touch)
            patch.setattr(HadoopState, "of", staticmethod(lambda *_: state))
            yield

    def _arguments(self, attempt: Attempt, load: Load) -> Arguments:
        decode = DECODE if self.shape.decoded else None
        arguments = super()._arguments(attempt, load)
        sink = SinkOptions(arguments.source.kafka, dead_letter_topic=None if decode is None else DEAD)
        return replace(arguments, sink=sink, output=self.shape.output, decode=decode)

    def _writer(self, arguments: Arguments, frames: RangeFrames) -> Any:
        return table_sink.table_sink(arguments, frames)
