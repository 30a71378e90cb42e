"""Records with decoded keys and values: `RecordDecoder.of(decode, topics, registry)`, then batch by batch.

`decoder.split(batch)` gives the records that can be decoded, as a transform gets them, and the others as they are.

A `PayloadDecoder` reads one column of payloads with whatever schemas they were written with. The type of the column is
settled before anything is read. A record that cannot be read is an error of its own; what concerns all records is
raised: the registry cannot be reached, or it has other columns by now.

In Confluent's wire format a payload says which schema it was written with. In front of the data: a zero byte and the
schema's id (4 bytes, big-endian). Or in a header, `__key_schema_id` or `__value_schema_id`: the same, or a one byte and
the schema's GUID (16 bytes); then the payload is data alone.
"""

import sys
import uuid
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import SchemaChangedError, SettingError
from .avro import AvroWriter
from .bad_records import Errors, too_many, with_errors
from .evolution import clashes, merged, new_fields
from .formats import INSTALLED_BY, Avro, Decode, Format, Json, JsonSchema, Protobuf, arrow_type, has, parsed_columns
from .json_values import JsonWriter, columns_of
from .protobuf import ProtobufWriter
from .registry import NoSchemaError, Registered, Registry

FRAME: Final = 5
ID_MAGIC, GUID_MAGIC = 0, 1
_GUID_BYTES = 17
_IN_HEADER, _IN_PAYLOAD = b"h", b"p"


@dataclass(frozen=True, slots=True)
class Framed:
    """Payloads that were written with one schema, by their indices; or why they cannot be read.

    `data` is the index of the first byte of data, `indexes` what a header has behind the schema's id.
    """

    rows: list[int]
    schema: int | str | None
    data: int = FRAME
    indexes: bytes | None = None
    error: str | None = None


def split(payloads: Any, heads: Any = None) -> Iterator[Framed]:
    """The payloads that are not null, by their schema; `heads` are the headers with schemas' ids, or null."""
    found = pc.binary_join_element_wise(pa.scalar(_IN_PAYLOAD), pc.binary_slice(payloads, 0, FRAME), b"")
    if heads is not None:
        named = pc.binary_join_element_wise(pa.scalar(_IN_HEADER), heads, b"")
        found = pc.if_else(pc.and_(heads.is_valid(), payloads.is_valid()), named, found)
    encoded = found.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    for code, head in enumerate(encoded.dictionary.to_pylist()):
        yield _framed(np.flatnonzero(codes == code).tolist(), head[:1], head[1:])


def schema_headers(headers: Any, name: str) -> Any:
    """The last header of this name of each record, as serialisers append theirs; null where there is none."""
    entries, parents = headers.flatten(), pc.list_parent_indices(headers).to_numpy()
    named = np.flatnonzero(pc.equal(entries.field("key"), name).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003
    places = np.full(len(headers), -1)
    places[parents[named]] = named
    return entries.field("value").take(pa.array(places, mask=places < 0))


def _framed(rows: list[int], where: bytes, head: bytes) -> Framed:
    if where == _IN_HEADER:
        return _of_header(rows, head)
    if len(head) < FRAME:
        return Framed(rows, None, error=f"it ends after {len(head)} bytes: a schema's id and data are expected")
    if head[0] != ID_MAGIC:
        return Framed(
            rows,
            None,
            error=f"it begins with byte 0x{head[0]:02x}, not with 0x00 and a schema's id: it was written without a "
            "registry",
        )
    return Framed(rows, int.from_bytes(head[1:FRAME], "big"))


def _of_header(rows: list[int], head: bytes) -> Framed:
    if len(head) >= FRAME and head[0] == ID_MAGIC:
        return Framed(rows, int.from_bytes(head[1:FRAME], "big"), 0, head[FRAME:])
    if len(head) >= _GUID_BYTES and head[0] == GUID_MAGIC:
        return Framed(rows, str(uuid.UUID(bytes=head[1:_GUID_BYTES])), 0, head[_GUID_BYTES:])
    return Framed(rows, None, error=f"its header for the schema's id is damaged, found {head[:20]!r}")


Column = Literal["key", "value"]
Writer = Any
"""What has the `field` that was written, and reads payloads as another."""

KINDS: Final = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
"""What a registry calls the formats."""


@dataclass(frozen=True, slots=True)
class PayloadDecoder:
    """Decodes keys or values to arrays of `field`, which has the columns of these subjects, if there are any."""

    column: Column
    format: Format
    field: Any
    registry: Registry | None = None
    subjects: tuple[str, ...] = ()

    @property
    def type(self) -> Any:
        return self.field.type

    @classmethod
    def of(cls, column: Column, form: Format, topics: Sequence[str], registry: Registry | None) -> "PayloadDecoder":
        """The decoder of a column of these topics; asks the registry for the schemas that it is of."""
        if isinstance(form, Json):
            return cls(column, form, pa.field("", arrow_type(parsed_columns(form.schema))))
        given = _given(form)
        if form.registry is None:
            assert given is not None
            return cls(column, form, given.field)
        assert registry is not None
        if given is not None and form.schema_changes == "fail":
            return cls(column, _by_name(form, [given]), given.field, registry)
        subjects = (form.subject,) if form.subject else tuple(f"{topic}-{column}" for topic in sorted(topics))
        writers, found, _ = _newest(form, subjects, registry)
        return cls(column, _by_name(form, writers), found, registry, subjects)

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
            errors |= {group.rows[index]: self._reason(why, group.schema) for index, why in wrong.items()}
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
        if other := clashes(writer.field, self.field):
            why = f"{other[0]}: nothing says which is right. Give schema= with the plain number or bytes, and make the "
            array, errors = self._nothing(payloads, f"{why}value of it, or let these records pass as dead letters")
        else:
            array, errors = writer.read(payloads, group.data, group.indexes, self.field)
        if errors and self._changed(group.schema):
            raise SchemaChangedError(
                f"records of schema {group.schema} do not fit the columns of {self.column}s, and newer schemas were "
                "registered during the load; run again, and the columns are those of the newest"
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
        fields = new_fields(writer.field, self.field)
        if not fields:
            return
        what = f"schema {schema} of {self.column}s has the field {fields[0]!r}, which the columns do not have"
        columns, newest = self._now(schema) if self.subjects else (writer.field, None)
        gained = not set(fields).isdisjoint(new_fields(columns, self.field))
        foreign = newest is not None and isinstance(schema, int) and schema > newest
        if self.format.schema_changes == "fail" and (gained or foreign):
            raise SettingError(
                f"{what}, and schema_changes='fail': add it to the reader's schema, or set schema_changes='add'"
            )
        if gained:
            raise SchemaChangedError(
                f"{what}: the schema was registered during the load; run again, and the field becomes a column"
            )
        if foreign:
            raise NoSchemaError(
                f"{what}, and it is newer than all of {', '.join(self.subjects)}: name the subject that has it with "
                "subject=, or give a schema= that has the field"
            )

    def _changed(self, schema: int | str | None) -> bool:
        """Whether the columns are other ones by now."""
        if schema is None or not self.subjects:
            return False
        now, _ = self._now(schema)
        return not now.equals(self.field) or bool(clashes(now, self.field))

    def _now(self, schema: int | str) -> tuple[Any, int | None]:
        """The columns by now, and the highest id of their schemas; asked once for each schema."""
        assert self.registry is not None
        return _asked(self.registry, self.format, self.subjects, self.field, schema)

    def _nothing(self, payloads: Sequence[bytes], why: str) -> tuple[Any, Errors]:
        return pa.nulls(len(payloads), self.type), dict.fromkeys(range(len(payloads)), why)

    def _reason(self, why: str, schema: int | str | None) -> str:
        written = "" if schema is None else f", schema {schema}"
        return f"its {self.column} cannot be decoded ({self.format.kind}{written}): {why}"

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
    registry: Registry, form: Format, subjects: tuple[str, ...], _field: Any, _schema: int | str
) -> tuple[Any, int | None]:
    _, now, newest = _newest(form, subjects, registry)
    return now, newest


def _newest(form: Format, subjects: Sequence[str], registry: Registry) -> tuple[list[Writer], Any, int | None]:
    """The writers that the columns are made of, the columns, and the highest id of the newest schemas among them."""
    given = _given(form)
    found = [registry.newest(subject, serialised=isinstance(form, Protobuf)) for subject in subjects]
    writers = [_writer(form, each) for each in found]
    columns = merged([each.field for each in writers], given and given.field)
    newest = max((each.id for each in found if each.id is not None), default=None)
    return [*([given] if given else []), *writers], columns, newest


def _by_name(form: Format, writers: Sequence[Writer]) -> Format:
    """The format with its message, if that is one: which is the first one differs from schema to schema."""
    if not isinstance(form, Protobuf) or len(names := {each.descriptor.full_name for each in writers}) > 1:
        return form
    return replace(form, message=names.pop())


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
    if registered.kind != KINDS[form.kind]:
        raise SettingError(
            f"schema {registered.id} in the registry is {registered.kind}, but the format is {form.kind}: use the "
            "registry's format, or name another subject"
        )
    if isinstance(form, Avro):
        return AvroWriter.of(registered.text, *(text for _, text in registered.references))
    if isinstance(form, JsonSchema):
        return JsonWriter(columns_of(registered.text))
    assert isinstance(form, Protobuf)
    try:
        files = tuple(_named(*each) for each in (*registered.references, ("", registered.text)))
    except ValueError:  # it is the source, as some registries give it
        return _writer_of_schema(form)
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


def _writer_of_schema(form: Protobuf) -> Writer:
    found = _given(form)
    if found is None:
        raise SettingError(
            "the registry gives the source of a Protobuf schema, not its descriptors: with descriptors=, give what "
            "`protoc --include_imports --descriptor_set_out` writes"
        )
    return found


def _files(data: bytes) -> tuple[bytes, ...]:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return tuple(each.SerializeToString() for each in descriptor_pb2.FileDescriptorSet.FromString(data).file)
    except DecodeError as error:
        raise SettingError(f"Protobuf descriptors are not a descriptor set: {error}") from error


SCHEMA_HEADERS: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}


@dataclass(frozen=True, slots=True)
class RecordDecoder:
    """Decodes the columns of a batch of records. At most `max_bad` records may be bad; None: any number."""

    columns: tuple[PayloadDecoder, ...]
    max_bad: int | None

    @classmethod
    def of(
        cls, decode: Decode, topics: Sequence[str], registry: Registry | None = None, max_bad: int | None = 0
    ) -> "RecordDecoder":
        """Settle the columns; asks the registry, which must be given where a format names one."""
        check_installed(decode)
        columns = [PayloadDecoder.of(name, each, topics, registry) for name, each in decode.formats.items()]  # type: ignore[arg-type]
        return cls(tuple(columns), max_bad)

    def schema(self, records: Any) -> Any:
        """The columns of decoded records, from those of records."""
        for each in self.columns:
            place = records.get_field_index(each.column)
            records = records.set(place, pa.field(each.column, each.type))
        return records

    def split(self, batch: Any) -> tuple[Any, Any]:
        """The records decoded, and the bad ones as they are, with `_error`; raises for more of these than may be."""
        decoded, errors = self._decoded(batch)
        bad = with_errors(batch, errors)
        if self.max_bad is not None and len(errors) > self.max_bad:
            raise too_many(bad, self.max_bad)
        if errors:
            decoded = decoded.filter(pa.array(np.isin(np.arange(batch.num_rows), list(errors), invert=True)))
        return decoded, bad

    def _decoded(self, batch: Any) -> tuple[Any, Errors]:
        errors: Errors = {}
        for each in self.columns:
            place = batch.schema.get_field_index(each.column)
            framed = each.registry is not None and "headers" in batch.schema.names
            heads = schema_headers(batch.column("headers"), SCHEMA_HEADERS[each.column]) if framed else None
            array, wrong = each.decoded(batch.column(place), heads)
            batch = batch.set_column(place, pa.field(each.column, each.type), array)
            errors = {**wrong, **errors}
        return batch, dict(sorted(errors.items()))


def check_installed(decode: Decode) -> None:
    """`SettingError` if this Python lacks what the formats need."""
    missing = [INSTALLED_BY.get(name, name) for name in decode.needed if not has(name)]
    if missing:
        raise SettingError(
            f"decoding needs {' and '.join(missing)}, which this Python ({sys.executable}) does not have: pip install "
            "'airflow-provider-orderedkafka[decode]' in Airflow's environment; where Spark runs in another "
            "environment, install what `orderedkafka bundle bundle.zip --requirements requirements.txt` writes down"
        )
