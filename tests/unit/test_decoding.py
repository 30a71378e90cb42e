"""Columns of payloads, with a registry: frames, several schemas in one batch, evolution, and bad records."""

import json
import uuid
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from airflow_provider_orderedkafka.decoding import payloads
from airflow_provider_orderedkafka.decoding import registry as registries
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Json, JsonSchema, Protobuf
from airflow_provider_orderedkafka.decoding.records import RecordDecoder
from airflow_provider_orderedkafka.errors import RowError, SchemaChangedError, SettingError, UnreachableError
from airflow_provider_orderedkafka.outputs import DeltaOutput, FilesOutput, IcebergOutput

REGISTRY = registries.Registry.of({"registry.url": "mock://registry", "subscribe": "orders"})
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def registry(monkeypatch):
    """Confluent's own stand-in for a registry, in this process."""
    client = SchemaRegistryClient.new_client({"url": "mock://registry"})
    registries._schema.cache_clear()
    payloads._asked.cache_clear()
    monkeypatch.setattr(registries, "_client", lambda _: client)
    return client


def order(*fields):
    return json.dumps({"type": "record", "name": "order", "fields": list(fields)})


ID, NAME = {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None}
V1 = order(ID)
V2 = order({"name": "id", "type": "long"}, NAME, {"name": "state", "type": "string", "default": "new"})
V3 = order({"name": "id", "type": "long"}, {"name": "state", "type": "string", "default": "new"})


def register(registry, text, subject="orders-value", kind="AVRO"):
    return registry.register_schema(subject, Schema(text, kind))


def framed(schema_id, text, row):
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(json.loads(text)), row)
    return b"\x00" + schema_id.to_bytes(4, "big") + data.getvalue()


def records(values, headers=None):
    count = len(values)
    columns = {
        "key": pa.array([None] * count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["orders"] * count),
        "partition": pa.array([3] * count, pa.int32()),
        "offset": pa.array(range(10, 10 + count), pa.int64()),
    }
    if headers is not None:
        columns["headers"] = pa.array(headers, HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def decoder(value, **more):
    return RecordDecoder.of(Decode(value=value, **more), ["orders"], REGISTRY)


def decoded(found, batch):
    return found.split(batch)[0]


def values(batch):
    return batch.column("value").to_pylist()


def test_records_of_several_schemas_in_one_batch_get_the_columns_of_the_newest(registry):
    one, two = register(registry, V1), register(registry, V2)
    given = [
        framed(two, V2, {"id": 2**40, "name": "b", "state": "paid"}),
        None,
        framed(one, V1, {"id": 1}),
        framed(two, V2, {"id": 3, "name": None, "state": "paid"}),
    ]
    found = decoded(decoder(Avro(registry="r")), records(given))
    assert values(found) == [
        {"id": 2**40, "name": "b", "state": "paid"},
        None,
        {"id": 1, "name": None, "state": "new"},
        {"id": 3, "name": None, "state": "paid"},
    ]
    assert found.column("offset").to_pylist() == [10, 11, 12, 13]


def test_a_field_that_the_newest_schema_no_longer_has_is_left_out(registry):
    two, _ = register(registry, V2), register(registry, V3)
    found = decoded(decoder(Avro(registry="r")), records([framed(two, V2, {"id": 1, "name": "b", "state": "paid"})]))
    assert values(found) == [{"id": 1, "state": "paid"}]


LINE = {"type": "record", "name": "line", "fields": [{"name": "sku", "type": "string"}, {**ID, "default": 3}]}
DEFAULTS = {
    "an empty array": ({"type": "array", "items": "string"}, [], []),
    "an array of records": ({"type": "array", "items": LINE}, [{"sku": "a"}], [{"sku": "a", "id": 3}]),
    "an empty map": ({"type": "map", "values": "int"}, {}, []),
    "a map": ({"type": "map", "values": "bytes"}, {"a": "\u00ff"}, [("a", b"\xff")]),
    "a record": (LINE, {"sku": "a", "id": 4}, {"sku": "a", "id": 4}),
    "bytes": ("bytes", "\u00ff", b"\xff"),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, "ab", b"ab"),
    "a decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0007", Decimal("0.07")),
    "a date": ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
    "a time": ({"type": "int", "logicalType": "time-millis"}, 5, 5_000),
    "a timestamp": ({"type": "long", "logicalType": "timestamp-millis"}, 0, datetime(1970, 1, 1, tzinfo=UTC)),
    "a symbol": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B"),
    "a boolean": ("boolean", True, True),
    "a whole number of a double": ("double", 1, 1.0),
    "one of a union": (["string", "null"], "x", "x"),
    "the null of a union": (["null", "string"], None, None),
    "one of another type, which is none": ("int", "many", None),
    "a text of an array, which is none": ({"type": "array", "items": "string"}, "many", None),
    "a symbol that is not there, which is none": ({"type": "enum", "name": "e", "symbols": ["A"]}, "B", None),
    "a record without a field, which is none": (LINE, {"id": 1}, None),
}


@pytest.mark.parametrize(("kind", "default", "value"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_field_that_a_record_was_written_without_has_its_default(registry, kind, default, value):
    one = register(registry, V1)
    register(registry, order(ID, {"name": "new", "type": kind, "default": default}))
    given = [framed(one, V1, {"id": number}) for number in (1, 2)]
    assert values(decoded(decoder(Avro(registry="r")), records(given))) == [
        {"id": 1, "new": value},
        {"id": 2, "new": value},
    ]


def test_the_default_of_one_topic_s_field_is_widened_with_the_field_of_another(registry):
    one = register(registry, V1)
    lines = {"name": "lines", "default": [{"sku": "a"}]}
    register(registry, order(ID, {**lines, "type": {"type": "array", "items": LINE}}))
    more = {**LINE, "fields": [{"name": "sku", "type": "string"}, {"name": "id", "type": "long"}, NAME]}
    register(registry, order(ID, {**lines, "default": [], "type": {"type": "array", "items": more}}), "refunds-value")
    found = RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders", "refunds"], REGISTRY)
    assert values(decoded(found, records([framed(one, V1, {"id": 7})]))) == [
        {"id": 7, "lines": [{"sku": "a", "id": 3, "name": None}]}
    ]


def test_a_field_that_was_renamed_is_found_by_its_former_name(registry):
    one = register(registry, V1)
    renamed = order({"name": "number", "type": "long", "aliases": ["id"]})
    register(registry, renamed)
    assert values(decoded(decoder(Avro(registry="r")), records([framed(one, V1, {"id": 7})]))) == [{"number": 7}]


def test_a_field_registered_while_records_are_loaded_becomes_a_column_by_running_again(registry):
    register(registry, V1)
    before = decoder(Avro(registry="r"))
    batch = records([framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(SchemaChangedError, match="schema 2 of values has the field 'name'") as error:
        decoded(before, batch)
    assert error.value.retryable
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, "name": "b", "state": "x"}]


def test_so_does_one_whose_schema_is_named_by_a_header(registry):
    register(registry, V1)
    before = decoder(Avro(registry="r"))
    payload = framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})[5:]
    guid = b"\x01" + uuid.UUID(registry.get_latest_version("orders-value").guid).bytes
    batch = records([payload], [[("__value_schema_id", guid)]])
    with pytest.raises(SchemaChangedError, match="has the field 'name'"):
        decoded(before, batch)
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, "name": "b", "state": "x"}]


def test_so_does_one_whose_schema_another_subject_had_before(registry):
    """A registry gives a schema one id, whatever its subjects."""
    register(registry, V2, "elsewhere")
    register(registry, V1)
    before = decoder(Avro(registry="r"))
    register(registry, V2)
    batch = records([framed(1, V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(SchemaChangedError, match="schema 1 of values has the field 'name'"):
        decoded(before, batch)
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, "name": "b", "state": "x"}]


def test_a_field_that_was_widened_while_records_are_loaded_makes_no_bad_records(registry):
    register(registry, V1)
    before = decoder(Avro(registry="r"), max_bad_records=10, dead_letters="dead")
    wide = order({"name": "id", "type": "long"})
    number = register(registry, wide)
    assert values(before.split(records([framed(number, wide, {"id": 1})]))[0]) == [{"id": 1}]
    batch = records([framed(number, wide, {"id": 2**40})])
    with pytest.raises(SchemaChangedError, match="records of schema 2 do not fit the columns of values") as error:
        before.split(batch)
    assert error.value.retryable
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 2**40}]


def test_of_a_schema_that_none_of_the_subjects_has_records_with_more_fields_are_bad(registry):
    """They stop no load for good: either way out leads out."""
    register(registry, V1)
    register(registry, V2, "elsewhere")
    batch = records([framed(2, V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(RowError, match="newer than all of orders-value: name the subject that has it with subject="):
        decoded(decoder(Avro(registry="r")), batch)
    row = {"id": 1, "name": "b", "state": "x"}
    assert values(decoded(decoder(Avro(registry="r", subject="elsewhere")), batch)) == [row]
    assert values(decoded(decoder(Avro(registry="r", schema=V2)), batch)) == [row]


def test_a_new_field_can_be_asked_to_fail_the_load(registry):
    batch = records([framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(
        SettingError, match=r"has the field 'name', which the columns do not have, and schema_changes='fail'"
    ):
        decoded(decoder(Avro(registry="r", schema=V1, schema_changes="fail")), batch)


def test_with_a_schema_of_ones_own_new_fields_are_added_to_it(registry):
    batch = records([framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})])
    found = decoder(Avro(registry="r", schema=order({"name": "mine", "type": "int", "default": 5}, ID)))
    assert values(decoded(found, batch)) == [{"mine": 5, "id": 1, "name": "b", "state": "x"}]


def test_the_topics_of_a_load_share_their_columns(registry):
    register(registry, V1)
    refund = order({"name": "reason", "type": "string"}, {"name": "id", "type": "long"})
    number = register(registry, refund, "refunds-value")
    found = RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders", "refunds"], REGISTRY)
    assert values(decoded(found, records([framed(number, refund, {"reason": "x", "id": 1})]))) == [
        {"id": 1, "reason": "x"}
    ]


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


def test_an_older_value_that_does_not_fit_the_reader_is_bad_alone(registry):
    wide = order({"name": "id", "type": "long"})
    number = register(registry, wide)
    given = [framed(number, wide, {"id": value}) for value in (1, 2**40)]
    reader = Avro(registry="r", schema=V1, schema_changes="fail")
    found, bad = decoder(reader, max_bad_records=1, dead_letters="dead").split(records(given))
    assert values(found) == [{"id": 1}]
    assert bad.column("offset").to_pylist() == [11]


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


def proto(fields, line):
    """A file with shop.Order: names of fields by their numbers, and the name of the only field of its lines."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name=f"{fields[4].capitalize()}Entry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=11, type_name=".shop.Line", label=1)
    file.message_type.add(name="Line").field.add(name=line, number=1, type=9, label=1)
    for number, name in fields.items():
        nested = {3: ".shop.Line", 4: f".shop.Order.{entry.name}"}.get(number)
        more = {"type": 11, "label": 3, "type_name": nested} if nested else {"type": 9, "label": 1}
        order.field.add(name=name, number=number, **more)
    return file


def test_fields_of_protobuf_are_known_by_their_numbers(registry):
    """A field may be renamed, and its name be another one's."""
    old = proto({1: "id", 2: "note", 3: "lines", 4: "tags"}, "sku")
    new = proto({1: "number", 3: "items", 4: "marks", 5: "note"}, "code")
    number, _ = (
        register(registry, b64encode(each.SerializeToString()).decode(), kind="PROTOBUF") for each in (old, new)
    )
    registry.get_latest_version = lambda subject, **_: registry._store.get_latest_version(subject)
    pool = DescriptorPool()
    pool.Add(old)
    made = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(
        id="7", note="n", lines=[{"sku": "a"}], tags={"x": {"sku": "b"}}
    )
    payload = b"\x00" + number.to_bytes(4, "big") + b"\x00" + made.SerializeToString()
    assert values(decoded(decoder(Protobuf(registry="r")), records([payload]))) == [
        {"number": "7", "items": [{"code": "a"}], "marks": [("x", {"code": "b"})], "note": None}
    ]


def lines(*fields):
    """A schema with a map of records."""
    values = {"type": "record", "name": "line", "fields": list(fields)}
    return order({"name": "lines", "type": {"type": "map", "values": values}})


def test_fields_of_records_in_a_map_get_their_defaults_and_former_names(registry):
    old = lines(ID, {"name": "gone", "type": "int"})
    renamed = lines({"name": "number", "type": "long", "aliases": ["id"]}, {"name": "n", "type": "int", "default": 3})
    number, _ = register(registry, old), register(registry, renamed)
    payload = framed(number, old, {"lines": {"x": {"id": 7, "gone": 1}}})
    assert values(decoded(decoder(Avro(registry="r")), records([payload]))) == [
        {"lines": [("x", {"number": 7, "n": 3})]}
    ]


def test_a_field_of_records_in_a_map_that_is_registered_meanwhile_is_not_left_out(registry):
    register(registry, lines(ID))
    before = decoder(Avro(registry="r"))
    number = register(registry, lines(ID, NAME))
    with pytest.raises(SchemaChangedError, match=r"has the field 'lines\.name'"):
        decoded(before, records([framed(number, lines(ID, NAME), {"lines": {"x": {"id": 7, "name": "a"}}})]))


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
