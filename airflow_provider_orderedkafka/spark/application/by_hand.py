"""Loads without Airflow: the same steps, with their documents in the checkpoint.

    <checkpoint>/ledger/          where the load stands, in numbered revisions: next offsets, open range, rows emitted
    <checkpoint>/<range id>.json  a range that is planned or open
    <checkpoint>/<range id>/      the checkpoint of each range

A run takes over an open range. The range's lease shows whether an application is still working on it.
"""

import json
import platform
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...core import lifecycle
from ...core.checkpoint_files import NOTES
from ...core.codec import canonical
from ...core.documents import Ledger, Range
from ...core.lifecycle import Action
from ...core.pacing import NEW_CHECKPOINT, Pace
from ...errors import DocumentError, LedgerChangedError, SettingError, StateError
from ...kafka.lookup.survey import Kafka
from ...kafka.lookup.topics import show_place
from ...loads import ranges
from ...loads.books import Books, look, wait
from ...loads.ledger import LEDGER, LedgerStore, Revisions
from ...loads.loading import commit, late_report, load
from ...loads.resolving import resolve
from ...storage import State
from ..lanes.making import Arguments
from ..state.checkpoint import Checkpoint

BY_HAND = "by hand"
TRIES = 3
"""How often to go by the ledger while another run by hand writes it."""

WAY_OUT = NEW_CHECKPOINT._replace(who="the load")


@dataclass(frozen=True, slots=True)
class Documents:
    """A ledger's store in a checkpoint: who stood still replaces no ledger of others, nor a range of theirs."""

    state: State
    ledgers: Revisions

    def get(self, key: str) -> Any:
        return self.ledgers.get(key) if key == LEDGER else _read(self.state, _file(key))

    def set(self, key: str, value: Any) -> None:
        if key == LEDGER:
            self.ledgers.set(key, value)
        else:
            self.state.put(_file(key), canonical(value))

    def delete(self, key: str) -> None:
        self.state.delete(_file(key))


def _read(state: State, name: str) -> Any:
    text = state.get(name)
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise DocumentError(f"{name} in {state.location!r} is not JSON: {error}") from error


def _file(key: str) -> str:
    return f"{key.removeprefix('range/')}.json"


@dataclass(frozen=True, slots=True)
class Alone:
    """A mirror that is never read, and a task's memory that keeps nothing. `group` follows the load."""

    kafka: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None

    def check(self, ledger: Ledger | None) -> None:
        """Do nothing."""

    def write(self, ledger: Ledger) -> None:
        if self.group is not None:
            show_place(self.kafka, self.group, ledger.place.offsets)

    def get(self, key: str) -> Any:
        """None, always."""

    def set(self, key: str, value: Any) -> None:
        """Do nothing."""


def store_of(state: State) -> LedgerStore:
    return LedgerStore(BY_HAND, Documents(state, Revisions(state)), settle=lambda: None, part=sys.maxsize)


def books_of(state: State, now: Callable[[], int], open_state: Callable[[str], State]) -> Books:
    """The books in a checkpoint; an error if it lost some. `open_state` opens the folder of a range."""
    store = store_of(state)
    _check_complete(store, state)
    return Books(
        store=store,
        run=f"{BY_HAND}/{secrets.token_hex(4)}",
        is_active=lambda _: False,
        now=now,
        report=lambda folder: Checkpoint(open_state(folder)).report(),
        noted=lambda folder: bool(open_state(folder).names(NOTES)),
        bound=lambda folder: Checkpoint(open_state(folder)).bound,
        bind=lambda folder, loaded: Checkpoint(open_state(folder)).bind(loaded),
        machine=platform.node(),
    )


def next_range(books: Books, arguments: Arguments, kafka: Kafka) -> tuple[Range | None, str]:
    """The range to load now, taken over or new, with its attempt recorded; or None; and the reason.

    Where another run writes the ledger at the same moment, it is looked at again.
    """
    for _ in range(TRIES - 1):
        with suppress(LedgerChangedError):
            return _next_range(books, arguments, kafka)
    return _next_range(books, arguments, kafka)


def _next_range(books: Books, arguments: Arguments, kafka: Kafka) -> tuple[Range | None, str]:
    options = arguments.source
    terms = replace(options.terms, load=BY_HAND, row_limit=arguments.row_limit, way_out=WAY_OUT)
    now = books.now()
    first = partial(ranges.first_look, kafka, terms, now)
    ledger = look(books, Alone(options.kafka, options.commit_group), first, terms.subscription, home=None)
    if (late := late_report(books, ledger, str)) is not None:
        print(late.sentence, flush=True)
        ledger = late.ledger
    verdict = wait(books, ledger, terms.row_limit)
    if verdict is None and terms.pace != Pace():
        verdict = ranges.verdict(kafka, terms, ledger, now)
    if verdict is not None and not verdict.run:
        return None, verdict.reason
    name = f"range-{ledger.revision + 1:06d}"  # tells people which came first
    plan = partial(ranges.plan, kafka, terms, now=now, name=name)
    resolved = resolve(books, Alone(), ledger, plan, upserts=arguments.job.upserts)
    if resolved.range is None:
        return None, resolved.reason
    return begun(books, resolved.range, resolved.reason)


def begun(books: Books, planned: Range, why: str) -> tuple[Range | None, str]:
    """The range with its attempt recorded; None if another run has loaded it meanwhile, and the reason."""
    todo = load(books, planned.id, lambda loaded, _: loaded.id)
    if todo.action is Action.REFUSE:
        raise LedgerChangedError(
            f"{todo.reason}: another run by hand is using the checkpoint; run again when it has ended"
        )
    return (None, todo.reason) if todo.action is Action.SKIP else (planned, f"range {planned.id}: {why}")


def _check_complete(store: LedgerStore, state: State) -> None:
    found = state.names()  # before the ledger, which another run may begin at this moment
    ledger = store.ledger()
    if ledger is None and found:
        raise SettingError(
            f"the checkpoint {state.location!r} has no {LEDGER}, but has {', '.join(found)}: it belongs to a range "
            f"that was loaded with --range, or its ledger was deleted. Name another --checkpoint, or bring the ledger "
            "back"
        )
    if ledger is not None and ledger.open is not None and store.range(ledger.open.range_id) is None:
        raise StateError(
            f"the checkpoint {state.location!r} has lost {ledger.open.range_id}.json, its open range: bring it back, "
            f"then run again"
        )


def close(books: Books, loaded: Range, mirror: Alone) -> None:
    """Move the ledger to where the range stopped, and forget the range.

    The report proves that it is loaded. So the ledger moves also if another run has taken the range over meanwhile, and
    if that one has moved it, there is nothing left to do.
    """
    for _ in range(TRIES):
        with suppress(LedgerChangedError):
            committed = commit(books, loaded.id, mirror)
            if committed.action is not Action.REFUSE:
                return books.store.forget_ranges([loaded.id])
            ledger = books.store.ledger()
            if ledger is None or books.proof(ledger, loaded.id) is None:
                break
            books.store.save(lifecycle.taken_over(ledger, books.run), ledger)
    raise LedgerChangedError(
        f"range {loaded.id!r} is loaded, but another run is writing the ledger in the checkpoint: run again, and it "
        "continues from there"
    )
