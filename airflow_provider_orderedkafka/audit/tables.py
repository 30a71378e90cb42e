"""Read the rows of a range in a table or in folders of files back, without Spark.

Files are found by their manifests, and read as Arrow batches: those of formats that keep bytes and times.
"""

import json
import re
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, fs
from pyarrow import json as lines

from ..core.commits import IDENTITY, MARK
from ..core.documents import Report
from ..errors import OrderedKafkaError, SettingError
from ..kafka.provenance import WHOLE_RECORD
from ..storage import local_path
from .comparing import FORMATS, Found
from .following import stops
from .messages import codes_of
from .numbers import NAMED, UNCOMPARED, Ints, hashed, of_headers

Batches = Iterator[tuple[str, pa.RecordBatch]]
"""The rows of an output in order, each batch with the name of where it lies."""

_MOMENT: Final = pa.timestamp("us", "UTC")
_TEXT: Final = pa.string()
_HEADERS: Final = pa.list_(pa.struct([("key", _TEXT), ("value", _TEXT)]))
_PLACE: Final = pa.schema([("topic", _TEXT), ("partition", pa.int32()), ("offset", pa.int64())])
_SMALL: Final = (("timestampType", pa.int32()), ("late", pa.bool_()))
_LINE: Final = pa.schema(
    [*((name, _TEXT) for name in ("key", "value", "timestamp", "order_time")), *_PLACE, *_SMALL, ("headers", _HEADERS)]
)
"""The columns of a plain copy, as a line of JSON has them."""
_ROW: Final = pa.schema(
    [
        *(("key", pa.binary()), ("value", pa.binary())),
        *(("timestamp", _MOMENT), ("order_time", _MOMENT)),
        *_PLACE,
        *_SMALL,
        ("headers", pa.list_(pa.struct([("key", _TEXT), ("value", pa.binary())]))),
    ]
)


class CannotReadError(OrderedKafkaError):
    """An output cannot be read back; what is in it is not known."""


def reachable(location: str) -> str:
    """A location as what reads without Hadoop calls it."""
    path = local_path(location)
    return location.replace("s3a://", "s3://", 1) if path is None else str(path)


def opened(location: str) -> tuple[fs.FileSystem, str]:
    path = reachable(location)
    try:
        files, base = fs.FileSystem.from_uri(path) if ":/" in path else (fs.LocalFileSystem(), path)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise CannotReadError(f"{location!r} cannot be opened here: {error}") from error
    return files, base.rstrip("/")


def files_of(kind: str, path: str, called: str, *, copied: bool) -> Batches:
    """The rows of the files that the manifests of a range list; of a transform's JSON, the places at most."""
    files, base = opened(path)
    for manifest in _manifests(files, f"{base}/_{MARK}/{called}"):
        for name in manifest["files"]:
            yield from ((name, batch) for batch in _batches(files, f"{base}/{name}", kind, copied=copied))


def _manifests(files: fs.FileSystem, folder: str) -> list[dict[str, Any]]:
    """The manifests of a range, in the order of its batches."""
    try:
        found = files.get_file_info(fs.FileSelector(folder))
        named = sorted((each for each in found if each.base_name.removesuffix(".json").isdecimal()), key=_number)
        return [json.loads(files.open_input_stream(each.path).read()) for each in named]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CannotReadError(f"the manifests in {folder!r} cannot be read here: {error}") from error


def _number(info: fs.FileInfo) -> int:
    return int(info.base_name.removesuffix(".json"))


def _batches(files: fs.FileSystem, path: str, kind: str, *, copied: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a file; none of one that is gone, as its rows are then."""
    found = files.get_file_info(path)
    if found.type == fs.FileType.NotFound or found.size == 0 or found.base_name.startswith(("_", ".")):
        return
    try:
        if kind == "json":
            yield from _copied_lines(files, path) if copied else _lines(files, path)
        elif kind == "avro":
            yield from _avro(files, path)
        else:
            yield from dataset.dataset(path, format=kind, filesystem=files).to_batches(use_threads=False)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise SettingError(f"{path!r} is no whole file of {kind}: {error}") from error


def _lines(files: fs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    """As many rows as the file has lines, with the places of their records, where they have these as a copy has."""
    with suppress(pa.ArrowInvalid):
        yield from _read_lines(files, path, _PLACE).to_batches()
        return
    with files.open_input_stream(path) as stream:  # uncompressed by its name
        count = sum(1 for line in stream.readall().splitlines() if line.strip())
    yield pa.RecordBatch.from_pydict({"line": pa.nulls(count)})


def _read_lines(files: fs.FileSystem, path: str, columns: pa.Schema) -> pa.Table:
    known = lines.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    with files.open_input_stream(path) as stream:
        return lines.read_json(stream, parse_options=known)


def _copied_lines(files: fs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a plain copy, as Spark writes them: bytes are base64, times are text, what is null is left out."""
    table = _read_lines(files, path, _LINE)
    made = {
        **{name: pa.array(map(_bytes, table.column(name).to_pylist()), pa.binary()) for name in ("key", "value")},
        **{name: _moments(path, table.column(name).to_pylist()) for name in ("timestamp", "order_time")},
        **{name: table.column(name) for name in (*PLACE, "timestampType", "late")},
        "headers": pa.array(map(_pairs, table.column("headers").to_pylist())),
    }
    yield from pa.table(made).to_batches()


def _avro(files: fs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    """The columns of a plain copy, as far as the rows have them as a copy has."""
    try:
        import cramjam  # noqa: F401 - Spark compresses with Snappy, which fastavro takes from there
        from fastavro import block_reader
    except ModuleNotFoundError as error:
        raise CannotReadError(f"{path!r}: to read Avro back, install fastavro and cramjam here") from error
    with files.open_input_file(path) as stream:
        try:
            yield from (_of_a_copy(list(block)) for block in block_reader(stream))
        except Exception as error:  # of fastavro, a codec or Python itself: none says that a file is damaged
            raise SettingError(f"{path!r} is no whole file of avro: {type(error).__name__}: {error}") from error


def _of_a_copy(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    columns = {name: [row[name] for row in rows] for name in _ROW.names if rows and name in rows[0]}
    made = {name: _typed(values, _ROW.field(name).type) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict({"row": pa.nulls(len(rows)), **made})


def _typed(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Values as a copy has them, or as they are."""
    try:
        return pa.array(values, wanted)
    except pa.ArrowException:
        return pa.array(map(str, values))


def _bytes(text: str | None) -> bytes | None:
    """What base64 stands for; text that is none, as it is: no record has that."""
    try:
        return None if text is None else b64decode(text, validate=True)
    except NoBase64:
        return b"no base64: " + str(text).encode()


def _pairs(headers: Sequence[dict[str, str | None]] | None) -> list[dict[str, Any]] | None:
    return None if headers is None else [{"key": each["key"], "value": _bytes(each["value"])} for each in headers]


def _moments(path: str, texts: Sequence[str | None]) -> pa.Array:
    """Times; null where there is none. Raises `CannotReadError` if they are written in another way altogether."""
    found = [_moment(text) for text in texts]
    if found and not any(found) and any(texts):
        raise CannotReadError(f"{path!r}: its times are not as Spark writes them by default, such as {texts[0]!r}")
    return pa.array(found, _MOMENT)


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


PLACE: Final = ("topic", "partition", "offset")
COPIED: Final = (*PLACE, "order_time", "timestamp", "key", "value")

COMPARED: Final = ("time", "timestamp", "timestampType", "key", "value", "headers", "late")

_GONE: Final = -3
"""What no record has."""

OF_HADOOP: Final = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json")


def read_table(report: Report, found: Found) -> Found:
    """What was `found` in topics, with what its table or files have; raises `CannotReadError`."""
    to = report.destination
    assert to is not None
    called = to.called or report.range_id
    kind, _, place = to.output.partition(":")
    taking = _Taking(report, found)
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
        raise CannotReadError(f"{to.output}: the report does not say at which version the range has left the table")
    yield from _LAKES[kind](_Lake(place, to.location, id=at.table, version=at.version))


@dataclass
class _Taking:
    """Adds rows to those that were found."""

    report: Report
    found: Found

    def __post_init__(self) -> None:
        self._codes = codes_of(self.report)
        self._copied = self.report.destination is not None and self.report.destination.copied
        self._places = list(self.found.places)
        self._at: dict[str, int] = {}
        starts = self.report.range.start.offsets
        self._spans = [range(starts[each], stop) for each, stop in stops(self.report).items()]
        self._nameless, self._silent, self._numbered = 0, 0, True

    def take(self, batches: Batches, *, dead: bool = False) -> None:
        for place, batch in batches:
            self._take(place, batch, dead=dead)
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
            others = others_of(batch, said) if self._copied else [0] * batch.num_rows
            self._add(place, batch, said, others, dead=dead)
        elif {*COPIED} <= {*batch.schema.names} if self._copied else _says_where(batch):
            self._numbered &= self._copied
            zeros = [0] * batch.num_rows
            self._add(place, batch, [*shown(batch), zeros], zeros, dead=dead)
        else:
            self._nameless += batch.num_rows

    def _take_silent(self, place: str, batch: pa.RecordBatch, *, dead: bool) -> None:
        """Rows without an identity: in a copy their columns say which record one is of, and so of which range."""
        says = shown(batch) if self._copied and not dead else [[None] * batch.num_rows] * 3
        whose = [None if None in row else self._read(*row) for row in zip(*says, strict=True)]
        self._silent += whose.count(None)
        mine = batch.filter(pa.array([each is True for each in whose], pa.bool_()))
        count = mine.num_rows
        self._add(place, mine, [*shown(mine), [0] * count], [1 << NAMED.index("identity")] * count, dead=dead)

    def _read(self, topic: str, partition: int, offset: int) -> bool:
        """Whether the range has read that offset."""
        code = self._codes.get((topic.encode(), partition), -1)
        return code >= 0 and offset in self._spans[code]

    def _add(
        self, place: str, batch: pa.RecordBatch, said: Sequence[list[Any]], others: Iterable[int], *, dead: bool
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
            **(compared_columns(batch) if self._copied else dict.fromkeys(COMPARED, [UNCOMPARED] * batch.num_rows)),
        )

    def _place(self, name: str) -> int:
        if not self._places or self._places[-1] != name:
            self._places.append(name)
        return len(self._places) - 1


def shown(batch: pa.RecordBatch) -> list[list[Any]]:
    """The columns that say which record a row is of; of one that its owner has dropped since, nothing."""
    names, nothing = batch.schema.names, [None] * batch.num_rows
    return [batch.column(name).to_pylist() if name in names else nothing for name in PLACE]


def others_of(batch: pa.RecordBatch, said: Sequence[Sequence[Any]]) -> Ints:
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
    return pa.types.is_string(columns[0].type) and all(pa.types.is_integer(column.type) for column in columns[1:])


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


def milliseconds(column: pa.Array) -> Ints:
    """Times as Kafka has them; one that is null, or lies between two milliseconds, is no time of Kafka's."""
    unit, each = ("ns", 1_000_000) if getattr(column.type, "unit", "") == "ns" else ("us", 1_000)
    kept = column.cast(pa.timestamp(unit, "UTC"), safe=False).cast(pa.int64()).fill_null(-1)
    found, rest = np.divmod(kept.to_numpy(zero_copy_only=False), each)
    return np.where(rest == 0, found, -3)


def _plain(column: pa.Array) -> list[int]:
    return [_GONE if each is None else int(each) for each in column.to_pylist()]


def _headers(column: pa.Array) -> list[int]:
    lists = (tuple((pair["key"], pair["value"]) for pair in each or ()) for each in column.to_pylist())
    return [of_headers(each) for each in lists]


@dataclass(frozen=True, slots=True)
class _Lake:
    """A table: its name, where it lies if that is not its name, what the range is called there, and the id it had.

    Where no range is `called`, it is read at its `version`, with the rows of all ranges.
    """

    name: str
    location: str
    called: str = ""
    id: str = ""
    version: int | None = None

    def check_same(self, now: str) -> None:
        """`CannotReadError` if the table that has the name now is another one."""
        if self.id and self.id != now:
            raise CannotReadError(f"{self.name} is another table now than the one that the range was loaded into")


_NESTED: Final = frozenset({IDENTITY, "headers"})


def _delta(lake: _Lake) -> Batches:
    if "/" not in lake.name and not lake.location:
        raise CannotReadError(
            f"delta:{lake.name}: a name in Spark's catalog, and the report does not say where the table lies"
        )
    with _explained(f"delta:{lake.name}", "deltalake"):
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(reachable(lake.location or lake.name), version=lake.version)
        lake.check_same(table.metadata().id)
        named, called = f"{IDENTITY}['range_id']", lake.called.replace("'", "''")
        which = f" WHERE {named} = '{called}' OR {named} IS NULL" if called else ""
        known = pa.schema(table.schema().to_arrow())
        # What is nested is compared nowhere else, and where it has grown it cannot be read together.
        columns = pa.schema([each for each in known if each.name in _NESTED or not pa.types.is_nested(each.type)])
        names = ", ".join(f'"{name.replace(chr(34), 2 * chr(34))}"' for name in columns.names)
        found = QueryBuilder().register("rows", table).execute(f"SELECT {names} FROM rows{which}")  # noqa: S608 - quoted
        for batch in pa.RecordBatchReader.from_stream(found):  # without what deletion vectors have deleted
            yield f"delta:{lake.name}", batch.select(columns.names).cast(columns)


def _iceberg(lake: _Lake) -> Batches:
    with _explained(f"iceberg:{lake.name}", "pyiceberg"):
        from pyiceberg.expressions import AlwaysTrue, EqualTo, IsNull, Or

        table = _iceberg_table(lake)
        lake.check_same(str(table.metadata.table_uuid))
        if not lake.called and lake.version is None:  # it had no snapshot yet
            return
        named = f"{IDENTITY}.range_id"
        which = Or(EqualTo(named, lake.called), IsNull(named)) if lake.called else AlwaysTrue()
        found = table.scan(row_filter=which, snapshot_id=lake.version)
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


_LAKES: Final[Mapping[str, Callable[[_Lake], Batches]]] = {"delta": _delta, "iceberg": _iceberg}
