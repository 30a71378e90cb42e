"""How fast records of six flat fields are decoded, by the time of one core, without Kafka and Spark.

    python -m benchmarks.decoding                 200,000 records of each format, medians of five runs

Batches are as large as a reader's, and framed as Confluent's serialisers do, but for plain JSON. What was decoded is
compared with what was encoded before any time is printed. The last one is a function of one record that reads JSON and
writes JSON.
"""

import datetime as dt
import json
import os
import statistics
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from decimal import Decimal
from importlib.metadata import version
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from airflow_provider_orderedkafka.decoding.formats import Avro, Format, Json, JsonSchema, Protobuf
from airflow_provider_orderedkafka.decoding.payloads import PayloadDecoder, RecordDecoder
from airflow_provider_orderedkafka.decoding.registry import Registered
from airflow_provider_orderedkafka.spark.rows import row_transform
from benchmarks.peers import options

BATCH = 10_000
"""How many records of some 150 B a reader hands on at a time."""

FRAME, FIRST_MESSAGE = b"\x00\x00\x00\x00\x07", b"\x00"
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COLUMNS = "order long, customer string, amount double, day date, at timestamp, paid boolean"
AVRO = {
    "order": "long",
    "customer": "string",
    "amount": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "paid": "boolean",
}
OBJECT = {
    "order": {"type": "integer"},
    "customer": {"type": "string"},
    "amount": {"type": "number"},
    "day": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "paid": {"type": "boolean"},
}
PROTOBUF = {"order": "INT64", "customer": "STRING", "amount": "DOUBLE", "day": "STRING", "paid": "BOOL"}

Row = dict[str, Any]


class OneSchema(NamedTuple):
    """A registry that has one schema."""

    only: Registered

    def newest(self, _subject: str, *, serialised: bool) -> Registered:  # noqa: ARG002
        return self.only

    def schema(self, _key: int | str, *, serialised: bool) -> Registered:  # noqa: ARG002
        return self.only


class Sample(NamedTuple):
    """Payloads, what reads them, and what is to come out."""

    payloads: list[bytes]
    read: Callable[[pa.RecordBatch], pa.RecordBatch]
    expected: list[Any]


def orders(count: int) -> list[Row]:
    """Orders of six fields."""
    return [
        {
            "order": number,
            "customer": f"customer-{number % 9_973}",
            "amount": Decimal(number % 100_000) / 100,
            "day": (START + dt.timedelta(days=number % 365)).date(),
            "at": START + dt.timedelta(seconds=number),
            "paid": number % 3 == 0,
        }
        for number in range(count)
    ]


def avro(rows: list[Row]) -> Sample:
    fields = [{"name": name, "type": kind} for name, kind in AVRO.items()]
    schema = {"type": "record", "name": "order", "fields": fields}
    parsed = fastavro.parse_schema(schema)

    def written(row: Row) -> bytes:
        data = BytesIO()
        fastavro.schemaless_writer(data, parsed, row)
        return FRAME + data.getvalue()

    return Sample([written(row) for row in rows], decoder(Avro(registry="main"), "AVRO", json.dumps(schema)), rows)


def protobuf(rows: list[Row]) -> Sample:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message, kinds = file.message_type.add(name="Order"), descriptor_pb2.FieldDescriptorProto
    for number, (name, kind) in enumerate(PROTOBUF.items(), 1):
        message.field.add(name=name, number=number, type=getattr(kinds, f"TYPE_{kind}"), label=kinds.LABEL_OPTIONAL)
    of_time = {"type": kinds.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"}
    message.field.add(name="at", number=6, label=kinds.LABEL_OPTIONAL, **of_time)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    given = [{**row, "amount": float(row["amount"]), "day": str(row["day"])} for row in rows]
    payloads = [FRAME + FIRST_MESSAGE + make(**row).SerializeToString() for row in given]
    text = b64encode(file.SerializeToString()).decode()
    return Sample(payloads, decoder(Protobuf(registry="main"), "PROTOBUF", text), given)


def plain_json(rows: list[Row]) -> Sample:
    return Sample(as_json(rows), decoder(Json(COLUMNS)), [{**row, "amount": float(row["amount"])} for row in rows])


def json_schema(rows: list[Row]) -> Sample:
    schema = json.dumps({"type": "object", "title": "order", "properties": OBJECT})
    plain = plain_json(rows)
    framed = [FRAME + payload for payload in plain.payloads]
    return Sample(framed, decoder(JsonSchema(registry="main"), "JSON", schema), plain.expected)


def row_function(rows: list[Row]) -> Sample:
    payloads = as_json(rows)
    return Sample(payloads, with_total, [json.dumps(totalled(payload)) for payload in payloads])


def as_json(rows: list[Row]) -> list[bytes]:
    texts = [{**row, "amount": float(row["amount"]), "day": str(row["day"]), "at": str(row["at"])} for row in rows]
    return [json.dumps(text).encode() for text in texts]


def totalled(payload: bytes) -> Row:
    found = json.loads(payload)
    return {**found, "total": found["amount"] * 2}


@row_transform("key binary, value string")
def with_total(record: Row) -> Row:
    return {"key": record["key"], "value": json.dumps(totalled(record["value"]))}


def decoder(form: Format, kind: str = "", text: str = "") -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What decodes a batch, as both lanes do it."""
    registry = OneSchema(Registered(kind, 7, text)) if kind else None
    found = RecordDecoder((PayloadDecoder.of("value", form, ["orders"], registry),), 0)
    return lambda batch: found.split(batch)[0]


def batches(payloads: Sequence[bytes]) -> list[pa.RecordBatch]:
    """The records as a reader hands them on."""
    found = []
    for start in range(0, len(payloads), BATCH):
        values = payloads[start : start + BATCH]
        columns = {
            "key": pa.array([b"k"] * len(values)),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["orders"] * len(values)),
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(range(start, start + len(values)), pa.int64()),
            "order_time": pa.array([START] * len(values), pa.timestamp("us", "UTC")),
        }
        found.append(pa.RecordBatch.from_pydict(columns))
    return found


SAMPLES = {
    "Avro": avro,
    "Protobuf": protobuf,
    "JSON": plain_json,
    "JSON Schema": json_schema,
    "a row function": row_function,
}


def check(name: str, sample: Sample, given: list[pa.RecordBatch]) -> None:
    """See that all comes out as it was; this warms up, too."""
    found = [value for batch in given for value in sample.read(batch).column("value").to_pylist()]
    for decoded, expected in zip(found, sample.expected, strict=True):
        assert decoded == expected, f"{name} is wrong: {decoded}, not {expected}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    rows = orders(arguments.records)
    samples = {name: make(rows) for name, make in SAMPLES.items()}
    given = {name: batches(sample.payloads) for name, sample in samples.items()}
    for name, sample in samples.items():
        check(name, sample, given[name])
    taken: dict[str, list[float]] = {name: [] for name in samples}
    for _ in range(arguments.runs):
        for name, sample in samples.items():
            begun = time.process_time()
            for batch in given[name]:
                sample.read(batch)
            taken[name].append(time.process_time() - begun)
    versions = ", ".join(f"{each} {version(each)}" for each in ("pyarrow", "fastavro", "protobuf"))
    print(f"{arguments.records:,} records of six fields, one core, {arguments.runs} runs; {versions}")
    for name, seconds in taken.items():
        rates = [arguments.records / each for each in seconds]
        spread, size = f"{min(rates):,.0f} to {max(rates):,.0f}", len(b"".join(samples[name].payloads)) / len(rows)
        print(f"  {name:16} {statistics.median(rates):10,.0f} a second ({spread}), {size:.0f} B each")


if __name__ == "__main__":
    main()
