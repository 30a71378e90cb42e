"""Commits of batches into a table: how one is known again, and whether a batch has landed.

A batch is one commit, which says whose it is. Before its first write the note says which version the table had; so a
replay finds the commit behind that version, or knows that there is none. If the history does not reach back that far
any more, the rows themselves say it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

IDENTITY: Final = "_orderedkafka"
"""The column with the identity of a row."""

MARK: Final = "orderedkafka"
"""The name under which a commit says whose it is."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A table as it was before a batch's first write: its id and its newest version; null if it had none."""

    table: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table. `name` is what it says of itself, null if another program made it."""

    version: int
    parent: int | None
    name: str | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """A table's id, and its commits from the newest on, as far back as they are asked for, or known."""

    table: str
    commits: Iterable[Commit] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """The commits of a batch, and whether the history was known back to where the batch was noted."""

    found: tuple[Commit, ...]
    whole: bool


class Standing(Enum):
    """What is known of a batch that was noted: it landed, it did not, its rows have to be asked, nobody can know."""

    LANDED = "landed"
    MISSING = "missing"
    ASK = "ask"
    LOST = "lost"


def name_of(range_id: str, batch: int, attempt: str) -> str:
    """What a commit says of itself: the range (`<range>-again-2` if it was loaded anew), the batch and the attempt."""
    return f"{range_id}/{batch}/{attempt}"


def search(history: History, seen: Seen | None, range_id: str, batch: int) -> Search:
    """Look for a batch's commits, from the newest back to the version that was noted."""
    if seen is None or seen.table != history.table:
        return Search((), whole=False)
    found: list[Commit] = []
    following: Commit | None = None
    for commit in history.commits:
        if commit.version == seen.version or (following is not None and following.parent != commit.version):
            return Search(tuple(found), whole=commit.version == seen.version)
        if commit.name is not None and commit.name.rpartition("/")[0] == f"{range_id}/{batch}":
            found.append(commit)
        following = commit
    begins = following is None or following.parent is None
    return Search(tuple(found), whole=seen.version is None and begins)


def standing(found: Search, *, identity: bool) -> Standing:
    """What a search says of a batch. One that landed may have landed twice, if the history is not whole."""
    if found.whole:
        return Standing.LANDED if found.found else Standing.MISSING
    if identity:
        return Standing.ASK
    return Standing.LANDED if found.found else Standing.LOST
