"""From the writer's columns to the reader's, as Arrow columns.

converted(array, target)    missing fields get their default or null, others are left out; types widen
merged(types)               the type that has the fields of all
new_fields(writer, reader)  what a writer has and the reader's columns do not

Fields of one Protobuf message are the same by their numbers, all others by their names, former ones included.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from airflow_provider_orderedkafka.errors import SettingError

DEFAULT: Final = b"default"
ALIASES: Final = b"aliases"
NUMBER: Final = b"number"
"""Keys of a field's metadata: what it is where a writer did not have it, `kept`; its former names, as JSON; and the
Protobuf message that has it, with its number there."""


def converted(array: Any, target: Any) -> Any:
    """The array as the target type; raises what Arrow raises for a value that does not fit."""
    found = array.type
    if found.equals(target, check_metadata=True):
        return array
    if pa.types.is_struct(target) and pa.types.is_struct(found):
        fields = zip(target, _places(target, found), strict=True)
        children = [
            _missing(field, len(array)) if place is None else converted(array.field(place), field.type)
            for field, place in fields
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_list(target) and pa.types.is_list(found):
        whole, mask = _whole(array)
        values = converted(whole.values, target.value_type)
        return pa.ListArray.from_arrays(whole.offsets, values, type=target, mask=mask)
    if pa.types.is_map(target) and pa.types.is_map(found):
        whole, mask = _whole(array)
        keys, items = converted(whole.keys, target.key_type), converted(whole.items, target.item_type)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=target, mask=mask)
    return array.cast(target)


def _whole(array: Any) -> tuple[Any, Any]:
    """The array on its own and not a part of another, and which of its items are null, if any is."""
    whole = pa.concat_arrays([array])
    return whole, whole.is_null() if whole.null_count else None


def _missing(field: Any, count: int) -> Any:
    default = _metadata(field).get(DEFAULT)
    if default is None:
        return pa.nulls(count, field.type)
    one = pa.ipc.open_stream(b64decode(default)).read_next_batch().column(0)
    return converted(one, field.type).take(pa.array([0] * count, pa.int64()))


def kept(array: Any) -> str:
    """The array as text that a field's metadata can have."""
    batch, sink = pa.RecordBatch.from_arrays([array], [""]), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return b64encode(sink.getvalue()).decode()


def merged(types: Sequence[Any]) -> Any:
    """The fields of all types; `SettingError` if a field has types that do not go together."""
    if all(each.equals(types[0]) for each in types):
        return types[0]
    if not all(map(pa.types.is_struct, types)):
        raise SettingError(f"the schemas {', '.join(map(str, types))} do not go together: load their topics apart")
    try:
        found = pa.unify_schemas([pa.schema(list(each)) for each in types], promote_options="permissive")
    except pa.ArrowException as error:
        raise SettingError(f"the schemas do not go together: {error}; load their topics apart") from error
    return pa.struct(list(found))


def new_fields(writer: Any, reader: Any, path: str = "") -> Iterator[str]:
    """The names of the writer's fields that the reader's columns do not have, nested ones as `a.b`."""
    if pa.types.is_list(writer) and pa.types.is_list(reader):
        yield from new_fields(writer.value_type, reader.value_type, path)
    if pa.types.is_map(writer) and pa.types.is_map(reader):
        yield from new_fields(writer.item_type, reader.item_type, path)
    if not (pa.types.is_struct(writer) and pa.types.is_struct(reader)):
        return
    known = dict(zip(_places(reader, writer), reader, strict=True))
    for place, field in enumerate(writer):
        name = f"{path}.{field.name}" if path else field.name
        if place not in known:
            yield name
        else:
            yield from new_fields(field.type, known[place].type, name)


def _places(reader: Any, writer: Any) -> Iterator[int | None]:
    """Which of the writer's fields each of the reader's is."""
    named = {field.name: place for place, field in enumerate(writer)}
    numbered = {_metadata(field).get(NUMBER): place for place, field in enumerate(writer)}
    messages = {_message(number) for number in numbered}
    for field in reader:
        told = _metadata(field)
        number = told.get(NUMBER)
        if number is not None and _message(number) in messages:
            yield numbered.get(number)
        else:
            names = [field.name, *json.loads(told.get(ALIASES, b"[]"))]
            yield next((named[name] for name in names if name in named), None)


def _metadata(field: Any) -> Mapping[bytes, bytes]:
    return field.metadata or {}


def _message(number: bytes | None) -> bytes:
    return (number or b"").rpartition(b".")[0]
