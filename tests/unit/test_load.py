"""What an `OrderedLoad` accepts, and what it says about what it does not."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core.notation.starts import Ago, Earliest, Explicit, Moment
from airflow_provider_orderedkafka.core.notation.subscriptions import Assigned, Matching, Named
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import SettingError


def test_topics_are_sorted_and_a_single_one_may_stand_alone():
    assert OrderedLoad("orders", topics=["refunds", "orders", "orders"]).topics == ("orders", "refunds")
    assert OrderedLoad("orders", topics="orders").topics == ("orders",)


def test_durations_are_read_once_for_everybody():
    load = OrderedLoad("orders", topics=["orders"], max_delay="15m", grace=timedelta(seconds=2))
    terms = load.terms
    assert (terms.pace.max_delay, terms.grace, terms.future_tolerance) == (900_000, 2_000, 300_000)


@pytest.mark.parametrize(
    ("start", "policy"),
    [
        ("earliest", Earliest()),
        ("-2h", Ago(7_200_000)),
        ({"orders": [3]}, Explicit(((TopicPartition("orders", 0), 3),))),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), Moment(1_000)),
    ],
)
def test_a_start_is_read_when_it_is_said(start, policy):
    assert OrderedLoad("orders", topics=["orders"], start=start).start_policy == policy


@pytest.mark.parametrize("connection", ["", None])
def test_a_load_names_the_connection_that_it_reads_by(connection):
    with pytest.raises(SettingError, match="kafka_conn_id"):
        OrderedLoad("orders", topics=["orders"], kafka_conn_id=connection)


@pytest.mark.parametrize("delay", ["15m", timedelta(days=1_000_000)])
def test_a_load_survives_the_way_to_a_trigger(delay):
    load = OrderedLoad(
        "orders", topics=["orders"], min_offsets=5, max_delay=delay, delay_from="oldest", grace="1s", row_limit=9
    )
    again = OrderedLoad.from_json(load.to_json())
    assert (again.pace, again.topics, again.grace_ms, again.row_limit) == (load.pace, load.topics, 1_000, 9)


@pytest.mark.parametrize(
    ("topics", "subscription", "named"),
    [
        (["b", "a"], Named(("a", "b")), ("a", "b")),
        (re.compile(r"orders-[a-z]{2}"), Matching(r"orders-[a-z]{2}"), ()),
        (re.compile("ORDERS", re.IGNORECASE), Matching("(?i:ORDERS)"), ()),
        (
            {"orders": [3, 0], "refunds": range(2)},
            Assigned(
                tuple(TopicPartition(*each) for each in (("orders", 0), ("orders", 3), ("refunds", 0), ("refunds", 1)))
            ),
            ("orders", "refunds"),
        ),
    ],
    ids=["names", "a pattern", "a pattern with a flag", "partitions"],
)
def test_topics_are_names_a_pattern_or_partitions_also_in_a_trigger(topics, subscription, named):
    loads = [OrderedLoad("orders", topics=topics) for _ in range(2)]
    again = OrderedLoad.from_json(json.loads(json.dumps(loads[0].to_json())))
    assert {*loads, again} == {loads[0]}
    assert (again.subscription, again.named) == (subscription, named)


def test_each_topic_may_have_a_start_of_its_own():
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    start = {"orders": "earliest", "metrics": "-1h", "clicks": at, "views": [3]}
    load = OrderedLoad("orders", topics=list(start), start=start)
    views = Explicit(((TopicPartition("views", 0), 3),))
    assert dict(load.start_policy.starts) == {
        "orders": Earliest(),
        "metrics": Ago(3_600_000),
        "clicks": Moment(1_000),
        "views": views,
    }
    assert {load} == {OrderedLoad("orders", topics=list(start), start=start)}


def test_a_pattern_that_leaves_a_topic_out_is_what_the_error_about_it_says():
    way_out = OrderedLoad("orders", topics=re.compile(r"orders-[a-z]{2}|orders-eu")).terms.way_out.left_out.format(
        topic="orders-eu"
    )
    pattern = re.compile(re.search(r"re\.compile\(r'(.*)'\)", way_out)[1])
    assert [name for name in ("orders-eu", "orders-us", "orders") if pattern.fullmatch(name)] == ["orders-us"]
