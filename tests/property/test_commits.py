"""Whether a batch landed in a table, by the table's history alone: against all that owners and other loads do to it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.commits import Commit, History, TableVersion, name_of, search

RANGE, BATCH = "orders-1", 3
OURS, OTHERS = name_of(RANGE, BATCH, "a"), name_of(RANGE, BATCH + 1, "a")


@dataclass
class World:
    """A table: its commits from the oldest on, how many of them have expired, and whether its owner has replaced it."""

    id: str = "t"
    commits: list[Commit] = field(default_factory=list)
    expired: int = 0
    noted: TableVersion | None = None
    landed: int = 0
    versions: int = 0

    def commit(self, name: str | None) -> None:
        parent = self.commits[-1].version if self.commits else None
        self.versions += 1
        version = 7 * self.versions % 10_007  # a snapshot's id says nothing of its age
        self.commits.append(Commit(version, parent, name, 5))
        self.landed += self.noted is not None and name == OURS

    def note(self) -> None:
        self.noted = TableVersion(self.id, self.commits[-1].version if self.commits else None)

    def expire(self, count: int) -> None:
        """Never the newest: it is the table."""
        self.expired = min(max(self.expired, count), max(len(self.commits) - 1, 0))

    def replace(self, table: str) -> None:
        """Put what it has into a table without a past, which may have another id."""
        self.id, self.commits, self.expired = table, [], 0
        self.commit(None)

    def history(self) -> History:
        return History(self.id, reversed(self.commits[self.expired :]))

    @property
    def reaches_back(self) -> bool:
        """Whether the version that was noted is still known, or the table's beginning, and that it is this load's."""
        assert self.noted is not None
        known = self.commits[self.expired :]
        if self.noted.table != self.id or self.noted.version is not None:
            return self.noted.table == self.id and self.noted.version in {commit.version for commit in known}
        ours = all((commit.name or "").startswith(f"{RANGE}/") for commit in known[:1])
        return self.expired == 0 and ours


names = st.sampled_from([None, None, "something else", OTHERS, name_of("orders-11", BATCH, "a")])
lists = st.lists(names, max_size=6)


@given(
    before=lists,
    between=lists,
    landed=st.integers(0, 2),
    replaced=st.sampled_from([None, None, "t", "another"]),
    after=lists,
    expired=st.integers(0, 14),
)
def test_a_batch_landed_or_did_not_or_it_is_said_that_the_history_does_not_tell(
    before: list[str | None],
    between: list[str | None],
    landed: int,
    replaced: str | None,
    after: list[str | None],
    expired: int,
) -> None:
    world = World()
    for name in before:
        world.commit(name)
    world.note()
    for name in [*between, *[OURS] * landed]:
        world.commit(name)
    if replaced is not None:
        world.replace(replaced)
    for name in after:
        world.commit(name)
    world.expire(expired)
    found = search(world.history(), world.noted, RANGE, BATCH)
    assert found.whole is world.reaches_back
    visible = [commit for commit in world.commits[world.expired :] if commit.name == OURS]
    assert list(found.found) == visible[::-1]
    if found.whole and not visible:
        assert landed == 0


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        (None, "a table before what it had of the range was deleted"),
        (TableVersion("another", 1), "a table that was dropped and made again"),
        (TableVersion("another", None), "a table that was dropped and made again"),
        (TableVersion("t", None), "a table that somebody else began, or began again"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_was_not_seen_is_not_known(seen: TableVersion | None, what: str) -> None:
    found = search(History("t", [Commit(1, None)]), seen, RANGE, BATCH)
    assert (found.found, found.whole) == ((), False), what


def test_a_range_that_is_loaded_again_does_not_take_its_first_commits_for_its_own() -> None:
    history = History("t", [Commit(2, 1, name_of(RANGE, BATCH, "a")), Commit(1, None)])
    assert not search(history, TableVersion("t", 1), f"{RANGE}-again-1", BATCH).found
