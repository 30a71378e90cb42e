"""One column of payloads, decoded with whatever schemas they were written with: `PayloadDecoder`.

The type of the column is settled before anything is read. A record that cannot be read is an error of its own; what
concerns all records is raised: the registry cannot be reached, or it has other columns by now.
"""

from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from airflow_provider_orderedkafka.decoding.avro import AvroWriter
from airflow_provider_orderedkafka.decoding.column_types import arrow_type, parsed_columns
from airflow_provider_orderedkafka.decoding.evolution import converted, merged, new_fields
from airflow_provider_orderedkafka.decoding.formats import Avro, Format, Json, JsonSchema, Protobuf
from airflow_provider_orderedkafka.decoding.framing import Framed, split
from airflow_provider_orderedkafka.decoding.json_schema import columns_of
from airflow_provider_orderedkafka.decoding.json_values import JsonWriter
from airflow_provider_orderedkafka.decoding.protobuf import ProtobufWriter
from airflow_provider_orderedkafka.decoding.registry import NoSchemaError, Registered, Registry
from airflow_provider_orderedkafka.decoding.salvage import Errors, sound
from airflow_provider_orderedkafka.errors import SchemaChangedError, SettingError

Column = Literal["key", "value"]
Writer = Any
"""What has a `type`, and reads payloads of it."""

KINDS: Final = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
"""What a registry calls the formats."""


@dataclass(frozen=True, slots=True)
class PayloadDecoder:
    """Decodes keys or values to arrays of `type`, which are the columns of these subjects, if there are any."""

    column: Column
    format: Format
    type: Any
    registry: Registry | None = None
    subjects: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Column, form: Format, topics: Sequence[str], registry: Registry | None) -> "PayloadDecoder":
        """The decoder of a column of these topics; asks the registry for the schemas that it is of."""
        if isinstance(form, Json):
            return cls(column, form, arrow_type(parsed_columns(form.schema)))
        given = _given(form)
        if form.registry is None:
            assert given is not None
            return cls(column, form, given.type)
        assert registry is not None
        if given is not None and form.schema_changes == "fail":
            return cls(column, form, given.type, registry)
        subjects = (form.subject,) if form.subject else tuple(f"{topic}-{column}" for topic in sorted(topics))
        return cls(column, form, _newest(form, subjects, registry)[0], registry, subjects)

    def decoded(self, payloads: Any, heads: Any = None) -> tuple[Any, Errors]:
        """The payloads as an array, null where they are null or bad, and why they are bad by their index."""
        given = payloads.to_pylist()
        parts: list[tuple[Sequence[int], Any]] = []
        errors: Errors = {}
        for group in self._groups(payloads, heads):
            if not group.rows:
                continue
            array, wrong = self._read(group, [given[row] for row in group.rows])
            parts.append((group.rows, array))
            errors |= {group.rows[index]: self._told(why, group.schema) for index, why in wrong.items()}
        return self._together(parts, len(given)), dict(sorted(errors.items()))

    def _groups(self, payloads: Any, heads: Any) -> list[Framed]:
        if self.registry is not None:
            return list(split(payloads, heads))
        valid = np.flatnonzero(payloads.is_valid().to_numpy(zero_copy_only=False)).tolist()
        return [Framed(valid, None, 0)]

    def _read(self, group: Framed, payloads: list[bytes]) -> tuple[Any, Errors]:
        """The payloads of one schema, as the column's type."""
        if group.error is not None:
            return self._nothing(payloads, group.error)
        try:
            writer = self._writer_of(group.schema)
        except NoSchemaError as error:
            return self._nothing(payloads, str(error))
        array, errors = writer.read(payloads, group.data, group.indexes)
        if not array.type.equals(self.type, check_metadata=True):
            array, more = _each(array, lambda part: converted(part, self.type), self.type)
            errors = {**more, **errors}
        if errors and self.subjects and group.schema is not None and not self._now(group.schema)[0].equals(self.type):
            raise SchemaChangedError(
                f"records of schema {group.schema} do not fit the columns of {self.column}s, and other ones were "
                "registered while they were loaded; run again, and they are the columns"
            )
        return array, errors

    def _writer_of(self, schema: int | str | None) -> Writer:
        if schema is None or self.registry is None:
            return JsonWriter(self.type) if isinstance(self.format, Json | JsonSchema) else _given(self.format)
        found = self.registry.schema(schema, serialised=isinstance(self.format, Protobuf))
        try:
            writer = _writer(self.format, found)
        except SettingError as error:
            raise NoSchemaError(str(error)) from error  # a damaged id may be that of any schema
        self._check_known(writer, schema)
        return JsonWriter(self.type) if isinstance(self.format, JsonSchema) else writer

    def _check_known(self, writer: Writer, schema: int | str) -> None:
        """What the columns do not have was dropped since it was written; all else is an error."""
        assert not isinstance(self.format, Json)
        fields = sorted(new_fields(writer.type, self.type))
        if not fields:
            return
        what = f"schema {schema} of {self.column}s has the field {fields[0]!r}, which the columns do not have"
        columns, newest = self._now(schema) if self.subjects else (writer.type, None)
        gained = not set(fields).isdisjoint(new_fields(columns, self.type))
        foreign = newest is not None and isinstance(schema, int) and schema > newest
        if self.format.schema_changes == "fail" and (gained or foreign):
            raise SettingError(f"{what}, and schema_changes='fail': add it to the reader's schema, or set 'add'")
        if gained:
            raise SchemaChangedError(
                f"{what}: it was registered while they were loaded; run again, and it becomes a column"
            )
        if foreign:
            raise NoSchemaError(
                f"{what}, and it is newer than all of {', '.join(self.subjects)}: name the subject that has it with "
                "subject=, or give a schema= that has the field"
            )

    def _now(self, schema: int | str) -> tuple[Any, int | None]:
        """The columns by now, and the highest id of their schemas; asked once for each schema."""
        assert self.registry is not None
        return _asked(tuple(sorted(self.registry.config.items())), self.format, self.subjects, self.type, schema)

    def _nothing(self, payloads: Sequence[bytes], why: str) -> tuple[Any, Errors]:
        return pa.nulls(len(payloads), self.type), dict.fromkeys(range(len(payloads)), why)

    def _told(self, why: str, schema: int | str | None) -> str:
        written = "" if schema is None else f", schema {schema}"
        return f"its {self.column} cannot be decoded ({self.format.name}{written}): {why}"

    def _together(self, parts: list[tuple[Sequence[int], Any]], count: int) -> Any:
        if not parts:
            return pa.nulls(count, self.type)
        if len(parts) == 1 and len(parts[0][0]) == count:
            return parts[0][1]
        places = np.full(count, -1)
        rows = np.concatenate([rows for rows, _ in parts])
        places[rows] = np.arange(len(rows))
        return pa.concat_arrays([array for _, array in parts]).take(pa.array(places, mask=places < 0))


@lru_cache(maxsize=1_000)
def _asked(
    config: tuple[tuple[str, str], ...], form: Format, subjects: tuple[str, ...], _type: Any, _schema: int | str
) -> tuple[Any, int | None]:
    return _newest(form, subjects, Registry(dict(config)))


def _newest(form: Format, subjects: Sequence[str], registry: Registry) -> tuple[Any, int | None]:
    """The columns of the newest schemas of the subjects, and the highest id of these."""
    given = _given(form)
    found = [registry.newest(subject, serialised=isinstance(form, Protobuf)) for subject in subjects]
    types = [*([given.type] if given else []), *(_writer(form, each).type for each in found)]
    return merged(types), max((each.id for each in found if each.id is not None), default=None)


def _each(array: Any, make: Callable[[Any], Any], kind: Any) -> tuple[Any, Errors]:
    """What `make` makes of an array, null for the items that it fails for."""
    try:
        return make(array), {}
    except Exception:  # noqa: BLE001 - now one by one
        return sound(range(len(array)), lambda rows: make(array.slice(rows[0], len(rows)).take(_all(rows))), kind)


def _all(rows: Sequence[int]) -> Any:
    return pa.array(range(len(rows)), pa.int64())


def _given(form: Format) -> Writer | None:
    """The writer of the schema that the format itself has; None if only a registry has one."""
    if isinstance(form, Avro):
        return None if form.schema is None else AvroWriter.of(form.schema)
    if isinstance(form, JsonSchema):
        return None if form.schema is None else JsonWriter(columns_of(form.schema))
    if isinstance(form, Protobuf) and form.descriptors is not None:
        return ProtobufWriter.of(_files(form.descriptors), form.message, framed=form.registry is not None)
    return None


def _writer(form: Format, registered: Registered) -> Writer:
    if registered.kind != KINDS[form.name]:
        raise SettingError(
            f"schema {registered.id} in the registry is {registered.kind}, and the format is {form.name}: use the "
            "other format, or name another subject"
        )
    if isinstance(form, Avro):
        return AvroWriter.of(registered.text, *(text for _, text in registered.references))
    if isinstance(form, JsonSchema):
        return JsonWriter(columns_of(registered.text))
    assert isinstance(form, Protobuf)
    try:
        files = tuple(_named(*each) for each in (*registered.references, ("", registered.text)))
    except ValueError:  # it is the source, as some registries give it
        return _own(form)
    return ProtobufWriter.of(files, form.message, framed=True)


def _named(name: str, text: str) -> bytes:
    """A serialised descriptor, by the name that others import it by."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(b64decode(text, validate=True))
    except DecodeError as error:
        raise ValueError(str(error)) from error
    file.name = name or file.name or "schema.proto"
    return bytes(file.SerializeToString())


def _own(form: Protobuf) -> Writer:
    """The writer of the format's own descriptors, where the registry gives none."""
    found = _given(form)
    if found is None:
        raise SettingError(
            "the registry gives the source of a Protobuf schema and not its descriptors: give what `protoc "
            "--include_imports --descriptor_set_out` writes with descriptors="
        )
    return found


def _files(data: bytes) -> tuple[bytes, ...]:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return tuple(each.SerializeToString() for each in descriptor_pb2.FileDescriptorSet.FromString(data).file)
    except DecodeError as error:
        raise SettingError(f"Protobuf descriptors are not a descriptor set: {error}") from error
