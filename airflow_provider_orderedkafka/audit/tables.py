"""Read the rows of a range in a table or in files back, without Spark."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import fs

from airflow_provider_orderedkafka.core.commits import IDENTITY
from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.kafka.provenance import WHOLE_RECORD

from .comparing import Found
from .folders import FORMATS, Batches, CannotReadError, files_of, opened, reachable
from .messages import codes_of
from .numbers import UNCOMPARED, Ints, hashed, of_headers

PLACE: Final = ("topic", "partition", "offset")
COPIED: Final = (*PLACE, "order_time", "timestamp", "key", "value")

COMPARED: Final = ("time", "timestamp", "key", "value", "headers")

OF_HADOOP: Final = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json")


def read_table(report: Report, found: Found) -> Found:
    """The range's rows in its table or files, with its dead letters, where those in a topic were found already.

    Raises `CannotReadError` if they cannot be read here.
    """
    to = report.destination
    assert to is not None
    kind, _, place = to.output.partition(":")
    taking = _Taking(report, found)
    if kind in _LAKES:
        before = None if report.before is None else report.before.table
        lake = _Lake(place, to.location, _called(report), "" if before is None else before.table)
        taking.take(_LAKES[kind](lake))
    elif kind in FORMATS:
        taking.take(files_of(kind, place, _called(report), copied=to.copied))
    else:
        raise CannotReadError(f"{kind}:{place}: files of {kind} do not keep bytes and times as they are")
    kind, _, place = to.dead_letters.partition(":")
    if kind in _LAKES:
        taking.take(_LAKES[kind](_Lake(place, to.dead_letters_location, _called(report))), dead=True)
    return taking.found


@dataclass
class _Taking:
    """Adds rows to those that were found."""

    report: Report
    found: Found

    def __post_init__(self) -> None:
        self._codes = codes_of(self.report)
        self._places = list(self.found.places)
        self._at: dict[str, int] = {}
        self._nameless, self._numbered = 0, True

    def take(self, batches: Batches, *, dead: bool = False) -> None:
        """Add the rows of a table, or its dead letters."""
        for place, batch in batches:
            self._take(place, batch, dead=dead)
        nameless = self.found.nameless + self._nameless
        self.found = replace(self.found, places=tuple(self._places), nameless=nameless, numbered=self._numbered)
        self._nameless = 0

    def _take(self, place: str, batch: pa.RecordBatch, *, dead: bool) -> None:
        copied = _is_copied(self.report)
        if IDENTITY in batch.schema.names:
            source, ordinals = batch.column(IDENTITY), batch.column(IDENTITY).field("ordinal").to_pylist()
            sources = [source.field(name).to_pylist() for name in PLACE]
        elif {*COPIED} <= {*batch.schema.names} if copied else _says_where(batch):
            self._numbered &= copied
            sources, ordinals = [batch.column(name).to_pylist() for name in PLACE], [0] * batch.num_rows
        else:
            self._nameless += batch.num_rows
            return
        begin = self._at.get(place, 0)
        self._at[place] = begin + batch.num_rows
        codes = [self._codes.get((str(topic).encode(), number), -1) for topic, number in zip(*sources[:2], strict=True)]
        self.found.columns.extend(  # type: ignore[union-attr]  # what was found in topics grows
            code=codes,
            offset=[-1 if each is None else each for each in sources[2]],
            ordinal=[WHOLE_RECORD if dead or each is None else each for each in ordinals],
            dead=[dead] * batch.num_rows,
            place=[self._place(place)] * batch.num_rows,
            at=range(begin, begin + batch.num_rows),
            **(_compared(batch) if copied else dict.fromkeys(COMPARED, [UNCOMPARED] * batch.num_rows)),
        )

    def _place(self, name: str) -> int:
        if not self._places or self._places[-1] != name:
            self._places.append(name)
        return len(self._places) - 1


def _says_where(batch: pa.RecordBatch) -> bool:
    """Whether each row says of which record it is, by the columns that a transform has kept for that."""
    columns = [batch.column(name) for name in PLACE if name in batch.schema.names]
    if len(columns) < len(PLACE) or any(column.null_count for column in columns):
        return False
    return pa.types.is_string(columns[0].type) and all(pa.types.is_integer(column.type) for column in columns[1:])


def _is_copied(report: Report) -> bool:
    return report.destination is not None and report.destination.copied


def _compared(batch: pa.RecordBatch) -> dict[str, Iterable[int]]:
    """The columns that a plain copy is compared by; one that its owner has dropped since is 0."""
    names = {*batch.schema.names}

    def column(name: str, made: Callable[[pa.Array], Iterable[int]]) -> Iterable[int]:
        return made(batch.column(name)) if name in names else [0] * batch.num_rows

    return {
        "time": column("order_time", _milliseconds),
        "timestamp": column("timestamp", _milliseconds),
        "key": column("key", hashed),
        "value": column("value", hashed),
        "headers": column("headers", _headers) if "headers" in names else [of_headers(())] * batch.num_rows,
    }


def _milliseconds(column: pa.Array) -> Ints:
    """Times as Kafka has them; one that is null, or lies between two milliseconds, is no time of Kafka's."""
    kept = column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64()).fill_null(-1)
    found, rest = np.divmod(kept.to_numpy(zero_copy_only=False), 1_000)
    return np.where(rest == 0, found, -3)


def _headers(column: pa.Array) -> list[int]:
    lists = (tuple((pair["key"], pair["value"]) for pair in each or ()) for each in column.to_pylist())
    return [of_headers(each) for each in lists]


@dataclass(frozen=True, slots=True)
class _Lake:
    """A table: its name, where it lies if that is not its name, what the range is called there, and the id it had."""

    name: str
    location: str
    called: str
    id: str = ""

    def check_same(self, now: str) -> None:
        """`CannotReadError` if the table that has the name now is another one."""
        if self.id and self.id != now:
            raise CannotReadError(f"{self.name} is another table now than the one that the range was loaded into")


def _delta(lake: _Lake) -> Batches:
    """The rows of a range in a Delta table."""
    if "/" not in lake.name and not lake.location:
        raise CannotReadError(
            f"delta:{lake.name}: a name in Spark's catalog, and the report does not say where the table lies"
        )
    with _explained(f"delta:{lake.name}", "deltalake"):
        from deltalake import DeltaTable
        from pyarrow.dataset import field

        table = DeltaTable(reachable(lake.location or lake.name))
        lake.check_same(table.metadata().id)
        for batch in table.to_pyarrow_dataset().to_batches(filter=field(IDENTITY, "range_id") == lake.called):
            yield f"delta:{lake.name}", batch


def _iceberg(lake: _Lake) -> Batches:
    """The rows of a range in an Iceberg table."""
    with _explained(f"iceberg:{lake.name}", "pyiceberg"):
        from pyiceberg.expressions import EqualTo

        table = _iceberg_table(lake)
        lake.check_same(str(table.metadata.table_uuid))
        found = table.scan(row_filter=EqualTo(f"{IDENTITY}.range_id", lake.called))
        for batch in found.to_arrow_batch_reader():
            yield f"iceberg:{lake.name}", batch


def _iceberg_table(lake: _Lake) -> Any:
    """The table, by its newest metadata if its catalog is a folder, else by the catalog that PyIceberg knows."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import StaticTable

    newest = _newest_metadata(lake.location) if lake.location else None
    if newest is not None:
        return StaticTable.from_metadata(newest)
    catalog, _, name = lake.name.partition(".")
    return load_catalog(catalog).load_table(name)


def _newest_metadata(location: str) -> str | None:
    """The newest metadata of a table in Hadoop's catalog, which numbers them; None in any other catalog."""
    files, base = opened(location)
    there = files.get_file_info(fs.FileSelector(f"{base}/metadata", allow_not_found=True))
    names = [each.base_name for each in there if each.base_name.endswith(".metadata.json")]
    numbers = {int(found[1]): name for name in names if (found := OF_HADOOP.fullmatch(name))}
    if not numbers or len(numbers) < len(names):
        return None
    return f"{reachable(location).rstrip('/')}/metadata/{numbers[max(numbers)]}"


@contextmanager
def _explained(output: str, package: str) -> Iterator[None]:
    """What a reader of tables says, as one error: they share no base."""
    try:
        yield
    except (CannotReadError, GeneratorExit):
        raise
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise CannotReadError(f"{output}: to read it back, install {package} beside this package") from error
    except Exception as error:
        raise CannotReadError(f"{output} cannot be read here: {error}") from error


def _called(report: Report) -> str:
    return (report.destination.called if report.destination else "") or report.range_id


_LAKES: Final[Mapping[str, Callable[[_Lake], Batches]]] = {"delta": _delta, "iceberg": _iceberg}
