"""What is the next range: what waits for it, what it is refused for, what is said where there is none yet."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import naming
from support.simulated_log import Entry, SimulatedLog

from airflow_provider_orderedkafka.core.next_range import (
    Ends,
    NothingToLoad,
    Survey,
    cut_time,
    deleted_at,
    next_place,
    verdict,
)
from airflow_provider_orderedkafka.core.notation.starts import Earliest, Moment
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Named, Topic
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import NEW_CHECKPOINT, Pace, Since, Terms, rewinding
from airflow_provider_orderedkafka.errors import DataLossError, TopicChangedError, UnknownTopicError, UnreachableError

NOW, WAIT = 100, 90
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
TERMS = Terms(
    load="orders",
    subscription=Named(("orders",)),
    start=Earliest(),
    transaction_wait=WAIT,
    future_tolerance=1_000,
    isolation="read_committed",
    on_data_loss="fail",
    include_headers=True,
    pace=Pace(),
)


def seen(open_since=None, ends=None, *, fixed=False, held_back=0):
    found = Discovery("cluster", (Topic("orders", "new-id", 2, compacted=False),), (FIRST, SECOND))
    there = Offsets(ends or {})
    return Survey(NOW, NOW + 1_000, found, Ends(there, there, held_back, open_since), Offsets(), fixed)


@pytest.mark.parametrize(
    ("grace", "open_since", "cut"),
    [(0, None, NOW), (30, None, 70), (30, 60, 60), (30, 80, 70), (30, 5, 10), (NOW + 1, None, 0), (None, 60, None)],
    ids=[
        "no grace",
        "a grace",
        "an open transaction",
        "a young transaction",
        "a transaction that is not waited for any longer",
        "a grace longer than time",
        "no bound at all",
    ],
)
def test_a_range_ends_before_what_is_young_and_before_what_open_transactions_began_with(grace, open_since, cut):
    assert cut_time(seen(open_since), replace(TERMS, grace=grace)) == cut


@pytest.mark.parametrize(("grace", "cut"), [(None, 40), (30, 40), (70, 30)])
def test_an_end_time_and_a_grace_hold_together(grace, cut):
    assert cut_time(seen(), replace(TERMS, grace=grace, end_time=40)) == cut


def test_an_end_that_is_asked_for_is_never_too_young():
    assert cut_time(seen(open_since=1, fixed=True), replace(TERMS, grace=30)) is None


@pytest.mark.parametrize(
    ("grace", "open_since"), [(0, None), (30, None), (30, 60)], ids=["no grace", "a grace", "an open transaction"]
)
@pytest.mark.parametrize(
    "floor", [Floor(500), Floor(5_000), Floor(500, SECOND)], ids=["within the tolerance", "beyond it", "inside a tie"]
)
def test_nothing_waits_for_the_clock_to_reach_a_place_that_is_ahead_of_it(floor, grace, open_since):
    terms, place = replace(TERMS, grace=grace), Place(Offsets({FIRST: 0, SECOND: 0}), floor)
    survey = seen(open_since, LOG.ends())
    assert verdict(LOG, place, survey, terms, Since(0, NOW)).waiting == 10
    assert dict(next_place(LOG, place, survey, terms).offsets) == {FIRST: 10, SECOND: 0}


def test_an_end_time_holds_behind_a_place_that_is_ahead_of_the_clock():
    place = Place(Offsets({FIRST: 0, SECOND: 0}), Floor(500))
    found = next_place(LOG, place, seen(ends=LOG.ends()), replace(TERMS, grace=0, end_time=40))
    assert found == NothingToLoad("nothing to load: 10 offsets are at or after the end that is set")


LOG = SimulatedLog({FIRST: [Entry(n, 10 * n) for n in range(10)], SECOND: []})


@pytest.mark.parametrize(
    ("terms", "open_since", "stands", "said"),
    [
        (TERMS, None, 10, "nothing to load"),
        (replace(TERMS, grace=50), None, 6, "nothing to load: 4 offsets are younger than the grace of 50ms"),
        (replace(TERMS, grace=0), 60, 6, "nothing to load: 4 offsets wait for an open transaction"),
        (replace(TERMS, end_time=50), None, 6, "nothing to load: 4 offsets are at or after the end that is set"),
    ],
    ids=["nothing new", "young", "an open transaction", "beyond the end"],
)
def test_where_there_is_no_next_range_it_is_said_why(terms, open_since, stands, said):
    place = Place(Offsets({FIRST: stands, SECOND: 0}), Floor())
    assert next_place(LOG, place, seen(open_since, LOG.ends()), terms) == NothingToLoad(said)


def test_what_transactions_hold_back_is_said_too():
    place = Place(Offsets({FIRST: 10, SECOND: 0}), Floor())
    found = next_place(LOG, place, seen(ends=LOG.ends(), held_back=7), TERMS)
    assert found == NothingToLoad("nothing to load; open transactions hold 7 offsets back")


PLACE = Place(Offsets({FIRST: 5, SECOND: 5}), Floor())
REWINDING = rewinding("orders", Named(("orders",)))


@pytest.mark.parametrize(
    ("way_out", "out"),
    [(REWINDING, "`orderedkafka ledger rewind orders --topic orders --to earliest"), (NEW_CHECKPOINT, "checkpoint")],
    ids=["a ledger", "a stream"],
)
def test_a_topic_that_was_created_again_is_refused_with_where_one_stands_and_the_way_out(way_out, out):
    with pytest.raises(TopicChangedError, match=naming(f"old-id ... new-id ... orders[0]@5, orders[1]@5 ... {out}")):
        seen().check(PLACE, {"orders": "old-id"}, way_out)


@pytest.mark.parametrize(
    ("way_out", "out"),
    [(REWINDING, "load 'orders' ... ledger rewind orders --topic orders --to latest"), (NEW_CHECKPOINT, "checkpoint")],
    ids=["a ledger", "a stream"],
)
def test_a_log_that_ends_below_the_place_is_refused_by_what_is_written(way_out, out):
    with pytest.raises(DataLossError, match=naming(out)):
        seen(ends={FIRST: 5, SECOND: 4}).check(PLACE, {"orders": "new-id"}, way_out)
    behind = replace(seen(), ends=Ends(Offsets({FIRST: 4}), written=Offsets({FIRST: 5}), held_back=1))
    behind.check(PLACE, {"orders": "new-id"}, way_out)


def test_a_topic_that_is_left_out_is_refused():
    with pytest.raises(UnknownTopicError) as error:
        seen().check(PLACE, {"refunds": "id"}, NEW_CHECKPOINT)
    assert error.value.topic == "refunds"


def test_a_new_partition_starts_at_0_in_a_topic_that_is_known_and_where_its_log_does_in_one_that_is_new():
    there = replace(seen(ends={FIRST: 9, SECOND: 90}), starts=Offsets({FIRST: 2, SECOND: 60}))
    assert dict(there.span(Place(Offsets({FIRST: 5}), Floor())).start) == {FIRST: 5, SECOND: 0}
    assert dict(there.span(Place(Offsets({TopicPartition("refunds", 0): 5}), Floor())).start) == {FIRST: 2, SECOND: 60}


HOUR = 3_600_000
BY_TIME = {"cleanup.policy": "delete", "retention.ms": str(8 * HOUR), "retention.bytes": "-1"}


def deleted(*entries, starts_at=5, time=HOUR, settings=BY_TIME, now=9 * HOUR):
    """What is known of a partition whose log starts there, with these timestamps."""
    log = SimulatedLog({FIRST: [Entry(starts_at + n, each, visible) for n, (each, visible) in enumerate(entries)]})
    topic = Topic("orders", "id", 1, compacted=False, settings=settings)
    found = deleted_at(log, Offsets({FIRST: starts_at}), [topic], time, now)
    return bool(found.maybe), bool(found.older)


KNOWN, MAYBE, OLDER = (False, False), (True, False), (False, True)


@pytest.mark.parametrize(
    ("entries", "change", "found"),
    [
        ([(HOUR, True)], {"starts_at": 0}, KNOWN),
        ([(HOUR - 1, True), (HOUR, True)], {}, KNOWN),
        ([(HOUR - 1, False), (HOUR, True)], {}, KNOWN),
        ([(HOUR - 1, True)], {}, KNOWN),
        ([(HOUR, True)], {}, OLDER),
        ([(HOUR, True)], {"now": 9 * HOUR + 1}, MAYBE),
        ([(HOUR, True)], {"settings": {**BY_TIME, "retention.bytes": "1000"}}, MAYBE),
        ([(HOUR, True)], {"settings": {**BY_TIME, "retention.ms": "-1"}}, MAYBE),
        ([(HOUR, True)], {"settings": {**BY_TIME, "cleanup.policy": "compact"}}, MAYBE),
        ([(HOUR, True)], {"settings": {}}, MAYBE),
        ([(HOUR, True)], {"time": 0}, MAYBE),
        ([], {}, OLDER),
        ([], {"settings": {**BY_TIME, "retention.bytes": "1000"}}, OLDER),
        ([], {"now": 9 * HOUR + 1}, MAYBE),
        ([], {"settings": {}}, MAYBE),
    ],
    ids=[
        "nothing was deleted",
        "an older record is there",
        "an older marker is there",
        "all that is there is older",
        "retention by time keeps for longer",
        "retention by time deletes what was asked for",
        "retention by size",
        "retention keeps for ever, so somebody deleted",
        "a topic that is only compacted, so somebody deleted",
        "settings that may not be read",
        "the beginning of time",
        "an idle partition, by time",
        "an idle partition, which retention by size never empties",
        "an idle partition, which may have had what was asked for",
        "an idle partition, and settings that may not be read",
    ],
)
def test_where_a_time_falls_on_a_log_start_what_may_be_gone_is_said_unless_it_was_surely_older(entries, change, found):
    assert deleted(*entries, **change) == found


def test_settings_that_were_raised_since_are_taken_for_what_they_always_were_and_the_remark_says_so():
    """A partition that was idle, and one whose records of that time went before the change, look the same."""
    log = SimulatedLog({FIRST: [Entry(5, 2 * HOUR)]})
    topic = Topic("orders", "id", 1, compacted=False, settings=BY_TIME)
    [remark] = deleted_at(log, Offsets({FIRST: 5}), [topic], HOUR, 9 * HOUR).remarks
    assert remark.endswith(f"are older than {Moment(HOUR)}, if retention was never changed")


def test_a_broker_that_knows_fewer_partitions_than_were_loaded_is_asked_again():
    place = Place(Offsets({FIRST: 5, TopicPartition("orders", 7): 0}), Floor())
    with pytest.raises(UnreachableError, match=r"orders\[7\]@0") as refused:
        seen().check(place, {"orders": "new-id"}, REWINDING)
    assert refused.value.retryable


entries = st.lists(st.tuples(st.sampled_from([-1, 5, 20, 60, 99, 5_000]), st.booleans()), max_size=5)
BY_AGE = replace(TERMS, pace=Pace(None, 30, "oldest"))


@given(entries, entries, st.integers(0, 5), st.integers(0, 5), st.sampled_from([-1, 10, 50]))
def test_the_oldest_record_that_waits_is_the_first_one_in_the_order(first, second, stands, also, floor):
    there = {p: [Entry(n, *each) for n, each in enumerate(found)] for p, found in ((FIRST, first), (SECOND, second))}
    begin = {FIRST: min(stands, len(first)), SECOND: min(also, len(second))}
    latest = seen().latest
    waits = [next((e for e in found if e.visible and e.offset >= begin[p]), None) for p, found in there.items()]
    times = [max(e.timestamp if 0 <= e.timestamp <= latest else -1, floor) for e in waits if e is not None]
    survey = seen(ends={p: len(found) for p, found in there.items()})
    found = verdict(SimulatedLog(there), Place(Offsets(begin), Floor(floor)), survey, BY_AGE, Since(0, NOW))
    assert found.due == (min(times) + 30 if times else None)
    assert found.run == (bool(times) and min(times) + 30 <= NOW)


def test_the_age_of_a_record_counts_from_its_own_time_behind_a_place_that_is_ahead_of_the_clock():
    survey = seen(ends={FIRST: 1, SECOND: 0})
    log, place = SimulatedLog({FIRST: [Entry(0, 90)], SECOND: []}), Place(Offsets({FIRST: 0, SECOND: 0}), Floor(500))
    assert verdict(log, place, survey, BY_AGE, Since(0, NOW)).due == 120


def test_the_first_record_of_a_partition_is_read_once_while_a_load_waits_however_many_there_are():
    everywhere = [TopicPartition("orders", n) for n in range(1_000)]
    log = SimulatedLog({p: [Entry(0, 90, visible=n % 2 == 0)] for n, p in enumerate(everywhere)})
    begin, ends = Place(Offsets(dict.fromkeys(everywhere, 0)), Floor()), dict.fromkeys(everywhere, 1)
    firsts = {}

    def looked(place=begin):
        before = log.looks
        found = verdict(log, place, seen(ends=ends), BY_AGE, Since(0, NOW), firsts=firsts)
        return log.looks - before, found.due

    assert looked() == (1_000, 120)
    assert looked() == (500, 120)  # where there were markers alone
    log.entries[everywhere[1]].append(Entry(1, 80))
    ends[everywhere[1]] = 2
    assert looked() == (500, 110)
    assert looked() == (499, 110)
    log.entries[everywhere[0]].append(Entry(1, 70))
    ends[everywhere[0]] = 2
    assert looked(Place(begin.offsets.updated({everywhere[0]: 1}), Floor())) == (500, 100)


def test_nobody_reads_a_record_where_the_number_of_offsets_decides():
    log, survey = (
        SimulatedLog({FIRST: [Entry(n, 99) for n in range(10)], SECOND: []}),
        seen(ends={FIRST: 10, SECOND: 0}),
    )
    for pace in (Pace(10, 30, "oldest"), Pace(None, 30), Pace(11, 30)):
        verdict(log, Place(Offsets({FIRST: 0, SECOND: 0}), Floor()), survey, replace(TERMS, pace=pace), Since(0, NOW))
        assert log.looks == 0
