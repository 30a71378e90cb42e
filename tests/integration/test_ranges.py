"""What keeps a run from starting, and what does not, on a real broker."""

import time
from dataclasses import replace

import pytest
from support.records import Record

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.loads.own_ranges import plan_replay

YEAR_2100 = 4_102_444_800_000
MINUTE = 60_000
TWO_YEARS = 2 * 365 * 24 * 60 * MINUTE


@pytest.fixture
def now():
    return time.time_ns() // 1_000_000


@pytest.fixture
def ledger_at(config):
    """A ledger of a load that stands somewhere."""

    def make(load, offsets, floor=-1):
        first = ranges.first_look(config, load.terms, 0)
        at = Offsets(dict(zip(first.place.offsets, offsets, strict=True)))
        place = Place(at, Floor(floor))
        return moves.first_look(load.name, instance="i", home_dag="d", place=place, topics=first.topics, now=0)

    return make


def planned(config, load, ledger, now):
    """How many offsets the next range spans; 0 where there is none."""
    found = ranges.plan(config, load.terms, ledger, digest="", now=now)
    return 0 if isinstance(found, NothingToLoad) else found.offsets


@pytest.fixture
def poisoned(topics, records, now):
    """A topic whose first record is of the year 2100."""
    topic = topics.create()
    begin = now - 60 * MINUTE
    records.produce(topic, [Record(b"", YEAR_2100), *(Record(b"", begin + n) for n in range(3_000))])
    records.produce(topic, [Record(b"", now - 1_000 + n) for n in range(20)])
    return topic


@pytest.mark.parametrize("stands", [0, 1], ids=["before it", "behind it"])
def test_a_record_of_the_future_keeps_nobody_waiting(config, poisoned, ledger_at, now, stands):
    load = OrderedLoad("orders", topics=[poisoned], start="earliest", min_offsets=3_000)
    ledger = ledger_at(load, [stands])
    for known in (True, False):
        verdict = ranges.verdict(config, load.terms, ledger, now, known=known)
        assert (verdict.run, verdict.reason) == (True, f"{3_001 - stands:,} of 3,000 offsets are there")
    assert planned(config, load, ledger, now) == 3_001 - stands


def test_an_old_transaction_keeps_back_no_more_than_its_own_partition(config, topics, records, ledger_at, now):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", now - 60 * MINUTE + n) for n in range(50)])
    load = OrderedLoad("orders", topics=[topic], start="earliest", min_offsets=50)
    ledger = ledger_at(load, [0, 0], floor=now - 60 * MINUTE)
    with records.transaction() as past:
        past.produce(topic, [Record(b"", now - TWO_YEARS + n, 1) for n in range(10)])
        assert ranges.verdict(config, load.terms, ledger, now).run
        assert planned(config, load, ledger, now) == 50


def test_what_a_transaction_may_commit_in_time_is_waited_for_but_not_for_ever(config, topics, records, ledger_at, now):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", now - 60 * MINUTE + n) for n in range(50)])
    records.produce(topic, [Record(b"", now - 5 * MINUTE + n) for n in range(50)])
    load = OrderedLoad("orders", topics=[topic], start="earliest")
    ledger = ledger_at(load, [0, 0], floor=now - 60 * MINUTE)
    with records.transaction() as left_open:
        left_open.produce(topic, [Record(b"", now - TWO_YEARS, 1), Record(b"", now - 10 * MINUTE, 1)])
        assert planned(config, load, ledger, now) == 50
        assert planned(config, load, ledger, now + 11 * MINUTE) == 100
        impatient = OrderedLoad("orders", topics=[topic], start="earliest", transaction_wait="1m")
        assert planned(config, impatient, ledger, now) == 100
        behind = ledger_at(load, [50, 0], floor=now - 60 * MINUTE)
        assert ranges.plan(config, load.terms, behind, digest="", now=now) == NothingToLoad(
            "nothing to load: 50 offsets wait for an open transaction; open transactions hold 2 offsets back"
        )


def test_a_quick_look_asks_about_the_partitions_that_the_ledger_knows(config, topics, records, ledger_at, now):
    topic = topics.create()
    load = OrderedLoad("orders", topics=[topic], start="earliest")
    ledger = ledger_at(load, [0])
    topics.grow(topic, 2)
    records.produce(topic, [Record(b"", now - MINUTE, 1)])
    assert not ranges.verdict(config, load.terms, ledger, now, known=True).run
    assert ranges.verdict(config, load.terms, ledger, now).run
    end = ranges.plan(config, load.terms, ledger, digest="", now=now).end.offsets
    assert end[TopicPartition(topic, 1)] == 1


def test_a_replay_of_what_is_gone_is_refused_or_goes_on_without_it_and_says_so(config, topics, records, now):
    topic = topics.create()
    records.produce(topic, [Record(b"", 1)] * 5)
    records.delete_before(topic, {0: 2})
    asked = parse_start({topic: [0]}, "start"), parse_start("latest", "end")
    load = OrderedLoad("orders", topics=[topic])
    with pytest.raises(DataLossError, match=r"@0, which is gone: the log starts at .*@2.*accept losses"):
        plan_replay(config, load.terms, asked, digest="", now=now)
    found = plan_replay(config, replace(load, on_data_loss="count").terms, asked, digest="", now=now)
    assert (list(found.start.offsets.values()), found.offsets) == ([2], 3)
    assert "2 offsets are lost" in found.reason


@pytest.mark.parametrize(("start", "begins"), [("latest", [3]), ("earliest", [0]), ("offsets", [2])])
def test_a_topic_that_is_added_begins_where_the_start_policy_says(config, topics, records, start, begins):
    old, added = topics.create(), topics.create()
    records.produce(old, [Record(b"", 1)])
    records.delete_before(old, {0: 1})
    records.produce(added, [Record(b"", 1)] * 3)
    policy = {old: [0], added: [2]} if start == "offsets" else start
    load = OrderedLoad("orders", topics=[old, added], start=policy)
    first = ranges.first_look(config, load.terms, 0, [added])
    assert list(first.place.offsets.values()) == begins
    assert list(first.topics) == [added]
