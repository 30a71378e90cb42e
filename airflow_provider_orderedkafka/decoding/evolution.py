"""From the writer's columns to the reader's, as Arrow columns.

converted(array, target)    by name: missing fields get their default or null, others are left out; types widen
merged(types)               the type that has the fields of all
new_fields(writer, reader)  what a writer has and the reader's columns do not
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from airflow_provider_orderedkafka.errors import SettingError

DEFAULT: Final = b"default"
ALIASES: Final = b"aliases"
"""Keys of a field's metadata: what it is where a writer did not have it, `kept`, and its former names, as JSON."""


def converted(array: Any, target: Any) -> Any:
    """The array as the target type; raises what Arrow raises for a value that does not fit."""
    found = array.type
    if found.equals(target):
        return array
    if pa.types.is_struct(target) and pa.types.is_struct(found):
        children = [_child(array, field) for field in target]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_list(target) and pa.types.is_list(found):
        whole = pa.concat_arrays([array])
        values, mask = converted(whole.values, target.value_type), whole.is_null() if whole.null_count else None
        return pa.ListArray.from_arrays(whole.offsets, values, type=target, mask=mask)
    return array.cast(target)


def _child(array: Any, field: Any) -> Any:
    names = [field.name, *json.loads((field.metadata or {}).get(ALIASES, b"[]"))]
    for name in names:
        if array.type.get_field_index(name) >= 0:
            return converted(array.field(name), field.type)
    default = (field.metadata or {}).get(DEFAULT)
    if default is None:
        return pa.nulls(len(array), field.type)
    one = pa.ipc.open_stream(b64decode(default)).read_next_batch().column(0)
    return converted(one, field.type).take(pa.array([0] * len(array), pa.int64()))


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
    if not (pa.types.is_struct(writer) and pa.types.is_struct(reader)):
        return
    known = {name: field for field in reader for name in _names(field)}
    for field in writer:
        name = f"{path}.{field.name}" if path else field.name
        if field.name not in known:
            yield name
        else:
            yield from new_fields(field.type, known[field.name].type, name)


def _names(field: Any) -> list[str]:
    return [field.name, *json.loads((field.metadata or {}).get(ALIASES, b"[]"))]
