"""Loads without Airflow: the same steps, with their documents in the checkpoint.

    <checkpoint>/ledger.json      where the load stands: next offsets, the open range, rows emitted
    <checkpoint>/range.json       the open range
    <checkpoint>/<range id>/      the checkpoint of each range

A run takes over an open range. The range's lease shows whether an application is still working on it.
"""

import json
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_orderedkafka.core.codec import canonical
from airflow_provider_orderedkafka.core.documents import Ledger, Range
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.notation.subscriptions import names
from airflow_provider_orderedkafka.core.pacing import Pace
from airflow_provider_orderedkafka.core.terms import NEW_CHECKPOINT
from airflow_provider_orderedkafka.errors import DocumentError, LifecycleError, SettingError, StateError
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.loads.books import Books
from airflow_provider_orderedkafka.loads.committing import commit
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.loading import load
from airflow_provider_orderedkafka.loads.resolving import resolve
from airflow_provider_orderedkafka.loads.waiting import look, wait
from airflow_provider_orderedkafka.spark.connector.stream import terms_of
from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments
from airflow_provider_orderedkafka.spark.state.checkpoint import NOTES, Checkpoint
from airflow_provider_orderedkafka.storage.store import State

LEDGER = "ledger.json"
OPEN = "range.json"
BY_HAND = "by hand"
WAY_OUT = NEW_CHECKPOINT._replace(who="the load")


@dataclass(frozen=True, slots=True)
class Documents:
    """A ledger's store in the files of a checkpoint. `range.json` is the only range."""

    state: State

    def get(self, key: str) -> Any:
        text = self.state.get(_file(key))
        try:
            found = None if text is None else json.loads(text)
        except ValueError as error:
            raise DocumentError(f"{_file(key)} in {self.state.location!r} is not JSON: {error}") from error
        return found if key == "ledger" or _is(found, key) else None

    def set(self, key: str, value: Any) -> None:
        self.state.put(_file(key), canonical(value))

    def delete(self, key: str) -> None:
        """Delete the document, unless it was replaced by another one."""
        if self.get(key) is not None:
            self.state.delete(_file(key))


def _file(key: str) -> str:
    return LEDGER if key == "ledger" else OPEN


def _is(found: Any, key: str) -> bool:
    return isinstance(found, dict) and key == f"range/{found.get('id')}"


class Alone:
    """A mirror and a task's memory that do nothing: a load by hand has neither."""

    def check(self, ledger: Ledger | None) -> None:
        """Do nothing."""

    def write(self, ledger: Ledger) -> None:
        """Do nothing."""

    def get(self, key: str) -> Any:
        """None, always."""

    def set(self, key: str, value: Any) -> None:
        """Do nothing."""


def store_of(state: State) -> LedgerStore:
    """The load's documents under a checkpoint."""
    return LedgerStore(BY_HAND, Documents(state), settle=lambda: None, part=sys.maxsize)


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
    )


def next_range(books: Books, arguments: Arguments) -> tuple[Range | None, str]:
    """The range to load now, taken over or new, with its attempt recorded; or None; and the reason."""
    options = arguments.source
    terms = replace(terms_of(options), load=BY_HAND, row_limit=arguments.row_limit, way_out=WAY_OUT)
    named = names(terms.subscription)
    now = books.now()
    ledger = look(books, Alone(), lambda topics: ranges.first_look(options.kafka, terms, now, topics), named, home=None)
    said = wait(books, ledger, terms.row_limit)
    if said is None and terms.pace != Pace():
        said = ranges.verdict(options.kafka, terms, ledger, now)
    if said is not None and not said.run:
        return None, said.reason
    name = f"range-{ledger.revision + 1:06d}"  # tells people which came first
    resolved = resolve(
        books, Alone(), ledger, lambda seen: ranges.plan(options.kafka, terms, seen, digest="", now=now, name=name)
    )
    if resolved.range is None:
        return None, resolved.reason
    load(books, resolved.range.id, lambda loaded, _: loaded.id)
    return resolved.range, f"range {resolved.range.id}: {resolved.reason}"


def _check_complete(store: LedgerStore, state: State) -> None:
    ledger = store.ledger()
    if ledger is None and (found := state.names()):
        raise SettingError(
            f"the checkpoint {state.location!r} has no {LEDGER}, but {', '.join(found)}: it belongs to a range that "
            f"was loaded with --range, or lost its ledger. Name another --checkpoint, or bring the ledger back"
        )
    if ledger is not None and ledger.open is not None and store.range(ledger.open.range_id) is None:
        raise StateError(
            f"the checkpoint {state.location!r} has lost {OPEN}, the open range {ledger.open.range_id!r}: "
            f"bring it back, then run again"
        )


def close(books: Books, loaded: Range) -> None:
    """Move the ledger to where the range stopped, and forget the range."""
    committed = commit(books, loaded.id, Alone())
    if committed.action is Action.REFUSE:
        raise LifecycleError(f"the ledger cannot move: {committed.reason}; run again to go on from where it stands")
    books.store.forget_ranges([loaded.id])
