"""What an `OrderedLoad` accepts, and what it says about what it does not."""

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core.notation.starts import Ago, Earliest, Explicit, Moment
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "my load"}, ["my load", "letters, digits"]),
        ({"topics": []}, ["names no topics"]),
        ({"topics": ["a b"]}, ["'a b'", "cannot be a topic's name"]),
        ({"min_offsets": 0}, ["min_offsets", "from 1 on", "found 0"]),
        ({"max_offsets": "5"}, ["max_offsets", "found '5'"]),
        ({"min_offsets": 10, "max_offsets": 5}, ["min_offsets=10", "max_offsets=5", "lower min_offsets or raise"]),
        ({"max_delay": 900}, ["max_delay", "'900s'"]),
        ({"max_delay": "0s"}, ["max_delay", "leave min_offsets out"]),
        ({"start": "yesterday"}, ["start", "'yesterday'", "earliest"]),
        ({"start": datetime(2026, 1, 1)}, ["start", "time zone"]),  # noqa: DTZ001 - that is what is wrong with it
        ({"on_data_loss": "ignore"}, ["on_data_loss", "'fail' or 'count'", "'ignore'"]),
        ({"isolation": "serializable"}, ["isolation", "'serializable'"]),
    ],
)
def test_an_error_names_the_setting_what_was_found_and_the_way_out(arguments, words):
    with pytest.raises(SettingError) as error:
        OrderedLoad(**{"name": "orders", "topics": ["orders"], **arguments})
    for word in words:
        assert word in str(error.value)


def test_a_load_survives_the_way_to_a_trigger():
    load = OrderedLoad("orders", topics=["orders"], min_offsets=5, max_delay="15m", grace="1s", row_limit=9)
    again = OrderedLoad.from_json(load.to_json())
    assert (again.pace, again.topics, again.grace_ms, again.row_limit) == (load.pace, load.topics, 1_000, 9)


def test_a_load_can_be_a_key_and_is_equal_by_value():
    loads = [OrderedLoad("a", topics=["t"], start={"t": [3]}) for _ in range(2)]
    assert set(loads) == {loads[0]}
