"""Avro: records are read with the writer's physical types, and whole Arrow columns get the reader's logical ones.

    AvroWriter.of(schema)                     what was written with this schema; `SettingError` if it has no columns
    writer.read(payloads, start, reader=...)  -> (an array of the field `reader`, by default `writer.field`, errors)

An enum is read as its number, because the reader takes a negative one for a symbol from the end.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from itertools import chain
from typing import Any, Final, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import SettingError
from .bad_records import Errors, message_of, sound
from .evolution import ALIASES, DEFAULT, PLAIN, cast, converted, in_microseconds, kept, mask, meaning, meanings, offsets
from .formats import MOST_DIGITS

Values = Sequence[Any]
Make = Callable[[Values], Any]
"""Makes an array of physical values, None for null."""
Default = Callable[[Any], Any]
"""Makes a physical value of a field's default, which is JSON; raises for what is none."""

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
WIDER: Final[dict[tuple[str, ...], str]] = {("int32", "int64"): "long", ("double", "float"): "double"}
"""What unions of these columns are."""

_DECIMAL_BYTES: Final = 16
_UUID_BYTES: Final = 16


def _as_it_is(value: Any) -> Any:
    return value


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


@dataclass(frozen=True, slots=True)
class Node:
    """A type: its schema without logical types, the field of its column, how what was written is made an array."""

    physical: Any
    field: Any
    make: Make
    has_bytes: bool = True
    default: Default = _as_it_is


@dataclass(frozen=True, slots=True)
class AvroWriter:
    node: Node
    parsed: Any

    @property
    def field(self) -> Any:
        return self.node.field

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
        except (SchemaParseException, UnknownType, LookupError, TypeError, ValueError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(f"the Avro schema is wrong: {type(error).__name__}: {error}, found {schema}") from error

    def read(
        self, payloads: Sequence[bytes], start: int = 0, _indexes: bytes | None = None, reader: Any = None
    ) -> tuple[Any, Errors]:
        """The records whose data begins at this byte of the payloads."""
        from fastavro import schemaless_reader as read

        target = reader or self.field
        rows: list[Any] = []
        errors: Errors = {}
        schema, append = self.parsed, rows.append
        for payload in payloads:
            data = BytesIO(payload)
            data.seek(start)
            try:
                append(read(data, schema, None))
            except Exception as error:  # noqa: BLE001 - the reader raises many kinds
                errors[len(rows)] = f"it is damaged or cut off ({type(error).__name__}: {message_of(error)})"
                append(None)
                continue
            if data.tell() != len(payload):
                errors[len(rows) - 1] = f"{len(payload) - data.tell()} bytes are left after its end"
                rows[-1] = None
        found, more = sound(
            rows, lambda some: converted(self.node.make(some), self.field, target, _logical), target.type
        )
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
        return _leaf(kind, kind, schema) if kind in PRIMITIVES else self._reference(kind, space)

    def _reference(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return _leaf(name, name)
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
            return _enum(schema["symbols"], schema.get("default"))
        if schema["type"] == "fixed":
            found = _leaf({"type": "fixed", "name": name, "size": schema["size"]}, "fixed", schema)
            return replace(found, has_bytes=schema["size"] > 0)
        if not schema["fields"]:
            raise SettingError(f"the Avro record {full!r} has no fields: they are its columns")
        self._inside.append(full)
        nodes = [(field, self.node(field["type"], space)) for field in schema["fields"]]
        self._inside.pop()
        return _record(name, nodes)

    def _array(self, items: Node) -> Node:
        if not items.has_bytes:  # a few bytes may say that there are a billion of them
            raise SettingError(
                "an Avro array of values without bytes cannot be read safely: leave it out of the schema"
            )
        kind = pa.list_(items.field.with_name("item"))

        def make(values: Values) -> Any:
            given = [value or () for value in values]
            flat = items.make(list(chain.from_iterable(given)))
            return pa.ListArray.from_arrays(offsets(given), flat, mask=mask(values))

        def default(values: Any) -> list[Any]:
            if not isinstance(values, list):
                raise TypeError(f"a default of an array is {values!r}")
            return [items.default(value) for value in values]

        return Node({"type": "array", "items": items.physical}, pa.field("", kind), make, default=default)

    def _union(self, branches: list[Any], space: str) -> Node:
        nodes = [self.node(branch, space) for branch in branches]
        others = [node for node in nodes if node.physical != "null"]
        if len(others) > 1:
            names = ["" if node.field.metadata else str(node.field.type) for node in others]
            wide = WIDER.get(tuple(sorted(names)))
            if wide is None:
                raise SettingError(
                    f"an Avro union of several types has no column type, found {json.dumps(branches)}: a column takes "
                    "null and one other type, int and long, or float and double"
                )
            others = [_leaf(wide, wide)]
            if names[0] == "float":  # the first that takes a whole number, and it rounds
                others = [replace(others[0], field=others[0].field.with_metadata(meaning(["floats"])))]
        chosen = others[0] if others else nodes[0]
        given = chosen.default
        return replace(
            chosen,
            physical=[node.physical for node in nodes],
            has_bytes=True,
            default=lambda value: None if value is None else given(value),
        )


_NAMED: Final = ("record", "error", "enum", "fixed")


def _full(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _leaf(physical: Any, kind: str, schema: Mapping[str, Any] | None = None) -> Node:
    """A value on its own, with the logical type that its schema gives it, if there is one on this kind."""
    raw = PRIMITIVES.get(kind, pa.binary())
    logical, column = _logical_type(schema or {}, kind) or (PLAIN, raw)
    default = _bytes if pa.types.is_binary(raw) else _as_it_is
    field = pa.field("", column, metadata=meaning(logical))
    return Node(physical, field, lambda values: pa.array(values, raw), has_bytes=kind != "null", default=default)


def _logical_type(schema: Mapping[str, Any], kind: str) -> tuple[list[Any], Any] | None:
    """What a value means, and its column; a wrong logical type is none, as the specification has it."""
    name = schema.get("logicalType")
    if (name, kind) == ("uuid", "fixed") and schema["size"] != _UUID_BYTES:
        return None
    if name != "decimal" or kind not in ("bytes", "fixed"):
        return ([name], _COLUMNS[name, kind]) if (name, kind) in _COLUMNS else None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or precision < 1 or not 0 <= scale <= precision:
        return None
    if precision > MOST_DIGITS:
        raise SettingError(
            f"an Avro decimal of {precision} digits has no column type: a column has at most {MOST_DIGITS} digits"
        )
    return ["decimal", scale], pa.decimal128(precision, scale)


def _record(name: str, nodes: list[tuple[dict[str, Any], Node]]) -> Node:
    named = [(field["name"], node) for field, node in nodes]
    column = pa.field("", pa.struct([_field(field, node) for field, node in nodes]))
    physical = {"type": "record", "name": name, "fields": [{"name": n, "type": node.physical} for n, node in named]}

    def make(values: Values) -> Any:
        null = mask(values)
        if null is None:
            children = [node.make([value[name] for value in values]) for name, node in named]
        else:
            children = [node.make([None if v is None else v[name] for v in values]) for name, node in named]
        return pa.StructArray.from_arrays(children, names=[name for name, _ in named], mask=null)

    def default(value: Any) -> dict[str, Any]:
        return {
            field["name"]: node.default(value[field["name"]] if field["name"] in value else field["default"])
            for field, node in nodes
        }

    return Node(physical, column, make, has_bytes=any(node.has_bytes for _, node in named), default=default)


def _field(field: dict[str, Any], node: Node) -> Any:
    metadata = dict(node.field.metadata or {})
    if field.get("aliases"):
        metadata[ALIASES] = json.dumps(field["aliases"])
    if "default" in field:
        with suppress(Exception):  # a default that is not of its type is none: older registries take any
            one = node.make([node.default(field["default"])])
            metadata[DEFAULT] = kept(converted(one, node.field, node.field, _logical))
    return node.field.with_name(field["name"]).with_metadata(metadata)


def _map(values: Node) -> Node:
    kind = pa.map_(pa.string(), values.field.with_name("value"))

    def make(given: Values) -> Any:
        maps = [each or {} for each in given]
        keys = pa.array(list(chain.from_iterable(maps)), pa.string())
        items = values.make(list(chain.from_iterable(each.values() for each in maps)))
        return pa.MapArray.from_arrays(offsets(maps), keys, items, mask=mask(given))

    def default(given: dict[str, Any]) -> dict[str, Any]:
        return {key: values.default(value) for key, value in given.items()}

    return Node({"type": "map", "values": values.physical}, pa.field("", kind), make, default=default)


def _enum(symbols: Sequence[str], default: str | None) -> Node:
    names = pa.array(symbols, pa.string())
    means = PLAIN if default is None else ["enum", symbols, default]
    return Node(
        "int",
        pa.field("", pa.string(), metadata=meaning(means)),
        lambda values: names.take(pa.array(values, pa.int32())),  # which refuses a number that has no symbol
        default=symbols.index,
    )


def _logical(array: Any, writer: Any, reader: Any) -> Any:
    """A column of the reader's logical type, of whatever was written."""
    _, known = meanings(writer, reader)
    if any(name == "enum" for name, *_ in known):
        return _symbol(array, known)
    if known[0] == PLAIN:
        return cast(array, reader.type)
    name, *more = known[0]
    found = _MADE[name](array, *more)
    return found if found.type == reader.type else found.cast(reader.type)


def _moment(unit: str, zone: str | None) -> Callable[[Any], Any]:
    def made(array: Any) -> Any:
        found = cast(array, pa.int64())
        if unit == "ns":
            return in_microseconds(found).cast(pa.timestamp("us", zone))
        return found.cast(pa.timestamp(unit, zone)).cast(pa.timestamp("us", zone))

    return made


def _decimal(array: Any, scale: int) -> Any:
    values = cast(array, pa.binary()).to_pylist()
    numbers = [0 if value is None else int.from_bytes(value, "big", signed=True) for value in values]
    data = b"".join([number.to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers])
    null = mask(values)
    valid = None if null is None else pc.invert(null).buffers()[1]
    found = pa.Array.from_buffers(pa.decimal128(MOST_DIGITS, scale), len(values), [valid, pa.py_buffer(data)])
    found.validate(full=True)  # that none has more digits than there are
    return found


def _uuid(array: Any) -> Any:
    return pa.array([None if value is None else str(UUID(bytes=value)) for value in array.to_pylist()], pa.string())


def _floats(array: Any) -> Any:
    """A union of float and double, in this order: whole numbers are read as the first that takes them."""
    return cast(array, pa.float32() if pa.types.is_integer(array.type) else pa.float64())


def _symbol(array: Any, known: Sequence[Any]) -> Any:
    """Symbols of enums, and the default for one that is none of theirs any more."""
    symbols = [symbol for _, *more in known if more for symbol in more[0]]
    there = pc.is_in(array, pa.array([*symbols, None], pa.string()))
    defaults = {more[1] if more else None for _, *more in known}
    if len(defaults) > 1 and not pc.all(there).as_py():
        raise ValueError(
            f"a symbol is not one of {symbols}, and with several topics it is not known which default it gets"
        )
    return pc.if_else(there, array, defaults.pop())


_MADE: Final[dict[str, Callable[..., Any]]] = {
    "decimal": _decimal,
    "uuid": _uuid,
    "floats": _floats,
    "date": lambda array: cast(array, pa.int32()).cast(pa.date32()),
    "time-millis": lambda array: pc.multiply_checked(cast(array, pa.int64()), 1_000),
    "time-micros": lambda array: cast(array, pa.int64()),
    **{
        f"{local}timestamp-{name}": _moment(unit, zone)
        for local, zone in (("", "UTC"), ("local-", None))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
"""How columns are made of what was written, by what it means to the reader."""

_COLUMNS: Final[dict[tuple[Any, str], Any]] = {
    ("uuid", "fixed"): pa.string(),
    ("date", "int"): pa.date32(),
    ("time-millis", "int"): pa.int64(),  # microseconds since midnight: Spark before 4.1 has no type for them
    ("time-micros", "long"): pa.int64(),
    **{
        (name, "long"): pa.timestamp("us", None if name.startswith("local") else "UTC")
        for name in _MADE
        if "timestamp" in name
    },
}
"""The columns of logical types on their physical ones; all others are what they are made of."""
