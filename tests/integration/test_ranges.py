"""What keeps a run from starting, and what does not, on a real broker."""

import re
import time
from dataclasses import replace

import pytest
from support.records import Record

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.next_range import Deleted, NothingToLoad
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.core.notation.subscriptions import Named, lacking
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.loads.ranges import plan_replay

YEAR_2100 = 4_102_444_800_000
MINUTE = 60_000
TWO_YEARS = 2 * 365 * 24 * 60 * MINUTE


@pytest.fixture
def brokers(config):
    return Brokers(config)


@pytest.fixture
def now():
    return time.time_ns() // 1_000_000


@pytest.fixture
def ledger_at(brokers):
    """A ledger of a load that stands somewhere."""

    def make(load, offsets, floor=-1):
        first = ranges.first_look(brokers, load.terms, 0)
        at = Offsets(dict(zip(first.place.offsets, offsets, strict=True)))
        place = Place(at, Floor(floor))
        return lifecycle.first_look(load.name, instance="i", home_dag="d", place=place, topics=first.topics, now=0)

    return make


def planned(brokers, load, ledger, now):
    """How many offsets the next range spans; 0 where there is none."""
    found = ranges.plan(brokers, load.terms, ledger, now=now)
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
def test_a_record_of_the_future_keeps_nobody_waiting(brokers, poisoned, ledger_at, now, stands):
    load = OrderedLoad("orders", topics=[poisoned], start="earliest", min_offsets=3_000)
    ledger = ledger_at(load, [stands])
    for known in (True, False):
        verdict = ranges.verdict(brokers, load.terms, ledger, now, known=known)
        assert (verdict.run, verdict.reason) == (True, f"{3_001 - stands:,} offsets are there, 3,000 are enough")
    assert planned(brokers, load, ledger, now) == 3_001 - stands


def by_age(topic):
    return OrderedLoad("orders", topics=[topic], start="earliest", grace="0s", max_delay="15m", delay_from="oldest")


def test_a_delay_from_the_oldest_record_counts_from_the_first_one_that_can_be_read(
    brokers, topics, records, ledger_at, now
):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", now - 99 * MINUTE), Record(b"", now - 5 * MINUTE, 1)])
    with records.transaction() as aborted:
        aborted.produce(topic, [Record(b"", now - 60 * MINUTE), Record(b"", now - 60 * MINUTE, 1)])
        aborted.abort()
    with records.transaction() as done:
        done.produce(topic, [Record(b"", now - 7 * MINUTE), Record(b"", now - 30 * MINUTE)])
        done.commit()
    load, later = by_age(topic), now + MINUTE  # the markers are of this minute
    found = ranges.verdict(brokers, load.terms, ledger_at(load, [1, 0]), later)
    assert (found.run, found.due) == (False, now + 8 * MINUTE), "what was loaded, aborted or is no record does not wait"
    assert ranges.verdict(brokers, load.terms, ledger_at(load, [1, 0]), now + 8 * MINUTE).run
    assert ranges.verdict(brokers, load.terms, ledger_at(load, [0, 0]), later).run


def test_a_record_of_the_future_waits_since_the_last_cut_and_so_does_one_that_is_late(
    brokers, topics, records, ledger_at, now
):
    for time_of_it in (YEAR_2100, now - TWO_YEARS):
        topic = topics.create()
        records.produce(topic, [Record(b"", time_of_it)])
        load = by_age(topic)
        cut_before = ledger_at(load, [0], floor=now - 5 * MINUTE)
        found = ranges.verdict(brokers, load.terms, cut_before, now)
        assert (found.run, found.due) == (False, now + 10 * MINUTE)
        assert ranges.verdict(brokers, load.terms, ledger_at(load, [0]), now).run, "before the first run, it is old"


def test_where_brokers_give_the_timestamps_a_delay_counts_from_when_the_record_was_written(
    brokers, topics, records, ledger_at, now
):
    topic = topics.create(config={"message.timestamp.type": "LogAppendTime"})
    records.produce(topic, [Record(b"", now - TWO_YEARS)])
    load = by_age(topic)
    written = time.time_ns() // 1_000_000
    found = ranges.verdict(brokers, load.terms, ledger_at(load, [0]), written + MINUTE)
    assert not found.run
    assert now <= found.due - 15 * MINUTE <= written


def test_an_old_transaction_keeps_back_no_more_than_its_own_partition(brokers, topics, records, ledger_at, now):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", now - 60 * MINUTE + n) for n in range(50)])
    load = OrderedLoad("orders", topics=[topic], start="earliest", min_offsets=50)
    ledger = ledger_at(load, [0, 0], floor=now - 60 * MINUTE)
    with records.transaction() as past:
        past.produce(topic, [Record(b"", now - TWO_YEARS + n, 1) for n in range(10)])
        assert ranges.verdict(brokers, load.terms, ledger, now).run
        assert planned(brokers, load, ledger, now) == 50


def test_what_a_transaction_may_commit_in_time_is_waited_for_but_not_for_ever(brokers, topics, records, ledger_at, now):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", now - 60 * MINUTE + n) for n in range(50)])
    records.produce(topic, [Record(b"", now - 5 * MINUTE + n) for n in range(50)])
    load = OrderedLoad("orders", topics=[topic], start="earliest")
    ledger = ledger_at(load, [0, 0], floor=now - 60 * MINUTE)
    with records.transaction() as left_open:
        left_open.produce(topic, [Record(b"", now - TWO_YEARS, 1), Record(b"", now - 10 * MINUTE, 1)])
        assert planned(brokers, load, ledger, now) == 50
        assert planned(brokers, load, ledger, now + 11 * MINUTE) == 100
        impatient = OrderedLoad("orders", topics=[topic], start="earliest", transaction_wait="1m")
        assert planned(brokers, impatient, ledger, now) == 100
        behind = ledger_at(load, [50, 0], floor=now - 60 * MINUTE)
        assert ranges.plan(brokers, load.terms, behind, now=now) == NothingToLoad(
            "nothing to load: 50 offsets wait for an open transaction; open transactions hold 2 offsets back"
        )


def test_a_quick_look_asks_about_the_partitions_that_the_ledger_knows(brokers, topics, records, ledger_at, now):
    topic = topics.create()
    load = OrderedLoad("orders", topics=[topic], start="earliest")
    ledger = ledger_at(load, [0])
    topics.grow(topic, 2)
    records.produce(topic, [Record(b"", now - MINUTE, 1)])
    assert not ranges.verdict(brokers, load.terms, ledger, now, known=True).run
    assert ranges.verdict(brokers, load.terms, ledger, now).run
    end = ranges.plan(brokers, load.terms, ledger, now=now).end.offsets
    assert end[TopicPartition(topic, 1)] == 1


def test_a_replay_of_what_is_gone_is_refused_or_goes_on_without_it_and_says_so(brokers, topics, records, now):
    topic = topics.create()
    records.produce(topic, [Record(b"", 1)] * 5)
    records.delete_before(topic, {0: 2})
    asked = parse_start({topic: [0]}, "start"), parse_start("latest", "end")
    load = OrderedLoad("orders", topics=[topic])
    with pytest.raises(DataLossError) as caught:
        plan_replay(brokers, load.terms, asked, now=now)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 0, 0)
    found = plan_replay(brokers, replace(load, on_data_loss="count").terms, asked, now=now)
    assert (list(found.start.offsets.values()), found.offsets) == ([2], 3)
    assert "2 offsets" in found.reason


@pytest.mark.parametrize("idle", [False, True], ids=["records left", "an idle partition"])
def test_a_replay_from_a_time_at_a_log_start_is_refused_or_goes_on_and_says_so(brokers, topics, records, now, idle):
    topic = topics.create()
    records.produce(topic, [Record(b"", now - 10_000 + n) for n in range(5)])
    records.delete_before(topic, {0: 5 if idle else 2})
    asked = parse_start(now - 20_000, "start"), parse_start("latest", "end")
    load = OrderedLoad("orders", topics=[topic])
    with pytest.raises(DataLossError) as caught:
        plan_replay(brokers, load.terms, asked, now=now)
    assert (caught.value.partition, caught.value.offset) == (0, 5 if idle else 2)
    found = plan_replay(brokers, replace(load, on_data_loss="count").terms, asked, now=now)
    gone = Offsets({TopicPartition(topic, 0): 5 if idle else 2})
    assert Deleted(now - 20_000, maybe=gone, older=Offsets({})).remarks[0] in found.reason
    if not idle:
        later = parse_start(now - 9_997, "start"), asked[1]
        assert plan_replay(brokers, load.terms, later, now=now).offsets == 2


def test_a_replay_from_a_time_that_retention_keeps_uses_partitions_that_were_long_idle(brokers, topics, records, now):
    topic = topics.create(partitions=2, config={"retention.ms": 60 * MINUTE})
    records.produce(topic, [Record(b"", now - 10_000 + n) for n in range(5)])
    records.produce(topic, [Record(b"", now - 10_000, 1)])
    records.delete_before(topic, {0: 2, 1: 1})
    load = OrderedLoad("orders", topics=[topic])
    asked = parse_start(now - 20_000, "start"), parse_start("latest", "end")
    found = plan_replay(brokers, load.terms, asked, now=now)
    assert found.offsets == 3
    gone = Offsets({TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 1})
    assert Deleted(now - 20_000, maybe=Offsets({}), older=gone).remarks[0] in found.reason


def test_a_first_look_from_a_time_at_a_log_start_says_so(brokers, topics, records, now, caplog):
    topic = topics.create()
    records.produce(topic, [Record(b"", now - 10_000 + n) for n in range(5)])
    records.delete_before(topic, {0: 2})
    load = OrderedLoad("orders", topics=[topic], start="-1h")
    assert list(ranges.first_look(brokers, load.terms, now).place.offsets.values()) == [2]
    assert f"{topic}[0]@2" in caplog.text


def test_a_load_that_begins_in_the_middle_of_a_log_knows_which_log_it_was(brokers, topics, records, now):
    topic = topics.create(partitions=2)
    records.commit(topic, [Record(b"", now - 10), Record(b"", now - 5)])
    load = OrderedLoad("orders", topics=[topic], start="latest")
    first = ranges.first_look(brokers, load.terms, now)
    assert {p.partition: mark.offset for p, mark in first.place.marked.items()} == {0: 1}


def test_what_was_deleted_of_a_new_partition_is_in_the_next_range(brokers, topics, records, ledger_at, now):
    topic = topics.create()
    load = OrderedLoad("orders", topics=[topic], start="earliest")
    ledger = ledger_at(load, [0])
    topics.grow(topic, 2)
    records.produce(topic, [Record(b"", now - MINUTE, 1)] * 3)
    records.delete_before(topic, {1: 2})
    with pytest.raises(DataLossError) as caught:
        ranges.plan(brokers, load.terms, ledger, now=now)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 1, 0)
    found = ranges.plan(brokers, replace(load, on_data_loss="count").terms, ledger, now=now)
    assert (found.start.offsets[TopicPartition(topic, 1)], found.offsets) == (0, 3)


def test_what_retention_took_while_a_load_waits_is_told_before_anything_is_planned(
    brokers, topics, records, ledger_at, now
):
    topic = topics.create(partitions=3)
    load = OrderedLoad("orders", topics=[topic], start="earliest", min_offsets=100, max_delay="1h")
    ledger = ledger_at(load, [2, 0, 1])
    records.produce(topic, [Record(b"", now - MINUTE, p) for p in range(3) for _ in range(5)])
    records.delete_before(topic, {0: 2, 1: 1, 2: 4})  # of the first partition only what was loaded
    said = f"{topic}[1]@0, {topic}[2]@1, which is gone: the log starts at {topic}[1]@1, {topic}[2]@4, and 4 offsets"
    for asked in (ranges.verdict, ranges.plan):
        with pytest.raises(DataLossError, match=re.escape(said)) as caught:
            asked(brokers, load.terms, ledger, now=now)
        assert (caught.value.partition, caught.value.offset) == (1, 0)
    counting = replace(load, on_data_loss="count")
    assert ranges.verdict(brokers, counting.terms, ledger, now).reason.startswith("12 of 100 offsets are there")
    assert planned(brokers, counting, ledger, now) == 12


@pytest.mark.parametrize(("start", "begins"), [("latest", [3]), ("earliest", [0]), ("offsets", [2])])
def test_a_topic_that_is_added_begins_where_the_start_policy_says(brokers, topics, records, start, begins):
    old, added = topics.create(), topics.create()
    records.produce(old, [Record(b"", 1)])
    records.delete_before(old, {0: 1})
    records.produce(added, [Record(b"", 1)] * 3)
    policy = {old: [0], added: [2]} if start == "offsets" else start
    load = OrderedLoad("orders", topics=[old, added], start=policy)
    first = ranges.first_look(brokers, load.terms, 0, Named((added,)))
    assert list(first.place.offsets.values()) == begins
    assert list(first.topics) == [added]


def test_a_topic_that_a_pattern_comes_to_match_joins_at_its_earliest_offsets_and_is_said(
    brokers, topics, records, ledger_at, now
):
    one = topics.create("pattern-one")
    records.produce(one, [Record(b"", now - MINUTE)] * 3)
    load = OrderedLoad("orders", topics=re.compile(re.escape(one.partition("-1-")[0]) + ".*"), start="latest")
    ledger = ledger_at(load, [3])
    assert ranges.plan(brokers, load.terms, ledger, now=now) == NothingToLoad("nothing to load")
    other = topics.create("pattern-other")
    records.produce(other, [Record(b"", now - MINUTE)] * 5)
    records.delete_before(other, {0: 2})
    assert not ranges.verdict(brokers, load.terms, ledger, now, known=True).run
    assert ranges.verdict(brokers, load.terms, ledger, now).run
    found = ranges.plan(brokers, load.terms, ledger, now=now)
    assert found.start.offsets == {TopicPartition(one, 0): 3, TopicPartition(other, 0): 2}
    assert found.reason.endswith(
        f"new since the last run: '{other}', of which {other}[0]@2 is the earliest that there is"
    )


def test_a_topic_that_a_pattern_matches_no_more_is_an_error_until_the_pattern_leaves_it_out(
    brokers, topics, records, ledger_at, now
):
    one, other = topics.create("pattern-one"), topics.create("pattern-other")
    records.produce(one, [Record(b"", now - MINUTE)] * 3)
    load = OrderedLoad("orders", topics=re.compile(f"{re.escape(one)}|{re.escape(other)}"))
    ledger = ledger_at(load, [0, 0])
    topics.delete(other)
    with pytest.raises(UnknownTopicError) as gone:
        ranges.plan(brokers, load.terms, ledger, now=now)
    without = replace(load, topics=re.compile(re.search(r"re\.compile\(r'(.*)'\)", str(gone.value))[1]))
    assert ranges.plan(brokers, without.terms, ledger, now=now).offsets == 3


def test_chosen_partitions_alone_are_loaded_and_waited_for(brokers, topics, records, ledger_at, now):
    topic = topics.create(partitions=3)
    records.produce(topic, [Record(b"", now - MINUTE, n % 3) for n in range(9)])
    load = OrderedLoad("orders", topics={topic: [0, 2]}, start={topic: {"0": 1, "2": -2}})
    ledger = ledger_at(load, [1, 0])
    for known in (True, False):
        assert ranges.verdict(brokers, load.terms, ledger, now, known=known).waiting == 5
    found = ranges.plan(brokers, load.terms, ledger, now=now)
    assert found.end.offsets == {TopicPartition(topic, 0): 3, TopicPartition(topic, 2): 3}
    more = replace(load, topics={topic: [0, 1, 2]}, start="latest")
    first = ranges.first_look(brokers, more.terms, now, lacking(more.subscription, ledger.topics, ledger.place.offsets))
    assert first.place.offsets == {TopicPartition(topic, 1): 3}


def test_each_topic_starts_where_it_is_said_and_so_does_a_replay(brokers, topics, records, now):
    one, other = topics.create("one"), topics.create("other")
    for topic in (one, other):
        records.produce(topic, [Record(b"", now - 10 * MINUTE + n * MINUTE) for n in range(10)])
    start = {one: "earliest", other: "-4m30s"}
    load = OrderedLoad("orders", topics=[one, other], start=start)
    first = ranges.first_look(brokers, load.terms, now)
    assert first.place.offsets == {TopicPartition(one, 0): 0, TopicPartition(other, 0): 6}
    asked = parse_start(start, "start"), parse_start({one: [4], other: "latest"}, "end")
    found = plan_replay(brokers, load.terms, asked, now=now)
    assert found.start.offsets == first.place.offsets
    assert found.end.offsets == {TopicPartition(one, 0): 4, TopicPartition(other, 0): 10}
