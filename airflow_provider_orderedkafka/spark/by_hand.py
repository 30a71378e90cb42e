"""Ranges without Airflow: resolved here, written down under the checkpoint, taken up again until they are done.

    <checkpoint>/ledger.json      where the load stands: next offsets, the open range, rows emitted
    <checkpoint>/range.json       the open range
    <checkpoint>/<range id>/      the checkpoint of each range

A range is written down first, then the ledger names it; one that the ledger does not name does not exist. It stays
until the ledger has moved: a range's own checkpoint is cleaned before that. Its id is unique in the world, for rows are
known by it wherever they are written: the number tells people which came first.
"""

import secrets
from dataclasses import dataclass

from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.cuts import NO_FLOOR, Place
from airflow_provider_orderedkafka.core.documents import Ledger, Range, Report
from airflow_provider_orderedkafka.core.limits import limit_spent, rows_left
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.core.streams import StreamOffset, span_between
from airflow_provider_orderedkafka.errors import SettingError, StateError
from airflow_provider_orderedkafka.spark.command import Arguments
from airflow_provider_orderedkafka.spark.options import SourceOptions
from airflow_provider_orderedkafka.spark.state import State
from airflow_provider_orderedkafka.spark.stream import Stream

LEDGER = "ledger.json"
OPEN = "range.json"
BY_HAND = "by hand"


@dataclass(frozen=True, slots=True)
class Ledgers:
    """The ledger under a checkpoint."""

    state: State

    def read(self) -> Ledger | None:
        """Where the load stands; None before the first look, when nothing lies there yet."""
        text = self.state.get(LEDGER)
        if text is None and (found := self.state.names()):
            raise SettingError(
                f"the checkpoint {self.state.location!r} has no {LEDGER}, but {', '.join(found)}: it belongs to a "
                f"range that was loaded with --range, or lost its ledger. Name another --checkpoint, or bring the "
                f"ledger back"
            )
        return None if text is None else Ledger.from_text(text)

    def write(self, ledger: Ledger) -> Ledger:
        """Move it."""
        self.state.put(LEDGER, ledger.to_text())
        return ledger

    def range_of(self, ledger: Ledger) -> Range | None:
        """The open range, as it was written down."""
        if ledger.open is None:
            return None
        text = self.state.get(OPEN)
        found = None if text is None else Range.from_text(text)
        if found is None or found.id != ledger.open.range_id:
            raise StateError(
                f"the checkpoint {self.state.location!r} has lost {OPEN}, the open range {ledger.open.range_id!r}: "
                f"bring it back, then run again"
            )
        return found

    def open(self, ledger: Ledger, planned: Range) -> None:
        """Write the range down, then point at it."""
        self.state.put(OPEN, planned.to_text())
        self.write(moves.opened(ledger, planned.id, BY_HAND))


def next_range(ledgers: Ledgers, arguments: Arguments, now: int) -> tuple[Range | None, str]:
    """The range to load now, open already or newly resolved; or none, and why."""
    options = arguments.source
    stream = Stream(options)
    ledger = ledgers.read()
    open_range = None if ledger is None else ledgers.range_of(ledger)
    if open_range is not None:
        return open_range, f"range {open_range.id} is taken up again"
    stream.fix_target(NO_FLOOR if ledger is None else ledger.place.floor)
    if ledger is None:
        ledger = ledgers.write(_first_look(stream, now))
    if spent := limit_spent(ledger, arguments.row_limit):
        return None, spent
    end = stream.after(_standing(ledger, options), None)
    if end is None:
        return None, "nothing to load: there are no new offsets, or not enough of them yet"
    planned = _planned(ledger, options, end, rows_left(arguments.row_limit, ledger.rows), stream.cluster_id)
    ledgers.open(ledger, planned)
    return planned, f"range {planned.id} is resolved: {planned.offsets:,} offsets"


def close(ledgers: Ledgers, loaded: Range, report: Report, now: int) -> None:
    """Move the ledger to where the range stopped."""
    ledger = ledgers.read()
    if ledger is not None and ledger.open is not None and ledger.open.range_id == loaded.id:
        ledgers.write(moves.committed(ledger, loaded, report, BY_HAND, now))
        ledgers.state.delete(OPEN)


def _first_look(stream: Stream, now: int) -> Ledger:
    first = stream.first()
    return moves.first_look(
        BY_HAND, instance="", home_dag=None, place=first.place, topics=first.topics, now=first.first_looked_at or now
    )


def _standing(ledger: Ledger, options: SourceOptions) -> StreamOffset:
    return StreamOffset(
        place=ledger.place,
        added=Offsets(),
        latest=0,
        isolation=options.isolation,
        topics=ledger.topics,
        first_looked_at=ledger.first_looked_at,
        triggered_at=ledger.last_run_at,
    )


def _planned(
    ledger: Ledger, options: SourceOptions, end: StreamOffset, left: int | None, cluster_id: str = ""
) -> Range:
    span = span_between(_standing(ledger, options), end)
    planned_at = end.triggered_at or end.first_looked_at
    return Range(
        id=f"range-{ledger.revision + 1:06d}-{secrets.token_hex(6)}",
        load=BY_HAND,
        kind="incremental",
        reason="run by hand",
        ledger_revision=ledger.revision,
        topics=end.topics,
        start=Place(span.start, span.floor),
        end=end.place,
        planned_at=planned_at,
        future_tolerance=end.latest - planned_at,
        on_data_loss=options.on_data_loss,
        include_headers=options.include_headers,
        isolation=options.isolation,
        cluster_id=cluster_id,
        batch_offsets=options.most,
        rows_left=left,
        digest="",
    )
