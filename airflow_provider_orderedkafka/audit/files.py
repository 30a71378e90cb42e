"""Read the files of a range back as Arrow batches, without Spark: those of formats that keep bytes and times.

They are found by their manifests. Tables are reached by the same locations.
"""

import json
import re
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyarrow import dataset, fs
from pyarrow import json as lines

from ..core.commits import MARK
from ..errors import OrderedKafkaError, SettingError
from ..storage import local_path, uri_of

PLACE: Final = ("topic", "partition", "offset")

Batches = Iterator[tuple[str, pa.RecordBatch]]
"""The rows of an output in order, each batch with the name of where it lies."""

_FORMATS: Final = {"parquet": dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us"), "orc": "orc"}
"""In nanoseconds, as Arrow reads the times that Spark writes, those of some centuries would be other ones."""

_MOMENT: Final = pa.timestamp("us", "UTC")
_TIME: Final = re.compile(r"\+?(\d{4,})(-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}.*)")
"""A time as Spark writes it by default; in another way it may have lost its milliseconds."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_CYCLE: Final = 146_097 * 86_400_000_000
"""The microseconds of 400 years, after which the calendar begins anew."""

_UNCOMPRESSED: Final = (".json", ".gz", ".bz2", ".zst")
"""The ends of names of files that Arrow uncompresses by them, or need not."""

_ALL: Final = 2**31 - 1
"""The most bytes that Arrow takes as one block: an object in two blocks is not read."""

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
    return uri_of(location) if path is None else str(path)


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
            yield from dataset.dataset(path, format=_FORMATS[kind], filesystem=files).to_batches(use_threads=False)
    except (pa.ArrowException, OSError, EOFError) as error:
        if "out of range" in str(error):
            raise CannotReadError(f"{path!r} has a time that cannot be read here: {error}") from error
        raise SettingError(f"{path!r} is no complete file of {kind}: {error}") from error


def _lines(files: fs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    """As many rows as the file has lines, with the places of their records, where they have these as a copy has."""
    with suppress(pa.ArrowInvalid):
        yield from _read_lines(files, path, _PLACE).to_batches()
        return
    yield pa.RecordBatch.from_pydict({"line": pa.nulls(_read_lines(files, path, pa.schema([])).num_rows)})


def _read_lines(files: fs.FileSystem, path: str, columns: pa.Schema) -> pa.Table:
    """The objects of a file of JSON, whatever white space is between them, and however long they are."""
    if not path.endswith(_UNCOMPRESSED):
        raise CannotReadError(f"{path!r} is compressed as only Hadoop does it")
    known = lines.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    with files.open_input_stream(path) as stream:
        return lines.read_json(stream, lines.ReadOptions(block_size=_ALL), known)


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
        raise CannotReadError(f"{path!r} cannot be read back: install fastavro and cramjam here, for Avro") from error
    with files.open_input_file(path) as stream:
        try:
            yield from (_copied_rows(list(block)) for block in block_reader(stream))
        except OverflowError as error:
            raise CannotReadError(f"{path!r} has a time that cannot be read here: {error}") from error
        except Exception as error:  # of fastavro, a codec or Python itself: none says that a file is damaged
            if "codec is supported" in str(error):
                raise CannotReadError(f"{path!r} cannot be read back: {error}") from error
            raise SettingError(f"{path!r} is no complete file of avro: {type(error).__name__}: {error}") from error


def _copied_rows(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
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
    found = [_microseconds(text) for text in texts]
    if found and found.count(None) == len(found) and any(texts):
        raise CannotReadError(f"{path!r}: its times are not in Spark's default format, found {texts[0]!r}")
    return pa.array(found, pa.int64()).cast(_MOMENT)


def _microseconds(text: str | None) -> int | None:
    """A time since the epoch. Of years beyond Python's, the calendar is that of 400 years before."""
    found = _TIME.fullmatch(text or "")
    if found is None:
        return None
    cycles = max(int(found[1]) - 9_600, 0) // 400
    try:
        since = datetime.fromisoformat(f"{int(found[1]) - 400 * cycles:04}{found[2]}") - _EPOCH
    except (ValueError, TypeError):  # of text that is no time, and of a time in no zone
        return None
    return since // timedelta(microseconds=1) + cycles * _CYCLE
