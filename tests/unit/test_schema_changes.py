"""Records of several schemas, and schemas that change while records are loaded."""

import uuid
from base64 import b64encode
from decimal import Decimal

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from support.registered import (
    ID,
    NAME,
    REGISTRY,
    V1,
    V2,
    decoded,
    decoder,
    framed,
    order,
    records,
    register,
    small_registry,
    values,
)

from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Protobuf
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder
from airflow_provider_orderedkafka.errors import RowError, SchemaChangedError, SettingError


@pytest.fixture
def registry(monkeypatch):
    return small_registry(monkeypatch)


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


LINE = {"type": "record", "name": "line", "fields": [{"name": "sku", "type": "string"}, {**ID, "default": 3}]}
LINES = {"type": "array", "items": LINE}
DEFAULTS = {  # and those of tests/property/test_schema_evolution.py
    "an array of records": ({"type": "array", "items": LINE}, [{"sku": "a"}], [{"sku": "a", "id": 3}]),
    "a whole number of a double": ("double", 1, 1.0),
    "one of a union": (["string", "null"], "x", "x"),
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
    lines = {"name": "lines", "type": LINES, "default": [{"sku": "a"}]}
    register(registry, order(ID, lines))
    more = {**LINE, "fields": [{"name": "sku", "type": "string"}, {**ID, "type": "long"}, NAME]}
    register(registry, order(ID, {"name": "lines", "type": {"type": "array", "items": more}}), "refunds-value")
    found = RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders", "refunds"], REGISTRY)
    assert values(decoded(found, records([framed(one, V1, {"id": 7})]))) == [
        {"id": 7, "lines": [{"sku": "a", "id": 3, "name": None}]}
    ]


def of_topics(registry, kinds, **given):
    """The decoder of topics whose newest schemas have the field `new`, and what an older record without it becomes."""
    old = register(registry, V1)
    for topic, kind in kinds.items():
        register(registry, order(ID, {"name": "new", **kind}), f"{topic}-value")
    found = RecordDecoder.of(Decode(value=Avro(registry="r", **given)), sorted(kinds), REGISTRY)
    return values(decoded(found, records([framed(old, V1, {"id": 7})])))


TEXT = ["null", "string"]


@pytest.mark.parametrize("default", ["a", None])
def test_a_field_that_topics_have_other_defaults_of_is_bad_where_it_is_missing(registry, default):
    """Which one counts is not known of a schema that may be of any topic."""
    kinds = {"orders": {"type": TEXT, "default": default}, "refunds": {"type": TEXT, "default": "b"}}
    with pytest.raises(RowError, match=r"'new'.*schema="):
        of_topics(registry, kinds)


def test_a_given_schema_says_which_default_of_several_topics_counts(registry):
    kinds = {"orders": {"type": "string", "default": "a"}, "refunds": {"type": "string", "default": "b"}}
    given = order({"name": "new", "type": "string", "default": "mine"})
    assert of_topics(registry, kinds, schema=given) == [{"new": "mine", "id": 7}]


@pytest.mark.parametrize("first", ["orders", "refunds"])
def test_the_default_that_one_topic_says_and_the_same_one_in_another_type_count(registry, first):
    default = {"type": "int", "default": 5}
    kinds = {first: {"type": "long"}, "orders": {"type": "int"}, "refunds": {"type": "int"}, "third": default}
    assert of_topics(registry, kinds) == [{"id": 7, "new": 5}]


def decimal(precision, scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def test_a_decimal_of_one_topic_takes_the_whole_numbers_of_another(registry):
    given = []
    for topic, kind, value in (("orders", decimal(10, 2), Decimal("1.25")), ("refunds", "long", 7)):
        text = order({"name": "price", "type": kind})
        given.append(framed(register(registry, text, f"{topic}-value"), text, {"price": value}))
    found = RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders", "refunds"], REGISTRY)
    assert values(decoded(found, records(given))) == [{"price": Decimal("1.25")}, {"price": Decimal("7.00")}]


@pytest.mark.parametrize("kinds", [(decimal(38, 2), decimal(38, 30)), (decimal(10, 2), "double")], ids=str)
def test_decimals_that_no_column_takes_as_they_are_are_refused(registry, kinds):
    for topic, kind in zip(("orders", "refunds"), kinds, strict=True):
        register(registry, order({"name": "price", "type": kind}), f"{topic}-value")
    with pytest.raises(SettingError, match="'price'"):
        RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders", "refunds"], REGISTRY)


def test_where_no_record_lacks_it_the_other_default_of_a_field_is_none_of_them(registry):
    line = {**LINE, "fields": [{"name": "sku", "type": "string"}]}
    old = order({"name": "lines", "type": {"type": "array", "items": line}}, {"name": "line", "type": ["null", "line"]})
    number = register(registry, old)
    for topic in ("orders", "refunds"):
        more = {**LINE, "fields": [*line["fields"], {"name": "at", "type": "string", "default": topic}]}
        new = order(
            {"name": "lines", "type": {"type": "array", "items": more}}, {"name": "line", "type": ["null", "line"]}
        )
        register(registry, new, f"{topic}-value")
    found = RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders", "refunds"], REGISTRY)
    row = {"lines": [], "line": None}
    assert values(decoded(found, records([framed(number, old, row)]))) == [row]


def test_the_former_names_of_a_field_are_those_of_all_topics(registry):
    names = {"orders-value": ["label"], "refunds-value": ["title"]}
    given = []
    for number, (subject, [former]) in enumerate(names.items()):
        old = order(ID, {"name": former, "type": LINES})
        given.append(framed(register(registry, old, subject), old, {"id": number, former: [{"sku": former}]}))
        register(registry, order(ID, {"name": "lines", "aliases": [former], "type": LINES}), subject)
    found = RecordDecoder.of(Decode(value=Avro(registry="r")), ["orders", "refunds"], REGISTRY)
    assert values(decoded(found, records(given))) == [
        {"id": 0, "lines": [{"sku": "label", "id": 3}]},
        {"id": 1, "lines": [{"sku": "title", "id": 3}]},
    ]


LONG = {"type": "long"}
TOTAL = {"name": "total", **LONG, "aliases": ["amount"], "default": -1}
AMOUNT = {"name": "amount", **LONG, "default": -2}


@pytest.mark.parametrize("columns", [[TOTAL, AMOUNT], [AMOUNT, TOTAL]], ids=["renamed one first", "new one first"])
@pytest.mark.parametrize(
    ("written", "made"),
    [
        ({"amount": 7}, {"total": 7, "amount": -2}),
        ({"total": 7}, {"total": 7, "amount": -2}),
        ({"total": 7, "amount": 8}, {"total": 7, "amount": 8}),
        ({}, {"total": -1, "amount": -2}),
    ],
)
def test_a_former_name_that_is_another_fields_now_is_the_renamed_fields_in_older_records(
    registry, columns, written, made
):
    old = order(ID, *({"name": name, **LONG} for name in written))
    batch = records([framed(register(registry, old), old, {"id": 1, **written})])
    register(registry, order(ID, *columns))
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, **made}]


def test_fields_that_took_each_others_names_in_turn_are_followed(registry):
    old = order(*({"name": name, **LONG} for name in ("a", "b", "c")))
    batch = records([framed(register(registry, old), old, {"a": 1, "b": 2, "c": 3})])
    register(registry, order(*({"name": name, **LONG, "aliases": [was]} for name, was in ("cb", "ba", "zc"))))
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"c": 2, "b": 1, "z": 3}]


def test_a_field_registered_while_records_are_loaded_becomes_a_column_by_running_again(registry):
    register(registry, V1)
    before = decoder(Avro(registry="r"))
    batch = records([framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(SchemaChangedError, match="'name'") as error:
        decoded(before, batch)
    assert error.value.retryable
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, "name": "b", "state": "x"}]


def test_a_field_registered_meanwhile_is_seen_where_a_header_names_its_schema(registry):
    register(registry, V1)
    before = decoder(Avro(registry="r"))
    payload = framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})[5:]
    guid = b"\x01" + uuid.UUID(registry.get_latest_version("orders-value").guid).bytes
    batch = records([payload], [[("__value_schema_id", guid)]])
    with pytest.raises(SchemaChangedError, match="'name'"):
        decoded(before, batch)
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, "name": "b", "state": "x"}]


def test_a_field_registered_meanwhile_is_seen_where_another_subject_had_its_schema_before(registry):
    """A registry gives a schema one id, whatever its subjects."""
    register(registry, V2, "elsewhere")
    register(registry, V1)
    before = decoder(Avro(registry="r"))
    register(registry, V2)
    batch = records([framed(1, V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(SchemaChangedError, match="'name'"):
        decoded(before, batch)
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 1, "name": "b", "state": "x"}]


def test_a_field_that_was_widened_while_records_are_loaded_makes_no_bad_records(registry):
    register(registry, V1)
    before = decoder(Avro(registry="r"), max_bad=10)
    wide = order({"name": "id", "type": "long"})
    number = register(registry, wide)
    assert values(before.split(records([framed(number, wide, {"id": 1})]))[0]) == [{"id": 1}]
    batch = records([framed(number, wide, {"id": 2**40})])
    with pytest.raises(SchemaChangedError) as error:
        before.split(batch)
    assert error.value.retryable
    assert values(decoded(decoder(Avro(registry="r")), batch)) == [{"id": 2**40}]


def test_of_a_schema_that_none_of_the_subjects_has_records_with_more_fields_are_bad(registry):
    """They stop no load for good: either way out leads out."""
    register(registry, V1)
    register(registry, V2, "elsewhere")
    batch = records([framed(2, V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(RowError, match="subject="):
        decoded(decoder(Avro(registry="r")), batch)
    row = {"id": 1, "name": "b", "state": "x"}
    assert values(decoded(decoder(Avro(registry="r", subject="elsewhere")), batch)) == [row]
    assert values(decoded(decoder(Avro(registry="r", schema=V2)), batch)) == [row]


def test_a_new_field_can_be_asked_to_fail_the_load(registry):
    batch = records([framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})])
    with pytest.raises(SettingError, match=r"'name'.*schema_changes='fail'"):
        decoded(decoder(Avro(registry="r", schema=V1, schema_changes="fail")), batch)


def test_with_a_schema_of_ones_own_new_fields_are_added_to_it(registry):
    batch = records([framed(register(registry, V2), V2, {"id": 1, "name": "b", "state": "x"})])
    found = decoder(Avro(registry="r", schema=order({"name": "mine", "type": "int", "default": 5}, ID)))
    assert values(decoded(found, batch)) == [{"mine": 5, "id": 1, "name": "b", "state": "x"}]


def test_an_older_value_that_does_not_fit_the_reader_is_bad_alone(registry):
    wide = order({"name": "id", "type": "long"})
    number = register(registry, wide)
    given = [framed(number, wide, {"id": value}) for value in (1, 2**40)]
    reader = Avro(registry="r", schema=V1, schema_changes="fail")
    found, bad = decoder(reader, max_bad=1).split(records(given))
    assert values(found) == [{"id": 1}]
    assert bad.column("offset").to_pylist() == [11]


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


def test_a_field_that_has_two_numbers_in_one_message_is_refused(registry):
    """By its number it would be found in the records of one topic alone."""
    registry.get_latest_version = lambda subject, **_: registry._store.get_latest_version(subject)
    for topic, fields in {"orders": {1: "id", 2: "note"}, "refunds": {1: "id", 5: "note"}}.items():
        file = proto({**fields, 3: "lines", 4: "tags"}, "sku")
        register(registry, b64encode(file.SerializeToString()).decode(), f"{topic}-value", "PROTOBUF")
    with pytest.raises(SettingError, match=r"'note'.*shop\.Order\.5"):
        RecordDecoder.of(Decode(value=Protobuf(registry="r")), ["orders", "refunds"], REGISTRY)


def lines(*fields):
    """A schema with a map of records."""
    values = {"type": "record", "name": "line", "fields": list(fields)}
    return order({"name": "lines", "type": {"type": "map", "values": values}})


def test_a_field_of_records_in_a_map_that_is_registered_meanwhile_is_not_left_out(registry):
    register(registry, lines(ID))
    before = decoder(Avro(registry="r"))
    number = register(registry, lines(ID, NAME))
    with pytest.raises(SchemaChangedError, match=r"'lines\.name'"):
        decoded(before, records([framed(number, lines(ID, NAME), {"lines": {"x": {"id": 7, "name": "a"}}})]))
