"""No bytes crash a decoder or keep it busy, and the good records around them stay what they are."""

import json
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_orderedkafka.decoding.avro import AvroWriter
from airflow_provider_orderedkafka.decoding.formats import arrow_type, parsed_columns
from airflow_provider_orderedkafka.decoding.json_values import JsonWriter
from airflow_provider_orderedkafka.decoding.protobuf import ProtobufWriter

AVRO = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "texts", "type": {"type": "array", "items": "string"}},
            {"name": "by", "type": {"type": "map", "values": ["null", "long"]}},
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)
JSON = "id int, texts array<string>, at timestamp, inner struct<x: double, day: date>"


def protobuf():
    from google.protobuf import descriptor_pb2, struct_pb2

    file = descriptor_pb2.FileDescriptorProto(name="r.proto", package="r", syntax="proto3")
    file.dependency.append("google/protobuf/struct.proto")
    message = file.message_type.add(name="R")
    message.field.add(name="id", number=1, type=5, label=1)
    message.field.add(name="texts", number=2, type=9, label=3)
    message.field.add(name="more", number=3, type=11, type_name=".google.protobuf.Struct", label=1)
    return ProtobufWriter.of((struct_pb2.DESCRIPTOR.serialized_pb, file.SerializeToString()), None, framed=True)


def avro(**row):
    data = BytesIO()
    fastavro.schemaless_writer(data, AvroWriter.of(AVRO).parsed, row)
    return data.getvalue()


READERS = {
    "avro": (
        AvroWriter.of(AVRO),
        avro(id=1, texts=["a"], by={"x": 1}, amount=b"\x01", kind=1, at=2),
        avro(id=2, texts=[], by={}, amount=b"", kind=0, at=0),
    ),
    "json": (
        JsonWriter(arrow_type(parsed_columns(JSON))),
        b'{"id": 1, "texts": ["a"]}',
        b'{"id": 1, "inner": {"x": 1.5}}',
    ),
    "protobuf": (protobuf(), b"\x00\x08\x01\x12\x01a", b"\x00\x08\x02"),
}
POISON = st.binary(max_size=60)


@st.composite
def damaged(draw, good):
    """A good payload with some bytes replaced, inserted or cut off."""
    payload = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(payload)))
        payload[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(payload)


@pytest.mark.parametrize("name", READERS)
@settings(deadline=60_000)
@given(data=st.data())
def test_bad_bytes_harm_nobody_else(name, data):
    reader, good, seed = READERS[name]
    alone, wrong = reader.read([good])
    assert not wrong
    given_ = data.draw(st.lists(st.one_of(POISON, damaged(good), damaged(seed)), min_size=1, max_size=5))
    at = data.draw(st.integers(0, len(given_)))
    found, errors = reader.read([*given_[:at], good, *given_[at:]])
    assert len(found) == len(given_) + 1
    assert found[at] == alone[0]
    assert at not in errors
    assert all(not found[place].is_valid for place in errors)
    found.validate(full=True)
    assert pa.types.is_struct(found.type)
