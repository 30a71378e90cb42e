"""What is the next range: what waits for it, what it is refused for, what is said where there is none yet."""

from dataclasses import replace

import pytest
from support.simulated_log import Entry, SimulatedLog

from airflow_provider_orderedkafka.core.next_range import Ends, NothingToLoad, Survey, cut_time, next_place
from airflow_provider_orderedkafka.core.notation.starts import Earliest
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Named, Topic
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Pace
from airflow_provider_orderedkafka.core.terms import NEW_CHECKPOINT, Terms, rewinding
from airflow_provider_orderedkafka.errors import DataLossError, TopicChangedError, UnknownTopicError

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
    [
        (0, None, NOW),
        (30, None, 70),
        (30, 60, 60),
        (30, 80, 70),
        (30, 5, 10),
        (NOW + 1, None, 0),
        (None, 60, None),
    ],
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


LOG = SimulatedLog({FIRST: [Entry(n, 10 * n) for n in range(10)], SECOND: []})


@pytest.mark.parametrize(
    ("terms", "open_since", "stands", "said"),
    [
        (TERMS, None, 10, "nothing to load"),
        (replace(TERMS, grace=50), None, 6, "nothing to load: 4 offsets are younger than the grace of 50ms"),
        (replace(TERMS, grace=0), 60, 6, "nothing to load: 4 offsets wait for an open transaction"),
        (replace(TERMS, end_time=50), None, 6, "nothing to load: 4 offsets are not older than the end that is set"),
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
REWINDING = rewinding("orders")


@pytest.mark.parametrize(
    ("way_out", "out"),
    [(REWINDING, "rewind orders --topic orders --to earliest"), (NEW_CHECKPOINT, "start with a new checkpoint")],
    ids=["a ledger", "a stream"],
)
def test_a_topic_that_was_created_again_is_refused_with_where_one_stands_and_the_way_out(way_out, out):
    with pytest.raises(TopicChangedError, match=rf"was old-id, now it is new-id.*orders\[0\]@5, orders\[1\]@5.*{out}"):
        seen().check(PLACE, {"orders": "old-id"}, way_out)


@pytest.mark.parametrize(
    ("way_out", "out"),
    [(REWINDING, "load 'orders' stands at .*rewind orders .*--to latest"), (NEW_CHECKPOINT, "new checkpoint")],
    ids=["a ledger", "a stream"],
)
def test_a_log_that_ends_below_the_place_is_refused_by_what_is_written(way_out, out):
    with pytest.raises(DataLossError, match=out):
        seen(ends={FIRST: 5, SECOND: 4}).check(PLACE, {"orders": "new-id"}, way_out)
    behind = replace(seen(), ends=Ends(Offsets({FIRST: 4}), written=Offsets({FIRST: 5}), held_back=1))
    behind.check(PLACE, {"orders": "new-id"}, way_out)


def test_a_topic_that_is_left_out_is_refused():
    with pytest.raises(UnknownTopicError, match=r"'refunds' is not among what is read any more.*new checkpoint"):
        seen().check(PLACE, {"refunds": "id"}, NEW_CHECKPOINT)
