"""The row limit: how many rows are left, which slices get them, and where reading ends.

The first rows in order are the first slices' rows, so the limit is spent slice by slice. If it ends inside a slice,
`place_after` gives the position of every partition right after the record of the last row: literal offsets that go into
the report and that the next range starts from.
"""

from collections.abc import Sequence
from itertools import accumulate

from airflow_provider_orderedkafka.core.documents import Ledger
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span
from airflow_provider_orderedkafka.core.order.index import TimeIndex
from airflow_provider_orderedkafka.core.order.places import Places
from airflow_provider_orderedkafka.core.order.ports import Log
from airflow_provider_orderedkafka.core.order.positions import Offsets, Position
from airflow_provider_orderedkafka.errors import RowError


def rows_left(limit: int | None, rows: int) -> int | None:
    """How many rows are left after this many, dead letters included; None without a limit."""
    return None if limit is None else max(limit - rows, 0)


def limit_spent(ledger: Ledger, limit: int | None) -> str | None:
    """Why a load may write no more rows; None if it may."""
    if rows_left(limit, ledger.rows) != 0:
        return None
    dead = f" and {ledger.dead_letters:,} became dead letters" if ledger.dead_letters else ""
    return f"the row limit of {limit:,} rows is spent: {ledger.rows_emitted:,} were written{dead}; raise it to go on"


def allot(rows: Sequence[int], left: int) -> tuple[int, ...]:
    """How many rows of each slice pass: the first ones, slice by slice."""
    before = accumulate(rows, initial=0)
    return tuple(min(count, max(left - gone, 0)) for count, gone in zip(rows, before, strict=False))


def passes(rows: Sequence[int], left: int) -> bool:
    """Whether all of these rows pass with some of the limit left, so that later slices matter."""
    return sum(rows) < left


def place_after(log: Log, span: Span, record: Position) -> Place:
    """The position of every partition right after this record."""
    places = Places(log, TimeIndex(log, span, {}))
    begun, left = places.at(record.order_time), places.at(record.order_time + 1)
    offsets = {}
    for partition, begin, end in zip(span.partitions, begun.offsets, left.offsets, strict=True):
        offsets[partition] = end if partition < record.partition else begin
    offsets[record.partition] = record.offset + 1
    return Place(Offsets(offsets), Floor(record.order_time, record.partition))


def check_bad(found: int, most: int | None) -> None:
    """Raise if a run has more dead letters than it may; None if it may have any number."""
    if most is not None and found > most:
        raise RowError(
            f"{found:,} records of this range became dead letters, and at most {most:,} may (max_bad_records={most}): "
            "look at them with `orderedkafka dead-letters`; then correct the format or the schema, or let more of them "
            "pass with Decode(max_bad_records=...), and run the same range again"
        )
