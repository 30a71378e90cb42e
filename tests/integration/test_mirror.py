"""The ledger's copy in a consumer group."""

import uuid
from dataclasses import replace

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from support.messages import naming

from airflow_provider_orderedkafka.core.lifecycle import first_look
from airflow_provider_orderedkafka.core.order import positions
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError
from airflow_provider_orderedkafka.kafka.lookup.topics import AT_ONCE, GroupOffset, write_commits
from airflow_provider_orderedkafka.loads.mirror import GroupMirror, group_of


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


def test_partitions_that_began_anew_are_read_back_as_such_and_how_far_upserts_have_come_before(config, load, ledger):
    floor = ledger.place.floor.without([list(ledger.place.offsets)[1]])
    rewound = replace(ledger, place=replace(ledger.place, floor=floor))
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    mirror.write(rewound)
    assert (mirror.read().place, mirror.read().whole, mirror.read().reached) == (rewound.place, True, None)
    come_to = Place(Offsets(list(ledger.place.offsets.items())[:2]), ledger.place.floor)
    mirror.write(replace(rewound, reached=come_to))
    assert (mirror.read().place, mirror.read().whole, mirror.read().reached) == (rewound.place, True, come_to)


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
        (None, "revision 2 ... orderedkafka ledger restore"),
        (1, "revision 1 ... 2 ... orderedkafka ledger restore"),
        ("another", "two"),
    ],
)
def test_a_mirror_that_knows_more_than_the_ledger_is_an_error_with_ways_out(config, load, ledger, seen, words):
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    mirror.write(at(ledger, 2))
    cases = {None: None, 1: at(ledger, 1), "another": replace(ledger, instance="two", revision=5)}
    with pytest.raises(LifecycleError, match=naming(words)):
        mirror.check(cases[seen])


EACH = 60


@pytest.fixture
def small_broker(topics, config, monkeypatch):
    """A broker that takes as much less at once than one does by default as there are fewer partitions."""
    GroupMirror(config, "anybody", lambda: [positions.TopicPartition(topics.create(), 0)]).read()  # it makes the topic

    def limit(operation, size=None):
        entry = ConfigEntry("max.message.bytes", size, incremental_operation=operation)
        groups = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=[entry])
        topics.admin.incremental_alter_configs([groups])[groups].result(20)

    limit(AlterConfigOpType.SET, str(1024 * 1024 * EACH // AT_ONCE))
    monkeypatch.setattr("airflow_provider_orderedkafka.kafka.lookup.topics.AT_ONCE", EACH)
    yield
    limit(AlterConfigOpType.DELETE)


@pytest.fixture
def many(topics, small_broker):
    """A ledger of two topics with many partitions, with names as long as they can be."""
    names = [topics.name().ljust(249, letter) for letter in "ab"]
    for name in names:
        topics.create_named(name, EACH)
    load = f"load-{uuid.uuid4().hex[:8]}".ljust(100, "x")
    offsets = Offsets({positions.TopicPartition(name, p): 10**12 + p for name in names for p in range(EACH)})
    place = Place(offsets, Floor(1_790_000_000_000, positions.TopicPartition(names[0], EACH // 2)))
    return first_look(load, instance="a" * 12, home_dag="d", place=place, topics=dict.fromkeys(names, "x"), now=1)


def test_a_mirror_of_many_partitions_is_written_in_portions_and_repaired_where_some_are_missing(config, many):
    mirror, group = GroupMirror(config, many.load, lambda: many.place.offsets), group_of(many.load)
    first, second = mirror.portions(many)
    with pytest.raises(OrderedKafkaError, match="group"):
        write_commits(config, group, first | second)
    write_commits(config, group, first)
    assert not mirror.read().whole
    mirror.check(many)
    assert (mirror.read().whole, mirror.read().place) == (True, many.place)
    write_commits(config, group, mirror.portions(at(many, 1))[0])
    assert not mirror.read().whole
    mirror.check(at(many, 1))
    assert (mirror.read().whole, mirror.read().revision) == (True, 1)


@pytest.mark.parametrize("moved", [slice(1), slice(None)], ids=["in one partition", "in all"])
def test_a_group_that_a_person_moved_is_put_back_by_the_ledger(config, load, ledger, moved):
    mirror = GroupMirror(config, load, lambda: ledger.place.offsets)
    mirror.write(at(ledger, 2))
    partitions = list(ledger.place.offsets)[moved]
    write_commits(config, group_of(load), dict.fromkeys(partitions, GroupOffset(7, "")))
    with pytest.raises(LifecycleError, match=group_of(load)):
        mirror.check(None)  # nor is it taken for the group of a load that never ran
    mirror.check(at(ledger, 2))
    assert mirror.read().place == ledger.place
