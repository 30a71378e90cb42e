"""The columns of rows against those of their table: what it lacks or does not hold, and the rows as it takes them.

A column holds what it keeps as it is. Spark would also cast a time to a date, and leave out the fraction of a number:
such rows are refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...compat.spark import declared
from ...errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_PARTITIONED_BY: Final = re.compile(r"\((?:\d+, *)?(\w+)\)|^(\w+)$")

_CHAR: Final = re.compile(r"\bchar\(")

_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_HELD: Final[Mapping[str, Sequence[str]]] = {
    "smallint": ("tinyint",),
    "int": ("tinyint", "smallint"),
    "bigint": ("tinyint", "smallint", "int"),
    "float": ("tinyint", "smallint"),
    "double": ("tinyint", "smallint", "int", "float"),
    "timestamp_ntz": ("date",),
}
"""What a column of a type holds, too. No date or time becomes one of another kind by the zone of a session."""


@dataclass(frozen=True, slots=True)
class Member:
    """A column of rows, or a part of one: its type there and in the table, which may lack it, or not hold it.

    What is `in_keys` of a map stays as it is: Iceberg changes no key, and keys with a new member are other keys.
    """

    path: tuple[str, ...]
    rows: "DataType"
    there: "DataType | None" = None
    held: bool = False
    comment: str = ""
    in_keys: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def widens(self) -> bool:
        """Whether table formats can make the column as wide as the rows' type."""
        if self.there is None or self.in_keys:
            return False
        names = (self.there.simpleString(), self.rows.simpleString())
        scales = {getattr(kind, "scale", None) for kind in (self.there, self.rows)}
        return names in {("int", "bigint"), ("float", "double")} or (None not in scales and len(scales) == 1)


@dataclass(frozen=True, slots=True)
class Columns:
    """What became of columns: `added` were added by the range, or widened; what the table lacks may be `left_out`.

    `table` has those of the table, where rows are brought into their shape.
    """

    added: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    table: "StructType | None" = None

    def fit(self, rows: "DataFrame") -> "DataFrame":
        """The rows without what is left out; a member of a struct that they lack is null. The rest is left to Spark."""
        from pyspark.sql import functions as f

        if self.table is None:
            return rows
        known = {field.name.lower(): field.dataType for field in self.table.fields}
        there = [(field, known[field.name.lower()]) for field in rows.schema.fields if field.name.lower() in known]
        made = {
            field.name: _shaped(f.col(quoted(field.name)), field.dataType, kind)
            for field, kind in there
            if _differ(field.dataType, kind)
        }
        lacking = [name for name in rows.columns if name.lower() not in known]
        return rows.drop(*lacking).withColumns(made) if lacking or made else rows


def compared(rows: "DataType", there: "DataType", path: tuple[str, ...] = (), comment: str = "") -> Iterator[Member]:
    """What rows have, beside what the table has of it. Names are the same in any case."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    nested = type(rows) is type(there) and isinstance(rows, StructType | ArrayType | MapType)
    if path:
        yield Member(path, rows, there, held=nested or holds(there, rows), comment=comment)
    if isinstance(rows, StructType) and isinstance(there, StructType):
        known = {field.name.lower(): field for field in there.fields}
        for field in rows.fields:
            if (other := known.get(field.name.lower())) is None:
                yield Member((*path, field.name), field.dataType)
            else:
                of_it = other.metadata.get("comment", "")
                yield from compared(field.dataType, other.dataType, (*path, other.name), of_it)
    elif isinstance(rows, ArrayType) and isinstance(there, ArrayType):
        yield from compared(rows.elementType, there.elementType, (*path, "element"))
    elif isinstance(rows, MapType) and isinstance(there, MapType):
        held = all(part.held for part in compared(rows.keyType, there.keyType, ("key",)))
        yield Member((*path, "key"), rows.keyType, there.keyType, held=held, in_keys=True)
        yield from compared(rows.valueType, there.valueType, (*path, "value"))


def alterations(gaps: Sequence[Member], table: str, comment: str = "") -> list[str]:
    """What adds columns, with a comment, by one statement, and widens those that are too narrow."""
    new = ", ".join(f"{quoted(*gap.path)} {kind_of(gap.rows)}{comment}" for gap in gaps if gap.there is None)
    narrow = [f"{quoted(*gap.path)} TYPE {kind_of(gap.rows)}" for gap in gaps if gap.there is not None]
    each = [*([f"ADD COLUMNS ({new})"] if new else []), *(f"ALTER COLUMN {one}" for one in narrow)]
    return [f"ALTER TABLE {table} {what}" for what in each]


def holds(there: "DataType", rows: "DataType") -> bool:
    """Whether a column of one type keeps each value of another one as it is."""
    from pyspark.sql.types import AtomicType, DecimalType, NullType, StringType, TimestampType

    if isinstance(there, StringType):
        return isinstance(rows, AtomicType | NullType) and not isinstance(rows, TimestampType)
    if isinstance(there, DecimalType) and (digits := _digits(rows)) is not None:
        return bool(digits[1] <= there.scale and digits[0] <= there.precision - there.scale)
    held = (there.simpleString(), *_HELD.get(there.simpleString(), ()))
    return isinstance(rows, NullType) or rows.simpleString() in held


def padded(rows: "StructType", there: "StructType") -> list[str]:
    """The columns of rows whose texts get spaces at their ends: they are CHAR in the table, or have such parts."""
    given = {name.lower() for name in rows.names}
    return [field.name for field in there.fields if field.name.lower() in given and _CHAR.search(declared(field))]


def _digits(kind: "DataType") -> tuple[int, int] | None:
    """How many digits a number has before and after its point, if it is an exact one."""
    from pyspark.sql.types import DecimalType

    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    whole = _DIGITS.get(kind.simpleString())
    return None if whole is None else (whole, 0)


def _differ(one: "DataType", other: "DataType") -> bool:
    """Whether structs in one have members that they lack in the other."""
    return any(member.there is None for member in (*compared(one, other), *compared(other, one)))


def _shaped(column: "Column", rows: "DataType", there: "DataType") -> "Column":
    """The column with the members that it has in the table."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not _differ(rows, there):
        return column
    if isinstance(rows, StructType) and isinstance(there, StructType):
        own = {field.name.lower(): field for field in rows.fields}
        members = [
            _shaped(column.getField(found.name), found.dataType, field.dataType).alias(field.name)
            if (found := own.get(field.name.lower()))
            else f.lit(None).cast(field.dataType).alias(field.name)
            for field in there.fields
        ]
        return f.when(column.isNotNull(), f.struct(*members))
    if isinstance(rows, ArrayType) and isinstance(there, ArrayType):
        item, items = rows.elementType, there.elementType
        return f.transform(column, lambda each: _shaped(each, item, items))
    if isinstance(rows, MapType) and isinstance(there, MapType):
        value, values = rows.valueType, there.valueType
        return f.transform_values(column, lambda _, each: _shaped(each, value, values))
    return column


def columns(rows: "DataFrame") -> str:
    """The columns as CREATE TABLE takes them; all may be null, as columns that are added later have to."""
    return ", ".join(f"{quoted(field.name)} {kind_of(field.dataType)}" for field in rows.schema.fields)


def kind_of(kind: "DataType") -> str:
    """A type as SQL takes it: Spark's own text for one does not quote the names in it."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(each.name)}: {kind_of(each.dataType)}' for each in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{kind_of(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{kind_of(kind.keyType)}, {kind_of(kind.valueType)}>"
    return str(kind.simpleString())


def check_partitions(rows: "DataFrame", partition_by: Sequence[str], of: str) -> None:
    """`SettingError` for a column that a new table would be partitioned by, and that the rows lack."""
    for each in partition_by:
        found = _PARTITIONED_BY.search(each)
        column = "" if found is None else found[1] or found[2]
        if column.lower() not in {name.lower() for name in rows.columns}:
            raise SettingError(
                f"{of}: partition_by={each!r} names no column of the rows, which are "
                f"{', '.join(map(repr, rows.columns))}: name one of them, or none with partition_by=()"
            )


def quoted(*names: str) -> str:
    """A name as SQL takes it, part by part."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)
