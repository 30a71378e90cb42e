"""Fields whose type changed, while older records are still in the topic."""

import datetime as dt
import json
from base64 import b64encode
from io import BytesIO
from itertools import product

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from support.avro_resolution import kind, resolved
from support.messages import says
from support.registered import ID, REGISTRY, decoded, decoder, framed, order, records, register, small_registry, values

from airflow_provider_orderedkafka.decoding.avro import AvroWriter
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Protobuf
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder
from airflow_provider_orderedkafka.decoding.protobuf import ProtobufWriter
from airflow_provider_orderedkafka.errors import RowError, SchemaChangedError, SettingError

AT = 1_700_000_000_123
MOMENT = dt.datetime(2023, 11, 14, 22, 13, 20, 123_000, dt.UTC)


@pytest.fixture
def registry(monkeypatch):
    return small_registry(monkeypatch)


def logical(name, physical="long"):
    return {"type": physical, "logicalType": name}


def at(schema, **more):
    return order(ID, {"name": "at", "type": schema, **more})


MILLIS, MICROS, NANOS = (logical(f"timestamp-{unit}") for unit in ("millis", "micros", "nanos"))
LOCAL = logical("local-timestamp-millis")
NUMBERS = [
    "int",
    "long",
    logical("date", "int"),
    logical("time-millis", "int"),
    logical("time-micros"),
    MILLIS,
    MICROS,
    NANOS,
    LOCAL,
    logical("local-timestamp-micros"),
    logical("local-timestamp-nanos"),
]


def unit(schema):
    return None if isinstance(schema, str) else schema["logicalType"].removeprefix("local-")


@pytest.mark.parametrize(("old", "new"), list(product(NUMBERS, NUMBERS)), ids=str)
def test_a_number_gets_the_logical_type_of_the_reader_or_is_a_bad_record(registry, old, new):
    one = register(registry, at(old))
    register(registry, at(new))
    physical = json.loads(at(kind(old)))
    data = BytesIO()
    fastavro.schemaless_writer(data, physical, {"id": 1, "at": 86_000})
    batch = records([b"\x00" + one.to_bytes(4, "big") + data.getvalue()])
    found, bad = decoder(Avro(registry="r"), max_bad=1).split(batch)
    if unit(old) and unit(new) and unit(old) != unit(new):
        assert says(bad.column("_error")[0].as_py(), f"'at' ... {unit(old)} ... {unit(new)}")
    elif kind(old) == "long" and kind(new) == "int":
        assert bad.num_rows + found.num_rows == 1, "Avro has no such change; what fits is taken"
    else:
        assert values(found) == [{"id": 1, "at": resolved(86_000, old, new)}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("string", "long"),
        ("long", "string"),
        ("bytes", MILLIS),
        ("string", {"type": "record", "name": "inner", "fields": [ID]}),
    ],
    ids=str,
)
def test_a_type_that_avro_does_not_resolve_makes_bad_records(registry, old, new):
    one = register(registry, at(old))
    register(registry, at(new))
    batch = records([framed(one, at(old), {"id": 1, "at": 7 if old == "long" else b"7" if old == "bytes" else "7"})])
    found, bad = decoder(Avro(registry="r"), max_bad=1).split(batch)
    assert (found.num_rows, bad.num_rows) == (0, 1)


def test_a_key_of_one_value_is_no_exception(registry):
    one = register(registry, '"long"', "orders-key")
    register(registry, json.dumps(MILLIS), "orders-key")
    found = RecordDecoder.of(Decode(key=Avro(registry="r")), ["orders"], REGISTRY)
    batch = records([None]).set_column(0, "key", pa.array([framed(one, '"long"', AT)]))
    assert decoded(found, batch).column("key").to_pylist() == [MOMENT]


def test_the_schema_of_a_reader_says_what_plain_numbers_of_the_registry_are(registry):
    number = register(registry, at("long"))
    reader = Avro(registry="r", schema=at(MILLIS), schema_changes="fail")
    batch = records([framed(number, at("long"), {"id": 1, "at": AT})])
    assert values(decoded(decoder(reader), batch)) == [{"id": 1, "at": MOMENT}]


def test_a_unit_that_changed_is_neither_unit_and_a_plain_number_leads_out(registry):
    one, two = (register(registry, at(schema)) for schema in (MILLIS, MICROS))
    batch = records(
        [framed(two, at(MICROS), {"id": 1, "at": MOMENT}), framed(one, at(MILLIS), {"id": 2, "at": MOMENT})]
    )
    with pytest.raises(RowError) as error:
        decoded(decoder(Avro(registry="r")), batch)
    assert (error.value.offset, error.value.retryable) == (11, False)
    reader = Avro(registry="r", schema=at("long"), schema_changes="fail")
    assert values(decoded(decoder(reader), batch)) == [{"id": 1, "at": AT * 1_000}, {"id": 2, "at": AT}]


def test_a_unit_that_changes_while_records_are_loaded_is_that_of_the_columns_by_running_again(registry):
    register(registry, at(MILLIS))
    before = decoder(Avro(registry="r"), max_bad=1)
    batch = records([framed(register(registry, at(MICROS)), at(MICROS), {"id": 1, "at": MOMENT})])
    with pytest.raises(SchemaChangedError) as error:
        before.split(batch)
    assert error.value.retryable
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, "at": MOMENT}]


def of_two(registry, one, other, form=None):
    """The ids of both, and a decoder of their topics."""
    ids = [register(registry, at(one)), register(registry, at(other), "refunds-value")]
    return ids, RecordDecoder.of(Decode(value=form or Avro(registry="r")), ["orders", "refunds"], REGISTRY, max_bad=9)


def test_topics_of_different_units_are_read_each_by_its_own(registry):
    (one, two), found = of_two(registry, MILLIS, MICROS)
    both = [framed(one, at(MILLIS), {"id": 1, "at": MOMENT}), framed(two, at(MICROS), {"id": 1, "at": MOMENT})]
    assert values(decoded(found, records(both))) == [{"id": 1, "at": MOMENT}] * 2
    plain = records([framed(register(registry, at("long"), "before"), at("long"), {"id": 1, "at": AT})])
    assert found.split(plain)[1].num_rows == 1, "of which topic is it?"


@pytest.mark.parametrize("time", [logical("time-millis", "int"), logical("time-micros")], ids=str)
def test_topics_of_which_one_has_a_time_and_another_a_number_are_refused(registry, time):
    with pytest.raises(SettingError, match="'at'"):
        of_two(registry, time, "long")


@pytest.mark.parametrize(
    "other",
    [{"type": "enum", "name": "e", "symbols": ["A", "B", "C"]}, logical("time-millis", "int"), "string", "bytes"],
    ids=str,
)
def test_a_union_of_a_number_and_what_only_looks_like_one_is_refused(other):
    with pytest.raises(SettingError, match="union"):
        AvroWriter.of(at(["null", other, "long"]))


def test_a_symbol_that_is_no_longer_there_is_the_default_and_without_one_what_was_written(registry):
    old = {"type": "enum", "name": "state", "symbols": ["NEW", "LOST", "PAID"]}
    for new, read in (({"default": "NEW"}, "NEW"), ({}, "LOST")):
        one = register(registry, at(old))
        register(registry, at({**old, "symbols": ["PAID", "NEW"], **new}))
        batch = records([framed(one, at(old), {"id": 1, "at": each}) for each in ("LOST", "PAID")])
        assert [row["at"] for row in values(decoded(decoder(Avro(registry="r")), batch))] == [read, "PAID"]


def test_a_symbol_that_is_no_longer_there_in_topics_of_several_defaults_is_bad(registry):
    orders, states = ({"type": "enum", "name": "e", "symbols": [*each], "default": each[0]} for each in ("AB", "XY"))
    older = {**orders, "symbols": ["A", "B", "C"]}
    one = register(registry, at(older), "before")
    _, found = of_two(registry, orders, states)
    good, bad = found.split(records([framed(one, at(older), {"id": 1, "at": each}) for each in "ABC"]))
    assert [row["at"] for row in values(good)] == ["A", "B"]
    assert bad.column("offset").to_pylist() == [12]


TYPES = descriptor_pb2.FieldDescriptorProto


def proto(name, symbols=("NEW", "PAID", "SENT"), label=TYPES.LABEL_OPTIONAL):
    """A message with one field of this type."""
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    message, enum = file.message_type.add(name="Order"), file.enum_type.add(name="State")
    for number, symbol in enumerate(symbols):
        enum.value.add(name=symbol, number=number)
    more = {"type_name": ".shop.State"} if name == "enum" else {}
    message.field.add(name="f", number=1, type=getattr(TYPES, f"TYPE_{name.upper()}"), label=label, **more)
    return file


def made(file):
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


BAD = object()


def reread(old, new, value):
    """What becomes of the field's value."""
    writer, reader = (ProtobufWriter.of((each.SerializeToString(),), None, framed=False) for each in (old, new))
    [found], errors = writer.read([made(old)(f=value).SerializeToString()], reader=reader.field)
    return BAD if errors else found.as_py()["f"]


ALIKE = [
    ("int32", "int64", "uint32", "uint64", "bool", "enum"),
    ("sint32", "sint64"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
]
WHOLE = [(old, new) for alike in ALIKE for old in alike for new in alike]
GIVEN = [0, 1, 2, 3, -5, 2**31, 2**32 - 5, 2**40, 2**63 - 1, 2**64 - 5]
LIMITS = {"bool": (0, 1), "enum": (-(2**31), 2**31 - 1)}


def takes(name, value):
    bits = int(name[-2:]) if name[-2:].isdigit() else 0
    unsigned = name.startswith(("u", "f"))
    low, high = LIMITS.get(name) or ((0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    return low <= value <= high


@pytest.mark.parametrize(("old", "new"), WHOLE, ids=str)
def test_whole_numbers_that_are_alike_on_the_wire_are_read_as_each_other_where_they_fit(old, new):
    for value in (each for each in GIVEN if takes(old, each)):
        ours = reread(proto(old), proto(new), value)
        if new == "enum" and takes(new, value):
            assert ours == dict(enumerate(["NEW", "PAID", "SENT"])).get(value, str(value))
        elif takes(new, value) or (new == "bool" and value < 2**63):
            theirs = made(proto(new)).FromString(made(proto(old))(f=value).SerializeToString()).f
            assert (ours, type(ours) is bool) == (theirs, new == "bool")
        else:
            assert ours is BAD, "a number that does not fit is a bad record, and not cut off"


def test_a_message_that_was_moved_within_its_schema_is_the_one_of_the_columns(registry):
    """By default that is the first one of the newest schema."""
    moved, first = proto("int32"), proto("int32")
    moved.message_type.insert(0, moved.message_type.add(name="Line"))
    del moved.message_type[-1]
    moved.message_type[0].field.add(name="g", number=1, type=5, label=1)
    one, two = (
        register(registry, b64encode(each.SerializeToString()).decode(), kind="PROTOBUF") for each in (moved, first)
    )
    registry.get_latest_version = lambda subject, **_: registry._store.get_latest_version(subject)
    data = made(first)(f=7).SerializeToString()
    given = [
        b"\x00" + number.to_bytes(4, "big") + indexes + data
        for number, indexes in ((one, b"\x02\x02"), (one, b"\x00"), (two, b"\x00"))
    ]
    found, bad = decoder(Protobuf(registry="r"), max_bad=1).split(records(given))
    assert values(found) == [{"f": 7}, {"f": 7}]
    assert "shop.Order" in bad.column("_error")[0].as_py()


def test_texts_are_read_as_bytes_and_bytes_as_texts_if_they_are_some():
    assert reread(proto("string"), proto("bytes"), "é") == "é".encode()
    assert reread(proto("bytes"), proto("string"), "é".encode()) == "é"
    assert reread(proto("bytes"), proto("string"), b"\xff") is BAD


def test_a_symbol_has_the_name_of_the_reader_and_else_the_one_of_the_writer():
    older, newer = proto("enum"), proto("enum", ("NEW", "SETTLED"))
    assert [reread(older, newer, number) for number in range(4)] == ["NEW", "SETTLED", "SENT", "3"]
    assert reread(older, proto("string"), 1) == "PAID"


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (proto("string"), proto("int32"), "7"),
        (proto("int32"), proto("string"), 7),
        (proto("string"), proto("string", label=TYPES.LABEL_REPEATED), "x"),
    ],
    ids=["text as number", "number as text", "one as several"],
)
def test_what_is_not_alike_on_the_wire_is_a_bad_message(old, new, value):
    assert reread(old, new, value) is BAD
