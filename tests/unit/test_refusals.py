"""What nothing here can hold is refused where it is said, with the setting's or the document's name."""

import struct
from datetime import timedelta

import pytest
from support.documents import OPEN, RANGE
from support.messages import naming

from airflow_provider_orderedkafka.core.documents import Claim, Range
from airflow_provider_orderedkafka.core.notation.spelling import parse_duration
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.core.notation.subscriptions import parse_subscription
from airflow_provider_orderedkafka.errors import DocumentError, SettingError
from airflow_provider_orderedkafka.kafka.provenance import HEADER, read_provenance
from airflow_provider_orderedkafka.kafka.write.producer import deadline_seconds
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE
from airflow_provider_orderedkafka.spark.application.command import read_arguments
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, SOURCE

DIGITS = "9" * 5_000
DEEP = "[" * 20_000
TOO_MANY = str(2**63)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (DIGITS, "'start'"),
        ("9999-12-31T23:59:59-12:00", "'start'"),
        ({"orders": []}, "'start.orders'"),
        ({"orders": [2**63]}, "'start.orders.0.'"),
        ({"orders": {DIGITS: 0}}, "'start.orders'"),
        ('{"orders": ' + DEEP, "'start'"),
        ('{"orders": [' + DIGITS, "'start'"),
    ],
    ids=["digits", "after 9999", "no partition", "offset", "partition", "depth", "digits in JSON"],
)
def test_a_start(start, said):
    with pytest.raises(SettingError, match=said):
        parse_start(start, "start")


@pytest.mark.parametrize("start", [{"": float("inf")}, {"orders": [float("nan")]}, {"orders": float("inf")}])
def test_a_start_that_no_json_can_hold(start):
    with pytest.raises(SettingError, match="'start"):
        OrderedLoad("orders", topics=["orders"], start=start)


@pytest.mark.parametrize("duration", ["999999999999d", timedelta.max])
def test_a_duration_that_no_clock_could_add(duration):
    with pytest.raises(SettingError, match="'grace'"):
        parse_duration(duration, "grace")


@pytest.mark.parametrize(
    "pattern", ["(" * 9_000, "a{99999999999999999999}", f"a{{{'9' * 5_000}}}"], ids=["depth", "repetition", "digits"]
)
def test_a_pattern(pattern):
    with pytest.raises(SettingError, match="'subscribePattern'"):
        parse_subscription("subscribePattern", pattern)


@pytest.mark.parametrize("count", [DIGITS, TOO_MANY], ids=["digits", "64 bits"])
def test_a_count(count):
    with pytest.raises(SettingError, match="'sliceOffsets'"):
        SOURCE.parsers["sliceOffsets"](count, "sliceOffsets")
    with pytest.raises(SettingError, match="--row-limit"):
        read_arguments(["--checkpoint", "/c", "--row-limit", count], "app")
    with pytest.raises(SettingError, match="'writers'"):
        APPLICATION_SINK.parsed({"writers": count})
    with pytest.raises(SettingError, match=r"'kafka\.delivery\.timeout\.ms'"):
        deadline_seconds({"delivery.timeout.ms": count})


def test_a_path_or_a_file_that_is_no_text(tmp_path):
    (tmp_path / "range").write_bytes(b"\xff")
    for path in ("a\0b", str(tmp_path / "range")):
        with pytest.raises(SettingError, match="'--range'"):
            read_arguments(["--checkpoint", "/c", "--range", path], "app")
        with pytest.raises(SettingError, match="'range'"):
            SOURCE.parsers["range"](path, "range")


def test_an_environment_that_is_too_deep(monkeypatch):
    monkeypatch.setenv(OPTIONS_VARIABLE, DEEP)
    with pytest.raises(SettingError, match=OPTIONS_VARIABLE):
        read_arguments(["--checkpoint", "/c"], "app")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"attempt":2', f'"attempt":{TOO_MANY}', "'open.attempt' ... 9223372036854775807"),
        ('"attempt":2', '"attempt":NaN', "claim: not JSON"),
        ('"s3:', r'"\ud800s3:', "claim: not JSON"),
        ('"outcomes":', '"outcomes":' + DEEP, "claim: not JSON"),
    ],
    ids=["64 bits", "no number", "no text", "depth"],
)
def test_a_document(before, after, said):
    text = Claim(OPEN, (), OPEN.range_id).to_text()
    assert before in text
    with pytest.raises(DocumentError, match=naming(said)):
        Claim.from_text(text.replace(before, after))


def test_an_offset_in_a_document():
    text = RANGE.to_text().replace("[3,null,0]", f"[{TOO_MANY},null,0]")
    with pytest.raises(DocumentError, match=r"'start.offsets.orders\[0\]'"):
        Range.from_text(text)


@pytest.mark.parametrize("place", [(-2, 5), (0, -1)])
def test_a_header_that_names_no_position(place):
    value = b"\1\1r" + bytes(4) + struct.pack(">iqq", *place, 0) + b"orders"
    with pytest.raises(DocumentError, match=HEADER):
        read_provenance([(HEADER, value)])


@pytest.mark.parametrize("topics", [None, 7, (), [[]]])
def test_topics_that_are_none(topics):
    with pytest.raises(SettingError, match="topic"):
        OrderedLoad("orders", topics=topics)
