"""Faults to plant in an output: what somebody makes of the rows of a load, how they are written as Spark does that, and
what an audit says of it.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import parquet

from support.audited import Row, Written
from support.records import Record, Records
from support.topics import Topics

BASE = 1_700_000_000_000


def some(partitions: int = 3, each: int = 12) -> list[Record]:
    """Records with headers, keys that stay in their partitions, and one that is late in each."""
    return [
        Record(
            b"value %d of %d" % (number, partition),
            BASE + 10 * number + partition - (25 if number == 7 else 0),
            partition,
            None if number == 3 else b"key-%d-%d" % (partition, number % 2),
            [("a", b"%d" % number), ("b", None)],
        )
        for partition in range(partitions)
        for number in range(each)
    ]


def written_from(topics: Topics, records: Records, folder: Path) -> Written:
    """A source of three partitions with these records, and an output of two."""
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, some())
    return Written(records.servers, topics, records, folder, (source,), output)


def at(rows: Sequence[Row], partition: int, offset: int) -> int:
    [found] = [n for n, row in enumerate(rows) if row.source.position[1:] == (partition, offset)]
    return found


def without(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.source.position[1:] != (1, 5)]


def changed(**what: Any) -> Callable[[list[Row]], list[Row]]:
    def plant(rows: list[Row]) -> list[Row]:
        there = at(rows, 1, 5)
        return [*rows[:there], rows[there].but(**what), *rows[there + 1 :]]

    return plant


def said(**what: Any) -> Callable[[list[Row]], list[Row]]:
    def plant(rows: list[Row]) -> list[Row]:
        there = at(rows, 1, 5)
        return [*rows[:there], replace(rows[there], **what), *rows[there + 1 :]]

    return plant


def again(**what: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [*rows, replace(rows[at(rows, 1, 5)], **what)]


def later(rows: list[Row]) -> list[Row]:
    return [*without(rows), rows[at(rows, 1, 5)]]


def elsewhere(offset: int, partition: int = 1) -> Callable[[list[Row]], list[Row]]:
    def plant(rows: list[Row]) -> list[Row]:
        row = rows[at(rows, 1, 5)]
        position = (row.source.position[0], partition, offset)
        return [*rows, replace(row, source=replace(row.source, position=position))]

    return plant


def of_another_topic(rows: list[Row]) -> list[Row]:
    row = rows[at(rows, 1, 5)]
    return [*rows, replace(row, source=replace(row.source, position=("another", 1, 5)))]


def its_place_taken(rows: list[Row]) -> list[Row]:
    """The row of one record, with the bytes of another."""
    there, other = at(rows, 1, 5), rows[at(rows, 1, 9)]
    return [*rows[:there], replace(rows[there], record=other.record), *rows[there + 1 :]]


def without_header(rows: list[Row]) -> list[Any]:
    class Silent(Row):
        def stamped(self) -> Record:
            return self.record

    there = at(rows, 1, 5)
    return [*rows[:there], Silent(rows[there].source, rows[there].record), *rows[there + 1 :]]


PLANTED: dict[str, tuple[Any, dict[str, int], str]] = {
    "a row is missing": (without, {"missing": 1}, ""),
    "a row is there twice": (again(), {"doubled": 1}, "is the same row"),
    "a row lies apart from its key": (changed(partition=0), {"out_of_order": 1}, "in another partition"),
    "a row came late": (later, {"out_of_order": 1}, "it comes after"),
    "an empty value": (changed(value=b""), {"altered": 1}, "another value"),
    "a byte of the key": (changed(key=b"key-1-2"), {"altered": 1}, "another key"),
    "no key": (changed(key=None), {"altered": 1}, "another key"),
    "a header's name": (changed(headers=[("A", b"5"), ("b", None)]), {"altered": 1}, "another headers"),
    "headers in another order": (changed(headers=[("b", None), ("a", b"5")]), {"altered": 1}, "another headers"),
    "a header without its value": (changed(headers=[("a", None), ("b", None)]), {"altered": 1}, "another headers"),
    "a timestamp": (changed(timestamp=BASE + 52), {"altered": 1}, "another timestamp"),
    "an order time": (said(order_time=BASE + 50), {"altered": 1}, "another order time"),
    "another record's bytes": (its_place_taken, {"altered": 1}, "another value and headers and timestamp"),
    "a row of another range in its place": (said(range_id="r2"), {"missing": 1}, ""),
    "a row without a header in its place": (without_header, {"missing": 1}, ""),
    "a row behind the range's end": (elsewhere(12), {"stray": 1}, "did not read that offset"),
    "a row of no partition of the source": (elsewhere(5, 7), {"stray": 1}, "does not read that partition"),
    "a row of another topic": (of_another_topic, {"stray": 1}, "does not read that partition"),
    "a second row of a record": (again(ordinal=1), {"stray": 1}, "a plain copy has only row 0"),
    "everything is missing": (lambda _: [], {"missing": 36}, ""),
}


def as_lines(rows: pa.Table, path: Path) -> None:
    """Write rows as Spark writes JSON: bytes are base64, times are text, what is null is left out."""

    def shown(value: Any) -> Any:
        if isinstance(value, bytes):
            return b64encode(value).decode()
        if isinstance(value, datetime):
            return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
        if isinstance(value, dict):
            return {name: shown(each) for name, each in value.items() if each is not None}
        return [shown(each) for each in value] if isinstance(value, list) else value

    path.write_text("".join(json.dumps(shown(row)) + "\n" for row in rows.to_pylist()))


def as_avro(rows: pa.Table, path: Path) -> None:
    """Write rows as Spark writes Avro: what may be null is a union, times are microseconds, blocks are compressed."""

    def of(kind: pa.DataType) -> Any:
        if pa.types.is_list(kind):
            return {"type": "array", "items": of(kind.value_type)}
        if pa.types.is_struct(kind):
            return {"type": "record", "name": "pair", "fields": [{"name": f.name, "type": of(f.type)} for f in kind]}
        return ["null", AVRO[kind]]

    fields = [{"name": field.name, "type": of(field.type)} for field in rows.schema]
    numbers = pa.schema(
        [each.with_type(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in rows.schema]
    )
    with path.open("wb") as file:
        fastavro.writer(
            file, {"type": "record", "name": "row", "fields": fields}, rows.cast(numbers).to_pylist(), codec="snappy"
        )


AVRO: dict[pa.DataType, Any] = {
    pa.binary(): "bytes",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
}
FORMATS = {"parquet": parquet.write_table, "json": as_lines, "avro": as_avro}
