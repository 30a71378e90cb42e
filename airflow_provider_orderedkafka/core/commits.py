"""Commits of batches to a table: how one is recognised, and whether a batch has landed.

A batch is one commit, which has the batch's name. The note that precedes its first write has the table's version; so a
replay finds the commit after that version, or knows that there is none. If the history does not reach back that far any
more, the rows show it by their identities.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

IDENTITY: Final = "_orderedkafka"
"""The column with the identity of a row."""

DELETED: Final = "_is_deleted"
"""The column that says of a row of upserts that its key was deleted: only the key matters then. Never null."""

MARK: Final = "orderedkafka"
"""The property of a commit that has its name."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table before a batch's first write, with its id."""

    table: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table. `name` is null if another program made it; `bytes` and `files` are those it added."""

    version: int
    parent: int | None
    name: str | None = None
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Commits from the newest to the noted one, as far as known."""

    table: str
    commits: Iterable[Commit] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """The commits of a batch, and whether the history reaches back to the version that was noted."""

    found: tuple[Commit, ...]
    whole: bool


def name_of(range_id: str, batch: int, attempt: str) -> str:
    """The name of a commit: the range (`<range>-again-2` if it was loaded again), the batch and the attempt."""
    return f"{range_id}/{batch}/{attempt}"


def search(history: History, noted: TableVersion | None, range_id: str, batch: int) -> Search:
    """Look for a batch's commits, from the newest back to the version that was noted.

    Where the table had no version, the history is whole if it is empty, or begins with a commit of this range. If it
    begins with another one, the table may have been replaced, with all its rows, since the batch was noted.
    """
    same = noted is not None and noted.table == history.table
    version = noted.version if noted is not None and same else None
    found: list[Commit] = []
    following: Commit | None = None
    for commit in history.commits:
        if same and commit.version == version:
            return Search(tuple(found), whole=True)
        if following is not None and following.parent != commit.version:
            return Search(tuple(found), whole=False)
        if commit.name is not None and commit.name.rpartition("/")[0] == f"{range_id}/{batch}":
            found.append(commit)
        following = commit
    return Search(tuple(found), whole=same and version is None and _begins(following, range_id))


def _begins(oldest: Commit | None, range_id: str) -> bool:
    """Whether there was no commit before this one."""
    if oldest is None:
        return True
    return oldest.parent is None and oldest.name is not None and oldest.name.startswith(f"{range_id}/")
