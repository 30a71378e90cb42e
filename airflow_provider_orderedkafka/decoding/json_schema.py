"""The columns that a JSON Schema describes: `columns_of(schema)`.

Only what says which type a member has is heeded; values are not checked against the rest.
"""

import json
from typing import Any, Final

import pyarrow as pa

from airflow_provider_orderedkafka.errors import SettingError

SIMPLE: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
FORMATS: Final = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
DEEPEST: Final = 100


def columns_of(text: str) -> Any:
    """The type of the objects, as an Arrow struct; `SettingError` for what has no columns."""
    schema = json.loads(text)
    found = _type(schema, schema, "", 0)
    if not pa.types.is_struct(found):
        raise SettingError(f"the JSON Schema describes no object with properties, found {text}")
    return found


def _type(schema: Any, root: Any, path: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise SettingError(f"the JSON Schema contains itself at {path!r}: such values have no columns")
    schema = _chosen(_resolved(schema, root, path), root, path)
    kind = _kind(schema, path)
    if kind == "object":
        properties = schema.get("properties") or {}
        if not properties:
            raise SettingError(f"the JSON Schema names no properties of the object at {path!r}: they are its columns")
        fields = [
            (name, _type(each, root, f"{path}.{name}".lstrip("."), depth + 1)) for name, each in properties.items()
        ]
        return pa.struct(fields)
    if kind == "array":
        return pa.list_(_type(schema.get("items", {}), root, f"{path}[]", depth + 1))
    if kind == "string":
        return FORMATS.get(schema.get("format", ""), pa.string())
    return SIMPLE[kind]


def _kind(schema: dict[str, Any], path: str) -> str:
    given = schema.get("type", "object" if "properties" in schema else "string" if "enum" in schema else None)
    kinds = [kind for kind in (given if isinstance(given, list) else [given]) if kind != "null"]
    if set(kinds) == {"integer", "number"}:
        return "number"
    if len(kinds) != 1 or kinds[0] not in {*SIMPLE, "object", "array"}:
        raise SettingError(
            f"the JSON Schema gives {path or 'the whole'!r} the type {given!r}: a column needs exactly "
            "one type other than null"
        )
    return str(kinds[0])


def _resolved(schema: Any, root: Any, path: str) -> dict[str, Any]:
    """The schema that a local reference names."""
    for _ in range(DEEPEST):
        if not isinstance(schema, dict):
            raise SettingError(f"the JSON Schema has {schema!r} at {path!r}, where a schema is expected")
        if "$ref" not in schema:
            return schema
        names = str(schema["$ref"]).split("/")
        if names[0] != "#":
            raise SettingError(f"the JSON Schema refers to {schema['$ref']!r}: only references within it are followed")
        schema = root
        for name in names[1:]:
            schema = schema.get(name) if isinstance(schema, dict) else None
    raise SettingError(f"the JSON Schema refers to itself at {path!r}")


def _chosen(schema: dict[str, Any], root: Any, path: str) -> dict[str, Any]:
    for name in ("oneOf", "anyOf"):
        if name in schema:
            choices = [_resolved(each, root, path) for each in schema[name]]
            others = [each for each in choices if each.get("type") != "null"]
            if len(others) != 1:
                raise SettingError(
                    f"the JSON Schema has {len(others)} choices at {path!r}: a column needs exactly one other than null"
                )
            return others[0]
    return schema
