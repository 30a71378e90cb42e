"""Revisions of one key under writers that sleep, wake up and are killed: what is told as written stays written.

Each writer reads a list and puts it back with something of its own at the end. So the last value tells which writes
there were, in which order.
"""

import subprocess
import sys
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.interleaving import Actor, Killed
from support.keeping import FolderStore, Touched

from airflow_provider_orderedkafka.errors import DocumentError, LedgerChangedError
from airflow_provider_orderedkafka.loads.ledger import Revisions

WRITERS = "abc"
RACES = 2_000


class Writer:
    """Writes again and again, as whoever opens the books anew for each step does."""

    def __init__(self, state, name, kept):
        self.state, self.name, self.kept = state, name, kept
        self.written, self.seen, self.count = [], [], 0

    def write(self):
        store = Revisions(Touched(self.state), self.kept)
        values = store.get("ledger") or []
        self.seen.append(values)
        self.count += 1
        with suppress(LedgerChangedError):
            store.set("ledger", [*values, f"{self.name}{self.count}"])
            self.written.append(f"{self.name}{self.count}")


def assert_none_goes_back(looks):
    assert all(later[: len(value)] == value for value, later in pairwise(looks))


def happenings():
    return st.lists(
        st.tuples(st.sampled_from(WRITERS), st.sampled_from(["move"] * 9 + ["kill"]), st.integers(1, 8)), max_size=120
    )


@given(what=happenings(), kept=st.integers(1, 3))
def test_what_is_told_as_written_was_written_on_what_was_read_and_no_reader_goes_back(what, kept):
    folder = FolderStore()
    writers = {name: Writer(folder.state, name, kept) for name in WRITERS}
    actors, looks = {}, []
    for name, does, times in what:
        actor = actors[name] if name in actors and not actors[name].done else Actor(writers[name].write)
        actors[name] = actor
        if does == "kill":
            actor.kill()
        for _ in range(times if does == "move" else 0):
            actor.move()
        assert isinstance(actor.error, Killed | None)
        looks.append(Revisions(folder.state).get("ledger") or [])
    for actor in actors.values():
        actor.finish()
        assert isinstance(actor.error, Killed | None)
    last = Revisions(folder.state).get("ledger") or []
    assert {value for writer in writers.values() for value in writer.written} <= set(last)
    assert len(set(last)) == len(last)
    for writer in writers.values():
        assert_none_goes_back([*writer.seen, last])
    assert_none_goes_back([*looks, last])


RACER = """
import sys
from pathlib import Path
from airflow_provider_orderedkafka.errors import LedgerChangedError
from airflow_provider_orderedkafka.loads.ledger import Revisions
from airflow_provider_orderedkafka.storage import LocalState

state, name, last = LocalState(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
while True:
    store = Revisions(state)
    values = store.get("ledger") or []
    if len(values) >= last:
        break
    mine = f"{name}{len(values)}"
    try:
        store.set("ledger", [*values, mine])
    except LedgerChangedError:
        continue
    print(mine)
"""


def test_two_processes_that_race_for_each_revision_thousands_of_times_lose_nothing_that_they_were_told_is_written():
    folder = FolderStore()
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, folder.state.location, name, str(RACES)], stdout=subprocess.PIPE)
        for name in "ab"
    ]
    written = [racer.communicate(timeout=300)[0].decode().split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    last = Revisions(folder.state).get("ledger")
    assert all(written), "one of them ran alone"
    assert {each for mine in written for each in mine} <= set(last)
    assert [int(each[1:]) for each in last] == list(range(len(last)))
    assert len(last) == RACES


def test_a_writer_that_slept_while_its_number_was_written_and_deleted_is_told_so():
    folder = FolderStore()
    sleeper = Revisions(folder.state, kept=2)
    sleeper.set("ledger", 0)
    for number in range(1, 9):
        Revisions(folder.state, kept=2).set("ledger", number)
    with pytest.raises(LedgerChangedError):
        sleeper.set("ledger", "from long ago")
    assert Revisions(folder.state).get("ledger") == 8
    Revisions(folder.state, kept=2).set("ledger", 9)
    assert folder.state.names("ledger") == ["000000000009.json", "000000000010.json"]


def test_a_writer_whose_answer_was_lost_on_its_way_knows_its_own_revision_again():
    folder = FolderStore()

    class Lossy(Touched):
        def create(self, name, text):
            super().create(name, text)
            return super().create(name, text)  # sent again, because nothing came back

    Revisions(Lossy(folder.state)).set("ledger", "mine")
    assert Revisions(folder.state).get("ledger") == "mine"


def test_a_key_that_was_deleted_is_gone_and_may_be_written_again():
    folder = FolderStore()
    store = Revisions(folder.state)
    for value in ("a", "b"):
        store.set("range/one", value)
    store.set("range/two", "c")
    assert store.keys() == ["range/one", "range/two"]
    store.delete("range/one")
    store.delete("range/one")
    assert (store.get("range/one"), store.keys(), folder.state.names("range")) == (None, ["range/two"], ["two"])
    store.set("range/one", "again")
    assert store.get("range/one") == "again"


def test_nobody_who_reads_a_key_while_it_is_deleted_sees_an_older_value():
    folder, looks = FolderStore(), []
    for number in range(4):
        Revisions(folder.state).set("range/one", number)
    deleting = Actor(lambda: Revisions(Touched(folder.state)).delete("range/one"))
    while not deleting.done:
        deleting.move()
        looks.append(Revisions(folder.state).get("range/one"))
    assert sorted(set(looks), key=looks.index) == [3, None]


def test_what_is_no_revision_is_named():
    folder = FolderStore()
    folder.state.create("ledger/000000000001.json", "{}")
    with pytest.raises(DocumentError, match="'ledger'"):
        Revisions(folder.state).get("ledger")
