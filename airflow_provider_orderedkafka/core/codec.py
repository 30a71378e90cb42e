"""Convert frozen dataclasses to canonical JSON and back, strictly, by the types of their fields.

Reading refuses what is missing, unknown or of another type with a `DocumentError` that names the document, the path
and what was found. Integers are counts, offsets and times of 64 bits: none is negative, but for the time of a `Floor`.

A value of a union says in `kind` which of its classes it is; bytes are base64.

Fields of the type `Time` or `Duration` are integers like any other, but for programs: commands print them as such.

Every document has a version, and a newer one is refused: the release that wrote it may mean more than is known here.
"""

import dataclasses
import json
import types
import zlib
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from ..errors import DocumentError
from .notation.spelling import meant
from .notation.starts import Moment
from .order.cuts import Floor
from .order.positions import LARGEST, Offsets, is_integer

VERSION = 1
PACKED = "packed:"
TAG = "kind"

Time = Annotated[int, "milliseconds since the epoch"]
Duration = Annotated[int, "milliseconds"]

_BY_THEMSELVES = (Offsets, Floor)  # these convert themselves
_OPTIONAL = (types.UnionType, Union)  # `int | None` is the first, `Literal["a"] | None` before Python 3.14 the second


def canonical(value: Any) -> str:
    """Canonical JSON: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def packed(text: str) -> str:
    """The text as one word without quotes and braces: in cluster mode, YARN drops `}}` from arguments."""
    return PACKED + urlsafe_b64encode(zlib.compress(text.encode())).decode()


def unpacked(word: str) -> str:
    """The text that was packed; `DocumentError` if the word is cut or changed."""
    try:
        return zlib.decompress(urlsafe_b64decode(word.removeprefix(PACKED))).decode()
    except (ValueError, zlib.error) as error:
        raise DocumentError(
            f"the packed text is damaged ({error}), found {word[:80]!r}: give it to the application as one whole "
            "argument"
        ) from error


class Document:
    """A dataclass with one canonical text."""

    __slots__ = ()

    def to_text(self) -> str:
        return canonical(self.to_value())

    def to_value(self) -> dict[str, Any]:
        return {"version": VERSION, **encode(self)}

    def for_programs(self) -> dict[str, Any]:
        return {"version": VERSION, **for_programs(self)}

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse a document; raise `DocumentError`, with the path of what is wrong."""
        try:
            value = json.loads(text)
            canonical(value).encode()  # JSON may escape what no text can hold, and Python's reads NaN
        except (ValueError, RecursionError) as error:
            raise DocumentError(f"{cls.__name__.lower()}: not JSON ({error}), found {text[:80]!r}") from error
        return cls.from_value(value)

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """The same for a document that is parsed as JSON already."""
        name = cls.__name__.lower()
        if not isinstance(value, dict):
            raise DocumentError(f"{name}: the document must be an object, found {value!r}")
        fields = dict(value)
        version: Any = fields.pop("version", None)
        if not is_integer(version) or version != VERSION:
            raise DocumentError(
                f"{name}: 'version' must be {VERSION}, found {version!r}; use the release that wrote it, or a newer one"
            )
        try:
            found: Self = decode(cls, fields, "")
        except DocumentError as error:
            raise DocumentError(f"{name}: {error}") from error
        return found


def encode(value: Any) -> Any:
    if isinstance(value, _BY_THEMSELVES):
        return value.to_json()
    if dataclasses.is_dataclass(value):
        found = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        tag = tag_of(type(value))
        return found if tag is None else {TAG: tag, **found}
    if isinstance(value, tuple):
        return [encode(each) for each in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return dict(value) if isinstance(value, Mapping) else value


def for_programs(value: Any) -> Any:
    """What commands print of dataclasses as JSON: times in ISO 8601; a duration's name has its unit."""
    if isinstance(value, Floor):
        return _floor(value)
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        kinds = _kinds(kind)
        return dict(_printed(name, getattr(value, name), kinds[name]) for name in kinds)
    return [for_programs(each) for each in value] if isinstance(value, (list, tuple)) else encode(value)


def _printed(name: str, value: Any, kinds: tuple[Any, ...]) -> tuple[str, Any]:
    if Time in kinds:
        return name, moment(value)
    return f"{name}_ms" if Duration in kinds else name, for_programs(value)


def _floor(floor: Floor) -> dict[str, Any]:
    found = {**floor.to_json(), "time": moment(floor.time)}
    lower = {topic: [moment(each) for each in times] for topic, times in floor.anew.to_json().items()}
    return {**found, "anew": lower} if lower else found


def moment(time: int | None) -> str | None:
    """A time in ISO 8601; None before any."""
    return None if time is None or time < 0 else str(Moment(time))


def tag_of(kind: Any) -> str | None:
    """What a class is called in a union, if it is ever in one: its own `kind`, which is no field."""
    found = getattr(kind, TAG, None)
    return found if isinstance(found, str) else None


def decode(kind: Any, value: Any, path: str, *, defaults: bool = False) -> Any:
    """Convert a JSON value to this type. With `defaults`, for what users write, a field that has one may be missing."""
    origin = get_origin(kind)
    if origin in _OPTIONAL:
        return _one_of(get_args(kind), value, path, defaults=defaults)
    if origin is Literal:
        return _expect(value in get_args(kind), value, path, "one of " + ", ".join(map(repr, get_args(kind))))
    if origin is tuple:
        _expect(isinstance(value, list), value, path, "an array")
        item = get_args(kind)[0]
        return tuple(decode(item, each, f"{path}[{index}]", defaults=defaults) for index, each in enumerate(value))
    if kind in _BY_THEMSELVES:
        return kind.from_json(value, path)
    if kind is bytes:
        return _bytes(value, path)
    if kind in _PLAIN:
        holds, expected = _PLAIN[kind]
        return _expect(holds(value), value, path, expected)
    return _dataclass(kind, value, path, defaults=defaults)


def _one_of(kinds: tuple[Any, ...], value: Any, path: str, *, defaults: bool) -> Any:
    """A value of a union: null, a text, or what its tag says, where there is more than one class."""
    if value is None and type(None) in kinds:
        return None
    some = [each for each in kinds if each is not type(None)]
    if len(some) == 1:
        return decode(some[0], value, path, defaults=defaults)
    if isinstance(value, str) and str in some:
        return value
    tagged = {tag_of(each): each for each in some}
    expected = "an object whose 'kind' is one of " + ", ".join(repr(tag) for tag in tagged if tag is not None)
    tag = value.get(TAG) if isinstance(value, dict) else None
    found = tagged.get(tag) if isinstance(tag, str) else None
    return decode(_expect(found is not None, value, path, expected) and found, value, path, defaults=defaults)


def _bytes(value: Any, path: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (ValueError, TypeError) as error:
        raise DocumentError(f"{path!r} must be base64, found {value!r}") from error


def _expect(holds: bool, value: Any, path: str, expected: str) -> Any:  # noqa: FBT001 - an assertion's first word
    if not holds:
        raise DocumentError(f"{path!r} must be {expected}, found {value!r}")
    return value


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (is_integer, f"an integer from 0 to {LARGEST}"),
    str: (lambda value: isinstance(value, str), "a string"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    Mapping[str, str]: (_are_texts, "an object of strings"),
}
"""What a value of each of these types is in JSON."""


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@cache
def _kinds(kind: Any) -> dict[str, tuple[Any, ...]]:
    """The type of each field, and those of its union."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (hints[field.name], *get_args(hints[field.name])) for field in dataclasses.fields(kind)}


@cache
def _with_default(kind: Any) -> frozenset[str]:
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return frozenset(f.name for f in fields if f.default is not missing or f.default_factory is not missing)


def _dataclass(kind: Any, value: Any, path: str, *, defaults: bool) -> Any:
    _expect(isinstance(value, dict), value, path, "an object")
    if (tag := tag_of(kind)) is not None:
        value = dict(value)
        _expect(value.pop(TAG, None) == tag, value, path, f"an object whose 'kind' is {tag!r}")
    fields, prefix = _fields(kind), f"{path}." if path else ""
    for name in sorted(set(value) ^ set(fields), key=lambda name: (name in fields, name)):
        if name in fields and defaults and name in _with_default(kind):
            continue
        if name in fields:
            raise DocumentError(f"{prefix + name!r} is missing")
        hint = meant(name, fields, f"known are {', '.join(fields)}") if defaults else "use the one that wrote it"
        raise DocumentError(f"{prefix + name!r} is not a field that this release knows; {hint}")
    there = [name for name in fields if name in value]
    try:
        return kind(**{name: decode(fields[name], value[name], prefix + name, defaults=defaults) for name in there})
    except DocumentError:
        raise
    except ValueError as error:
        raise DocumentError(f"{path or 'the document'}: {error}") from error
