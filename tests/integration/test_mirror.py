"""The ledger's copy in a consumer group."""

import uuid
from dataclasses import replace

import pytest

from airflow_provider_orderedkafka.core import positions
from airflow_provider_orderedkafka.core.cuts import Floor, Place
from airflow_provider_orderedkafka.core.moves import first_look
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.kafka.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.groups import Commit, write_commits
from airflow_provider_orderedkafka.mirror import GroupMirror, group_of


@pytest.fixture
def config(kafka):
    return KafkaConfig({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def load():
    return f"load-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def ledger(topics, load):
    topic = topics.create(partitions=3)
    offsets = Offsets((positions.TopicPartition(topic, p), 10 * p) for p in range(3))
    floor = Floor(1_000, positions.TopicPartition(topic, 1))
    return first_look(load, instance="one", home_dag="d", place=Place(offsets, floor), topics={topic: "x"}, now=1)


def at(ledger, revision):
    return replace(ledger, revision=revision)


def test_what_was_written_is_read_back_with_revision_rows_and_floor(config, load, ledger):
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    assert mirror.read() is None
    mirror.write(replace(ledger, revision=3, rows_emitted=42, dead_letters=7))
    found = mirror.read()
    assert (found.instance, found.revision, found.whole) == ("one", 3, True)
    assert (found.rows, found.dead_letters) == (42, 7)
    assert found.place == ledger.place


def test_a_mirror_that_an_older_release_wrote_has_no_dead_letters(config, load, ledger):
    metadata = '{"by":"orderedkafka","floor":[1],"instance":"one","revision":3,"rows":42}'
    write_commits(config, group_of(load), {p: Commit(at, metadata) for p, at in ledger.place.offsets.items()})
    found = GroupMirror(config, load, lambda: ledger.place.offsets).read()
    assert (found.rows, found.dead_letters) == (42, 0)


def test_a_mirror_that_is_behind_or_missing_is_repaired(config, load, ledger):
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    mirror.check(at(ledger, 0))
    assert mirror.read().revision == 0
    mirror.check(at(ledger, 1))
    assert mirror.read().revision == 1


def test_a_mirror_of_which_only_a_part_was_written_is_repaired(config, load, ledger):
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    mirror.write(at(ledger, 1))
    partial = replace(
        at(ledger, 2), place=replace(ledger.place, offsets=Offsets(list(ledger.place.offsets.items())[:1]))
    )
    mirror.write(partial)
    assert not mirror.read().whole
    mirror.check(at(ledger, 2))
    assert mirror.read().whole


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (None, "has no ledger here"),
        (1, "the ledger fell back"),
        ("another", "mirrors another ledger"),
    ],
)
def test_a_mirror_that_knows_more_than_the_ledger_is_an_error_with_ways_out(config, load, ledger, seen, words):
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    mirror.write(at(ledger, 2))
    cases = {None: None, 1: at(ledger, 1), "another": replace(ledger, instance="two", revision=5)}
    with pytest.raises(LifecycleError, match=words) as error:
        mirror.check(cases[seen])
    assert "delete the group" in str(error.value) or "deleting the group" in str(error.value)


def test_a_group_that_a_person_moved_is_put_back_by_the_ledger(config, load, ledger):
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    mirror.write(at(ledger, 2))
    partition = next(iter(ledger.place.offsets))
    write_commits(config, group_of(load), {partition: Commit(7, "")})
    mirror.check(at(ledger, 2))
    assert mirror.read().place == ledger.place
