"""Upserts: which ranges may change a table of which each row is the last one of its key, and how far the load has come.

- Where the load has `reached`, order times rise from range to range, so what is later replaces what is there.
- Below that (after a rewind, in a replay) order times may be others than the first time. So a range ends there at the
  latest; it gives values anew where a row is of the same record, and does nothing else.
- From there on the floor is that with which the load had come there.
- The table belongs to one load with its ledger: what others load into it is in no order with its rows.
- What was left out, before its beginning or later, or is of another log, makes another table than the topics say: it is
  refused.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ..errors import DataLossError, LifecycleError
from .documents import Ledger, Place, Range, Stage, Upsert
from .next_range import SHOWN, Survey
from .order.positions import Offsets

ANEW: Final = "load into a new table under another load name, with start="


def bounded(ledger: Ledger, seen: Survey) -> tuple[Place, Survey]:
    """Where the next range begins, and how far it may go, by what Kafka has."""
    place, reached = ledger.place, ledger.reached
    if reached is None:
        return place, seen
    start = seen.span(place).start
    if all(reached.offsets.get(p, at) == at for p, at in start.items()):
        return replace(place, floor=reached.floor), seen
    ends = {p: min(end, reached.offsets.get(p, start[p])) for p, end in seen.ends.offsets.items()}
    return place, replace(seen, ends=replace(seen.ends, offsets=Offsets(ends)))


def upserting(ledger: Ledger | None, planned: Range, *, upserts: bool) -> Range:
    """The range as it changes a table; `LifecycleError` if its rows cannot go there, or must be upserts."""
    if not upserts:
        if ledger is not None and ledger.reached is not None and planned.kind == "incremental":
            raise LifecycleError(
                f"load {planned.load!r} made upserts until now, and would only add rows: changes that the table misses "
                "could never be merged later. Set upsert= again, or load under another name"
            )
        return replace(planned, upsert=None)
    if planned.kind == "interval" or ledger is None:
        raise LifecycleError(
            f"range {planned.id!r} belongs to load {planned.load!r}, which has no ledger, and upserts need the order "
            "that a ledger keeps: use ordered_load(), or leave upsert= out"
        )
    return replace(planned, upsert=Upsert(f"{ledger.load}/{ledger.instance}", _stage(ledger, planned)))


def _stage(ledger: Ledger, planned: Range) -> Stage:
    reached = ledger.reached
    if planned.kind == "replay":
        _check_replay(ledger, planned)
        return "again"
    if reached is None:
        if ledger.last_run_at is not None:
            raise LifecycleError(
                f"load {ledger.load!r} only added rows until now, and would make upserts: the table would lack the "
                f"rows that were loaded before; {ANEW}'earliest'"
            )
        return "first"
    here = all(reached.offsets.get(p, at) == at for p, at in planned.start.offsets.items())
    return "next" if here else "again"


def _check_replay(ledger: Ledger, planned: Range) -> None:
    offsets = Offsets() if ledger.reached is None else ledger.reached.offsets
    ends, start = planned.end.offsets, planned.start.offsets
    beyond = [p.at(end) for p, end in ends.items() if end > max(offsets.get(p, 0), start[p])]
    if beyond:
        raise LifecycleError(
            f"the replay goes to {', '.join(beyond[:SHOWN])}, but its table of upserts only has records up to "
            f"{', '.join(p.at(offsets.get(p, 0)) for p in list(ends)[:SHOWN])}: a replay only repeats what was loaded; "
            "ask for an earlier end, or let the load itself go on"
        )
    _check_begun(ledger, planned.start.offsets, "the replay goes back")


def check_reached(load: str, there: Place, seen: Survey) -> None:
    """Raise `DataLossError` if the log in which the load had come so far is another one now."""
    ends = seen.ends.written
    gone = [*seen.logs.parted, *(p for p, stands in there.offsets.items() if ends.get(p, stands) < stands)]
    for partition in gone:
        raise DataLossError(
            f"load {load!r} makes upserts and has loaded up to {partition.at(there.offsets[partition])}, but the log "
            "was truncated before that (an unclean election, or a restored backup): its table has rows that Kafka "
            f"lost; {ANEW}'earliest'",
            **partition._asdict(),
            offset=there.offsets[partition],
        )


def _goes_on(loaded: Range) -> bool:
    return loaded.upsert is not None and loaded.upsert.stage != "again"


def reached(ledger: Ledger, loaded: Range, stop: Place) -> Place | None:
    """How far the load has come once this range is loaded up to its stop."""
    return (ledger.reached or ledger.place).updated(stop) if _goes_on(loaded) else ledger.reached


def begun(ledger: Ledger, loaded: Range) -> Offsets:
    """From where on a table has what the load has read, by partition."""
    return loaded.start.offsets.updated(ledger.begun) if _goes_on(loaded) else ledger.begun


def _check_begun(ledger: Ledger, offsets: Offsets, what: str) -> None:
    before = [p for p, offset in offsets.items() if offset < ledger.begun.get(p, 0)]
    if before:
        at, there = (", ".join(p.at(each[p]) for p in before[:SHOWN]) for each in (ledger.begun, offsets))
        raise LifecycleError(
            f"load {ledger.load!r} makes upserts and began at {at}: {what} to {there}, but its table has nothing from "
            f"before its beginning; {ANEW}'earliest'"
        )


def check_rewind(ledger: Ledger, place: Place, topics: Mapping[str, str]) -> None:
    """Raise `LifecycleError` for a move that would make the load's table of upserts another one than its topics say."""
    if ledger.reached is None:
        return
    known = ledger.place.offsets.updated(ledger.reached.offsets)
    ahead = [p for p, offset in place.offsets.items() if offset > known.get(p, offset)]
    if ahead:
        loaded, there = (", ".join(p.at(each[p]) for p in ahead[:SHOWN]) for each in (known, place.offsets))
        raise LifecycleError(
            f"load {ledger.load!r} makes upserts and has loaded up to {loaded}: after a move to {there} its table "
            f"would lack the records in between; {ANEW} there"
        )
    _check_begun(ledger, place.offsets, "the ledger would go back")
    made_anew = [topic for topic, found in topics.items() if ledger.topics.get(topic, found) != found]
    if made_anew:
        raise LifecycleError(
            f"load {ledger.load!r} makes upserts, and topic {made_anew[0]!r} was deleted and created again: its table "
            f"has rows of the old topic, which have no order with those of the new one; {ANEW}'earliest'"
        )
