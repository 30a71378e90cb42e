"""Durations, start policies and subscriptions, as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import says

from airflow_provider_orderedkafka.core.notation.spelling import format_duration, parse_duration
from airflow_provider_orderedkafka.core.notation.starts import (
    Ago,
    Committed,
    Earliest,
    Explicit,
    Latest,
    Moment,
    parse_moment,
    parse_start,
)
from airflow_provider_orderedkafka.core.notation.subscriptions import Assigned, Matching, Named, parse_subscription
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import SettingError

NOON = 1_769_860_800_000


def refused(parse, *arguments):
    with pytest.raises(SettingError) as caught:
        parse(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15m", 900_000),
        ("5s", 5_000),
        ("1h30m", 5_400_000),
        (" 1h 30m ", 5_400_000),
        ("2D", 172_800_000),
        ("250ms", 250),
        ("1s500ms", 1_500),
        ("0", 0),
        (0, 0),
        (timedelta(minutes=2), 120_000),
    ],
)
def test_a_duration_is_numbers_with_units(text, milliseconds):
    assert parse_duration(text, "grace") == milliseconds


@pytest.mark.parametrize(
    "value", ["", "m", "5", 5, 2.5, "-5s", "30m1h", "1.5h", "5 minutes", True, None, timedelta(-1)]
)
def test_anything_else_is_refused_with_what_is_allowed(value):
    said = refused(parse_duration, value, "grace")
    assert said.startswith("'grace' must be numbers with units")
    assert repr(value) in said


@pytest.mark.parametrize("value", ["15M", "1h30M", "250MS"])
def test_minutes_are_not_written_as_months_are(value):
    assert refused(parse_duration, value, "grace").endswith(f"did you mean {value.lower()!r}?")


@pytest.mark.parametrize("value", ["5", 5])
def test_a_bare_number_is_asked_for_its_unit(value):
    assert refused(parse_duration, value, "grace").endswith("a number alone has no unit; did you mean '5s' or '5m'?")


@given(st.integers(0, 10**12))
def test_a_printed_duration_reads_as_itself(milliseconds):
    assert parse_duration(format_duration(milliseconds), "grace") == milliseconds


@pytest.mark.parametrize(
    ("given_", "start", "said"),
    [
        ("earliest", Earliest(), "earliest"),
        (" Latest ", Latest(), "latest"),
        ("committed:billing", Committed("billing"), "committed:billing"),
        ("2026-01-31T12:00:00Z", Moment(NOON), "2026-01-31T12:00:00.000Z"),
        ("2026-01-31T13:00:00+01:00", Moment(NOON), "2026-01-31T12:00:00.000Z"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), Moment(NOON), "2026-01-31T12:00:00.000Z"),
        (datetime(2026, 1, 31, 7, tzinfo=timezone(-timedelta(hours=5))), Moment(NOON), "2026-01-31T12:00:00.000Z"),
        (NOON, Moment(NOON), "2026-01-31T12:00:00.000Z"),
        (str(NOON), Moment(NOON), "2026-01-31T12:00:00.000Z"),
        ("-2h", Ago(7_200_000), "-2h"),
        ("-1h30m", Ago(5_400_000), "-1h30m"),
    ],
)
def test_a_start_policy_reads_and_prints(given_, start, said):
    assert parse_start(given_, "start") == start
    assert str(start) == said


def test_a_time_ago_is_a_moment_once_now_is_known():
    assert Ago(7_200_000).at(NOON) == Moment(NOON - 7_200_000)
    assert Ago(7_200_000).at(5) == Moment(0)


@pytest.mark.parametrize(
    "given_",
    [
        {"orders": [23, -2, -1]},
        '{"orders": [23, -2, -1]}',
        {"orders": {"0": 23, "1": -2, "2": -1}},
        '{"orders": {"2": -1, "0": 23, "1": -2}}',
    ],
)
def test_offsets_read_from_arrays_and_as_spark_writes_them(given_):
    start = parse_start(given_, "startingOffsets")
    assert start == Explicit(tuple((TopicPartition("orders", p), o) for p, o in enumerate([23, -2, -1])))
    assert str(start) == "orders[0]@23, orders[1]@earliest, orders[2]@latest"


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ('{"orders": [1,, 2]}', "'start' ... JSON ... line 1, column 15, "),
        ('{"orders": [1]', "'start' ... JSON ... line 1, column 15"),
        ('{"orders": [1], "orders": [2]}', "'start': 'orders'"),
        ("{}", "'start' ... {}"),
        ({"orders": 5}, "'start.orders' ... 5"),
        ({"orders": [-3]}, "'start.orders[0]' ... -2 ... -1 ... -3"),
        ({"orders": [None]}, "'start.orders[0]' ... None"),
        ({"orders": [True]}, "'start.orders[0]' ... True"),
        ({"orders": {"one": 5}}, "'start.orders' ... 'one'"),
        ({"orders": {"01": 5}}, "'start.orders' ... '01'"),
        ("2026-01-31T12:00:00", "'start' ... '2026-01-31T12:00:00' ... Z"),
        (datetime(2026, 1, 31), "'start' ... 2026 ... Z"),  # noqa: DTZ001 - a time without a zone is what is refused
        ("1969-12-31T00:00:00Z", "'start' ... 1970 ... '1969-12-31T00:00:00Z'"),
        ("yesterday", "'start' ... 'earliest', 'latest', 'committed:<group>', ... 'yesterday'"),
        ("committed:", "'start' ... 'earliest', 'latest', 'committed:<group>', ... 'committed:'"),
        (-5, "'start' ... 'earliest', 'latest' ... -5"),
        (10**18, "'start' ... 'earliest', 'latest' ... 1000000000000000000"),
        (None, "'start' ... 'earliest', 'latest' ... None"),
        (True, "'start' ... 'earliest', 'latest' ... True"),
        ("-2", "'start' ... '-2'; ... 'earliest' or 'latest'"),
        ("-soon", "'start' ... '-2h' ... '-soon'"),
        (1769860800, "'start' ... 1769860800, ... 1970-01-21 ... 2026-01-31T12:00:00.000Z"),
        (20260131, "'start' ... '2026-01-31T12:00:00Z' ... 20260131, ... 1970-01-01"),
        ("20260131", "'start' ... '2026-01-31T12:00:00Z' ... 20260131, ... 1970-01-01"),
        ({"orders": "1769860800"}, "'start.orders' ... 1769860800 ... 2026-01-31T12:00:00.000Z"),
    ],
)
def test_a_wrong_start_is_refused_with_its_place_and_what_is_allowed(given_, said):
    assert says(refused(parse_start, given_, "start"), said)


def test_a_timestamp_option_takes_moments_alone():
    assert parse_moment(str(NOON), "startingTimestamp") == Moment(NOON)
    said = refused(parse_moment, "earliest", "startingTimestamp")
    assert said.startswith("'startingTimestamp' must be a moment with a time zone, such as '2026-01-31T12:00:00Z'")


@pytest.mark.parametrize(
    ("kind", "text", "subscription"),
    [
        ("subscribe", "orders, refunds,orders", Named(("orders", "refunds"))),
        ("subscribePattern", "orders-.*", Matching("orders-.*")),
        (
            "assign",
            '{"b": [1], "a": [2, 0, 0]}',
            Assigned(tuple(TopicPartition(*p) for p in [("a", 0), ("a", 2), ("b", 1)])),
        ),
    ],
)
def test_a_subscription_reads(kind, text, subscription):
    assert parse_subscription(kind, text) == subscription


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("subscribe", " , ", "'subscribe' ... 'orders,refunds', ... ' , '"),
        ("subscribePattern", "orders(", "'subscribePattern' ... 'orders(': "),
        ("subscribePattern", "", "'subscribePattern' ... ''"),
        ("assign", "orders", "'assign' ... JSON ... line 1, column 1, ... 'orders'"),
        ("assign", "[]", "'assign' ... []"),
        ("assign", '{"a": []}', "'assign.a' ... []"),
        ("assign", '{"a": [-1]}', "'assign.a' ... [0, 1], ... [-1]"),
        ("assign", '{"a": [true]}', "'assign.a' ... [True]"),
    ],
)
def test_a_wrong_subscription_is_refused(kind, text, said):
    assert says(refused(parse_subscription, kind, text), said)
