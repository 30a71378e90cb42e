"""What Avro's specification has a reader make of a value: its physical type is resolved, then it means what the reader
says. Written from the chapters "Schema Resolution" and "Logical Types", of which no library here does both."""

import datetime as dt
from decimal import Decimal
from uuid import UUID

import numpy as np

PROMOTED = {
    ("int", "float"): np.float32,
    ("long", "float"): np.float32,
    ("int", "double"): np.float64,
    ("long", "double"): np.float64,
    ("int", "long"): int,
    ("float", "double"): float,
    ("string", "bytes"): str.encode,
    ("bytes", "string"): bytes.decode,
}
EPOCHS = {"": dt.datetime(1970, 1, 1, tzinfo=dt.UTC), "local-": dt.datetime(1970, 1, 1)}  # noqa: DTZ001 - local
MICROS = {"micros": 1, "millis": 1_000}


def kind(schema):
    return schema if isinstance(schema, str) else schema["type"]


def resolved(value, old, new):
    """The value as Arrow shows it. One of a union of several types is a pair, with its type."""
    if isinstance(old, list):
        branch = next((each for each in old if each != "null"), "null")
        old, value = ("null", None) if value is None else value if isinstance(value, tuple) else (branch, value)
    if isinstance(new, list):
        new = next(each for each in new if kind(each) == kind(old) or (kind(old), kind(each)) in PROMOTED)
    if kind(new) == "record":
        written = {field["name"]: field["type"] for field in old["fields"]}
        return {field["name"]: _field(value, written, field) for field in new["fields"]}
    if kind(new) == "array":
        return [resolved(each, old["items"], new["items"]) for each in value]
    if kind(new) == "map":
        return [(key, resolved(each, old["values"], new["values"])) for key, each in value.items()]
    if kind(new) == "enum":
        return value if value in new["symbols"] else new["default"]
    if kind(old) != kind(new):
        value = PROMOTED[kind(old), kind(new)](value)
    return meant(value, new)


def _field(record, written, field):
    name = next((each for each in (field["name"], *field.get("aliases", ())) if each in written), None)
    if name is not None:
        return resolved(record[name], written[name], field["type"])
    return resolved(of_json(field["default"], field["type"]), field["type"], field["type"])


def of_json(value, schema):
    """A default as a physical value."""
    if isinstance(schema, list):
        return None if schema[0] == "null" else of_json(value, schema[0])
    if kind(schema) == "record":
        return {each["name"]: of_json(value[each["name"]], each["type"]) for each in schema["fields"]}
    if kind(schema) == "array":
        return [of_json(each, schema["items"]) for each in value]
    if kind(schema) == "map":
        return {key: of_json(each, schema["values"]) for key, each in value.items()}
    return value.encode("latin-1") if kind(schema) in ("bytes", "fixed") else value


def meant(value, schema):
    """The logical value of a physical one; times are microseconds, and nanoseconds are cut off."""
    name = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    place, _, unit = name.rpartition("timestamp-")
    if name == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-schema["scale"])
    if name == "uuid":
        return str(UUID(bytes=value))
    if name == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=value)
    if name.startswith("time-"):
        return value * MICROS[name.removeprefix("time-")]
    if "timestamp" in name:
        micros = value // 1_000 if unit == "nanos" else value * MICROS[unit]
        return EPOCHS[place] + dt.timedelta(microseconds=micros)
    return value
