"""Avro: records are read with physical types, and logical ones are made of whole Arrow columns.

    AvroWriter.of(schema)             what was written with this schema; `SettingError` for what has no columns
    writer.read(payloads, start)      -> (an array of `writer.type`, errors by index)

An enum is read as its number, because the reader takes a negative one for a symbol from the end.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from itertools import accumulate, chain
from typing import Any, Final, Self
from uuid import UUID

import pyarrow as pa

from airflow_provider_orderedkafka.decoding.column_types import MOST_DIGITS
from airflow_provider_orderedkafka.decoding.evolution import ALIASES, DEFAULT, kept
from airflow_provider_orderedkafka.decoding.salvage import Errors, sound, told
from airflow_provider_orderedkafka.errors import SettingError

Values = Sequence[Any]
Make = Callable[[Values], Any]
"""Makes an array of values as the reader gives them, None for null."""
Default = Callable[[Any], Any]
"""Makes a value as the reader gives it of a field's default, which is JSON; raises for what is none."""

PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
WIDER: Final = [("int", "long"), ("float", "double")]
"""Unions of these are the second."""

_DECIMAL_BYTES: Final = 16
_UTC: Final = "UTC"


def _as_it_is(value: Any) -> Any:
    return value


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


@dataclass(frozen=True, slots=True)
class Node:
    """A type: its schema without logical types, its type in Arrow, how columns are made, and whether it has bytes."""

    physical: Any
    type: Any
    make: Make
    has_bytes: bool = True
    default: Default = _as_it_is


@dataclass(frozen=True, slots=True)
class AvroWriter:
    """Reads what was written with one schema."""

    node: Node
    parsed: Any

    @property
    def type(self) -> Any:
        return self.node.type

    @classmethod
    @lru_cache(maxsize=1_000)
    def of(cls, schema: str, *references: str) -> Self:
        """That of a schema as JSON; `references` are the schemas of the named types that it uses."""
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType

        reader = _Schema()
        try:
            for reference in references:
                reader.node(json.loads(reference), "")
            node = reader.node(json.loads(schema), "")
            return cls(node, parse_schema(node.physical))
        except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(f"the Avro schema is wrong: {type(error).__name__}: {error}, found {schema}") from error

    def read(self, payloads: Sequence[bytes], start: int = 0, _indexes: bytes | None = None) -> tuple[Any, Errors]:
        """The records whose data begins at this byte of the payloads."""
        from fastavro import schemaless_reader as read

        rows: list[Any] = []
        errors: Errors = {}
        schema, append = self.parsed, rows.append
        for payload in payloads:
            data = BytesIO(payload)
            data.seek(start)
            try:
                append(read(data, schema, None))
            except Exception as error:  # noqa: BLE001 - the reader raises many kinds
                errors[len(rows)] = f"it is damaged or cut off ({type(error).__name__}: {told(error)})"
                append(None)
                continue
            if data.tell() != len(payload):
                errors[len(rows) - 1] = f"{len(payload) - data.tell()} bytes are left behind its end"
                rows[-1] = None
        found, more = sound(rows, self.node.make, self.type)
        return found, dict(sorted({**more, **errors}.items()))


class _Schema:
    """Makes nodes of schemas. Named types get new names, because each use has a definition of its own."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        self._inside: list[str] = []
        self._count = 0

    def node(self, schema: Any, space: str) -> Node:
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            return self._reference(schema, space)
        kind = schema["type"]
        if kind in _NAMED:
            return self._defined(schema, space)
        if kind == "array":
            return self._array(self.node(schema["items"], space))
        if kind == "map":
            return _map(self.node(schema["values"], space))
        if isinstance(kind, dict | list):
            return self.node(kind, space)
        logical = _LOGICAL.get((schema.get("logicalType"), kind))
        return logical(kind, schema) if logical else self._reference(kind, space)

    def _reference(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return _primitive(name, PRIMITIVES[name])
        full = next(each for each in (_full(name, space), name) if each in self._named or each == name)
        if full in self._inside:
            raise SettingError(f"the Avro type {full!r} contains itself: such values have no columns")
        schema, own = self._named[full]
        return self._made(schema, own, full)

    def _defined(self, schema: dict[str, Any], space: str) -> Node:
        full = _full(schema["name"], schema.get("namespace", space))
        own = full.rpartition(".")[0]
        for name in (full, *(_full(alias, own) for alias in schema.get("aliases", ()))):
            self._named[name] = (schema, own)
        return self._made(schema, own, full)

    def _made(self, schema: dict[str, Any], space: str, full: str) -> Node:
        self._count += 1
        name = f"t{self._count}"
        if schema["type"] == "enum":
            return Node("int", pa.string(), _enum(schema["symbols"]), default=schema["symbols"].index)
        if schema["type"] == "fixed":
            physical = {"type": "fixed", "name": name, "size": schema["size"]}
            logical = _LOGICAL.get((schema.get("logicalType"), "fixed"))
            found = logical(physical, schema) if logical else _primitive(physical, pa.binary())
            return replace(found, has_bytes=schema["size"] > 0)
        self._inside.append(full)
        nodes = [(field, self.node(field["type"], space)) for field in schema["fields"]]
        self._inside.pop()
        return _record(name, nodes)

    def _array(self, items: Node) -> Node:
        if not items.has_bytes:  # a few bytes may say that there are a billion of them
            raise SettingError(
                "an Avro array of values without bytes cannot be read safely: leave it out of the schema"
            )
        kind = pa.list_(items.type)

        def make(values: Values) -> Any:
            given = [value or () for value in values]
            flat = items.make(list(chain.from_iterable(given)))
            return pa.ListArray.from_arrays(_offsets(given), flat, type=kind, mask=_mask(values))

        def default(values: Any) -> list[Any]:
            if not isinstance(values, list):
                raise TypeError(f"a default of an array is {values!r}")
            return [items.default(value) for value in values]

        return Node({"type": "array", "items": items.physical}, kind, make, default=default)

    def _union(self, branches: list[Any], space: str) -> Node:
        nodes = [self.node(branch, space) for branch in branches]
        others = [node for node in nodes if node.physical != "null"]
        if len(others) > 1:
            names = sorted(str(node.physical) for node in others)
            wide = next((wide for narrow, wide in WIDER if names == sorted((narrow, wide))), None)
            if wide is None or {node.type for node in others} - set(PRIMITIVES.values()):
                raise SettingError(
                    f"an Avro union of several types has no column type, found {json.dumps(branches)}: only null and "
                    "one other, int and long, float and double go together"
                )
            others = [_primitive(wide, PRIMITIVES[wide])]
        if not others:
            return nodes[0]
        given = others[0].default
        return replace(
            others[0],
            physical=[node.physical for node in nodes],
            has_bytes=True,
            default=lambda value: None if value is None else given(value),
        )


_NAMED: Final = ("record", "error", "enum", "fixed")


def _full(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _primitive(physical: Any, kind: Any, then: Callable[[Any], Any] | None = None, to: Any = None) -> Node:
    """A column of this type, and what is made of it."""

    def make(values: Values) -> Any:
        found = pa.array(values, kind)
        return found if then is None else then(found)

    default = _bytes if pa.types.is_binary(kind) else _as_it_is
    return Node(physical, to or kind, make, has_bytes=physical != "null", default=default)


def _record(name: str, nodes: list[tuple[dict[str, Any], Node]]) -> Node:
    named = [(field["name"], node) for field, node in nodes]
    kind = pa.struct([_field(field, node) for field, node in nodes])
    physical = {"type": "record", "name": name, "fields": [{"name": n, "type": node.physical} for n, node in named]}

    def make(values: Values) -> Any:
        mask = _mask(values)
        if mask is None:
            children = [node.make([value[name] for value in values]) for name, node in named]
        else:
            children = [node.make([None if v is None else v[name] for v in values]) for name, node in named]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)

    def default(value: Any) -> dict[str, Any]:
        return {
            field["name"]: node.default(value[field["name"]] if field["name"] in value else field["default"])
            for field, node in nodes
        }

    return Node(physical, kind, make, has_bytes=any(node.has_bytes for _, node in named), default=default)


def _field(field: dict[str, Any], node: Node) -> Any:
    metadata = {ALIASES: json.dumps(field["aliases"])} if field.get("aliases") else {}
    if field.get("default") is not None:
        with suppress(Exception):  # a default that is not of its type is none: older registries take any
            metadata[DEFAULT] = kept(node.make([node.default(field["default"])]))
    return pa.field(field["name"], node.type, metadata=metadata or None)


def _map(values: Node) -> Node:
    kind = pa.map_(pa.string(), values.type)

    def make(given: Values) -> Any:
        maps = [each or {} for each in given]
        keys = pa.array(list(chain.from_iterable(maps)), pa.string())
        items = values.make(list(chain.from_iterable(each.values() for each in maps)))
        return pa.MapArray.from_arrays(_offsets(maps), keys, items, type=kind, mask=_mask(given))

    def default(given: dict[str, Any]) -> dict[str, Any]:
        return {key: values.default(value) for key, value in given.items()}

    return Node({"type": "map", "values": values.physical}, kind, make, default=default)


def _enum(symbols: Sequence[str]) -> Make:
    names = pa.array(symbols, pa.string())
    return lambda values: names.take(pa.array(values, pa.int32()))  # which refuses a number that has no symbol


def _decimal(physical: Any, schema: dict[str, Any]) -> Node:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not 0 <= scale <= precision:
        return _primitive(physical, pa.binary())  # as the specification has it: a wrong logical type is none
    if precision > MOST_DIGITS:
        raise SettingError(f"an Avro decimal of {precision} digits has no column type: there are {MOST_DIGITS} at most")
    kind, bound = pa.decimal128(precision, scale), 10**precision

    def make(values: Values) -> Any:
        numbers = [0 if value is None else int.from_bytes(value, "big", signed=True) for value in values]
        if any(not -bound < number < bound for number in numbers):
            raise ValueError(f"the decimal {numbers[0]} has more than {precision} digits")
        data = b"".join([number.to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers])
        mask = _mask(values)
        valid = None if mask is None else pa.array([value is not None for value in values]).buffers()[1]
        return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])

    return Node(physical, kind, make, default=_bytes)


def _uuid(physical: Any, _: Any) -> Node:
    def make(values: Values) -> Any:
        return pa.array([None if value is None else str(UUID(bytes=value)) for value in values], pa.string())

    return Node(physical, pa.string(), make, default=_bytes)


def _moment(unit: str, zone: str | None) -> Callable[[Any, Any], Node]:
    raw, to = pa.timestamp(unit, zone), pa.timestamp("us", zone)
    return lambda physical, _: _primitive(
        physical, pa.int64(), lambda found: found.cast(raw).cast(to, safe=unit != "ns"), to
    )


def _time(physical: Any, _: Any) -> Node:
    """Microseconds since midnight: Spark before 4.1 has no type for them."""
    import pyarrow.compute as pc

    factor = 1_000 if physical == "int" else 1
    return _primitive(physical, pa.int64(), lambda found: pc.multiply_checked(found, factor))


_LOGICAL: Final[dict[tuple[Any, str], Callable[[Any, Any], Node]]] = {
    ("decimal", "bytes"): _decimal,
    ("decimal", "fixed"): _decimal,
    ("uuid", "fixed"): _uuid,
    ("date", "int"): lambda physical, _: _primitive(physical, pa.int32(), lambda a: a.cast(pa.date32()), pa.date32()),
    ("time-millis", "int"): _time,
    ("time-micros", "long"): _time,
    **{(f"timestamp-{name}", "long"): _moment(unit, _UTC) for name, unit in (("millis", "ms"), ("micros", "us"))},
    **{(f"local-timestamp-{name}", "long"): _moment(unit, None) for name, unit in (("millis", "ms"), ("micros", "us"))},
    ("timestamp-nanos", "long"): _moment("ns", _UTC),
    ("local-timestamp-nanos", "long"): _moment("ns", None),
}
"""Logical types on their physical ones; all others are what they are made of."""


def _offsets(lists: Sequence[Any]) -> Any:
    return pa.array([0, *accumulate(map(len, lists))], pa.int32())


def _mask(values: Values) -> Any:
    """Which are null; None if none is."""
    return pa.array([value is None for value in values], pa.bool_()) if None in values else None
