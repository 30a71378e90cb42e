"""Columns of payloads, with a registry: frames, formats and bad records."""

import uuid
from base64 import b64encode

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf import descriptor_pb2
from support.messages import naming, says
from support.registered import NAME, V1, decoded, decoder, framed, order, records, register, small_registry, values
from support.services import serving

from airflow_provider_orderedkafka.decoding import registry as registries
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Json, JsonSchema, Protobuf
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder
from airflow_provider_orderedkafka.errors import CredentialsError, RowError, SettingError, UnreachableError


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


def test_of_several_headers_with_a_schemas_id_the_last_one_counts(registry):
    """A record that was forwarded with its headers and serialised again has two."""
    old, new = register(registry, order(NAME)), register(registry, V1)
    heads = [("__value_schema_id", b"\x00" + number.to_bytes(4, "big")) for number in (old, new)]
    payload = framed(new, V1, {"id": 4})[5:]
    found = decoded(decoder(Avro(registry="r")), records([None, payload], [None, [heads[0], ("x", b"y"), heads[1]]]))
    assert values(found) == [None, {"id": 4}]


POISON = {
    "no frame": (b"hello", "begins with byte 0x68"),
    "half a frame": (b"\x00\x00", "ends after 2 bytes"),
    "an unknown schema": (b"\x00\x00\x00\x12\x34\x02", "has no schema 4660"),
    "no data": (b"\x00\x00\x00\x00\x01", "damaged or cut off"),
    "too much data": (b"\x00\x00\x00\x00\x01\x02\x02", "left after its end"),
}


@pytest.mark.parametrize(("payload", "why"), POISON.values(), ids=POISON)
def test_a_bad_record_in_the_middle_stops_the_load_with_its_place(registry, payload, why):
    good = framed(register(registry, V1), V1, {"id": 1})
    with pytest.raises(RowError, match=why) as error:
        decoded(decoder(Avro(registry="r")), records([good, payload, good]))
    assert str(error.value).startswith("orders[3]@11: its value cannot be decoded (avro")
    assert "Allow(10, to=" in str(error.value)


def test_bad_records_that_may_be_are_set_apart_as_they_were(registry):
    good = framed(register(registry, V1), V1, {"id": 1})
    found, bad = decoder(Avro(registry="r"), max_bad=2).split(records([good, b"x", good, b"\x00"]))
    assert values(found) == [{"id": 1}, {"id": 1}]
    assert values(bad) == [b"x", b"\x00"]
    assert bad.column("offset").to_pylist() == [11, 13]
    assert all("(avro" in why for why in bad.column("_error").to_pylist())


def test_a_subject_that_is_not_there_is_said_before_anything_is_read(registry):
    with pytest.raises(SettingError, match="'orders-value'"):
        decoder(Avro(registry="r"))


def test_a_registry_that_is_not_there_is_said_and_may_be_tried_again(monkeypatch):
    monkeypatch.setitem(registries._NUMBERS, "max.retries", 0)
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:1"):
        RecordDecoder.of(
            Decode(value=Avro(registry="r")), ["orders"], registries.Registry({"url": "http://u:p@127.0.0.1:1"})
        )


PAGE = {"GET /.*": lambda *_: b"<html>Please log in</html>"}


@pytest.mark.parametrize("routes", [{}, PAGE], ids=["nothing is found", "a page is"])
def test_another_server_where_the_registry_should_be_is_no_answer_of_it(routes, monkeypatch):
    """A proxy may stand there for a while: no record is bad for that, and no subject missing."""
    reader = Avro(registry="r", schema=V1, schema_changes="fail")
    with serving(routes) as url:
        there = registries.Registry({"url": url})
        with pytest.raises(UnreachableError, match=url):
            RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders"], there)
        with pytest.raises(UnreachableError, match=url):
            decoded(RecordDecoder.of(Decode(value=reader), ["orders"], there, 1), records([framed(7, V1, {"id": 1})]))


def test_a_schema_that_another_one_refers_to_and_that_is_gone_is_told_as_such(registry):
    text = order({"name": "line", "type": "shop.line"})
    number = registry.register_schema("orders-value", Schema(text, "AVRO", [SchemaReference("shop.line", "lines", 3)]))
    with pytest.raises(SettingError, match=naming("version 3 ... 'lines'")):
        decoder(Avro(registry="r"))
    found = decoder(Avro(registry="r", schema=V1, schema_changes="fail"), max_bad=1)
    _, bad = found.split(records([b"\x00" + number.to_bytes(4, "big") + b"\x02"]))
    assert says(bad.column("_error")[0].as_py(), "version 3 ... 'lines'")


def test_a_registry_without_a_token_to_ask_it_with_may_be_tried_again():
    """As its endpoint refuses the client, or is down."""
    bearer = {
        "credentials.source": "OAUTHBEARER",
        "client.id": "loader",
        "client.secret": "hidden",
        "scope": "all",
        "issuer.endpoint.url": "http://127.0.0.1:1/token",
        "logical.cluster": "lsrc-1",
    }
    config = {f"bearer.auth.{name}": value for name, value in bearer.items()}
    there = registries.Registry({"url": "http://127.0.0.1:1", "max.retries": "0", **config})
    with pytest.raises(CredentialsError, match=r"http://127\.0\.0\.1:1") as error:
        there.subjects()
    assert "hidden" not in str(error.value)


def test_a_schema_that_the_registry_did_not_have_is_looked_for_again(registry):
    register(registry, V1)
    found, batch = decoder(Avro(registry="r"), max_bad=1), records([framed(2, V1, {"id": 4})])
    assert found.split(batch)[1].num_rows == 1
    assert register(registry, V1, "elsewhere") == 2
    assert values(decoded(found, batch)) == [{"id": 4}]


def test_json_schema_is_read_by_the_columns_of_the_newest(registry):
    text = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
    number = register(registry, text, kind="JSON")
    frame = b"\x00" + number.to_bytes(4, "big")
    found, bad = decoder(JsonSchema(registry="r"), max_bad=1).split(
        records([frame + b'{"id": 1, "x": 2}', frame + b'{"id": ""}'])
    )
    assert (values(found), bad.num_rows) == ([{"id": 1}], 1)


def test_protobuf_is_read_by_the_descriptors_of_the_registry(registry):
    file = descriptor_pb2.FileDescriptorProto(name="default", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "line.proto"])
    message = file.message_type.add(name="Order")
    message.field.add(name="at", number=1, type=11, type_name=".google.protobuf.Timestamp", label=1)
    message.field.add(name="line", number=2, type=11, type_name=".shop.Line", label=1)
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


def test_a_header_without_the_indexes_of_its_message_is_a_bad_record(registry):
    file = descriptor_pb2.FileDescriptorProto(name="default", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=5, label=1)
    number = register(registry, b64encode(file.SerializeToString()).decode(), kind="PROTOBUF")
    registry.get_latest_version = lambda subject, **_: registry._store.get_latest_version(subject)
    head = b"\x00" + number.to_bytes(4, "big")
    heads = [[("__value_schema_id", head + indexes)] for indexes in (b"\x00", b"", b"\x02", b"\x02\x02")]
    found, bad = decoder(Protobuf(registry="r"), max_bad=3).split(records([b"\x08\x07"] * 4, heads))
    assert (values(found), bad.column("offset").to_pylist()) == ([{"id": 7}], [11, 12, 13])


def test_formats_travel_as_text():
    decode = Decode(value=Protobuf(registry="r", message="shop.Order", descriptors=b"\x00\xff"), key=Json("id long"))
    assert Decode.from_text(decode.to_text()) == decode


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Decode(value="json"), "Json"),
        (lambda: Decode(value=Avro(registry="a"), key=Avro(registry="b")), "registry"),
        (lambda: Avro(registry="r", schema_changes="drop"), "'add' or 'fail'"),
        (lambda: Avro(schema=V1, subject="s"), "registry"),
        (lambda: Protobuf(descriptors="x"), "bytes"),
        (lambda: Decode.from_text("{}"), "needs a format"),
        (lambda: Decode.from_text('{"value": {"format": "xml"}}'), "'kind' ... 'json', 'avro'"),
        (lambda: Decode.from_text('{"value": {"format": "json"}}'), "--decode"),
        (lambda: Decode.from_text('{"value": {"kind": "json", "shema": "a int"}}'), "'value.shema' ... mean 'schema'?"),
        (lambda: Decode.from_text('{"value": {"kind": "json", "columns": "a"}}'), "'value.columns' ... schema"),
        (lambda: Decode.from_text("no"), "--decode"),
    ],
)
def test_what_cannot_be_decoded_with_is_refused_where_it_is_written(make, why):
    with pytest.raises(SettingError, match=naming(why)):
        make()
