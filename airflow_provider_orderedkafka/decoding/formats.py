"""How keys and values are decoded, as values for DAG files. Imports nothing heavy, and needs no network.

Decode(value=Avro(registry="my_registry"), key=None, max_bad_records=10, dead_letters="orders-dead")
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self, get_args

from airflow_provider_orderedkafka.decoding.column_types import parsed_columns
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput, from_text, to_text

SchemaChanges = Literal["add", "fail"]


@dataclass(frozen=True, slots=True)
class Json:
    """JSON objects, one a record.

    :param schema: The columns, as Spark writes them: `"order long, items array<struct<sku: string, n: int>>"`. Other
        members are left out, missing ones are null.
    """

    schema: str
    name: ClassVar[str] = "json"
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
                f"subject={self.subject!r} needs the registry that has it: name its connection, registry="
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
                raise SettingError(f"{name} needs registry= or schema=: one of them has the schema")
            return
        try:
            found = json.loads(self.schema)
        except (ValueError, TypeError) as error:
            raise SettingError(f"{name} schema must be JSON text: {error}, found {self.schema!r}") from error
        if not isinstance(found, self.kinds) or found == {}:
            raise SettingError(f"{name} schema must be a schema, found {self.schema!r}")


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

    name: ClassVar[str] = "avro"
    kinds: ClassVar[tuple[type, ...]] = (dict, list, str)


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

    name: ClassVar[str] = "json-schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protobuf(OfRegistry):
    """Protobuf, framed as Confluent's serialiser does if there is a registry, and bare otherwise.

    :param message: Full name of the message, such as `"shop.Order"`. Default: the first message of the schema.
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
    name: ClassVar[str] = "protobuf"

    def __post_init__(self) -> None:
        OfRegistry.__post_init__(self)
        if not isinstance(self.descriptors, bytes | None):
            raise SettingError(f"Protobuf descriptors must be bytes, found {type(self.descriptors).__name__}")
        if self.descriptors is None and self.registry is None:
            raise SettingError("Protobuf needs registry= or descriptors=: one of them has the schema")


Format = Json | Avro | JsonSchema | Protobuf
FORMATS: dict[str, type[Format]] = {each.name: each for each in (Json, Avro, JsonSchema, Protobuf)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """How records are decoded before the transform: `value` and `key` become columns of their own types.

    :param value: The format of values; None leaves their bytes.
    :param key: The format of keys; None leaves their bytes.
    :param max_bad_records: How many records of a run may be impossible to decode, or to make rows of. They become dead
        letters.
    :param dead_letters: Where their original bytes go: a topic, or, for a load that writes a table, another table, such
        as `IcebergOutput("lake.shop.orders_dead")`. Required if any are allowed.
    """

    value: Format | None = None
    key: Format | None = None
    max_bad_records: int = 0
    dead_letters: str | IcebergOutput | DeltaOutput | None = None

    def __post_init__(self) -> None:
        for name in ("value", "key"):
            if not isinstance(getattr(self, name), Format | None):
                raise SettingError(
                    f"Decode {name} must be Json(...), Avro(...), JsonSchema(...) or Protobuf(...), found "
                    f"{getattr(self, name)!r}"
                )
        if not self.formats and not self.max_bad_records:
            raise SettingError("Decode needs a format: value=..., key=... or both")
        bad = self.max_bad_records
        if not isinstance(bad, int) or isinstance(bad, bool) or bad < 0:
            raise SettingError(f"max_bad_records must be a whole number from 0 on, found {bad!r}")
        if bad and not self.dead_letters:
            raise SettingError(
                f"max_bad_records={bad} needs a topic or a table for these records: dead_letters='orders-dead'"
            )
        self._check_dead_letters()
        if len(self.registries) > 1:
            raise SettingError(f"key and value must use one registry, found {' and '.join(map(repr, self.registries))}")

    def _check_dead_letters(self) -> None:
        found = self.dead_letters
        if not isinstance(found, str | IcebergOutput | DeltaOutput | None):
            raise SettingError(
                f"dead_letters must be a topic, or IcebergOutput(...) or DeltaOutput(...), found {found!r}"
            )
        if isinstance(found, IcebergOutput | DeltaOutput) and not found.identity:
            raise SettingError(
                f"dead_letters={found.of} cannot have identity=False: by their identities none is written twice"
            )

    def check_topic(self) -> None:
        """`SettingError` if dead letters would go to a table, where the rows go to Kafka."""
        if not isinstance(self.dead_letters, str | None):
            raise SettingError(
                f"dead_letters={self.dead_letters.of}: where rows go to Kafka, dead letters do, too, in the same "
                "write: name a topic, such as dead_letters='orders-dead'"
            )

    @property
    def formats(self) -> dict[str, Format]:
        found = {"key": self.key, "value": self.value}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def registries(self) -> list[str]:
        return sorted({each.registry for each in self.formats.values() if each.registry is not None})

    @property
    def shape(self) -> str | None:
        """What of it shapes the rows, as text; the rest may change between attempts. None if no format does."""
        return json.dumps(self._plain_formats(), sort_keys=True) if self.formats else None

    def to_text(self) -> str:
        """As one argument of a command line; it has no secrets."""
        dead = self.dead_letters
        named = json.loads(to_text(dead)) if isinstance(dead, IcebergOutput | DeltaOutput) else dead
        more = {"max_bad_records": self.max_bad_records, "dead_letters": named}
        return json.dumps({**self._plain_formats(), **more}, sort_keys=True)

    def _plain_formats(self) -> dict[str, Any]:
        return {name: _plain(each) for name, each in self.formats.items()}

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Raises a `SettingError` for what `to_text` would not write."""
        try:
            found = json.loads(text)
            formats = {name: _format(found.pop(name)) for name in ("key", "value") if name in found}
            if isinstance(table := found.get("dead_letters"), dict):
                found["dead_letters"] = from_text(json.dumps(table))
            return cls(**formats, **found)  # type: ignore[arg-type]
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise SettingError(
                f'--decode must be JSON such as {{"value": {{"format": "json", "schema": "order long"}}}}: {error}'
            ) from error


def _plain(each: Format) -> dict[str, Any]:
    """The format as JSON knows it, without what is None."""
    found = {field.name: getattr(each, field.name) for field in fields(each)}
    if found.get("descriptors") is not None:
        found["descriptors"] = b64encode(found["descriptors"]).decode()
    return {"format": each.name, **{name: value for name, value in found.items() if value is not None}}


def _format(found: dict[str, Any]) -> Format:
    kind = FORMATS.get(found.pop("format"))
    if kind is None:
        raise SettingError(f"the format must be one of {', '.join(FORMATS)}")
    if "descriptors" in found:
        found["descriptors"] = b64decode(found["descriptors"])
    return kind(**found)
