"""What a run would load, told before it runs: as much as the run itself would find, and nothing is written."""

import json
from dataclasses import replace

import pytest
from support.keeping import DictStore
from support.messages import says
from support.records import Record

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.notation.starts import Moment, parse_start
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import TopicChangedError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.mirror import GroupMirror
from airflow_provider_orderedkafka.loads.previews import preview, preview_replay

EARLY = 1_700_000_000_000
NOW = EARLY + 3_600_000


@pytest.fixture
def store_at(config):
    """The documents of a load that stands at these offsets of the partitions that there are."""

    def make(load, *offsets, rows=0):
        first = ranges.first_look(Brokers(config), load.terms, 0)
        place = Place(Offsets(dict(zip(first.place.offsets, offsets, strict=False))), Floor())
        ledger = lifecycle.first_look(load.name, instance="i", home_dag="d", place=place, topics=first.topics, now=0)
        store = LedgerStore(load.name, DictStore(), lambda: None)
        store.save(ledger, None)
        return store

    return make


def load_of(*topics, **settings):
    return OrderedLoad("orders", topics=topics, start="earliest", grace="0s", **settings)


def some(count, partition=0, begin=EARLY):
    return [Record(b"x" * 1_000, begin + number, partition) for number in range(count)]


def test_a_preview_has_what_the_run_would_plan_with_times_sizes_and_batches(config, topics, records, store_at):
    topic = topics.create(partitions=2)
    records.produce(topic, [*some(40), *some(10, 1, EARLY + 500)])
    load = load_of(topic, batch_offsets=20)
    store = store_at(load, 30, 0)
    found = preview(config, load.terms, store, NOW)
    run = ranges.plan(Brokers(config), load.terms, store.ledger(), now=NOW)
    assert (found.planned.start, found.planned.end, found.planned.reason) == (run.start, run.end, run.reason)
    assert [(part.start, part.end) for part in found.parts] == [(30, 40), (0, 10)]
    assert found.parts[0].times == (EARLY + 30, EARLY + 39)
    assert sum(batch.offsets for batch in found.batches) == 20
    assert 15_000 < sum(batch.bytes for batch in found.batches) < 30_000
    assert f"{topic}[0]@30 to 40: 10 offsets, {Moment(EARLY + 30)} to {Moment(EARLY + 39)}" in found.text
    plan = json.loads(json.dumps(found.to_json()))
    assert (plan["starts"], plan["error"], len(plan["partitions"]), len(plan["batches"])) == (True, None, 2, 1)
    times = [plan["partitions"][0]["first"], plan["range"]["planned_at"]]
    assert times == [str(Moment(EARLY + 30)), str(Moment(found.planned.planned_at))]


def test_a_run_that_would_wait_says_for_what_and_until_when(config, topics, records, store_at):
    topic = topics.create()
    records.produce(topic, some(40))
    load = load_of(topic, min_offsets=100, max_delay="1000000h")
    found = preview(config, load.terms, store_at(load, 0), NOW)
    assert "40 of 100 offsets" in found.text
    assert found.to_json()["due"] == str(Moment(found.verdict.due)) > str(Moment(NOW))


def test_partitions_that_are_special_say_why(config, topics, records, store_at):
    plain, compacted = topics.create("a", 2), topics.create("b", config={"cleanup.policy": "compact"})
    records.produce(plain, [*some(40), *some(5, 1)])
    records.produce(compacted, [Record(b"x", EARLY, key=b"k")])
    records.delete_before(plain, {0: 12})
    load = load_of(plain, compacted)
    store = store_at(load, 0, 0, 0)
    topics.grow(plain, 3)
    records.produce(plain, some(7, 2))
    records.delete_before(plain, {2: 3})
    with records.transaction() as open_one:
        open_one.produce(plain, some(4, 1, NOW))
        said = preview(config, load.terms, store, NOW).text
    assert f"{plain}[0]@0 to 40: 40 offsets" in said
    assert "12 offsets" in said
    assert f"{plain}[2]@0 to 7: 7 offsets" in said
    assert "new; 3 offsets" in said
    assert said.count("open transactions hold 4 offsets back") == 1
    assert said.count("; new") == 1
    assert said.count("; compacted") == 1


def test_a_first_run_from_a_time_says_where_records_of_that_time_may_be_gone(config, topics, records):
    topic = topics.create()
    records.produce(topic, some(40))
    records.delete_before(topic, {0: 12})
    load = replace(load_of(topic), start=str(Moment(EARLY - 60_000)))
    found = preview(config, load.terms, None, NOW)
    assert f"{topic}[0]@12" in found.text.partition("range")[0]
    assert len(found.to_json()["remarks"]) == 1


def test_what_a_run_would_fail_with_is_told_with_the_partitions_that_it_is_about(config, topics, records, store_at):
    topic = topics.create()
    records.produce(topic, some(9))
    load = load_of(topic)
    store = store_at(load, 9)
    topics.recreate(topic)
    found = preview(config, load.terms, store, NOW)
    assert isinstance(found.error, TopicChangedError)
    assert str(found.error) in found.text
    assert found.to_json()["starts"] is False
    topics.delete(topic)
    assert isinstance(preview(config, load.terms, store, NOW).error, UnknownTopicError)


def test_before_its_first_run_a_load_would_begin_at_its_start(config, topics, records):
    topic = topics.create()
    records.produce(topic, some(7))
    found = preview(config, load_of(topic).terms, None, NOW)
    assert isinstance(found.planned, Range)
    assert found.planned.offsets == 7


def test_a_replay_says_how_much_and_which_part_of_it(config, topics, records):
    topic = topics.create()
    records.produce(topic, some(50))
    asked = parse_start({topic: [10]}, "start"), parse_start("latest", "end")
    found = preview_replay(config, load_of(topic).terms, asked, NOW, rows=5)
    assert found.planned.rows_left == 5
    assert "40 offsets" in found.text
    assert "5 rows" in found.text
    ahead = asked[0], parse_start("2100-01-01T00:00:00Z", "end")
    assert preview_replay(config, load_of(topic).terms, ahead, NOW).planned is not None
    nothing = preview_replay(config, load_of(topic).terms, (asked[1], asked[1]), NOW)
    assert says(nothing.text, "latest ... latest")


def test_a_run_that_would_find_a_mirror_of_more_than_its_ledger_has_would_fail(config, topics, records, store_at):
    topic = topics.create()
    records.produce(topic, some(40))
    load = replace(load_of(topic), name=topic)
    store = store_at(load, 0)
    GroupMirror(config, load.name).write(replace(store.ledger(), revision=1))
    for kept in (store, None):
        found = preview(config, load.terms, kept, NOW)
        assert not found.to_json()["starts"]
        assert f"orderedkafka ledger restore {load.name} " in found.text


def test_a_run_that_would_find_a_ledger_of_another_dag_would_fail(config, topics, records, store_at):
    topic = topics.create()
    records.produce(topic, some(40))
    load = load_of(topic)
    store = store_at(load, 0)
    assert "'d'" in str(preview(config, load.terms, store, NOW, dag="another").error)
    for dag in ("d", None):
        assert preview(config, load.terms, store, NOW, dag=dag).to_json()["starts"]


def test_a_run_that_would_find_an_open_range_without_its_document_would_fail(config, topics, records, store_at):
    topic = topics.create()
    records.produce(topic, some(40))
    load = load_of(topic)
    store = store_at(load, 0)
    store.save(lifecycle.opened(store.ledger(), "lost", "d/r"), store.ledger())
    found = preview(config, load.terms, store, NOW)
    assert not found.to_json()["starts"]
    assert "orderedkafka ledger abandon orders" in str(found.error)
