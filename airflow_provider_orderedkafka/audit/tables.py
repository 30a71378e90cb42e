"""Read the rows of a range in a table or in folders of files back, without Spark."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, fs

from ..core.commits import IDENTITY
from ..core.documents import Range, Report
from ..core.notation.spelling import listed
from ..core.order.positions import TopicPartition
from ..errors import OrderedKafkaError, SettingError
from ..kafka.provenance import WHOLE_RECORD
from .comparing import FORMATS, Found
from .files import PLACE, Batches, CannotReadError, files_of, opened, reachable
from .following import stops
from .messages import codes_of
from .numbers import NAMED, UNCOMPARED, Ints, hashed, of_headers, rows

COPIED: Final = (*PLACE, "order_time", "timestamp", "key", "value")

OWN: Final = ("key", "value")
"""The columns of a record that any table may have as they are."""

COMPARED: Final = ("time", "timestamp", "timestampType", "key", "value", "headers", "late")

_GONE: Final = -3
"""What no record has."""

OF_HADOOP: Final = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json")
UNFINISHED: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.gz)?\.metadata\.json")
"""Metadata in a Hadoop catalog, and what becomes that once it is renamed, or was left by a killed writer."""


def read_table(report: Report, found: Found) -> Found:
    """What was `found` in topics, with what its table or files have; raises `CannotReadError`."""
    to = report.destination
    assert to is not None
    called = to.called or report.range_id
    kind, _, place = to.output.partition(":")
    taking = Taking(report.range, stops(report), found, copied=to.copied)
    if kind in _LAKES:
        before = None if report.before is None else report.before.table
        lake = _Lake(place, to.location, called, "" if before is None else before.table)
        taking.take(_LAKES[kind](lake))
    elif kind in FORMATS:
        taking.take(files_of(kind, place, called, copied=to.copied))
    else:
        raise CannotReadError(f"{kind}:{place}: files of {kind} do not keep bytes and times as they are")
    kind, _, place = to.dead_letters.partition(":")
    if kind in _LAKES:
        taking.take(_LAKES[kind](_Lake(place, to.dead_letters_location, called)), dead=True)
    return taking.found


def whole_table(report: Report) -> Batches:
    """All rows of a range's table, at the version after the range; raises `CannotReadError`."""
    to, at = report.destination, None if report.after is None else report.after.table
    assert to is not None
    kind, _, place = to.output.partition(":")
    if at is None or kind not in _LAKES:
        raise CannotReadError(f"{to.output}: the report does not name the version of the table after the range")
    if at.version is not None:
        yield from _LAKES[kind](_Lake(place, to.location, id=at.table, version=at.version))


def read_others(columns: "OfOthers", loaded: Range) -> "Taking":
    """The rows of a range in a table of another program, as it is now.

    Raises `CannotReadError`, and `SettingError` if its columns do not say which record a row is of.
    """
    kind, _, place = columns.table.partition(":")
    taking = Taking(loaded, loaded.end.offsets, Found(rows(), ()), copied=True)
    taking.take_by_place(OF_OTHERS[kind](_Lake(place, "", choose=columns.choose)))
    return taking


@dataclass
class Taking:
    """Adds rows to those that were `found` of a range, and counts those `outside` of it.

    `nowhere` are the records that rows say to be of, in partitions that a topic of the range does not have.
    """

    loaded: Range
    stop: Mapping[TopicPartition, int]
    found: Found
    copied: bool
    outside: int = 0
    nowhere: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._codes = codes_of(self.loaded)
        self._places = list(self.found.places)
        self._at: dict[str, int] = {}
        self._spans = [range(start, self.stop[each]) for each, start in self.loaded.start.offsets.items()]
        self._nameless, self._silent, self._numbered = 0, 0, True

    def take(self, batches: Batches, *, dead: bool = False) -> None:
        for place, batch in batches:
            self._take(place, batch, dead=dead)
        self._settle()

    def take_by_place(self, batches: Batches) -> None:
        """Take rows whose columns say which record they are of, and of these alone key and value."""
        for place, batch in batches:
            mine, silent, others = self._mine(batch, shown(batch))
            nowhere = [TopicPartition(*row[:2]).at(row[2]) for row in others if self._is_nowhere(*row[:2])]
            self.nowhere += nowhere
            self.outside += len(others) - len(nowhere)
            self._nameless += silent
            self._add(place, mine, [*shown(mine), [0] * mine.num_rows], [0] * mine.num_rows, of_record(mine))
        self._settle()

    def _settle(self) -> None:
        self.found = replace(
            self.found,
            places=tuple(self._places),
            nameless=self._nameless,
            silent=self._silent,
            numbered=self._numbered,
        )

    def _take(self, place: str, batch: pa.RecordBatch, *, dead: bool) -> None:
        if IDENTITY in batch.schema.names:
            silent = pc.is_null(pc.struct_field(batch.column(IDENTITY), "range_id"))
            if silent.true_count:
                self._take_silent(place, batch.filter(silent), dead=dead)
                batch = batch.filter(pc.invert(silent))
            said = [pc.struct_field(batch.column(IDENTITY), name).to_pylist() for name in (*PLACE, "ordinal")]
            others = altered_columns(batch, said) if self.copied else [0] * batch.num_rows
            self._add(place, batch, said, others, self._compared(batch), dead=dead)
        elif {*COPIED} <= {*batch.schema.names} if self.copied else _says_where(batch):
            self._numbered &= self.copied
            zeros = [0] * batch.num_rows
            self._add(place, batch, [*shown(batch), zeros], zeros, self._compared(batch), dead=dead)
        else:
            self._nameless += batch.num_rows

    def _take_silent(self, place: str, batch: pa.RecordBatch, *, dead: bool) -> None:
        """Rows without an identity: in a copy their columns say which record one is of, and so of which range."""
        says = shown(batch) if self.copied and not dead else [[None] * batch.num_rows] * 3
        mine, silent, _ = self._mine(batch, says)
        self._silent += silent
        others = [1 << NAMED.index("identity")] * mine.num_rows
        self._add(place, mine, [*shown(mine), [0] * mine.num_rows], others, self._compared(mine), dead=dead)

    def _mine(
        self, batch: pa.RecordBatch, says: Sequence[list[Any]]
    ) -> tuple[pa.RecordBatch, int, list[tuple[str, int, int]]]:
        """The rows of the range by what their columns say, how many say nothing, and what the others say."""
        said = list(zip(*says, strict=True))
        whose = [None if None in row else self._read(*row) for row in said]
        others = [row for row, mine in zip(said, whose, strict=True) if mine is False]
        return batch.filter(pa.array([mine is True for mine in whose], pa.bool_())), whose.count(None), others

    def _is_nowhere(self, topic: str, partition: int) -> bool:
        """Whether the topic is one of the range, and has no such partition."""
        return topic in self.loaded.topics and (topic.encode(), partition) not in self._codes

    def _read(self, topic: str, partition: int, offset: int) -> bool:
        """Whether the range has read that offset."""
        code = self._codes.get((topic.encode(), partition), -1)
        return code >= 0 and offset in self._spans[code]

    def _add(
        self,
        place: str,
        batch: pa.RecordBatch,
        said: Sequence[list[Any]],
        others: Iterable[int],
        compared: Mapping[str, Iterable[int]],
        *,
        dead: bool = False,
    ) -> None:
        *sources, ordinals = said
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
            other=[0] * batch.num_rows if dead else others,
            **compared,
        )

    def _compared(self, batch: pa.RecordBatch) -> Mapping[str, Iterable[int]]:
        return compared_columns(batch) if self.copied else _nothing(batch)

    def _place(self, name: str) -> int:
        if not self._places or self._places[-1] != name:
            self._places.append(name)
        return len(self._places) - 1


def shown(batch: pa.RecordBatch) -> list[list[Any]]:
    """The columns that say which record a row is of; of one that its owner has dropped since, nothing."""
    names, nothing = batch.schema.names, [None] * batch.num_rows
    return [batch.column(name).to_pylist() if name in names else nothing for name in PLACE]


def altered_columns(batch: pa.RecordBatch, said: Sequence[Sequence[Any]]) -> Ints:
    """Of each row of a copy, a bit for each column that is another one than its identity says."""
    bits = np.zeros(batch.num_rows, np.int64)
    for bit, (here, there) in enumerate(zip(shown(batch), said, strict=False)):
        bits |= np.array([one != other for one, other in zip(here, there, strict=True)], np.int64) << bit
    return bits


def _says_where(batch: pa.RecordBatch) -> bool:
    """Whether each row says of which record it is, by the columns that a transform has kept for that."""
    columns = [batch.column(name) for name in PLACE if name in batch.schema.names]
    if len(columns) < len(PLACE) or any(column.null_count for column in columns):
        return False
    return all(fits(column.type) for fits, column in zip(_SAY_WHERE.values(), columns, strict=True))


def compared_columns(batch: pa.RecordBatch) -> dict[str, Iterable[int]]:
    """The columns that a plain copy is compared by; one that its owner has dropped since is like no record's."""
    names = {*batch.schema.names}

    def column(name: str, made: Callable[[pa.Array], Iterable[int]]) -> Iterable[int]:
        return made(batch.column(name)) if name in names else [_GONE] * batch.num_rows

    return {
        "time": column("order_time", milliseconds),
        "timestamp": column("timestamp", milliseconds),
        "key": column("key", hashed),
        "value": column("value", hashed),
        "timestampType": column("timestampType", _plain),
        "late": column("late", _plain),
        "headers": column("headers", _headers) if "headers" in names else [of_headers(())] * batch.num_rows,
    }


def _nothing(batch: pa.RecordBatch) -> dict[str, Iterable[int]]:
    return dict.fromkeys(COMPARED, [UNCOMPARED] * batch.num_rows)


def of_record(batch: pa.RecordBatch) -> dict[str, Iterable[int]]:
    """Key and value, where they are there, and nothing else."""
    there = [name for name in OWN if name in batch.schema.names]
    return {**_nothing(batch), **{name: hashed(batch.column(name)) for name in there}}


@dataclass
class OfOthers:
    """The columns of a table that another program wrote: which say a row's record, and which are as the record's.

    `apart` has why key or value cannot be compared.
    """

    table: str
    apart: dict[str, str] = field(default_factory=dict)

    def choose(self, schema: pa.Schema) -> list[str]:
        """The columns to read; `SettingError` if they do not say which record a row is of."""
        kinds = {each.name: each.type for each in schema}
        wrong = [name for name, fits in _SAY_WHERE.items() if name not in kinds or not fits(kinds[name])]
        if wrong:
            has = listed([f"{each.name} ({each.type})" for each in schema], _SHOWN)
            raise SettingError(
                f"{self.table}: rows are compared with records by the columns topic (text), partition and offset "
                f"(whole numbers); wrong or missing: {', '.join(map(repr, wrong))}; found {has}. Audit a table "
                "that has all three under these names"
            )
        why = {name: f"a column of {kinds[name]}" if name in kinds else "no such column" for name in OWN}
        self.apart = {name: why[name] for name in OWN if name not in kinds or not _is_raw(kinds[name])}
        return [*PLACE, *(name for name in OWN if name not in self.apart)]

    @property
    def note(self) -> str:
        """What was compared of each row, and what was not."""
        there = ", ".join([*PLACE, *(name for name in OWN if name not in self.apart)])
        missed = "".join(f"{name} ({why}), " for name, why in self.apart.items())
        return f"compared: {there}; not proved: {missed}order, timestamps, headers, other columns, who wrote a row"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_raw(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


_SAY_WHERE: Final = {"topic": _is_text, "partition": pa.types.is_integer, "offset": pa.types.is_integer}
_SHOWN: Final = 20


def milliseconds(column: pa.Array) -> Ints:
    """Times as Kafka has them; one that is null, or lies between two milliseconds, is no time of Kafka's."""
    unit, each = ("ns", 1_000_000) if getattr(column.type, "unit", "") == "ns" else ("us", 1_000)
    kept = column.cast(pa.timestamp(unit, "UTC"), safe=False).cast(pa.int64()).fill_null(-1)
    found, rest = np.divmod(kept.to_numpy(zero_copy_only=False), each)
    return np.where(rest == 0, found, -3)


def _plain(column: pa.Array) -> list[int]:
    return [_GONE if each is None else int(each) for each in column.to_pylist()]


def _headers(column: pa.Array) -> list[int]:
    lists = (tuple((pair.get("key"), pair.get("value")) for pair in each or ()) for each in column.to_pylist())
    return [of_headers(each) for each in lists]


@dataclass(frozen=True, slots=True)
class _Lake:
    """A table: its name, where it lies if that is not its name, what the range is called there, and the id it had.

    Where no range is `called`, it is read at its `version`, or as it is now, with the rows of all ranges. `choose` says
    which columns are read, where it is not for this module to say.
    """

    name: str
    location: str
    called: str = ""
    id: str = ""
    version: int | None = None
    choose: Callable[[pa.Schema], list[str]] | None = None

    def check_same(self, now: str) -> None:
        """`CannotReadError` if the table that has the name now is another one."""
        if self.id and self.id != now:
            raise CannotReadError(f"{self.name} is no longer the table that the range was loaded into")


MICROSECONDS: Final = "SET datafusion.execution.parquet.coerce_int96 = 'us'"
"""How times of Spark are read, which in nanoseconds would be other ones after 2262."""

_NESTED: Final = frozenset({IDENTITY, "headers"})

_OURS: Final = {name.lower(): name for name in (*COPIED, "timestampType", "headers", "late", IDENTITY)}


def _own_name(column: str) -> str:
    """As the rows of a load call a column of a table: to Spark, names are the same in any case."""
    return _OURS.get(column.lower(), column)


def _delta(lake: _Lake) -> Batches:
    if "/" not in lake.name and not lake.location:
        raise CannotReadError(
            f"delta:{lake.name} is a name in Spark's catalog, and the report does not say where the table is"
        )
    with _explained(f"delta:{lake.name}", "deltalake"):
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(reachable(lake.location or lake.name), version=lake.version)
        lake.check_same(table.metadata().id)
        known = pa.schema(table.schema().to_arrow())
        # What is nested is compared nowhere else, and where it has grown it cannot be read together.
        flat = [each.name for each in known if each.name.lower() in _NESTED or not pa.types.is_nested(each.type)]
        columns = pa.schema([known.field(name) for name in (lake.choose(known) if lake.choose else flat)])
        quoted = {_own_name(name): f'"{name.replace(chr(34), 2 * chr(34))}"' for name in columns.names}
        named, called = f"{quoted.get(IDENTITY, IDENTITY)}['range_id']", lake.called.replace("'", "''")
        which = f" WHERE {named} = '{called}' OR {named} IS NULL" if called else ""
        query = QueryBuilder()
        list(query.execute(MICROSECONDS))
        found = query.register("rows", table).execute(f"SELECT {', '.join(quoted.values())} FROM rows{which}")  # noqa: S608 - quoted
        for batch in pa.RecordBatchReader.from_stream(found):  # without what deletion vectors have deleted
            yield f"delta:{lake.name}", batch.select(columns.names).cast(columns).rename_columns([*quoted])


def _iceberg(lake: _Lake) -> Batches:
    with _explained(f"iceberg:{lake.name}", "pyiceberg"):
        from pyiceberg.expressions import AlwaysTrue, EqualTo, IsNull, Or

        table = _iceberg_table(lake)
        lake.check_same(str(table.metadata.table_uuid))
        named = f"{IDENTITY}.range_id"
        which = Or(EqualTo(named, lake.called), IsNull(named)) if lake.called else AlwaysTrue()
        names = lake.choose(table.schema().as_arrow()) if lake.choose else ["*"]
        found = table.scan(which, tuple(names), case_sensitive=False, snapshot_id=lake.version)
        for batch in found.to_arrow_batch_reader():
            yield f"iceberg:{lake.name}", batch.rename_columns([*map(_own_name, batch.schema.names)])


def _folder(lake: _Lake) -> Batches:
    """All files of Parquet in a folder; what their paths have as `name=value` is a column, too."""
    assert lake.choose is not None
    files, base = opened(lake.name)
    if files.get_file_info(f"{base}/_delta_log").type != fs.FileType.NotFound:
        raise SettingError(
            f"parquet:{lake.name} is a Delta table, where not every file counts: name it delta:{lake.name}"
        )
    with _explained(f"parquet:{lake.name}", "pyarrow"):
        found = _dataset(files, base)
        names = lake.choose(found.schema)
        for each in found.get_fragments():
            for batch in each.to_batches(schema=found.schema, columns=names):
                yield each.path.removeprefix(f"{base}/"), batch


def _dataset(files: fs.FileSystem, base: str) -> dataset.Dataset:
    """The files of a folder with the columns that their paths have, of which a topic is text, even if a number."""
    there = [each.path for each in files.get_file_info(fs.FileSelector(base, recursive=True)) if each.is_file]
    shown = [path for path in there if not any(map(_is_hidden, path.removeprefix(f"{base}/").split("/")))]

    def read(partitioning: Any) -> dataset.Dataset:
        how = {"filesystem": files, "partitioning": partitioning, "partition_base_dir": base}
        return dataset.dataset(shown, format="parquet", **how)

    guessed = read("hive").partitioning.schema
    kinds = [each.with_type(pa.string()) if each.name == "topic" else each for each in guessed]
    return read(dataset.partitioning(pa.schema(kinds), flavor="hive"))


def _is_hidden(name: str) -> bool:
    """As to Spark, to which `_day=1` is a value of a column, and `_temporary` is not there."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


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
    names = [name for name in names if not UNFINISHED.fullmatch(name)]
    numbers = {int(found[1]): name for name in names if (found := OF_HADOOP.fullmatch(name))}
    if not numbers or len(numbers) < len(names):
        return None
    return f"{reachable(location).rstrip('/')}/metadata/{numbers[max(numbers)]}"


@contextmanager
def _explained(output: str, package: str) -> Iterator[None]:
    """What a reader of tables says, as one error: they share no base."""
    try:
        yield
    except (OrderedKafkaError, GeneratorExit):
        raise
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise CannotReadError(f"{output}: to read it back, install {package} beside this package") from error
    except Exception as error:
        raise CannotReadError(f"{output} cannot be read here: {error}") from error


_LAKES: Final[Mapping[str, Callable[[_Lake], Batches]]] = {"delta": _delta, "iceberg": _iceberg}
OF_OTHERS: Final = {**_LAKES, "parquet": _folder}
"""The tables of other programs that can be read."""
