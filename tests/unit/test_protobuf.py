import datetime as dt
import json

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

from airflow_provider_orderedkafka.decoding.protobuf import ProtobufWriter
from airflow_provider_orderedkafka.errors import SettingError

TYPES = descriptor_pb2.FieldDescriptorProto


def proto_file():
    """shop.Order with fields of each kind, a message in it, and shop.Refund behind it."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=TYPES.TYPE_STRING, label=TYPES.LABEL_OPTIONAL)
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=TYPES.TYPE_STRING, label=TYPES.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=TYPES.TYPE_INT64, label=TYPES.LABEL_OPTIONAL)
    state = order.enum_type.add(name="State")
    state.options.allow_alias = True
    for number, name in enumerate(["OPEN", "PAID"]):
        state.value.add(name=name, number=number)
    state.value.add(name="SETTLED", number=1)
    kinds = {"id": "INT64", "small": "INT32", "huge": "UINT64", "part": "FLOAT", "amount": "DOUBLE", "ok": "BOOL"}
    for number, (name, kind) in enumerate({**kinds, "customer": "STRING", "data": "BYTES"}.items(), 1):
        order.field.add(name=name, number=number, type=getattr(TYPES, f"TYPE_{kind}"), label=TYPES.LABEL_OPTIONAL)
    more = [
        ("state", ".shop.Order.State", TYPES.TYPE_ENUM, TYPES.LABEL_OPTIONAL),
        ("lines", ".shop.Order.Line", TYPES.TYPE_MESSAGE, TYPES.LABEL_REPEATED),
        ("first", ".shop.Order.Line", TYPES.TYPE_MESSAGE, TYPES.LABEL_OPTIONAL),
        ("tags", ".shop.Order.TagsEntry", TYPES.TYPE_MESSAGE, TYPES.LABEL_REPEATED),
        ("at", ".google.protobuf.Timestamp", TYPES.TYPE_MESSAGE, TYPES.LABEL_OPTIONAL),
        ("note", ".google.protobuf.StringValue", TYPES.TYPE_MESSAGE, TYPES.LABEL_OPTIONAL),
    ]
    for number, (name, type_name, kind, label) in enumerate(more, 9):
        order.field.add(name=name, number=number, type=kind, type_name=type_name, label=label)
    refund = file.message_type.add(name="Refund")
    refund.field.add(name="id", number=1, type=TYPES.TYPE_INT64, label=TYPES.LABEL_OPTIONAL)
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="left", number=1, type=11, type_name=".shop.Tree", label=TYPES.LABEL_OPTIONAL)
    return file


def files():
    known = [timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR]
    return (*(each.serialized_pb for each in known), proto_file().SerializeToString())


def message(name, **fields):
    pool = descriptor_pool.DescriptorPool()
    for each in files():
        pool.AddSerializedFile(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**fields)


def test_fields_of_every_kind_become_columns():
    given = message(
        "shop.Order",
        id=-1,
        small=2,
        huge=2**64 - 1,
        part=0.5,
        amount=1.5,
        ok=True,
        customer="ä",
        data=b"\xff",
        state=1,
        lines=[{"sku": "a"}, {}],
        first={"sku": "b"},
        tags={"x": 1},
    )
    given.at.seconds, given.at.nanos, given.note.value = 1, 2_999, "n"
    found, errors = ProtobufWriter.of(files(), None, framed=False).read([given.SerializeToString(), b""])
    assert not errors
    full, empty = found.to_pylist()
    assert full == {
        "id": -1,
        "small": 2,
        "huge": 2**64 - 1,
        "part": 0.5,
        "amount": 1.5,
        "ok": True,
        "customer": "ä",
        "data": b"\xff",
        "state": "PAID",
        "lines": [{"sku": "a"}, {"sku": ""}],
        "first": {"sku": "b"},
        "tags": [("x", 1)],
        "at": dt.datetime(1970, 1, 1, 0, 0, 1, 2, dt.UTC),
        "note": "n",
    }
    assert empty == {
        "id": 0,
        "small": 0,
        "huge": 0,
        "part": 0.0,
        "amount": 0.0,
        "ok": False,
        "customer": "",
        "data": b"",
        "state": "OPEN",
        "lines": [],
        "first": None,
        "tags": [],
        "at": None,
        "note": None,
    }


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("shop.Order", b"\x00"),
        ("shop.Order", b"\x02\x00"),
        ("shop.Refund", b"\x02\x02"),
        ("shop.Order.Line", b"\x04\x00\x00"),
    ],
)
def test_the_indexes_in_front_say_which_message_it_is(name, indexes):
    data = message(name).SerializeToString()
    _, errors = ProtobufWriter.of(files(), name, framed=True).read([b"\x00\x00\x00\x00\x01" + indexes + data], 5)
    assert not errors


POISON = {
    "nothing": b"",
    "another message": b"\x02\x02\x08\x01",
    "indexes that end too early": b"\x02",
    "indexes that never end": b"\xff" * 20,
    "very many indexes": b"\xfe\xff\xff\xff\x0f",
    "cut off": b"\x00\x08",
    "a wrong type on the wire": b"\x00\x0f",
    "a text that is not UTF-8": b"\x00\x3a\x01\xff",
}


@pytest.mark.parametrize("payload", POISON.values(), ids=POISON)
def test_a_bad_message_is_told_apart_from_its_neighbours(payload):
    good = b"\x00" + message("shop.Order", id=1).SerializeToString()
    found, errors = ProtobufWriter.of(files(), None, framed=True).read([good, payload, good])
    assert list(errors) == [1]
    assert [row and row["id"] for row in found.to_pylist()] == [1, None, 1]


def test_a_message_that_contains_itself_and_one_that_is_not_there_are_refused():
    with pytest.raises(SettingError, match="itself"):
        ProtobufWriter.of(files(), "shop.Tree", framed=False)
    with pytest.raises(SettingError, match=r"'shop\.Nothing'"):
        ProtobufWriter.of(files(), "shop.Nothing", framed=False)


def test_an_any_is_json_whether_its_message_is_google_s_or_one_of_the_schema():
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/any.proto")
    file.message_type.add(name="Line").field.add(name="sku", number=1, type=TYPES.TYPE_STRING)
    event = file.message_type.add(name="Event").field
    event.add(name="what", number=1, type=TYPES.TYPE_MESSAGE, type_name=".google.protobuf.Any")
    writer = ProtobufWriter.of((file.SerializeToString(),), "shop.Event", framed=False)
    made = message_factory.GetMessageClass(writer.descriptor)
    named = {"shop.Line": b"\x0a\x01a", "google.protobuf.StringValue": b"\x0a\x01b", "shop.Nothing": b""}
    given = [made(what={"type_url": f"x/{name}", "value": data}).SerializeToString() for name, data in named.items()]
    found, errors = writer.read(given)
    assert [row and json.loads(row["what"]) for row in found.to_pylist()] == [
        {"@type": "x/shop.Line", "sku": "a"},
        {"@type": "x/google.protobuf.StringValue", "value": "b"},
        None,
    ]
    assert list(errors) == [2]


@pytest.mark.parametrize("name", ["confluent/meta", "google/protobuf/api"])
def test_what_a_registry_has_built_in_may_be_imported_without_being_there(name):
    """Confluent's registry gives no references to these."""
    file = descriptor_pb2.FileDescriptorProto(name="tagged.proto", syntax="proto3", dependency=[f"{name}.proto"])
    file.message_type.add(name="Tagged").field.add(name="id", number=1, type=5, label=1)
    found, errors = ProtobufWriter.of((file.SerializeToString(),), None, framed=False).read([b"\x08\x07"])
    assert (found.to_pylist(), errors) == ([{"id": 7}], {})


def test_what_is_imported_and_is_nowhere_is_named():
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3", dependency=["google/nowhere.proto"])
    file.message_type.add(name="A").field.add(name="id", number=1, type=5, label=1)
    with pytest.raises(SettingError, match="nowhere"):
        ProtobufWriter.of((file.SerializeToString(),), None, framed=False)
