"""Protobuf: messages are parsed one by one, and columns are made field by field.

    ProtobufWriter.of(files, message)                `files` are serialised descriptors, each after what it imports
    writer.read(payloads, start, indexes, reader)    -> (an array of the field `reader`, by default `writer.field`,
                                                        errors by index)

In front of a framed message stands which message of its file it is: how many indexes, and each of them, as zigzag
varints; a single zero means the first message.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import chain
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import SettingError
from .bad_records import Errors, message_of, sound
from .evolution import NUMBER, PLAIN, cast, converted, mask, meaning, meanings, offsets

Make = Callable[[Sequence[Any]], Any]
Column = tuple[Any, Make]
"""A field, and what makes an array of what was written: the numbers of enums, and all else as it is."""

_LONGEST_VARINT: Final = 10
_MOST_INDEXES: Final = 100
_BYTES: Final = 12

_OF_GOOGLE: Final = [
    f"google/protobuf/{name}.proto"
    for name in ("descriptor", "any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
]
"""What a message in an Any may be of, whatever a schema imports."""

_PACKAGES: Final = {"google/": "", "confluent/": "confluent_kafka.schema_registry."}
"""Where modules are, by how the files begin that they were made of."""


@dataclass(frozen=True, slots=True)
class ProtobufWriter:
    """Reads messages of one type. `framed` means that indexes stand in front of them."""

    descriptor: Any
    column: Column
    framed: bool

    @property
    def field(self) -> Any:
        return self.column[0]

    @classmethod
    @lru_cache(maxsize=1_000)
    def of(cls, files: tuple[bytes, ...], message: str | None, *, framed: bool) -> Self:
        """That of a message, by default of the first one in the last file."""
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError

        pool = descriptor_pool.DescriptorPool()
        try:
            protos = [descriptor_pb2.FileDescriptorProto.FromString(each) for each in files]
            imported = (name for proto in protos for name in proto.dependency)
            for proto in (*_builtin([*_OF_GOOGLE, *imported], {proto.name for proto in protos}), *protos):
                pool.Add(proto)
            last = pool.FindFileByName(protos[-1].name)
            found = pool.FindMessageTypeByName(message) if message else next(iter(last.message_types_by_name.values()))
        except (DecodeError, KeyError, TypeError, StopIteration, IndexError) as error:
            raise SettingError(
                f"the Protobuf schema gives no message{f' {message!r}' if message else ''}: {message_of(error)}"
            ) from error
        return cls(found, _message(found, ()), framed)

    def read(
        self, payloads: Sequence[bytes], start: int = 0, indexes: bytes | None = None, reader: Any = None
    ) -> tuple[Any, Errors]:
        """The messages whose indexes, if framed, begin at this byte of the payloads, or are given."""
        from google.protobuf import message_factory

        target = reader or self.field
        made = message_factory.GetMessageClass(self.descriptor)
        parse, own = made.FromString, _path(self.descriptor)
        errors: Errors = {}
        messages: list[Any] = []
        for number, payload in enumerate(payloads):
            at = start
            try:
                if self.framed:
                    path, at = _indexes(payload, start) if indexes is None else (_indexes(indexes, 0)[0], start)
                    if wrong := self._wrong(path, own):
                        raise ValueError(wrong)  # noqa: TRY301
                messages.append(parse(payload[at:]))
            except Exception as error:  # noqa: BLE001 - damaged in any way, it is a bad record
                errors[number] = f"it is damaged or of another type ({type(error).__name__}: {message_of(error)})"
                messages.append(None)
        found, more = sound(
            messages, lambda some: converted(self.column[1](some), self.field, target, _leaf), target.type
        )
        return found, dict(sorted({**more, **errors}.items()))

    def _wrong(self, path: Sequence[int], own: Sequence[int]) -> str | None:
        if list(path) == list(own):
            return None
        return f"it is message {'.'.join(map(str, path))} of its schema, expected {self.descriptor.full_name}"


def _builtin(names: Iterable[str], known: set[str]) -> Iterator[Any]:
    """The descriptors of these files, and of what they import, that a schema may import without bringing them.

    They come with Protobuf, or with Confluent's client; what `known` has is left out, and so is what is not installed.
    """
    from google.protobuf import descriptor_pb2

    for name in names:
        place = next((place for start, place in _PACKAGES.items() if name.startswith(start)), None)
        if place is None or name in known:
            continue
        known.add(name)
        with suppress(ImportError):
            module = import_module(f"{place}{name.removesuffix('.proto').replace('/', '.')}_pb2")
            found = descriptor_pb2.FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(found)
            yield from _builtin(found.dependency, known)
            yield found


def _path(descriptor: Any) -> list[int]:
    """The place of a message in its file."""
    path: list[int] = []
    while descriptor is not None:
        siblings = descriptor.containing_type.nested_types if descriptor.containing_type else None
        names = list(descriptor.file.message_types_by_name) if siblings is None else [each.name for each in siblings]
        path.insert(0, names.index(descriptor.name))
        descriptor = descriptor.containing_type
    return path


def _indexes(data: bytes, at: int) -> tuple[list[int], int]:
    """The indexes at this byte, and where they end."""
    count, at = _varint(data, at)
    if not count:
        return [0], at
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError(f"it has {count} message indexes")
    found = []
    for _ in range(count):
        index, at = _varint(data, at)
        found.append(index)
    return found, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(data):
            raise ValueError("it ends within its message indexes")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError("a message index is too long")


def _message(descriptor: Any, inside: tuple[str, ...]) -> Column:
    """The struct of a message; `inside` are the messages around it."""
    if (known := _KNOWN.get(descriptor.full_name)) is not None:
        return known
    if descriptor.full_name in inside:
        raise SettingError(
            f"the Protobuf message {descriptor.full_name!r} contains itself: such values have no columns"
        )
    columns = [(field, _field(field, (*inside, descriptor.full_name))) for field in descriptor.fields]
    if not columns:
        raise SettingError(f"the Protobuf message {descriptor.full_name!r} has no fields: they are its columns")
    kind = pa.struct([_numbered(descriptor, field, own) for field, (own, _) in columns])

    def make(values: Sequence[Any]) -> Any:
        children = [make(_values(field, values)) for field, (_, make) in columns]
        return pa.StructArray.from_arrays(children, names=kind.names, mask=mask(values))

    return pa.field("", kind), make


def _numbered(descriptor: Any, field: Any, own: Any) -> Any:
    metadata = {**(own.metadata or {}), NUMBER: f"{descriptor.full_name}.{field.number}"}
    return own.with_name(field.name).with_metadata(metadata)


def _values(field: Any, messages: Sequence[Any]) -> list[Any]:
    name = field.name
    if field.has_presence:
        return [getattr(m, name) if m is not None and m.HasField(name) else None for m in messages]
    return [None if m is None else getattr(m, name) for m in messages]


def _field(field: Any, inside: tuple[str, ...]) -> Column:
    if not field.is_repeated:
        return _single(field, inside)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field.message_type, inside)
    element, make_elements = _single(field, inside)
    kind = pa.list_(element.with_name("item"))

    def make(values: Sequence[Any]) -> Any:
        given = [value or () for value in values]
        flat = make_elements(list(chain.from_iterable(given)))
        return pa.ListArray.from_arrays(offsets(given), flat)

    return pa.field("", kind), make


def _map(entry: Any, inside: tuple[str, ...]) -> Column:
    (key, make_keys), (item, make_items) = (_single(entry.fields_by_name[n], inside) for n in ("key", "value"))
    kind = pa.map_(key.with_name("key").with_nullable(False), item.with_name("value"))  # noqa: FBT003

    def make(values: Sequence[Any]) -> Any:
        pairs = [sorted(value.items()) if value else () for value in values]
        flat = list(chain.from_iterable(pairs))
        found = (make_keys([k for k, _ in flat]), make_items([v for _, v in flat]))
        return pa.MapArray.from_arrays(offsets(pairs), *found)

    return pa.field("", kind), make


def _single(field: Any, inside: tuple[str, ...]) -> Column:
    if field.message_type is not None:
        return _message(field.message_type, inside)
    if field.enum_type is not None:
        names = [
            [value.number, value.name] for value in reversed(field.enum_type.values)
        ]  # of aliases the first counts
        return _plain(pa.int32(), column=pa.field("", pa.string(), metadata=meaning(["enum", names])))
    kind = pa.binary() if field.type == _BYTES else _TYPES[field.cpp_type]
    means = {3: ["uint32"], 4: ["uint64"]}.get(field.cpp_type, PLAIN)
    return _plain(kind, column=pa.field("", kind, metadata=meaning(means)))


def _plain(kind: Any, of: Callable[[Any], Any] | None = None, column: Any = None) -> Column:
    column = column or pa.field("", kind)
    if of is None:
        return column, lambda values: pa.array(values, kind)
    return column, lambda values: pa.array([None if value is None else of(value) for value in values], kind)


def _leaf(array: Any, writer: Any, reader: Any) -> Any:
    """The reader's column of numbers, symbols or texts: types that are alike on the wire are read as each other."""
    own, known = meanings(writer, reader)
    if reader.type == pa.string() and array.type != pa.binary():
        return _symbols(array, [own, *reversed(known)])
    found = cast(array, reader.type)
    bits = _UNSIGNED.get(known[0][0])
    low, high = (each.as_py() for each in pc.min_max(found).values()) if bits else (0, 0)
    if bits and not 0 <= low <= high < 2**bits:
        raise ValueError(f"{low if low < 0 else high} is not an unsigned number of {bits} bits")
    return found


def _symbols(array: Any, enums: list[Any]) -> Any:
    """The names of numbers by the last enum that has one, and the number where none has."""
    if array.type == pa.string():
        return array
    names = {number: name for kind, *more in enums if kind == "enum" for number, name in more[0]}
    if not names:
        raise ValueError(f"{array.type} cannot be read as text")
    encoded = cast(array, pa.int32()).dictionary_encode()
    found = [names.get(number, str(number)) for number in encoded.dictionary.to_pylist()]
    return pa.array(found, pa.string()).take(encoded.indices)


def _text(message: Any) -> str:
    from google.protobuf import json_format

    known = message.DESCRIPTOR.file.pool  # of the schema: what is in an Any may be a message of it
    return str(json_format.MessageToJson(message, indent=None, descriptor_pool=known))


def _wrapped(kind: Any) -> Column:
    return _plain(kind, lambda message: message.value)


def _micros(message: Any) -> int:
    return int(message.seconds * 1_000_000 + message.nanos // 1_000)


_UINT64: Final = pa.decimal128(20, 0)
_TYPES: Final = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.int64(),
    4: _UINT64,
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    9: pa.string(),
}
"""By the field's type in C++. Spark has no unsigned numbers: the next larger type takes them."""

_UNSIGNED: Final = {"uint32": 32, "uint64": 64}

_GOOGLE: Final = "google.protobuf."
_KNOWN: Final[dict[str, Column]] = {
    f"{_GOOGLE}Timestamp": _plain(pa.timestamp("us", "UTC"), _micros),
    f"{_GOOGLE}Duration": _plain(pa.int64(), _micros),
    f"{_GOOGLE}DoubleValue": _wrapped(pa.float64()),
    f"{_GOOGLE}FloatValue": _wrapped(pa.float32()),
    f"{_GOOGLE}Int64Value": _wrapped(pa.int64()),
    f"{_GOOGLE}UInt64Value": _wrapped(_UINT64),
    f"{_GOOGLE}Int32Value": _wrapped(pa.int32()),
    f"{_GOOGLE}UInt32Value": _wrapped(pa.int64()),
    f"{_GOOGLE}BoolValue": _wrapped(pa.bool_()),
    f"{_GOOGLE}StringValue": _wrapped(pa.string()),
    f"{_GOOGLE}BytesValue": _wrapped(pa.binary()),
    **{f"{_GOOGLE}{name}": _plain(pa.string(), _text) for name in ("Any", "FieldMask", "ListValue", "Struct", "Value")},
}
"""Messages of Google's that have a type of their own: moments, microseconds, nullable values, and JSON texts."""
