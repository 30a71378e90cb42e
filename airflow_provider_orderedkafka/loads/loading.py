"""Load: decide what to do for a range, and record its attempt before it starts."""

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.documents import Claim, Range, Report
from airflow_provider_orderedkafka.core.lifecycle import Action, Step
from airflow_provider_orderedkafka.loads.books import Books
from airflow_provider_orderedkafka.loads.changed_settings import store_changes, with_changes

AGAIN = "-again-"


@dataclass(frozen=True, slots=True)
class Loading:
    """What a load has to do: start attempt `attempt` at `checkpoint`, return `report`, or neither."""

    action: Action
    reason: str
    range: Range | None = None
    attempt: int = 0
    checkpoint: str | None = None
    report: Report | None = None


def place_of(root: str, range_id: str, times: int) -> str:
    """The folder of a range, another one each time that it is loaded again."""
    return f"{root.rstrip('/')}/{range_id}" + (f"{AGAIN}{times}" if times else "")


def name_at(location: str, range_id: str) -> str:
    """How a range is called at this place: by its id, or by another name if it is loaded again."""
    folder = location.rstrip("/").rpartition("/")[2]
    return folder if folder.startswith(f"{range_id}{AGAIN}") else range_id


def load(books: Books, range_id: str | None, checkpoint: Callable[[Range, int], str], digest: str = "") -> Loading:
    """Decide what to do for a range; an attempt is recorded before it starts.

    `checkpoint` makes the location for a range without one, given how often it was loaded before.
    """
    range_id, book = books.book(range_id)
    found = books.status(book, range_id)
    does = books.decide(found, Step.LOAD)
    if does in {Action.SKIP, Action.REFUSE}:
        return Loading(does, found.sentence)
    loaded = books.range(range_id)
    proof = books.proof(book, range_id) if does is Action.GIVE_REPORT else None
    if proof is not None:
        opened = moves.open_of(book)
        moves.check_proof(opened, loaded, proof)
        return Loading(does, f"{found.sentence}; {loaded.reason}", loaded, found.attempt, opened.checkpoint, proof)
    todo = with_changes(books, book, found, loaded, digest)
    times = len(book.outcomes) if isinstance(book, Claim) else 0
    after = moves.submitted(book, checkpoint(todo, times))
    books.store.save(after, book, loaded.key)
    store_changes(books, todo, loaded)
    begun = moves.open_of(after)
    return Loading(does, f"{does}: {found.sentence}; {todo.reason}", todo, begun.attempt, begun.checkpoint)
