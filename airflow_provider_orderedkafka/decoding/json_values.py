"""JSON objects, read many at once by Arrow's reader: `JsonWriter(type).read(payloads, start)`.

The reader takes a sequence of objects, whatever is between them. So a payload must begin and end as an object does, and
as many objects must come out as payloads went in: then each payload is one.

It refuses moments with more digits than their unit has. Where it does so they are read as nanoseconds, of which
microseconds are kept; not always, since those end in 2262, and older versions of the reader go on from 1677.

`columns_of(schema)` are the columns that a JSON Schema describes. Only what says which type a member has is heeded;
values are not checked against the rest.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from ..errors import SettingError
from .bad_records import Errors, sound
from .evolution import cast, converted, in_microseconds

SIMPLE: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
OF_VALUES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
FORMATS: Final = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
OF_ITSELF: Final = {"properties", "items", "string", "integer", "number", "boolean"}
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
    given = schema.get("type", "object" if "properties" in schema else _kinds_of(schema.get("enum", ())))
    kinds = [kind for kind in (given if isinstance(given, list) else [given]) if kind != "null"]
    if set(kinds) == {"integer", "number"}:
        return "number"
    if len(kinds) != 1 or kinds[0] not in {*SIMPLE, "object", "array"}:
        raise SettingError(
            f"the JSON Schema gives {path or 'the whole'!r} the type {given!r}: a column needs exactly "
            "one type other than null"
        )
    return str(kinds[0])


def _kinds_of(values: Any) -> list[str] | None:
    """The types of the only values that there may be."""
    return sorted({OF_VALUES.get(type(value), "a list or an object") for value in values}) or None


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
            name = name.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901 - as JSON Pointer writes them
            schema = schema.get(name) if isinstance(schema, dict) else None
    raise SettingError(f"the JSON Schema refers to itself at {path!r}")


def _chosen(schema: dict[str, Any], root: Any, path: str) -> dict[str, Any]:
    """The only choice, unless the schema says itself which type there is: then choices only restrict its values."""
    given = schema.get("type")
    if OF_ITSELF & schema.keys() or OF_ITSELF.intersection(given if isinstance(given, list) else [given]):
        return schema
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


SPACE, NULL = b" \t\r\n", b"null"
FINER: Final = re.compile(rb":\d\d\.\d{7}")
"""What a moment with more than six decimals has."""

NANOSECONDS = ("1678", "2261")
"""The first and the last whole year of them."""


@dataclass(frozen=True, slots=True)
class JsonWriter:
    """Reads objects as structs of this type."""

    type: Any

    @property
    def field(self) -> Any:
        return pa.field("", self.type)

    def read(
        self, payloads: Sequence[bytes], start: int = 0, _indexes: bytes | None = None, _reader: Any = None
    ) -> tuple[Any, Errors]:
        """The objects that begin at this byte of the payloads; JSON's null is null, as Kafka Connect writes it."""
        texts = [payload[start:] for payload in payloads] if start else payloads
        if NULL not in texts:
            return sound(texts, self._read, self.type)
        found, errors = sound([b"{}" if text == NULL else text for text in texts], self._read, self.type)
        nulls = pa.array([text == NULL for text in texts])
        return pc.if_else(nulls, pa.scalar(None, self.type), found), errors

    def _read(self, texts: Sequence[bytes]) -> Any:
        if not all(map(_is_object, texts)):
            raise ValueError(f"it is not a JSON object, found {texts[0][:40]!r}")
        try:
            rows = _rows(texts, _readable(self.type))
        except pa.ArrowInvalid:
            finer = _readable(self.type, "ns")
            if finer == _readable(self.type) or not any(map(FINER.search, texts)):
                raise
            _check_years(texts, self.type)
            written, target = pa.field("", finer), pa.field("", _readable(self.type))
            rows = converted(_rows(texts, finer), written, target, _cut)
        return converted(rows, pa.field("", rows.type), self.field, _held)


def _held(array: Any, _writer: Any, reader: Any) -> Any:
    """The column, if it holds the values: Arrow makes a number infinity that is too large for a floating one."""
    return cast(array, reader.type) if pa.types.is_floating(reader.type) else array.cast(reader.type)


def _rows(texts: Sequence[bytes], kind: Any) -> Any:
    data = b"\n".join(texts)
    table = arrow_json.read_json(
        BytesIO(data),
        arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        arrow_json.ParseOptions(pa.schema(list(kind)), newlines_in_values=True, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(texts):
        raise ValueError(f"it is not one JSON object but {table.num_rows}")
    table.validate(full=True)  # the reader takes any bytes for text
    columns = [table.column(name).combine_chunks() for name in kind.names]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _check_years(texts: Sequence[bytes], kind: Any) -> None:
    """`ValueError` for a moment that nanoseconds do not reach."""
    read = _readable(kind, None)
    converted(_rows(texts, read), pa.field("", read), pa.field("", _readable(kind)), _check_year)


def _check_year(array: Any, _writer: Any, reader: Any) -> Any:
    if pa.types.is_timestamp(reader.type):
        first, last = (year.as_py() for year in pc.min_max(pc.utf8_slice_codeunits(array, 0, 4)).values())
        if first < NANOSECONDS[0] or last > NANOSECONDS[1]:
            raise ValueError(f"a moment of the years {first} to {last} has seconds with more than six decimals")
    return pa.nulls(len(array), reader.type)


def _cut(array: Any, _writer: Any, reader: Any) -> Any:
    cut = pa.types.is_timestamp(reader.type)
    return in_microseconds(array.cast(pa.int64())).cast(reader.type) if cut else array


def _is_object(text: bytes) -> bool:
    text = text.strip(SPACE)
    return text[:1] == b"{" and text[-1:] == b"}"


def _readable(kind: Any, unit: str | None = "us") -> Any:
    """The type as the reader reads it: `float` is `double` there; dates, and moments without a unit, are texts."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _readable(field.type, unit)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_readable(kind.value_type, unit))
    if pa.types.is_timestamp(kind) and unit is not None:
        return pa.timestamp(unit, kind.tz)
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.string() if pa.types.is_temporal(kind) else kind
