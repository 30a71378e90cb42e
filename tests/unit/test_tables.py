"""A range that is loaded into a table again: its old rows go, whatever kills it, and no other's do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.interleaving import Killed
from support.loop import World
from support.small_lake import SmallTable, TableRow

from airflow_provider_orderedkafka.core.batches import Batch, Note, Tally
from airflow_provider_orderedkafka.core.commits import IDENTITY, name_of
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.spark.tables.table import Write
from airflow_provider_orderedkafka.spark.tables.writer import OutputTable, TableBefore


class Row(NamedTuple):
    """A row that says of which range it is, or nothing."""

    range_id: str | None
    offset: int

    def asDict(self) -> dict[str, Any]:  # noqa: N802 - as Spark's
        return {"offset": self.offset, IDENTITY: self.range_id and {"range_id": self.range_id, "batch": 1}}


class Rows(list[Row]):
    """Rows, as a table takes them."""

    def collect(self) -> list[Row]:
        return self


class Writer:
    """Appends a row for each offset of a batch, unless it has landed."""

    def __init__(self, table: SmallTable) -> None:
        self.output = OutputTable(table, "r1", "r1-again-1")

    def write(self, batch: Batch, _note: Note, before: TableBefore | None) -> Tally:
        [start], [end] = batch.start.offsets.values(), batch.end.offsets.values()
        if before is None or not before.landed:
            name = name_of(self.output.range_name, batch.number, "a")
            rows: Any = Rows(Row(self.output.range_name, offset) for offset in range(start, end))
            self.output.table.append(rows, Write(self.output.range_name, batch.number, name, lambda: end - start))
        return Tally(rows_emitted=end - start)


class Reload:
    """A range that is loaded again, into a table with these rows; a touch of the table may be an attempt's last."""

    def __init__(self, folder: Path, *rows: Row) -> None:
        self.left: int | None = None
        self.table = SmallTable(None, self._touch, lambda: 0, lambda: 0)
        self.table.rows = [TableRow("", row.asDict(), 0) for row in rows]
        self.world = World.at(folder)
        self.world.writer = Writer(self.table)  # type: ignore[assignment]  # into a table

    def run(self, left: int | None = None) -> None:
        self.left = left
        loop = self.world.run()
        if loop.error is not None:
            raise loop.error

    @property
    def rows(self) -> list[Row]:
        found = [row.values for row in self.table.rows]
        return [Row(each[IDENTITY] and each[IDENTITY]["range_id"], each["offset"]) for each in found]

    def _touch(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


@pytest.fixture
def reload(tmp_path: Path) -> Callable[..., Reload]:
    return lambda *rows: Reload(tmp_path, *rows)


OWN, AGAIN = ([Row(name, offset) for offset in range(30)] for name in ("r1", "r1-again-1"))
SILENT, OTHER = Row(None, 99), Row("other", 99)


@pytest.mark.parametrize("touches", range(9))
def test_a_reload_that_is_killed_at_any_touch_of_the_table_ends_with_each_row_once(reload, touches: int) -> None:
    load = reload(*OWN, SILENT, OTHER)
    with pytest.raises(Killed):
        load.run(touches)
    load.run()
    assert load.rows == [SILENT, OTHER, *AGAIN]


def test_what_an_attempt_of_a_reload_deletes_late_is_nothing_that_the_reload_wrote(reload) -> None:
    load = reload(*OWN, OTHER)
    load.run()
    assert load.rows == [OTHER, *AGAIN]
    load.table.forget(["r1"])
    assert load.rows == [OTHER, *AGAIN]


def test_a_reload_beside_rows_that_may_be_its_own_is_refused_each_time_and_deletes_nothing(reload) -> None:
    load = reload(SILENT, OTHER)
    for _ in range(2):
        with pytest.raises(LifecycleError, match="identity"):
            load.run()
    assert load.rows == [SILENT, OTHER]
