"""Whatever became of an Avro schema, older records read as Avro's own resolution of schemas has it."""

import json
from io import BytesIO
from itertools import count

import fastavro
from hypothesis import given
from hypothesis import strategies as st
from support.avro_resolution import kind, resolved

from airflow_provider_orderedkafka.decoding.avro import AvroWriter
from airflow_provider_orderedkafka.decoding.evolution import clashes

VALUES = {
    "int": st.integers(-(2**19), 2**19),
    "long": st.integers(-(2**45), 2**45),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "string": st.text(max_size=3),
    "bytes": st.text(max_size=3).map(str.encode),
    "fixed": st.binary(min_size=16, max_size=16),
    "any int": st.integers(2**24, 2**31 - 1) | st.integers(-(2**31), 2**31 - 1),
    "any long": st.integers(2**53, 2**63 - 1) | st.integers(-(2**63), 2**63 - 1),
}
INT, LONG = ({"type": each, "values": f"any {each}"} for each in ("int", "long"))
PROMOTED = [
    *((old, new) for old in (INT, LONG) for new in ("float", "double", ["float", "double"], ["double", "float"])),
    (INT, "long"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
]
UNIONS = [["int", "long"], ["long", "int"], ["float", "double"], ["double", "float"]]
MILLIS, MICROS, NANOS = (
    [{"type": "long", "logicalType": f"{place}timestamp-{unit}"} for place in ("", "local-")]
    for unit in ("millis", "micros", "nanos")
)
TIME, DATE = {"type": "int", "logicalType": "time-millis"}, {"type": "int", "logicalType": "date"}
DECIMALS = [{"type": "bytes", "logicalType": "decimal", "precision": each, "scale": 2} for each in (29, 38)]
UUID = {"type": "fixed", "logicalType": "uuid"}
FAMILIES = [
    *([*alike, "long", "int"] for alike in (MILLIS, MICROS, NANOS)),
    ["int", TIME],
    ["int", DATE],
    ["int", "long", {"type": "long", "logicalType": "time-micros"}],
    ["bytes", "string", *DECIMALS],
    [{"type": "fixed"}, UUID],
]
"""What of each family is read as each other, if the physical types allow it."""
NARROW = {("long", "int")}


@st.composite
def schemas(draw, names, depth=0):
    """A writer's schema, and what became of it."""
    kinds = ["same", "promoted", "meant", "enum", "union", *(NESTED if depth < 3 else [])]
    chosen = draw(st.sampled_from(kinds)) if depth else "record"
    if chosen == "same":
        return (name := draw(st.sampled_from(["boolean", "int", "long", "float", "double", "string", "bytes"])), name)
    if chosen == "promoted":
        return draw(st.sampled_from(PROMOTED))
    if chosen == "meant":
        return draw(meanings(names))
    if chosen == "enum":
        return draw(enums(names))
    if chosen == "union":
        return draw(st.sampled_from([(each, each) for each in UNIONS]))
    if chosen == "record":
        return draw(records(names, depth))
    old, new = draw(schemas(names, depth + 1))
    if chosen == "array":
        return {"type": "array", "items": old}, {"type": "array", "items": new}
    if chosen == "map":
        return {"type": "map", "values": old}, {"type": "map", "values": new}
    return (nullable(old) if chosen == "null" else old), nullable(new)


NESTED = ["array", "map", "null", "nullable", "record"]


@st.composite
def meanings(draw, names):
    """The same number, or the same bytes, with another logical type or none."""
    family = draw(st.sampled_from(FAMILIES))
    old, new = draw(st.sampled_from([(a, b) for a in family for b in family if (kind(a), kind(b)) not in NARROW]))
    if kind(old) != "fixed":
        return old, new
    name = f"f{next(names)}"
    return {**old, "name": name, "size": 16}, {**new, "name": name, "size": 16}


@st.composite
def enums(draw, names):
    """Symbols that came and went; what went is the default."""
    old, new = (draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True)) for _ in range(2))
    named = {"type": "enum", "name": f"e{next(names)}"}
    return {**named, "symbols": old}, {**named, "symbols": new, "default": draw(st.sampled_from(new))}


@st.composite
def records(draw, names, depth):
    name, old, new = f"r{next(names)}", [], []
    for _ in range(draw(st.integers(1, 3))):
        field = f"f{next(names)}"
        was, is_ = draw(schemas(names, depth + 1))
        became = draw(st.sampled_from(["kept", "kept", "renamed", "dropped", "added"]))
        if became == "kept":
            new.append({"name": field, "type": is_})
        elif became == "renamed":
            new.append({"name": f"{field}_new", "type": is_, "aliases": [field]})
        elif became == "added":
            new.append({"name": field, "type": is_, "default": to_json(draw(values(is_, default=True)))})
        if became != "added":
            old.append({"name": field, "type": was})
    always = {"name": "always", "type": "boolean"}
    old, new = (draw(st.permutations([always, *each])) for each in (old, new))
    return {"type": "record", "name": name, "fields": old}, {"type": "record", "name": name, "fields": new}


def nullable(schema):
    return schema if "null" in schema else ["null", *(schema if isinstance(schema, list) else [schema])]


def values(schema, *, default=False):
    """Values of a schema; a default has to be of the first type of a union."""
    if isinstance(schema, list):
        if default:
            return st.none() if schema[0] == "null" else values(schema[0])
        return st.one_of([st.none() if each == "null" else values_of(each, schema) for each in schema])
    if kind(schema) == "record":
        return st.fixed_dictionaries({each["name"]: values(each["type"], default=default) for each in schema["fields"]})
    if kind(schema) == "array":
        return st.lists(values(schema["items"], default=default), max_size=2)
    if kind(schema) == "map":
        return st.dictionaries(st.text(max_size=2), values(schema["values"], default=default), max_size=2)
    if kind(schema) == "enum":
        return st.sampled_from(schema["symbols"])
    return VALUES[schema.get("values", kind(schema)) if isinstance(schema, dict) else schema]


def values_of(branch, union):
    """Those of a branch; a pair, where it is not the only one."""
    several = len([each for each in union if each != "null"]) > 1
    return values(branch).map(lambda value: (branch, value) if several else value)


def to_json(value):
    if isinstance(value, dict):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [to_json(each) for each in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


def plain(schema):
    """The schema without logical types, as a value is written."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if isinstance(schema, dict):
        return {key: plain(each) for key, each in schema.items() if key != "logicalType"}
    return schema


@given(data=st.data())
def test_records_of_an_older_schema_read_as_avro_resolves_them(data):
    old, new = data.draw(schemas(count()))
    rows = data.draw(st.lists(values(old), min_size=1, max_size=3))
    payloads = []
    for row in rows:
        written = BytesIO()
        fastavro.schemaless_writer(written, fastavro.parse_schema(plain(old)), row)
        payloads.append(written.getvalue())
    writer, reader = (AvroWriter.of(json.dumps(each)) for each in (old, new))
    found, errors = writer.read(payloads, reader=reader.field)
    assert not errors
    found.validate(full=True)
    assert found.to_pylist() == [resolved(row, old, new) for row in rows]
    assert not clashes(writer.field, reader.field)
