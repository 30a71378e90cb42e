"""How keys and values are decoded, as values for DAG files. Imports nothing heavy, and needs no network.

    Decode(value=Avro(registry="my_registry"), key=None)

Columns as text are in Spark's notation: `"order long, items array<struct<sku: string, n: int>>"`.

    parsed_columns(text) -> Struct      pure; `SettingError` says where it cannot be read
    arrow_type(parsed)                  the same for Arrow
"""

import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Literal, NoReturn, Self, get_args

from ..core.codec import decode, encode
from ..core.notation.spelling import arguments, meant
from ..errors import SettingError

SIMPLE: Final = {
    "boolean": "boolean",
    "byte": "int8",
    "tinyint": "int8",
    "short": "int16",
    "smallint": "int16",
    "int": "int32",
    "integer": "int32",
    "long": "int64",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
"""Names of types, and what they are called here."""

MOST_DIGITS: Final = 38
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>(),:])")


@dataclass(frozen=True, slots=True)
class Decimal:
    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Array:
    element: "Type"


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[tuple[str, "Type"], ...]


Type = str | Decimal | Array | Struct


def parsed_columns(text: Any) -> Struct:
    """Parse `name type, name type, ...`."""
    if not isinstance(text, str) or not text.strip():
        raise SettingError(f"a schema must be columns such as 'order long, customer string', found {text!r}")
    reader = _Reader(text)
    found = reader.columns()
    if reader.next() is not None:
        reader.fail("its end was expected")
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def columns(self) -> Struct:
        fields: dict[str, Type] = {}
        while not fields or self.take(","):
            name = self.word()
            self.take(":")
            if name in fields:
                self.fail(f"the column {name!r} is there twice")
            fields[name] = self.type()
        return Struct(tuple(fields.items()))

    def type(self) -> Type:
        name = self.word().lower()
        if name == "array":
            self.expect("<")
            element = self.type()
            self.expect(">")
            return Array(element)
        if name == "struct":
            self.expect("<")
            found = self.columns()
            self.expect(">")
            return found
        if name == "decimal":
            return self.decimal()
        if name not in SIMPLE:
            known = f"types are {', '.join(SIMPLE)}, decimal(p, s), array<...>, struct<...>"
            self.fail(f"there is no type {name!r}: {meant(name, [*SIMPLE, 'decimal', 'array', 'struct'], known)}")
        return SIMPLE[name]

    def decimal(self) -> Decimal:
        self.expect("(")
        precision = self.word()
        scale = self.word() if self.take(",") else "0"
        self.expect(")")
        if not (precision.isdecimal() and scale.isdecimal() and 0 < int(precision) <= MOST_DIGITS):
            self.fail(f"a decimal has 1 to {MOST_DIGITS} digits")
        if int(scale) > int(precision):
            self.fail("a decimal's scale is at most its precision")
        return Decimal(int(precision), int(scale))

    def word(self) -> str:
        found = self.next()
        if found is None or found[1] in set("<>(),:"):
            self.fail("a name is missing")
        self._at = found.end()
        return found[1][1:-1].replace("``", "`") if found[1].startswith("`") else found[1]

    def take(self, symbol: str) -> bool:
        found = self.next()
        if found is None or found[1] != symbol:
            return False
        self._at = found.end()
        return True

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            self.fail(f"{symbol!r} was expected")

    def next(self) -> re.Match[str] | None:
        """The next token, which is taken by going on to its end; None at the end of the text."""
        found = _TOKEN.match(self._text, self._at)
        if found is None and (rest := self._text[self._at :].strip()):
            self.fail(f"{rest[0]!r} is not expected here")
        return found

    def fail(self, why: str) -> NoReturn:
        raise SettingError(f"the schema {self._text!r} cannot be read at character {self._at + 1}: {why}")


def arrow_type(parsed: Type) -> Any:
    import pyarrow as pa

    if isinstance(parsed, Decimal):
        return pa.decimal128(parsed.precision, parsed.scale)
    if isinstance(parsed, Array):
        return pa.list_(arrow_type(parsed.element))
    if isinstance(parsed, Struct):
        return pa.struct([(name, arrow_type(each)) for name, each in parsed.fields])
    more = {
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    return more[parsed] if parsed in more else getattr(pa, parsed)()


SchemaChanges = Literal["add", "fail"]


@arguments()
@dataclass(frozen=True, slots=True)
class Json:
    """JSON objects, one a record.

    :param schema: The columns, as Spark writes them: `"order long, items array<struct<sku: string, n: int>>"`. Other
        members are left out, missing ones are null.
    """

    schema: str
    kind: ClassVar[str] = "json"
    registry: ClassVar[None] = None

    def __post_init__(self) -> None:
        parsed_columns(self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRegistry:
    """What formats share whose schemas may be in a registry."""

    registry: str | None = None
    subject: str | None = None
    schema_changes: SchemaChanges = "add"

    def __post_init__(self) -> None:
        if self.schema_changes not in get_args(SchemaChanges):
            raise SettingError(f"schema_changes must be 'add' or 'fail', found {self.schema_changes!r}")
        if self.subject is not None and self.registry is None:
            raise SettingError(
                f"subject={self.subject!r} needs a registry: name the registry's connection with registry="
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonDocument(OfRegistry):
    """What formats share whose schemas are JSON, of one of these `kinds`."""

    schema: str | None = None
    kinds: ClassVar[tuple[type, ...]] = (dict,)

    def __post_init__(self) -> None:
        OfRegistry.__post_init__(self)
        name = type(self).__name__
        if self.schema is None:
            if self.registry is None:
                raise SettingError(f"{name} needs a schema: give registry= or schema=")
            return
        try:
            found = json.loads(self.schema)
        except (ValueError, TypeError) as error:
            raise SettingError(f"{name} schema must be JSON text: {error}, found {self.schema!r}") from error
        if not isinstance(found, self.kinds) or found == {}:
            raise SettingError(f"{name} schema must be a schema, found {self.schema!r}")


@arguments()
@dataclass(frozen=True, slots=True, kw_only=True)
class Avro(JsonDocument):
    """Avro, framed as Confluent's serialisers do if there is a registry, and bare otherwise.

    :param schema: The reader's schema, as JSON. Without a registry records must have been written with the same.
        Default: the newest in the registry.
    :param registry: ID of the Airflow connection to the registry. By hand any name will do: the options `registry.*`
        say where it is.
    :param subject: The subject whose schema the columns are made of. Default: `<topic>-value` or `<topic>-key` of each
        topic.
    :param schema_changes: What to do where a record has a field that the columns do not have: `"add"` it, or `"fail"`.
    """

    kind: ClassVar[str] = "avro"
    kinds: ClassVar[tuple[type, ...]] = (dict, list, str)


@arguments()
@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchema(JsonDocument):
    """JSON, framed as Confluent's serialiser for JSON Schema does if there is a registry, and bare otherwise.

    :param schema: The JSON Schema that the columns are made of. Default: the newest in the registry.
    :param registry: ID of the Airflow connection to the registry. By hand any name will do: the options `registry.*`
        say where it is.
    :param subject: The subject whose schema the columns are made of. Default: `<topic>-value` or `<topic>-key` of each
        topic.
    :param schema_changes: What to do where a record has a field that the columns do not have: `"add"` it, or `"fail"`.
    """

    kind: ClassVar[str] = "json-schema"


@arguments()
@dataclass(frozen=True, slots=True, kw_only=True)
class Protobuf(OfRegistry):
    """Protobuf, framed as Confluent's serialiser does if there is a registry, and bare otherwise.

    :param message: Full name of the message, such as `"shop.Order"`. Default: the first message of the newest schema.
    :param descriptors: What `protoc --include_imports --descriptor_set_out` writes. Needed without a registry, and with
        one that gives no descriptors.
    :param registry: ID of the Airflow connection to the registry. By hand any name will do: the options `registry.*`
        say where it is.
    :param subject: The subject whose schema the columns are made of. Default: `<topic>-value` or `<topic>-key` of each
        topic.
    :param schema_changes: What to do where a record has a field that the columns do not have: `"add"` it, or `"fail"`.
    """

    message: str | None = None
    descriptors: bytes | None = None
    kind: ClassVar[str] = "protobuf"

    def __post_init__(self) -> None:
        OfRegistry.__post_init__(self)
        if not isinstance(self.descriptors, bytes | None):
            raise SettingError(f"Protobuf descriptors must be bytes, found {type(self.descriptors).__name__}")
        if self.descriptors is None and self.registry is None:
            raise SettingError("Protobuf needs a schema: give registry= or descriptors=")


NEEDED: Final = {
    "avro": ("fastavro",),
    "protobuf": ("google.protobuf",),
    "registry": ("attr", "authlib", "cachetools", "certifi", "httpx2|httpx"),
}
"""What formats import beyond what every load needs, all of it: whoever installs what is named is done.

Of what `|` stands between one is enough.
"""

INSTALLED_BY: Final = {
    "attr": "attrs",
    "confluent_kafka": "confluent-kafka",
    "google.protobuf": "protobuf",
    "httpx2|httpx": "httpx2",
}
"""By which name a package is installed, where it is another one."""


def has(name: str) -> bool:
    """Whether a package, or one of several, is installed; only the packages around it are imported."""
    try:
        return any(find_spec(each) is not None for each in name.split("|"))
    except ModuleNotFoundError:
        return False


Format = Json | Avro | JsonSchema | Protobuf


@arguments(
    max_bad_records="set it with rows=Rows(decode=..., bad_records=Allow(10, to='orders-dead'))",
    dead_letters="set it with rows=Rows(decode=..., bad_records=Allow(10, to='orders-dead'))",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """How records are decoded before the transform: `value` and `key` become columns of their own types.

    :param value: The format of values; None leaves their bytes.
    :param key: The format of keys; None leaves their bytes.
    """

    value: Format | None = None
    key: Format | None = None

    def __post_init__(self) -> None:
        for name in ("value", "key"):
            if not isinstance(getattr(self, name), Format | None):
                raise SettingError(
                    f"Decode {name} must be Json(...), Avro(...), JsonSchema(...) or Protobuf(...), found "
                    f"{getattr(self, name)!r}"
                )
        if not self.formats:
            raise SettingError("Decode needs a format: value=..., key=... or both")
        if len(self.registries) > 1:
            raise SettingError(f"key and value must use one registry, found {' and '.join(map(repr, self.registries))}")

    @property
    def formats(self) -> dict[str, Format]:
        found = {"key": self.key, "value": self.value}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def registries(self) -> list[str]:
        return sorted({each.registry for each in self.formats.values() if each.registry is not None})

    @property
    def needed(self) -> list[str]:
        """What has to be installed where it is decoded, beyond what every load needs."""
        kinds = {each.kind for each in self.formats.values()} | ({"registry"} if self.registries else set())
        return sorted(name for kind in kinds & NEEDED.keys() for name in NEEDED[kind])

    def to_text(self) -> str:
        """As one argument of a command line; it has no secrets."""
        return json.dumps(_short(encode(self)), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What `to_text` or a person writes, who leaves out what is the default; `SettingError` for all else."""
        try:
            found: Self = decode(cls, json.loads(text), "", defaults=True)
        except (ValueError, RecursionError) as error:
            raise SettingError(
                f'--decode must be JSON such as {{"value": {{"kind": "json", "schema": "order long"}}}}: {error}'
            ) from error
        return found


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Without what is None."""
    some = {name: each for name, each in found.items() if each is not None}
    return {name: _short(each) if isinstance(each, dict) else each for name, each in some.items()}
