"""Columns as text, in Spark's notation: `"order long, items array<struct<sku: string, n: int>>"`.

parsed_columns(text) -> Struct      pure; `SettingError` says where it cannot be read
arrow_type(parsed)                  the same for Arrow
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.errors import SettingError

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
    reader.expect(None)
    return found


class _Reader:
    """Reads a schema token by token."""

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
        token = self._peek()
        if token is None or token in set("<>(),:"):
            self.fail("a name is missing")
        self._advance()
        assert token is not None
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def take(self, symbol: str) -> bool:
        if self._peek() != symbol:
            return False
        self._advance()
        return True

    def expect(self, symbol: str | None) -> None:
        if self._peek() != symbol:
            self.fail("its end was expected" if symbol is None else f"{symbol!r} was expected")
        if symbol is not None:
            self._advance()

    def fail(self, why: str) -> None:
        raise SettingError(f"the schema {self._text!r} cannot be read at character {self._at + 1}: {why}")

    def _peek(self) -> str | None:
        if not self._text[self._at :].strip():
            return None
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            self.fail(f"{self._text[self._at :].strip()[0]!r} has no meaning here")
        assert found is not None
        return found[1]

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        assert found is not None
        self._at = found.end()


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
