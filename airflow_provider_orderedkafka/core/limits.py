"""The row limit: how many rows are left, which slices get them, and where reading ends.

The first rows in order are the first slices' rows, so the limit is spent slice by slice. If it ends inside a slice,
`place_after` gives the position of every partition right after the record of the last row: literal offsets that go into
the report and that the next range starts from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from airflow_provider_orderedkafka.core.notation.spelling import counted
from airflow_provider_orderedkafka.core.order.cuts import Place, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets, Position
from airflow_provider_orderedkafka.core.order.timeline import Log, Places, TimeIndex
from airflow_provider_orderedkafka.errors import LifecycleError, RowError

from .documents import Ledger, Range


@dataclass(frozen=True, slots=True)
class AtMost:
    """How much a person lets one run load, in offsets and in rows, beside the load's own limits; None: as these say."""

    offsets: int | None = None
    rows: int | None = None

    def __str__(self) -> str:
        asked = ((self.offsets, "offset"), (self.rows, "row"))
        return " and ".join(counted(most, noun) for most, noun in asked if most is not None)

    def check_taken_over(self, opened: Range) -> None:
        """Raise `LifecycleError` for an open range that may load more: it is finished as it was written down."""
        offsets, rows = opened.offsets, opened.rows_left
        if least(self.offsets, offsets) == offsets and least(self.rows, rows) == rows:
            return
        limit = "" if rows is None else f" and at most {counted(rows, 'row')}"
        raise LifecycleError(
            f"range {opened.id!r} is open, with {counted(offsets, 'offset')}{limit}, and is finished as it was written "
            f"down before anything else is loaded; this run was asked for at most {self}. Start one without that, or "
            f"give the range up with `orderedkafka ledger abandon {opened.load}`"
        )


NO_BOUND: Final = AtMost()


def least(one: int | None, other: int | None) -> int | None:
    """The smaller one of two bounds, each of which may be missing."""
    return min((bound for bound in (one, other) if bound is not None), default=None)


def rows_left(limit: int | None, rows: int) -> int | None:
    """How many rows are left after this many, dead letters included; None without a limit."""
    return None if limit is None else max(limit - rows, 0)


def limit_spent(ledger: Ledger, limit: int | None) -> str | None:
    """Why a load may write no more rows; None if it may."""
    if limit is None or rows_left(limit, ledger.rows):
        return None
    dead = f" and {ledger.dead_letters:,} became dead letters" if ledger.dead_letters else ""
    of = counted(limit, "row")
    return f"the row limit of {of} is spent: {ledger.rows_emitted:,} were written{dead}; raise it to go on"


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
    return Place(Offsets(offsets), span.floor.raised(record.order_time, record.partition))


def check_bad(found: int, most: int | None) -> None:
    """Raise if a run has more dead letters than it may; None if it may have any number."""
    if most is not None and found > most:
        raise RowError(
            f"{found:,} records of this range became dead letters, and at most {most:,} may: "
            "look at them with `orderedkafka dead-letters`; then correct the format or the schema, or let more of them "
            f"pass with Allow({most + 1}, to=...) or --bad-records, and run the same range again"
        )
