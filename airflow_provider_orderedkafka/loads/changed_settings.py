"""Let an open range adopt a changed output or application until its first batch is begun.

Before a batch is noted, nothing was written, so the range can start again over the same offsets. After that, the output
would have rows of both, and a person has to decide.
"""

from dataclasses import replace

from airflow_provider_orderedkafka.core.documents import Claim, Ledger, Range
from airflow_provider_orderedkafka.core.lifecycle import RangeState, RangeStatus, way_out
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads.books import Books


def digest_of(**facts: object) -> str:
    """What determines the rows and where they go, as one line for each setting, so that an error can name a change."""
    return "\n".join(f"{name}={value!r}" for name, value in sorted(facts.items()))


def with_changes(books: Books, book: Ledger | Claim, found: RangeStatus, loaded: Range, digest: str) -> Range:
    """The range with the present settings; `LifecycleError` if a batch was begun with others.

    An empty digest is not compared.
    """
    if "" in {digest, loaded.digest} or not changes(loaded.digest, digest):
        return loaded
    opened = book.open
    if opened is None or found.state not in {RangeState.PLANNED, RangeState.SUBMITTED}:
        return loaded
    if opened.checkpoint is not None and books.noted(opened.checkpoint):
        raise LifecycleError(_refusal(loaded, digest, opened.checkpoint))
    return replace(loaded, digest=digest)


def store_changes(books: Books, after: Range, before: Range) -> None:
    if after != before:
        books.store.replace_range(after, before)


def changes(before: str, after: str) -> str:
    """The differences of two digests, in words. Settings that only one of them has are not compared.

    So an open range continues after an upgrade to a release with more settings.
    """
    was, now = _facts(before), _facts(after)
    names = [name for name in sorted(was.keys() & now) if was[name] != now[name]]
    return "; ".join(f"{name} was {was[name]}, it is {now[name]}" for name in names)


def _facts(digest: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in digest.splitlines())
    return {name: value for name, _, value in pairs}


def _refusal(loaded: Range, digest: str, checkpoint: str) -> str:
    return (
        f"range {loaded.id!r} of load {loaded.load!r} was begun with other settings, and rows may be written already "
        f"(a batch is noted in {checkpoint!r}): {changes(loaded.digest, digest)}. Set it back and clear this task to "
        f"finish the range; or {way_out(loaded)}"
    )
