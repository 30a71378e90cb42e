"""Read topics in time order, over all their partitions, without Spark or Airflow.

    orderedkafka read orders refunds --bootstrap-servers localhost:9092 --start -2h
    orderedkafka read orders --bootstrap-servers localhost:9092 --around 'orders[3]@1042'
    orderedkafka read orders --config client.properties --output orders.parquet
    orderedkafka read orders-dead --bootstrap-servers localhost:9092 --headers

Prints a table on a terminal and JSON lines elsewhere, and writes a file as its name ends, unless --format says
otherwise. Stops quietly when the program that it is piped into does.
"""

import argparse
import json
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import chain, islice
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from ...core.notation.spelling import counted
from ...core.order.positions import whole_number
from ...errors import DocumentError, SettingError
from ...kafka.provenance import ERROR_HEADER, read_provenance
from ...storage import TEMPORARY

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from ...reader import Batches

FORMATS: Final = ("table", "json", "jsonl", "arrow", "parquet")
AROUND: Final = 10
"""How many records are shown before and after the one that --around names, unless --limit says otherwise."""

MARKERS: Final = 50
"""How many offsets more are looked at around a record, since some hold none."""

WIDER: Final = 8

WIDEST: Final = 60
"""Characters of a cell of a table: what is longer is cut there, but for what a load says of a record."""

_PLACE: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)\[(?P<partition>\d+)\]@(?P<offset>\d+)")
_BAR_SECONDS: Final = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "topics", nargs="+", metavar="TOPIC", help="topics to read; with --pattern one regular expression"
    )
    parser.add_argument("--pattern", action="store_true", help="read the topics whose whole name matches TOPIC")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-b", "--bootstrap-servers", metavar="SERVERS", help="the brokers, such as localhost:9092")
    where.add_argument("--kafka-conn-id", metavar="ID", help="an Airflow connection to Kafka")
    where.add_argument("--config", type=Path, metavar="FILE", help="librdkafka's settings, as JSON or name=value lines")
    add_places(parser)
    parser.add_argument("--around", metavar="RECORD", help="the records before and after one, such as orders[3]@1042")
    parser.add_argument("-n", "-c", "--limit", type=_count, metavar="ROWS", help="the most records to read")
    parser.add_argument("--follow", action="store_true", help="go on reading as records come")
    parser.add_argument(
        "--grace", metavar="TIME", help="with --follow: how long to wait for older records, such as 10s"
    )
    parser.add_argument("--columns", metavar="NAMES", help="these columns only, separated by commas, in this order")
    parser.add_argument(
        "--headers",
        action="store_true",
        help="add the headers; for what a load wrote also its source record, and why it is a dead letter",
    )
    parser.add_argument(
        "--decode", metavar="JSON", help='such as \'{"value": {"kind": "json", "schema": "order long"}}\''
    )
    parser.add_argument("--registry", metavar="URL", help="the schema registry, where --decode names one")
    parser.add_argument("-f", "--format", choices=FORMATS, help="the format to print (default: see above)")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="as --format json")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write to a file, with a progress bar on a terminal"
    )


def add_places(parser: "argparse._ActionsContainer") -> None:
    """Where reading begins and ends."""
    parser.add_argument(
        *("-o", "--start"),
        default="earliest",
        metavar="PLACE",
        help="where to begin: earliest, latest, -2h, 2026-01-31T12:00:00Z, or offsets as JSON (default: earliest)",
    )
    parser.add_argument("--end", default="latest", metavar="PLACE", help="where to end, exclusive (default: latest)")


def run(arguments: argparse.Namespace) -> int:
    kind = arguments.format or _usual(arguments.output)
    if kind in {"arrow", "parquet"} and arguments.output is None and sys.stdout.isatty():
        raise SettingError(
            f"--format {kind} is not for a terminal: name a file with --output, or pipe it into a program"
        )
    with ExitStack() as open_:
        if arguments.around is None:
            batches = open_.enter_context(_batches(arguments, arguments.start, arguments.end))
            some = _limited(batches, arguments.limit)
        else:
            batches, some = _around(arguments)
        if arguments.output is None:
            _WRITERS[kind](sys.stdout.buffer, batches, some)
        else:
            shown = _with_a_bar(some, batches) if sys.stderr.isatty() else some
            if arguments.follow:  # it has no end to wait for, but its first records
                shown = chain(list(islice(shown, 1)), shown)
            as_it_comes = arguments.follow or (arguments.output.exists() and not arguments.output.resolve().is_file())
            opened = _opened if as_it_comes else _replaced
            _WRITERS[kind](open_.enter_context(opened(arguments.output)), batches, shown)
    return 0


def _opened(output: Path, mode: str = "wb") -> BinaryIO:
    try:
        return cast("BinaryIO", output.open(mode))
    except OSError as error:
        raise SettingError(f"--output {str(output)!r} cannot be written: {error.strerror}") from error


@contextmanager
def _replaced(output: Path) -> Iterator[BinaryIO]:
    """A file that becomes this one when it is whole; a read that breaks off leaves what was there."""
    place = output.resolve()  # a link stays one
    partial = place.with_name(place.name + TEMPORARY)
    try:
        with _opened(partial) as target:
            if place.exists():
                _opened(place, "ab").close()  # it may be meant to stay
                shutil.copymode(place, partial)
            yield target
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)


def _usual(output: Path | None) -> str:
    if output is None:
        return "table" if sys.stdout.isatty() else "jsonl"
    ending = output.suffix.removeprefix(".")
    return ending if ending in FORMATS else "jsonl"


def _batches(arguments: argparse.Namespace, start: Any, end: Any) -> "Batches":
    from ...decoding.formats import Decode
    from ...reader import read

    return read(
        _servers(arguments),
        _topics(arguments),
        start=start,
        end=end,
        columns=_columns(arguments),
        headers=arguments.headers,
        decode=None if arguments.decode is None else Decode.from_text(arguments.decode),
        registry=arguments.registry,
        follow=arguments.follow,
        grace=arguments.grace,
    )


def _columns(arguments: argparse.Namespace) -> list[str] | None:
    return None if arguments.columns is None else [name.strip() for name in arguments.columns.split(",")]


def _count(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"it must be a whole number from 1 on, found {text!r}")
    return number


def _topics(arguments: argparse.Namespace) -> "list[str] | re.Pattern[str]":
    if not arguments.pattern:
        return list(arguments.topics)
    if len(arguments.topics) > 1:
        raise SettingError(f"--pattern takes one regular expression, found {len(arguments.topics)}: join them with '|'")
    try:
        return re.compile(arguments.topics[0])
    except re.error as error:
        raise SettingError(f"--pattern: {arguments.topics[0]!r} is not a regular expression: {error}") from error


def _servers(arguments: argparse.Namespace) -> str | Mapping[str, Any]:
    if arguments.bootstrap_servers is not None:
        return str(arguments.bootstrap_servers)
    if arguments.config is not None:
        return _settings(arguments.config)
    from ...hooks.ordered_kafka import OrderedKafkaHook
    from .at_airflow import airflow

    with airflow():
        return OrderedKafkaHook(arguments.kafka_conn_id).config


def _settings(path: Path) -> dict[str, Any]:
    """The settings in a file; none of its values is shown, since some are secrets."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"--config {str(path)!r} cannot be read: {error}") from error
    if text.lstrip().startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise SettingError(f"--config {str(path)!r} is not JSON: {error}") from None
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.strip().partition("=")
        if name and not name.startswith("#"):
            if not equals:
                raise SettingError(f"--config {str(path)!r}, line {number}: expected name=value")
            found[name.strip()] = value.strip()
    return found


def _limited(batches: "Iterable[RecordBatch]", most: int | None) -> "Iterator[RecordBatch]":
    for batch in batches:
        yield batch.slice(0, most)
        if most is not None:
            most -= batch.num_rows
            if most <= 0:
                return


def _named_record(arguments: argparse.Namespace) -> tuple[str, int, int]:
    """Topic, partition and offset of the record that --around names."""
    found = _PLACE.fullmatch(arguments.around)
    if found is None:
        raise SettingError(f"--around names a record, such as 'orders[3]@1042', found {arguments.around!r}")
    return found["topic"], int(found["partition"]), int(found["offset"])


def _check_around(arguments: argparse.Namespace) -> None:
    columns = _columns(arguments)
    if arguments.follow or (arguments.start, arguments.end) != ("earliest", "latest"):
        raise SettingError("--around says where to begin and to end: leave out --start, --end and --follow")
    if columns is not None and not {"topic", "partition", "offset"} <= {*columns}:
        raise SettingError(
            f"--around finds its record by topic, partition and offset, but --columns names {', '.join(columns)}: add "
            "topic, partition and offset"
        )


def _around(arguments: argparse.Namespace) -> "tuple[Batches, Iterator[RecordBatch]]":
    """The records before and after one, and who read them: from further and further away, as many offsets hold none."""
    import pyarrow as pa

    from ...reader import around

    record, most = _named_record(arguments), arguments.limit or AROUND
    _check_around(arguments)
    reach, before = most + MARKERS, tuple[Any, Any]((None, None))
    while True:
        start, end = around(_servers(arguments), _topics(arguments), record, reach)
        with _batches(arguments, start, end) as batches:
            table = pa.Table.from_batches(list(batches), schema=batches.schema)
        named = zip(*(table.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        row = list(named).index(record)
        # What has not moved is the log's own start or end.
        if (row >= most or start == before[0]) and (table.num_rows - row > most or end == before[1]):
            first = max(row - most, 0)
            return batches, iter(table.slice(first, row - first + most + 1).to_batches())
        reach, before = reach * WIDER, (start, end)


def _with_a_bar(batches: "Iterable[RecordBatch]", reading: "Batches") -> "Iterator[RecordBatch]":
    """The same batches, with how far they are, on the terminal."""
    began = shown = monotonic()
    for batch in batches:
        yield batch
        if monotonic() - shown > _BAR_SECONDS:
            shown = monotonic()
            speed = reading.rows / (shown - began)
            print(
                f"\r{counted(reading.rows, 'row')}, {speed:,.0f} a second, {reading.left:,} offsets left \x1b[K",
                end="",
                file=sys.stderr,
            )
    print(f"\r{counted(reading.rows, 'row')} in {monotonic() - began:.1f} s\x1b[K", file=sys.stderr)


def _text(value: Any) -> Any:
    """A value as JSON: bytes as text where they are, and in base64 elsewhere; numbers that JSON has not as texts."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode()}
    if isinstance(value, datetime):
        unit = "microseconds" if value.microsecond % 1_000 else "milliseconds"
        return value.isoformat(timespec=unit).replace("+00:00", "Z")
    if isinstance(value, float) and not isfinite(value):
        return {inf: "Infinity", -inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, list | tuple):  # a map is a list of pairs
        return [_text(each) for each in value]
    return {name: _text(each) for name, each in value.items()} if isinstance(value, dict) else value


def _values(batch: "RecordBatch") -> list[dict[str, Any]]:
    try:
        return list(batch.to_pylist())
    except OverflowError:  # Python has no moment after the year 9999
        names = batch.schema.names
        return [dict(zip(names, map(_value, row), strict=True)) for row in zip(*batch.columns, strict=True)]


def _value(scalar: Any) -> Any:
    """An Arrow scalar as Python has it, and a moment that Python does not have as text."""
    import pyarrow as pa

    with suppress(OverflowError):
        return scalar.as_py()
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(each) for name, each in scalar.items()}
    if isinstance(scalar, pa.MapScalar):
        return [tuple(map(_value, each.values())) for each in scalar.values]
    if isinstance(scalar, pa.ListScalar):
        return [_value(each) for each in scalar.values]
    return f"{scalar.value // 1_000} ms" if isinstance(scalar, pa.TimestampScalar) else f"{scalar.value} days"


def _rows(batches: "Iterable[RecordBatch]") -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in _values(batch):
            origin = _origin([(each["key"], each["value"]) for each in row.get("headers") or ()])
            yield origin | {name: _text(value) for name, value in row.items()}


def _origin(headers: list[tuple[str, bytes | None]]) -> dict[str, str]:
    """What a load says of what it wrote: from which record and range it is, and why it is a dead letter."""
    origin = {}
    with suppress(DocumentError):  # a header of that name, but of somebody else
        found = read_provenance(headers)
        if found is not None and found.source is not None and found.offset is not None:
            origin["from"] = found.source.at(found.offset)
        if found is not None:
            origin["range"] = found.range_id
    errors = [value for name, value in headers if name == ERROR_HEADER and value is not None]
    return origin | ({"error": errors[-1].decode(errors="replace")} if errors else {})


def _jsonl(out: BinaryIO, _: "Batches", batches: "Iterable[RecordBatch]") -> None:
    for row in _rows(batches):
        out.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")
        out.flush()


def _json(out: BinaryIO, _: "Batches", batches: "Iterable[RecordBatch]") -> None:
    between = b"[\n"
    for row in _rows(batches):
        out.write(between + json.dumps(row, ensure_ascii=False, default=str).encode())
        between = b",\n"
    out.write(b"[]\n" if between == b"[\n" else b"\n]\n")


def _table(out: BinaryIO, _: "Batches", batches: "Iterable[RecordBatch]") -> None:
    """A line for each record, with a head; as wide as the terminal at most."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    head: list[str] = []
    widths: list[int] = []
    for batch in batches:
        rows = [_cells(row) for row in _rows([batch])]
        names = list(dict.fromkeys([*head, *(name for row in rows for name in row)]))
        lines = [[row.get(name, "") for name in names] for row in rows]
        if names != head:
            lines.insert(0, [name.upper() for name in names])
        widths += [0] * (len(names) - len(head))
        head, widths = names, [max(column) for column in zip(widths, *(map(len, each) for each in lines), strict=True)]
        for line in lines:
            out.write("  ".join(map(str.ljust, line, widths)).rstrip()[:width].encode() + b"\n")
        out.flush()


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """When and where a record is, whether it is late, the rest, and last why it is a dead letter."""
    place = ("topic", "partition", "offset")
    cells = {"order_time": row.pop("order_time")} if "order_time" in row else {}
    if {*place} <= {*row}:
        cells["record"] = "{}[{}]@{}".format(*(row.pop(name) for name in place))
    if "late" in row:
        cells["late"] = "late" if row.pop("late") else ""
    error = {"error": row.pop("error")} if "error" in row else {}
    texts = {name: value if isinstance(value, str) else json.dumps(value, default=str) for name, value in row.items()}
    most = {"from": None, "range": None}
    return cells | {name: text.replace("\n", "\\n")[: most.get(name, WIDEST)] for name, text in texts.items()} | error


def _arrow(out: BinaryIO, reading: "Batches", batches: "Iterable[RecordBatch]") -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(out, reading.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _parquet(out: BinaryIO, reading: "Batches", batches: "Iterable[RecordBatch]") -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(out, reading.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


_WRITERS: Final[dict[str, Callable[[BinaryIO, "Batches", "Iterable[RecordBatch]"], None]]] = {
    "table": _table,
    "json": _json,
    "jsonl": _jsonl,
    "arrow": _arrow,
    "parquet": _parquet,
}
