"""Read or create the ledger, and decide whether to wait."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.documents import Ledger, Place
from airflow_provider_orderedkafka.core.lifecycle import Asker, RangeStatus, status_of
from airflow_provider_orderedkafka.core.limits import limit_spent
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads.books import Books, Mirror, checked, show


@dataclass(frozen=True, slots=True)
class First:
    """A resolved start: the place, and the ids of its topics."""

    place: Place
    topics: Mapping[str, str]


Start = Callable[[Sequence[str]], First]
"""Resolves a load's start policy for these topics."""


def look(books: Books, mirror: Mirror, start: Start, topics: Sequence[str], *, home: str | None) -> Ledger:
    """Read the ledger. At the first look, and for new topics, the start is resolved and stored for good."""
    ledger = checked(books.store, mirror)
    if ledger is not None:
        return _with_added(books, mirror, _at_home(books, ledger, home), start, topics)
    first = start(topics)
    ledger = moves.first_look(
        books.store.load,
        instance=uuid4().hex[:12],
        home_dag=home,
        place=first.place,
        topics=first.topics,
        now=books.now(),
    )
    books.store.save(ledger, None)
    show(books.store, mirror, ledger)
    return ledger


def _with_added(books: Books, mirror: Mirror, ledger: Ledger, start: Start, topics: Sequence[str]) -> Ledger:
    added = [topic for topic in topics if topic not in ledger.topics]
    if not added:
        return ledger
    first = start(added)
    after = moves.joined(ledger, first.place.offsets, first.topics)
    books.store.save(after, ledger)
    show(books.store, mirror, after)
    return after


def wait(books: Books, ledger: Ledger, row_limit: int | None) -> Verdict | None:
    """What the ledger alone decides: run for an open range, or skip; None if it depends on Kafka."""
    done = committed_by(books.run, ledger)
    if done is not None:
        return Verdict(run=True, reason=f"nothing to wait for: {done.sentence}")
    found = opened(books, ledger)
    if found is not None:
        mine = books.asker(found) is not Asker.OTHER
        return Verdict(run=mine, reason=f"nothing to wait for: {found.sentence}", skip=not mine)
    spent = limit_spent(ledger, row_limit)
    return None if spent is None else Verdict(run=False, reason=spent, skip=True)


def opened(books: Books, ledger: Ledger) -> RangeStatus | None:
    """The status of the open range, if there is one."""
    return None if ledger.open is None else books.status(ledger, ledger.open.range_id)


def committed_by(run: str, ledger: Ledger) -> RangeStatus | None:
    """The status of the range that this run has committed, if it was cleared after that; it loads nothing new."""
    if ledger.open is not None and ledger.open.owner == run:
        return None
    mine = (each for each in reversed(ledger.outcomes) if each.kind == "committed" and each.by == run)
    return next((status_of(ledger, each.range_id) for each in mine), None)


def _at_home(books: Books, ledger: Ledger, home: str | None) -> Ledger:
    if ledger.home_dag == home:
        return ledger
    if ledger.home_dag is None:
        adopted = replace(ledger, home_dag=home)
        books.store.save(adopted, ledger)
        return adopted
    raise LifecycleError(
        f"load {ledger.load!r} belongs to DAG {ledger.home_dag!r}, DAG {home!r} cannot load incrementally under the "
        f"same name: name the load differently, or, when the DAG was renamed, let the ledger move with "
        f"`orderedkafka ledger rewind {ledger.load} --to-current --reason renamed`, or by a rewind to 'current' in the "
        "form of its operations"
    )
