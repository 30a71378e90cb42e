"""From what was written to the reader's columns, as Arrow columns.

converted(array, writer, reader, leaf)    missing fields get their default or null, others are left out
merged(fields, given)                     the field that has the fields of all
new_fields(writer, reader)                what a writer has and the reader's columns do not
clashes(writer, reader)                   what has another unit there

Fields of one Protobuf message are the same by their numbers, all others by their names, former ones included. The array
of a leaf has what stands in the record: what that means, a moment or a symbol, is in the metadata of its field.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import SettingError
from .formats import MOST_DIGITS

DEFAULT: Final = b"default"
ALIASES: Final = b"aliases"
NUMBER: Final = b"number"
MEANINGS: Final = b"meanings"
"""Keys of a field's metadata: what it is where a writer did not have it, `kept`, for each schema that says so, and its
former names, as JSON; the Protobuf message that has it, with its number there; and what its values mean: a name with
its parameters for each schema that it is of, as JSON."""

PLAIN: Final = [""]
"""The meaning of a value that is what is written."""

WITHOUT_UNIT: Final = ("", "enum", "floats", "uint32", "uint64")
"""Meanings that change no value that both sides can have."""

_LONG_DIGITS: Final = 19

Leaf = Callable[[Any, Any, Any], Any]
"""Makes the reader's column of what was written, by the fields of both."""


def converted(array: Any, writer: Any, reader: Any, leaf: Leaf) -> Any:
    """The array, written as one field, as the other; raises what Arrow raises for a value that does not fit."""
    found, target = writer.type, reader.type
    if pa.types.is_struct(target) and pa.types.is_struct(found):
        fields = zip(target, _places(target, found), strict=True)
        children = [
            _missing(field, array) if place is None else converted(array.field(place), found[place], field, leaf)
            for field, place in fields
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_list(target) and pa.types.is_list(found):
        whole, mask = _whole(array)
        values = converted(whole.values, found.value_field, target.value_field, leaf)
        return pa.ListArray.from_arrays(whole.offsets, values, type=target, mask=mask)
    if pa.types.is_map(target) and pa.types.is_map(found):
        whole, mask = _whole(array)
        keys = converted(whole.keys, found.key_field, target.key_field, leaf)
        items = converted(whole.items, found.item_field, target.item_field, leaf)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=target, mask=mask)
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    if pa.types.is_nested(found) or pa.types.is_nested(target):
        raise ValueError(f"{found} cannot be read as {target}")
    return leaf(array, writer, reader)


def cast(array: Any, kind: Any) -> Any:
    """Numbers as numbers, texts as bytes and back; floating ones are rounded, and whole ones have to fit."""
    if array.type == kind:
        return array
    if _family(array.type) != _family(kind):
        raise ValueError(f"{array.type} cannot be read as {kind}")
    if pa.bool_() in (array.type, kind):
        array = array.cast(pa.int64())
    if pa.types.is_decimal(kind) and pa.types.is_integer(
        array.type
    ):  # Arrow wants room for any, however small they are
        array = array.cast(pa.decimal256(_LONG_DIGITS + kind.scale, kind.scale))
    found = array.cast(kind, safe=not pa.types.is_floating(kind))
    if pa.types.is_floating(array.type) and pa.types.is_floating(kind) and pc.is_inf(found) != pc.is_inf(array):
        raise ValueError(f"{array.type} does not fit {kind}")
    return found


def in_microseconds(nanoseconds: Any) -> Any:
    """Integers without their last three digits as moments have them: also before 1970 none becomes later."""
    before = pc.subtract(pc.divide(pc.add(nanoseconds, 1), 1_000), 1)
    return pc.if_else(pc.less(nanoseconds, 0), before, pc.divide(nanoseconds, 1_000))


def _family(kind: Any) -> Any:
    if pa.types.is_boolean(kind) or (pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)):
        return "number"
    return "number" if pa.types.is_decimal(kind) else "text" if kind in (pa.string(), pa.binary()) else kind


def _whole(array: Any) -> tuple[Any, Any]:
    """The array on its own and not a part of another, and which of its items are null, if any is."""
    whole = pa.concat_arrays([array])
    return whole, whole.is_null() if whole.null_count else None


def _missing(field: Any, array: Any) -> Any:
    """The field of records without it; `ValueError` if its schemas have several defaults."""
    defaults = [_default(text, field) for text in _defaults(field)]
    if not defaults or array.null_count == len(array):
        return pa.nulls(len(array), field.type)
    one, *others = defaults
    for other in others:
        if not other.equals(one):
            raise ValueError(
                f"it has no {field.name!r}, whose default is {one[0]} for one topic and {other[0]} for another: give "
                "schema= with the default that counts, or load the topics with separate loads"
            )
    return one.take(pa.array([0] * len(array), pa.int64()))


def _defaults(field: Any) -> list[str | None]:
    return list(json.loads(_metadata(field).get(DEFAULT, b"[]")))


def _default(text: str | None, field: Any) -> Any:
    if text is None:
        return pa.nulls(1, field.type)
    batch = pa.ipc.open_stream(b64decode(text)).read_next_batch()
    return converted(batch.column(0), batch.schema.field(0), field, lambda array, _, own: cast(array, own.type))


def kept(array: Any) -> str:
    """The one item of the array as the default that a field's metadata has."""
    if array.null_count:
        return json.dumps([None])
    batch, sink = pa.RecordBatch.from_arrays([array], [""]), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return json.dumps([b64encode(sink.getvalue()).decode()])


def offsets(lists: Sequence[Any]) -> Any:
    """Where each of these lists begins and ends among their items."""
    return pa.array([0, *accumulate(map(len, lists))], pa.int32())


def mask(values: Sequence[Any]) -> Any:
    return pa.array([value is None for value in values], pa.bool_()) if None in values else None


def merged(fields: Sequence[Any], given: Any = None) -> Any:
    """The fields of all, with the given one's defaults; `SettingError` if one has types that do not go together."""
    found = reduce(_both, fields)
    return found if given is None else _both(given, found, first_counts=True)


def _both(one: Any, other: Any, *, first_counts: bool = False) -> Any:
    one = _with_names(one, other)
    if not first_counts and (defaults := dict.fromkeys([*_defaults(one), *_defaults(other)])):
        one = one.with_metadata({**_metadata(one), DEFAULT: json.dumps([*defaults])})
    both = partial(_both, first_counts=first_counts)
    a, b = one.type, other.type
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        more = {field.name: field for field in b}
        fields = [both(field, more.pop(field.name)) if field.name in more else field for field in a]
        return one.with_type(pa.struct([*fields, *more.values()]))
    if pa.types.is_list(a) and pa.types.is_list(b):
        return one.with_type(pa.list_(both(a.value_field, b.value_field)))
    if pa.types.is_map(a) and pa.types.is_map(b):
        return one.with_type(pa.map_(both(a.key_field, b.key_field), both(a.item_field, b.item_field)))
    meanings = [*_meanings(one), *(each for each in _meanings(other) if each not in _meanings(one))]
    try:
        if PLAIN in meanings and any(name.startswith("time-") for name, *_ in meanings):
            raise ValueError(f"{one.name!r} is a time and a number")  # noqa: TRY301 - as Arrow says it of others
        kind = _unified(one, other)
    except ValueError as error:
        raise SettingError(
            f"the schemas do not fit together: {one.name!r} is {a} and {b} ({error}); load their topics with separate "
            "loads"
        ) from error
    return one.with_type(kind).with_metadata({**_metadata(one), **meaning(*meanings)})


def _unified(one: Any, other: Any) -> Any:
    """The type that takes the values of both; `ValueError` if there is none in which they stay what they are."""
    schemas = [pa.schema([each.with_name("")]) for each in (one, other)]
    kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    if pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS:
        raise ValueError(f"a column has at most {MOST_DIGITS} digits")
    if pa.types.is_floating(kind) and any(pa.types.is_decimal(each.type) for each in (one, other)):
        raise ValueError("a decimal would be rounded")
    return kind


def _with_names(one: Any, other: Any) -> Any:
    """The first field, with the former names of both; `SettingError` for two numbers in one Protobuf message."""
    number, another = (_metadata(each).get(NUMBER) for each in (one, other))
    if number and another and number != another and _message(number) == _message(another):
        raise SettingError(
            f"the schemas do not fit together: {one.name!r} is field {number.decode()} in one and {another.decode()} "
            "in another; load their topics with separate loads"
        )
    names = dict.fromkeys([*_former(one), *_former(other)])
    return one.with_metadata({**_metadata(one), ALIASES: json.dumps([*names])}) if names else one


def _former(field: Any) -> list[str]:
    return list(json.loads(_metadata(field).get(ALIASES, b"[]")))


def meaning(*each: Sequence[Any]) -> dict[bytes, str]:
    """What a field's values mean, as its metadata."""
    return {} if list(each) in ([], [PLAIN]) else {MEANINGS: json.dumps(each)}


def meanings(writer: Any, reader: Any) -> tuple[list[Any], list[list[Any]]]:
    """What written values mean to their writer, and to the reader: the same, if it is among what they mean there."""
    [own], known = _meanings(writer), _meanings(reader)
    return own, [own] if own in known else known


def _meanings(field: Any) -> list[list[Any]]:
    return list(json.loads(_metadata(field).get(MEANINGS, "null")) or [PLAIN])


def new_fields(writer: Any, reader: Any) -> list[str]:
    """The names of the writer's fields that the reader's columns do not have, nested ones as `a.b`."""
    return sorted(name for name, _, known in _compared(writer, reader, "") if known is None)


def clashes(writer: Any, reader: Any) -> list[str]:
    """Which of the writer's fields have another unit or scale than the reader's, where neither is surely right."""
    found = []
    for name, field, other in _compared(writer, reader, ""):
        own, known = (_meanings(each) if each is not None else [] for each in (field, other))
        units = {_unit(each) for each in (*own, *known) if each[0] not in WITHOUT_UNIT}
        if known and not all(each in known for each in own) and len(units) > 1:
            was, read = (" or ".join(map(_unit, each)) for each in (own, known))
            found.append(f"{name or 'it'!r} was written as {was}, but the column is {read}")
    return found


def _unit(each: Sequence[Any]) -> str:
    return " ".join(map(str, each)).removeprefix("local-") or "a plain value"


def _compared(writer: Any, reader: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Pairs of the leaves of writer and reader by path; None where the reader has none."""
    found, target = writer.type, reader.type
    if pa.types.is_list(found) and pa.types.is_list(target):
        yield from _compared(found.value_field, target.value_field, path)
    elif pa.types.is_map(found) and pa.types.is_map(target):
        yield from _compared(found.item_field, target.item_field, path)
    elif pa.types.is_struct(found) and pa.types.is_struct(target):
        known = dict(zip(_places(target, found), target, strict=True))
        for place, field in enumerate(found):
            name = f"{path}.{field.name}" if path else field.name
            if place in known:
                yield from _compared(field, known[place], name)
            else:
                yield name, field, None
    else:
        yield path, writer, reader


def _places(reader: Any, writer: Any) -> Iterator[int | None]:
    """Which of the writer's fields each of the reader's is; none is two of them."""
    named = {field.name: place for place, field in enumerate(writer)}
    numbered = {_metadata(field).get(NUMBER): place for place, field in enumerate(writer)}
    messages = {_message(number) for number in numbered}
    renamed = _renamed(reader, named)
    for field in reader:
        number = _metadata(field).get(NUMBER)
        if number is not None and _message(number) in messages:
            yield numbered.get(number)
        elif field.name in renamed:
            yield named[renamed[field.name]]
        else:
            yield None if field.name in renamed.values() else named.get(field.name)


def _renamed(reader: Any, named: Mapping[str, int]) -> dict[str, str]:
    """What the writer calls the reader's fields of another name, as Avro for Java finds it.

    A name that such a field once had is not a newer field's, which may be a renamed one itself.
    """
    former = [(field.name, names) for field in reader if (names := _former(field))]
    found: dict[str, str] = {}
    for _ in former:
        for own, names in former:
            gone = {*found.values()}
            if own not in found and (own not in named or own in gone):
                was = next((name for name in names if name in named and name not in gone), None)
                found |= {} if was is None else {own: was}
    return found


def _metadata(field: Any) -> Mapping[bytes, bytes]:
    return field.metadata or {}


def _message(number: bytes | None) -> bytes:
    return (number or b"").rpartition(b".")[0]
