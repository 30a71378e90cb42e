import json
import uuid
from decimal import Decimal
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from support.messages import naming
from support.registered import order

from airflow_provider_orderedkafka.decoding.avro import AvroWriter
from airflow_provider_orderedkafka.errors import SettingError

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def written(text, *rows):
    """Records as fastavro writes them, which knows logical types by itself."""
    parsed = fastavro.parse_schema(json.loads(text))
    found = []
    for row in rows:
        data = BytesIO()
        fastavro.schemaless_writer(data, parsed, row)
        found.append(data.getvalue())
    return found


FIXED = {"type": "fixed", "name": "f", "size": 6, "logicalType": "decimal", "precision": 10, "scale": 2}
LOGICAL = [
    (FIXED, Decimal("-12.34"), Decimal("-12.34")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38}, Decimal(10**38 - 1), Decimal(10**38 - 1)),
    ({"type": "string", "logicalType": "uuid"}, ID, str(ID)),
    ({"type": "string", "logicalType": "of-my-own"}, "x", "x"),
]
"""Of those that tests/property/test_schema_evolution.py has not."""


@pytest.mark.parametrize(("kind", "given", "expected"), LOGICAL, ids=lambda value: str(value)[:60])
def test_a_logical_type_becomes_its_column_type(kind, given, expected):
    text = order(field("v", ["null", kind]))
    found, errors = AvroWriter.of(text).read(written(text, {"v": given}, {"v": None}))
    assert not errors
    assert [row["v"] for row in found.to_pylist()] == [expected, None]


def test_physical_types_become_their_column_types():
    kinds = ["boolean", "int", "long", "float", "double", "bytes", "string"]
    given = [True, -1, 2**62, 0.5, 1.5, b"\x00\xff", "ä"]
    text = order(*(field(kind, kind) for kind in kinds))
    found, errors = AvroWriter.of(text).read(written(text, dict(zip(kinds, given, strict=True))))
    assert not errors
    assert found.to_pylist() == [dict(zip(kinds, given, strict=True))]
    assert [str(each.type) for each in found.type] == ["bool", "int32", "int64", "float", "double", "binary", "string"]


def test_a_type_that_a_schema_has_named_can_be_used_again():
    line = {"type": "record", "name": "line", "fields": [field("sku", "string"), field("n", ["null", "int"])]}
    text = order(field("lines", {"type": "array", "items": line}), field("first", ["null", "line"]))
    row = {"lines": [{"sku": "a", "n": 1}], "first": {"sku": "c", "n": None}}
    assert AvroWriter.of(text).read(written(text, row))[0].to_pylist() == [row]


def test_the_bytes_of_a_record_are_read_as_the_specification_has_them():
    text = order(field("order", "long"), field("customer", "string"))
    found, _ = AvroWriter.of(text).read([b"\x00\x00\x00\x00\x07\x36\x06foo"], start=5)
    assert found.to_pylist() == [{"order": 27, "customer": "foo"}]


POISON = {
    "empty": (b"", "damaged or cut off"),
    "cut off in a text": (b"\x02\x06fo", "damaged or cut off"),
    "a number that never ends": (b"\xff" * 12, "damaged or cut off"),
    "a text of a negative length": (b"\x02\x05foo", "damaged or cut off"),
    "a text of a huge length": (b"\x02\xfe\xff\xff\xff\x0ffoo", "damaged or cut off"),
    "a text that is not UTF-8": (b"\x02\x06\xff\xfe\xfd", "UnicodeDecodeError"),
    "bytes behind the end": (b"\x02\x06foo!", "1 bytes are left after its end"),
}


@pytest.mark.parametrize(("payload", "why"), POISON.values(), ids=POISON)
def test_a_bad_record_is_told_apart_from_its_neighbours(payload, why):
    text = order(field("order", "long"), field("customer", "string"))
    good = written(text, {"order": 1, "customer": "a"}, {"order": 2, "customer": "b"})
    found, errors = AvroWriter.of(text).read([good[0], payload, good[1]])
    assert found.to_pylist() == [{"order": 1, "customer": "a"}, None, {"order": 2, "customer": "b"}]
    assert list(errors) == [1]
    assert why in errors[1]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, b"\x01"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, b"\x04"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, b"\x22" + b"\x7f" * 17),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("int", b"\xfe\xff\xff\xff\xff\x01"),
        (["null", "long"], b"\x04"),
    ],
    ids=["enum below", "enum above", "decimal of 3 digits", "decimal of 17 bytes", "moment", "int of 33 bits", "union"],
)
def test_a_value_that_its_type_cannot_have_is_an_error_of_its_record(kind, payload):
    good = (
        b"\x02\x02" if isinstance(kind, list) else b"\x02\x01" if kind != "int" and kind["type"] == "bytes" else b"\x02"
    )
    found, errors = AvroWriter.of(order(field("v", kind))).read([good, payload, good])
    assert list(errors) == [1]
    assert [row is None for row in found.to_pylist()] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (order(field("v", ["null", "string", "long"])), '["null", "string", "long"]'),
        (order(field("v", {"type": "array", "items": "null"})), "array"),
        (order(field("next", ["null", "order"])), "'order'"),
        (order(field("v", {"type": "bytes", "logicalType": "decimal", "precision": 39})), "39 digits"),
        (order(field("v", "of-nowhere")), "of-nowhere"),
        (order(field("v", [])), "[]"),
        (order(), "'order'"),
        (order(field("v", ["null", {"type": "record", "name": "nothing", "fields": []}])), "'nothing'"),
    ],
)
def test_a_schema_without_columns_is_refused(text, why):
    with pytest.raises(SettingError, match=naming(why)):
        AvroWriter.of(text)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, b"\x02\x01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, b"\x02\x01"),
        ({"type": "fixed", "name": "f", "size": 1, "logicalType": "uuid"}, b"\x01"),
    ],
    ids=str,
)
def test_a_logical_type_that_is_wrong_is_none(kind, payload):
    assert AvroWriter.of(order(field("v", kind))).read([payload])[0].to_pylist() == [{"v": b"\x01"}]


def test_a_union_of_null_alone_has_its_index_in_each_record():
    text = order(field("none", ["null"]), field("many", {"type": "array", "items": ["null"]}), field("v", "int"))
    row = {"none": None, "many": [None, None], "v": 7}
    found, errors = AvroWriter.of(text).read(written(text, row))
    assert (found.to_pylist(), errors) == ([row], {})


def test_types_that_widen_go_together_in_a_union():
    assert AvroWriter.of(order(field("v", ["null", "int", "long"]))).field.type.field("v").type == pa.int64()


def test_the_types_of_other_schemas_can_be_referred_to():
    line = json.dumps({"type": "record", "name": "line", "namespace": "shop", "fields": [field("sku", "string")]})
    found, _ = AvroWriter.of(order(field("line", "shop.line")), line).read([b"\x02a"])
    assert found.to_pylist() == [{"line": {"sku": "a"}}]
