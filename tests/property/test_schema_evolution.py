"""Whatever became of an Avro schema, older records read as Avro's own resolution of schemas has it."""

import json
from io import BytesIO
from itertools import count

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.decoding.avro import AvroWriter
from airflow_provider_orderedkafka.decoding.evolution import converted

VALUES = {
    "int": st.integers(-(2**20), 2**20),
    "long": st.integers(-(2**20), 2**20),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "string": st.text(max_size=3),
}
WIDENED = [("int", "long"), ("int", "double"), ("long", "double"), ("float", "double")]


@st.composite
def schemas(draw, names, depth=0):
    """A writer's schema, and what became of it."""
    kinds = ["same", "widened", *(["array", "map", "null", "nullable", "record"] if depth < 3 else [])]
    kind = draw(st.sampled_from(kinds)) if depth else "record"
    if kind == "same":
        return (name := draw(st.sampled_from(sorted(VALUES))), name)
    if kind == "widened":
        return draw(st.sampled_from(WIDENED))
    if kind == "record":
        return draw(records(names, depth))
    old, new = draw(schemas(names, depth + 1))
    if kind == "array":
        return {"type": "array", "items": old}, {"type": "array", "items": new}
    if kind == "map":
        return {"type": "map", "values": old}, {"type": "map", "values": new}
    if isinstance(old, list):
        return old, new
    return (["null", old] if kind == "null" and not isinstance(new, list) else old), _nullable(new)


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
            new.append({"name": field, "type": is_, "default": draw(values(is_, default=True))})
        if became != "added":
            old.append({"name": field, "type": was})
    always = {"name": "always", "type": "boolean"}
    old, new = (draw(st.permutations([always, *each])) for each in (old, new))
    return {"type": "record", "name": name, "fields": old}, {"type": "record", "name": name, "fields": new}


def _nullable(schema):
    return schema if isinstance(schema, list) else ["null", schema]


def values(schema, *, default=False):
    """Values of a schema; a default has to be of the first type of a union, which is null."""
    if isinstance(schema, list):
        return st.none() if default else st.none() | values(schema[1])
    if isinstance(schema, str):
        return VALUES[schema]
    if schema["type"] == "array":
        return st.lists(values(schema["items"], default=default), max_size=2)
    if schema["type"] == "map":
        return st.dictionaries(st.text(max_size=2), values(schema["values"], default=default), max_size=2)
    return st.fixed_dictionaries({each["name"]: values(each["type"], default=default) for each in schema["fields"]})


def as_columns(value, schema):
    """A value as Arrow has it: maps are pairs."""
    if value is None:
        return None
    if isinstance(schema, list):
        return as_columns(value, schema[1])
    if isinstance(schema, str):
        return value
    if schema["type"] == "array":
        return [as_columns(each, schema["items"]) for each in value]
    if schema["type"] == "map":
        return [(key, as_columns(each, schema["values"])) for key, each in value.items()]
    return {field["name"]: as_columns(value[field["name"]], field["type"]) for field in schema["fields"]}


@given(data=st.data())
def test_records_of_an_older_schema_read_as_avro_resolves_them(data):
    old, new = data.draw(schemas(count()))
    rows = data.draw(st.lists(values(old), min_size=1, max_size=3))
    payloads, resolved = [], []
    for row in rows:
        written = BytesIO()
        fastavro.schemaless_writer(written, fastavro.parse_schema(old), row)
        payloads.append(written.getvalue())
        reader = fastavro.schemaless_reader(BytesIO(written.getvalue()), old, new)
        resolved.append(as_columns(reader, new))
    read, errors = AvroWriter.of(json.dumps(old)).read(payloads)
    assert not errors
    found = converted(read, AvroWriter.of(json.dumps(new)).type)
    found.validate(full=True)
    assert found.to_pylist() == resolved
