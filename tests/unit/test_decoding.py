"""Columns of payloads, with a registry: frames, formats and bad records."""

import uuid
from base64 import b64encode

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf import descriptor_pb2
from support.registered import V1, decoded, decoder, framed, records, register, small_registry, values

from airflow_provider_orderedkafka.decoding import registry as registries
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Json, JsonSchema, Protobuf
from airflow_provider_orderedkafka.decoding.records import RecordDecoder
from airflow_provider_orderedkafka.errors import RowError, SettingError, UnreachableError
from airflow_provider_orderedkafka.outputs import DeltaOutput, FilesOutput, IcebergOutput


@pytest.fixture
def registry(monkeypatch):
    return small_registry(monkeypatch)


def test_a_schemas_id_may_be_in_a_header(registry):
    number = register(registry, V1)
    guid = registry.get_latest_version("orders-value").guid
    by_guid, by_id = b"\x01" + uuid.UUID(guid).bytes, b"\x00" + number.to_bytes(4, "big")
    payload = framed(number, V1, {"id": 4})
    headers = [
        [("x", b"y"), ("__value_schema_id", by_guid)],
        [("__value_schema_id", by_id)],
        None,
        [("__key_schema_id", b"")],
    ]
    found = decoded(decoder(Avro(registry="r")), records([payload[5:], payload[5:], payload, payload], headers))
    assert values(found) == [{"id": 4}] * 4


POISON = {
    "no frame": (b"hello", "begins with byte 0x68"),
    "half a frame": (b"\x00\x00", "ends after 2 bytes"),
    "an unknown schema": (b"\x00\x00\x00\x12\x34\x02", "has no schema 4660"),
    "no data": (b"\x00\x00\x00\x00\x01", "damaged or cut off"),
    "too much data": (b"\x00\x00\x00\x00\x01\x02\x02", "left behind its end"),
}


@pytest.mark.parametrize(("payload", "why"), POISON.values(), ids=POISON)
def test_a_bad_record_in_the_middle_stops_the_load_with_its_place(registry, payload, why):
    good = framed(register(registry, V1), V1, {"id": 1})
    with pytest.raises(RowError, match=why) as error:
        decoded(decoder(Avro(registry="r")), records([good, payload, good]))
    assert str(error.value).startswith("orders[3]@11: its value cannot be decoded (avro")
    assert "max_bad_records" in str(error.value)


def test_bad_records_that_may_be_are_set_apart_as_they_were(registry):
    good = framed(register(registry, V1), V1, {"id": 1})
    found, bad = decoder(Avro(registry="r"), max_bad_records=2, dead_letters="dead").split(
        records([good, b"x", good, b"\x00"])
    )
    assert values(found) == [{"id": 1}, {"id": 1}]
    assert values(bad) == [b"x", b"\x00"]
    assert bad.column("offset").to_pylist() == [11, 13]
    assert all("cannot be decoded" in why for why in bad.column("_error").to_pylist())


def test_a_subject_that_is_not_there_is_said_before_anything_is_read(registry):
    with pytest.raises(SettingError, match="no subject 'orders-value'"):
        decoder(Avro(registry="r"))


def test_a_registry_that_is_not_there_is_said_and_may_be_tried_again(monkeypatch):
    monkeypatch.setitem(registries._NUMBERS, "max.retries", 0)
    with pytest.raises(UnreachableError, match=r"registry at http://127\.0\.0\.1:1"):
        RecordDecoder.of(
            Decode(value=Avro(registry="r")), ["orders"], registries.Registry({"url": "http://u:p@127.0.0.1:1"})
        )


def test_json_schema_is_read_by_the_columns_of_the_newest(registry):
    text = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
    number = register(registry, text, kind="JSON")
    frame = b"\x00" + number.to_bytes(4, "big")
    found, bad = decoder(JsonSchema(registry="r"), max_bad_records=1, dead_letters="d").split(
        records([frame + b'{"id": 1, "x": 2}', frame + b'{"id": ""}'])
    )
    assert (values(found), bad.num_rows) == ([{"id": 1}], 1)


def test_protobuf_is_read_by_the_descriptors_of_the_registry(registry):
    file = descriptor_pb2.FileDescriptorProto(name="default", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "line.proto"])
    order = file.message_type.add(name="Order")
    order.field.add(name="at", number=1, type=11, type_name=".google.protobuf.Timestamp", label=1)
    order.field.add(name="line", number=2, type=11, type_name=".shop.Line", label=1)
    line = descriptor_pb2.FileDescriptorProto(name="default", package="shop", syntax="proto3")
    line.message_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    texts = [b64encode(each.SerializeToString()).decode() for each in (file, line)]
    register(registry, texts[1], "line", "PROTOBUF")
    reference = SchemaReference("line.proto", "line", 1)
    number = registry.register_schema("orders-value", Schema(texts[0], "PROTOBUF", [reference]))
    registry.get_version = lambda subject, version, **_: registry._store.get_version(subject, version)
    registry.get_latest_version = lambda subject, **_: registry._store.get_latest_version(subject)
    payload = b"\x00" + number.to_bytes(4, "big") + b"\x00" + b"\x0a\x02\x08\x01" + b"\x12\x03\x0a\x01s"
    [found] = values(decoded(decoder(Protobuf(registry="r")), records([payload])))
    assert (found["at"].timestamp(), found["line"]) == (1, {"sku": "s"})


def test_formats_travel_as_text():
    decode = Decode(
        value=Protobuf(registry="r", message="shop.Order", descriptors=b"\x00\xff"),
        key=Json("id long"),
        max_bad_records=3,
        dead_letters="dead",
    )
    assert Decode.from_text(decode.to_text()) == decode


@pytest.mark.parametrize("dead", [IcebergOutput("lake.shop.dead"), DeltaOutput(path="s3a://lake/dead")], ids=repr)
def test_dead_letters_may_go_to_a_table_and_be_bounded_without_a_format(dead):
    decode = Decode(max_bad_records=3, dead_letters=dead)
    assert Decode.from_text(decode.to_text()) == decode
    assert decode.shape is None, "it shapes no row, so it may be added to an open range"
    with pytest.raises(SettingError, match="name a topic, such as dead_letters='orders-dead'"):
        decode.check_topic()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Decode, "needs a format"),
        (lambda: Decode(value="json"), "Decode value must be Json"),
        (lambda: Decode(value=Json("id long"), max_bad_records=1), "needs a topic or a table"),
        (lambda: Decode(max_bad_records=1, dead_letters=FilesOutput("/dead")), "must be a topic, or IcebergOutput"),
        (lambda: Decode(max_bad_records=1, dead_letters=IcebergOutput("t", identity=False)), "identity=False"),
        (lambda: Decode(value=Json("id long"), max_bad_records=-1), "from 0 on"),
        (lambda: Decode(value=Avro(registry="a"), key=Avro(registry="b")), "one registry"),
        (Avro, r"needs registry= or schema="),
        (lambda: Avro(schema="{"), "must be JSON text"),
        (lambda: Avro(registry="r", schema_changes="drop"), "'add' or 'fail'"),
        (lambda: Avro(schema=V1, subject="s"), "needs the registry"),
        (Protobuf, "needs registry= or descriptors="),
        (lambda: Protobuf(descriptors="x"), "must be bytes"),
        (lambda: Decode.from_text("{}"), "needs a format"),
        (lambda: Decode.from_text('{"value": {"format": "xml"}}'), "the format must be one of"),
        (lambda: Decode.from_text('{"value": {"format": "json"}}'), "--decode must be JSON"),
        (lambda: Decode.from_text("no"), "--decode must be JSON"),
    ],
)
def test_what_cannot_be_decoded_with_is_refused_where_it_is_written(make, why):
    with pytest.raises(SettingError, match=why):
        make()
