"""Change events of Debezium as rows of their table: `Rows(decode=..., arrow_transform="debezium")`.

An event is an envelope (`op`, `before`, `after`), the same in `payload` where the converter writes schemas, or what
`ExtractNewRecordState` makes of it: the row, and what was done in `__op` or `__deleted` where it was told to add that.
A record without a value is a tombstone: the row of its key is gone.
"""

import json
import logging
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from ..core.commits import DELETED
from ..core.notation.spelling import counted
from ..errors import SettingError
from ..kafka.provenance import ERROR, SOURCE

_log = logging.getLogger(__name__)

KNOWN: Final = ("c", "u", "r", "d")
"""A row that a snapshot reads (`r`) is so at its offset, like one that was written then."""

OP, MARK = "__op", "__deleted"
UNAVAILABLE: Final = "__debezium_unavailable_value"
HEARTBEATS: Final = r"^__debezium-heartbeat\."
SHARED_NAMES: Final = r"\.(transaction|message)$"
"""Topics that may be a table's, or have what is no change of a row: only what an event says tells."""

ABOUT: Final = ("status", "ddl")
"""What beside `op` and `after` shows that a value is about a transaction, or a schema."""


@dataclass(frozen=True, slots=True)
class _Events:
    """What was done, null where that is not said; rows before and after; which records are no changes of rows.

    Without `marked` no event of these says what was done: each is the row.
    """

    op: Any
    before: Any
    after: Any
    apart: Any
    marked: bool = True


def unwrap(batch: Any, unavailable: str = UNAVAILABLE) -> Any:
    """The table's rows as each event left them; `_is_deleted` says which are gone, of which only the key matters.

    Heartbeats, metadata of transactions, logical messages and changes of schemas give no row, and the log counts them.
    An event that does not tell its row is a bad record. `SettingError` for columns that no event has.

    :param batch: Records with decoded keys and values, as an Arrow transform gets them.
    :param unavailable: The connector's `unavailable.value.placeholder`.
    """
    given, key, topics = _decoded(batch, "value"), _inner(_decoded(batch, "key")), batch.column("topic")
    events, tombs = _events(_inner(given), topics), _tombstones(given)
    gone = _true(pc.or_kleene(tombs, pc.equal(events.op, "d")))
    rows = _rows(key, events, gone)
    wrong = [*_bad_ops(events, gone), *_keyless(key, events, rows, gone), *_placeholders(rows, gone, unavailable)]
    why = pc.case_when(pc.make_struct(*(_true(mask) for mask, _ in wrong)), *(text for _, text in wrong))
    apart = events.apart
    if events.marked:  # without a key a delete says before, and its tombstone nothing
        apart = pc.or_(apart, pc.and_(tombs, key.is_null()))
    for topic, count in Counter(topics.filter(apart).to_pylist()).items():
        _log.warning("left out %s of %r: not a change of a row", counted(count, "record"), topic)
    made = {**rows, DELETED: gone, SOURCE: batch.column(SOURCE), ERROR: why}
    return pa.RecordBatch.from_pydict(made).filter(pc.invert(apart))


def _true(mask: Any) -> Any:
    return pc.fill_null(mask, fill_value=False)


def _decoded(batch: Any, name: str) -> Any:
    column = batch.column(name)
    if not pa.types.is_struct(column.type):
        raise SettingError(
            f"key and value of change events must be decoded, with a column for each field, found {column.type} as the "
            f"{name}: set rows=Rows(decode=Decode(key=..., value=...))"
        )
    return column


def _fields(rows: Any) -> dict[str, Any]:
    return {field.name: pc.struct_field(rows, [at]) for at, field in enumerate(rows.type)}


def _inner(column: Any) -> Any:
    """What is in `payload`, if a converter put it there."""
    fields = _fields(column)
    within = {"payload"} <= fields.keys() <= {"payload", "schema"} and pa.types.is_struct(fields["payload"].type)
    return fields["payload"] if within else column


def _tombstones(value: Any) -> Any:
    """Records without a value, or with a payload that is null: one that is not there shows by the schema beside it."""
    inner, fields = _inner(value), _fields(value)
    if inner is value or "schema" not in fields:
        return value.is_null()
    return pc.or_(value.is_null(), pc.and_(inner.is_null(), fields["schema"].is_valid()))


def _events(value: Any, topics: Any) -> _Events:
    fields, heartbeats = _fields(value), pc.match_substring_regex(topics, HEARTBEATS)
    rows = {name for name in ("before", "after") if name in fields and pa.types.is_struct(fields[name].type)}
    if not rows:
        return _flattened(value, fields, topics, heartbeats)
    if "after" not in rows or "op" not in fields:
        raise SettingError(
            f"a change event needs the columns op and after, the row, found {value.type}: name both, as in Json('op "
            "string, after struct<id: long>')"
        )
    op, after, apart = fields["op"], fields["after"], heartbeats
    for name in fields.keys() & {*ABOUT}:
        apart = pc.or_(apart, fields[name].is_valid())
    apart = pc.or_(pc.and_(apart, pc.and_(value.is_valid(), op.is_null())), _true(pc.equal(op, "m")))
    return _Events(op, fields.get("before", pa.nulls(len(op), after.type)), after, apart)


def _flattened(value: Any, fields: dict[str, Any], topics: Any, heartbeats: Any) -> _Events:
    columns = {name: column for name, column in fields.items() if name not in {OP, MARK}}
    rows = pa.StructArray.from_arrays(list(columns.values()), list(columns), mask=value.is_null())
    if OP in fields:
        op = fields[OP]
    elif MARK in fields:
        mark = fields[MARK].cast(pa.string())
        op = pc.if_else(pc.equal(mark, "true"), "d", pc.if_else(pc.equal(mark, "false"), "u", mark))
    else:
        unstated = pc.or_(value.is_null(), pc.or_(heartbeats, pc.match_substring_regex(topics, SHARED_NAMES)))
        op = pc.if_else(unstated, pa.scalar(None, pa.string()), "u")
    apart = pc.and_(heartbeats, pc.and_(value.is_valid(), op.is_null()))
    return _Events(op, rows, rows, apart, marked=len(columns) < len(fields))


def _rows(key: Any, events: _Events, gone: Any) -> dict[str, Any]:
    """The columns of the rows; of those that are gone from the key, or else from what they were."""
    before, columns = _fields(events.before), {}
    for name, after in _fields(events.after).items():
        columns[name] = pc.if_else(gone, _like(after, name, before.get(name)), after)
    for name, own in _fields(key).items():
        there = columns.get(name, own)
        columns[name] = pc.if_else(pc.and_(gone, own.is_valid()), _like(there, name, own), there)
    if taken := {DELETED, ERROR, SOURCE} & columns.keys():
        raise SettingError(
            f"the table has a column {min(taken)!r}, which every row of orderedkafka has: rename the column"
        )
    return columns


def _like(column: Any, name: str, other: Any) -> Any:
    if other is None:
        return pa.nulls(len(column), column.type)
    if other.type != column.type:
        raise SettingError(
            f"the column {name!r} is {column.type} in the row, and {other.type} in the key or in before: give it one "
            "type in Decode(key=..., value=...)"
        )
    return other


def _bad_ops(events: _Events, gone: Any) -> Iterator[tuple[Any, Any]]:
    """Where an event does not say what became of its row, and why that cannot be used."""
    op, there = events.op, pc.invert(gone)
    yield (
        pc.and_(op.is_null(), there),
        "it has no op, which must be c, u, r or d: leave its topic out if it has no changes of rows; or name the "
        "columns as they are written: in payload where schemas.enable is true, and with __op where "
        "ExtractNewRecordState is used, which needs add.fields=op if some topics are not a table's",
    )
    yield (
        pc.equal(op, "t"),
        "its table was emptied (op 't'), and no event says which rows it had: set skipped.operations=t, the "
        "connector's default, and delete the rows where they were loaded",
    )
    said = pc.fill_null(op, "")
    known = pc.is_in(op, pa.array([*KNOWN, None], pa.string()))
    why = pc.binary_join_element_wise("its op is ", said, ", and must be c, u, r or d", "")
    yield pc.invert(known), why
    why = pc.binary_join_element_wise("its op is ", said, ", and it has no after, the row: name its columns", "")
    yield pc.and_(there, events.after.is_null()), why


def _keyless(key: Any, events: _Events, rows: dict[str, Any], gone: Any) -> Iterator[tuple[Any, str]]:
    """Where it is not known which row an event is of, and why."""
    yield (
        pc.and_(gone, pc.and_(key.is_null(), events.before.is_null())),
        "a row was deleted, and neither a key nor before says which one: give the table a primary key, or set the "
        "connector's message.key.columns",
    )
    for name, own in _fields(key).items():
        yield (
            pc.and_(key.is_valid(), own.is_null()),
            f"its key has no {name!r}, by which the row is found: name the columns of keys as they are written, in "
            "payload where schemas.enable is true",
        )
        differs = pc.is_null(rows[name]) if pa.types.is_nested(own.type) else pc.not_equal(own, rows[name])
        yield (
            pc.and_(own.is_valid(), pc.fill_null(differs, fill_value=True)),
            f"its key and its row differ in {name!r}, so that a delete would miss it: name the columns as they are "
            "written",
        )


def _placeholders(rows: dict[str, Any], gone: Any, unavailable: str) -> Iterator[tuple[Any, str]]:
    """Where a value stayed as it was, and a placeholder stands for it, which depends on the type."""
    data = unavailable.encode()
    named = UUID(bytes=md5(data, usedforsecurity=False).digest(), version=3)
    texts = [unavailable, b64encode(data).decode(), urlsafe_b64encode(data).decode(), data.hex()]
    texts.append(json.dumps({unavailable: unavailable}, separators=(",", ":")))
    marks = {*texts, str(named), data, *(text.encode() for text in texts)}
    for name, column in rows.items():
        yield (
            pc.and_(pc.invert(gone), _are_placeholders(column, marks, [*data])),
            f"its column {name!r} has {unavailable!r}: the database does not send a large value that did not change. "
            "Have it send all, in PostgreSQL with ALTER TABLE ... REPLICA IDENTITY FULL; or have the connector ask for "
            "it, with its ReselectColumnsPostProcessor",
        )


def _are_placeholders(column: Any, marks: set[Any], numbers: list[int]) -> Any:
    if pa.types.is_nested(column.type):
        return pa.array([_is_placeholder(each, marks, numbers) for each in column.to_pylist()], pa.bool_())
    kind = str if pa.types.is_string(column.type) else bytes if pa.types.is_binary(column.type) else type(None)
    return pc.is_in(column, pa.array([each for each in marks if isinstance(each, kind)], column.type), skip_nulls=True)


def _is_placeholder(value: Any, marks: set[Any], numbers: list[int]) -> bool:
    if isinstance(value, dict):
        return any(_is_placeholder(each, marks, numbers) for each in value.values())
    if isinstance(value, list | tuple):
        return value == numbers or any(_is_placeholder(each, marks, numbers) for each in value)
    return isinstance(value, str | bytes) and value in marks
