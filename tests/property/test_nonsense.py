"""Whatever is given: it is refused in words of ours, or it is read, and read again from what it is printed as."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.documents import DOCUMENTS

from airflow_provider_orderedkafka.core.notation.spelling import format_duration, parse_duration
from airflow_provider_orderedkafka.core.notation.starts import Explicit, Start, parse_moment, parse_start
from airflow_provider_orderedkafka.core.notation.subscriptions import Assigned, Matching, Named, parse_subscription
from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.kafka.provenance import HEADER, read_provenance
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE
from airflow_provider_orderedkafka.spark.application.command import read_arguments
from airflow_provider_orderedkafka.spark.connector import options
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, SOURCE

GOLDEN = Path(__file__).parents[1] / "golden"

SENSE = [
    *("15m", "1h30m", "0", "250ms", "-2h", "earliest", "latest", "committed:some group", "1769860800000"),
    *("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456+02:00", "0001-01-01T00:00:00+14:00"),
    *("9999-12-31T23:59:59-12:00", '{"orders": [23, 0, -2]}', '{"orders": {"0": 23, "10": -1}}', '{"orders": [0, 1]}'),
    *("orders,refunds", "orders-.*", "true", "False", "100000", "read_committed", "broker:9092", "json:loads", "a=b"),
    *((GOLDEN / "v1" / f"{name}.json").read_text("utf-8").strip() for name in ("range", "range-unbounded")),
]
PIECES = ["", " ", "0", "9", "-", ":", ",", "=", "{", "}", "[", "]", '"', "\\", "(", "*", "a{9}", "٣", "²", "ä", "\n"]
LARGE = ["\0", "\ud800", "9" * 30, "9" * 5_000, "[" * 20_000, "(" * 2_000, "a{99999999999999999999}", "1e400", "NaN"]


@st.composite
def edited(draw, texts=SENSE):
    """What makes sense, with some of it gone and other things in between; or anything."""
    text = draw(st.sampled_from(texts) | st.text(max_size=12))
    for _ in range(draw(st.integers(0, 3))):
        at, gone = draw(st.integers(0, len(text))), draw(st.integers(0, 4))
        text = text[:at] + draw(st.sampled_from(PIECES) | st.sampled_from(LARGE)) + text[at + gone :]
    return text


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(2**63) | st.floats() | edited(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
anything = values | st.binary(max_size=5) | st.datetimes() | st.timedeltas() | st.datetimes(timezones=st.just(UTC))


@dataclass(frozen=True)
class Refused:
    """What was given is refused, in words of ours."""

    words: str


class Helped:
    """Help was asked for, and given."""


def outcome(read):
    """What is read; nothing but an error of ours, or help, may come instead."""
    try:
        return read()
    except OrderedKafkaError as error:
        return Refused(str(error))
    except SystemExit as ended:
        if ended.code != 0:
            raise
        return Helped()


def printed(start: Start) -> object:
    """A start as a person would say it."""
    if not isinstance(start, Explicit):
        return str(start)
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in start.offsets:
        found.setdefault(topic, {})[str(partition)] = offset
    return found


@given(anything)
def test_a_duration(value):
    found = outcome(lambda: parse_duration(value, "grace"))
    if isinstance(found, Refused):
        return
    assert parse_duration(format_duration(found), "grace") == found
    assert timedelta(milliseconds=found) >= timedelta()


@given(anything)
def test_a_start(value):
    found = outcome(lambda: parse_start(value, "start"))
    if isinstance(found, Refused):
        return
    assert parse_start(printed(found), "start") == found


@given(anything)
def test_a_moment(value):
    found = outcome(lambda: parse_moment(value, "startingTimestamp"))
    if isinstance(found, Refused):
        return
    assert parse_moment(str(found), "startingTimestamp") == found
    assert parse_moment(found.time, "startingTimestamp") == found


@pytest.mark.filterwarnings("ignore:Possible (nested set|set)")  # re's own, and no refusal
@given(st.sampled_from(options.SUBSCRIPTIONS), edited())
def test_a_subscription(kind, text):
    found = outcome(lambda: parse_subscription(kind, text))
    if isinstance(found, Refused):
        return
    match found:
        case Named(topics):
            again = ",".join(topics)
        case Matching(pattern):
            again = pattern
        case Assigned(partitions):
            numbers = {topic: [p.partition for p in partitions if p.topic == topic] for topic, _ in partitions}
            again = json.dumps(numbers)
    assert parse_subscription(kind, again) == found


SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
names = st.sampled_from([*SOURCE.parsers, *APPLICATION_SINK.parsers, *SOURCE.instead, "kafka.client.id", "Subscribe"])
given_options = st.dictionaries(names, edited(), max_size=4).map(lambda found: {**SERVERS, **found})


@pytest.mark.filterwarnings("ignore:Possible (nested set|set)")
@given(st.sampled_from(sorted(SOURCE.parsers)), edited())
def test_an_option_of_the_source(name, text):
    found = outcome(lambda: SOURCE.parsers[name](text, name))
    if isinstance(found, Refused):
        return
    if type(found) is int:
        assert 0 <= found < 2**63


@pytest.mark.filterwarnings("ignore:Possible (nested set|set)")
@given(given_options, st.booleans())
def test_options_of_the_source_together(found, stream):
    asked = outcome(lambda: options.parse_options(found, stream=stream))
    if isinstance(asked, Refused):
        return
    assert options.parse_options({name.lower(): text for name, text in found.items()}, stream=stream) == asked
    assert (asked.range is None) != (asked.subscription is None)


@given(given_options, st.lists(st.tuples(st.sampled_from(["key", "value", "topic"]), st.just("binary")), max_size=3))
def test_options_of_the_sink_together(found, columns):
    asked = outcome(lambda: options.parse_sink_options(found, columns))
    if isinstance(asked, Refused):
        return
    assert asked.topic is None or not asked.output_topics


ARGUMENTS = ("--range", "--option", "--row-limit", "--transform", "--arrow-transform", "--output-topic", "--report")
arguments = st.lists(
    st.sampled_from([*ARGUMENTS, "--sink-option", "--checkpoint", "--attempt", "--help", "--opt", "-h"]) | edited(),
    max_size=8,
)
CLUSTER = ("--checkpoint", "/c", "--option", "kafka.bootstrap.servers=broker:9092")
sources = st.sampled_from([CLUSTER, (*CLUSTER, "--option", "subscribe=orders")])


@given(sources, arguments, st.none() | edited().filter(lambda text: "\0" not in text and text.isascii()))
def test_a_command_line(source, argv, environment):
    with pytest.MonkeyPatch.context() as monkey:
        monkey.delenv(OPTIONS_VARIABLE, raising=False)
        if environment is not None:
            monkey.setenv(OPTIONS_VARIABLE, environment)
        found = outcome(lambda: read_arguments([*source, *argv], "app"))
        if isinstance(found, Refused | Helped):
            return
        assert found.row_limit is None or 0 < found.row_limit < 2**63
        assert found == read_arguments([*source, *argv], "app")


TEXTS = {
    name: [path.read_text("utf-8").strip() for path in GOLDEN.glob(f"v*/{name}.json")] for name in sorted(DOCUMENTS)
}


def places(value, path=()):
    """Where something is inside a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


@st.composite
def changed(draw, text):
    """A document in which a value is gone, is another, or has another beside it; or whose text is no whole one."""
    if draw(st.booleans()):
        return draw(edited([text]))
    value = [json.loads(text)]
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from([path for path in places(value) if path]))
        inner = value
        for key in path:
            inner = inner[key]
        does = draw(st.sampled_from(["delete", "change", "add"]))
        if does == "delete" and path:
            del inner[last]
        elif does == "add" and isinstance(inner[last], dict):
            inner[last][draw(st.text(max_size=5))] = draw(values)
        else:
            inner[last] = draw(values)
    return json.dumps(value[0])


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data())
def test_a_document_of_any_version(name, data):
    kind = type(DOCUMENTS[name])
    text = data.draw(changed(data.draw(st.sampled_from(TEXTS[name]))))
    found = outcome(lambda: kind.from_text(text))
    if isinstance(found, Refused):
        assert found.words.startswith(f"{kind.__name__.lower()}: ")
        return
    assert kind.from_text(found.to_text()) == found
    assert len(found.to_text().encode()) > 0


HEADERS = [
    bytes.fromhex(line)
    for path in sorted(GOLDEN.glob("v*/provenance.hex"))
    for line in path.read_text("utf-8").splitlines()
]


@st.composite
def damaged(draw):
    """A header of any version with other bytes, fewer, or more of them; or any bytes."""
    value = bytearray(draw(st.sampled_from(HEADERS) | st.binary(max_size=80)))
    for _ in range(draw(st.integers(0, 3))):
        at, gone = draw(st.integers(0, len(value))), draw(st.integers(0, 4))
        value[at : at + gone] = draw(st.binary(max_size=4))
    return bytes(value)


@given(damaged() | st.none() | st.text(max_size=9))
def test_a_header(value):
    found = outcome(lambda: read_provenance([(HEADER, value)]))
    if isinstance(found, Refused):
        return
    assert found is not None
    assert str(found)
    assert found.source is None or (found.source.partition >= 0 and found.offset >= 0)


SETTINGS = {
    "name": "orders",
    "topics": ["orders"],
    "start": "earliest",
    "min_offsets": 10,
    "max_delay": "15m",
    "max_offsets": 100,
    "grace": "5s",
    "batch_offsets": 7,
    "row_limit": 1_000,
    "future_tolerance": "5m",
    "on_data_loss": "count",
    "isolation": "read_uncommitted",
}


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), anything, max_size=3))
def test_a_load(changes):
    found = outcome(lambda: OrderedLoad(**{**SETTINGS, **changes}))
    if isinstance(found, Refused):
        return
    kept = json.loads(json.dumps(found.to_json()))
    again = OrderedLoad.from_json(kept)
    assert again.to_json() == kept
    assert (again.pace, again.grace_ms, again.topics) == (found.pace, found.grace_ms, found.topics)
    assert parse_start(printed(found.start_policy), "start") == found.start_policy
    assert datetime.now(UTC) + timedelta(milliseconds=found.grace_ms) > datetime.now(UTC) - timedelta(1)
