"""The options of the source: those of Spark's own connector are taken as it takes them, or refused with a way out."""

import pytest
from support.messages import naming

from airflow_provider_orderedkafka.core.pacing import Pace
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.connector.option_tables import SOURCE
from airflow_provider_orderedkafka.spark.connector.options import parse_options

MINUTES = 60_000
DOCUMENTED = """
    assign subscribe subscribePattern startingTimestamp startingOffsetsByTimestamp startingOffsets endingTimestamp
    endingOffsetsByTimestamp endingOffsets failOnDataLoss kafkaConsumer.pollTimeoutMs fetchOffset.numRetries
    fetchOffset.retryIntervalMs maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions
    maxRecordsPerPartition groupIdPrefix includeHeaders startingOffsetsByTimestampStrategy
"""


def parsed(**options):
    return parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "orders", **options}, stream=True)


@pytest.mark.parametrize("name", DOCUMENTED.split())
def test_every_option_that_spark_documents_for_its_connector_is_known(name):
    assert (name in SOURCE.parsers) != (name in SOURCE.instead)


@pytest.mark.parametrize("name", SOURCE.instead)
def test_an_option_of_spark_s_that_means_nothing_here_is_refused_with_what_to_do_instead(name):
    with pytest.raises(SettingError) as caught:
        parsed(**{name.lower(): "1"})
    assert str(caught.value) == f"option {name!r} of Spark's connector has no meaning here: {SOURCE.instead[name]}"


@pytest.mark.parametrize(
    ("spelling", "milliseconds"),
    [
        ("15min", 15 * MINUTES),
        ("15m", 15 * MINUTES),
        ("900000", 15 * MINUTES),
        ("30s", 30_000),
        ("1h30m", 90 * MINUTES),
    ],
)
def test_a_delay_may_be_written_as_spark_writes_it(spelling, milliseconds):
    assert parsed(maxTriggerDelay=spelling).terms.pace == Pace(None, milliseconds)


def test_a_delay_that_nobody_understands_is_named_as_it_was_written():
    with pytest.raises(SettingError, match=r"'maxTriggerDelay'.*'15 parsecs'"):
        parsed(maxTriggerDelay="15 parsecs")


def test_a_minimum_without_a_delay_waits_as_long_as_with_spark_s_connector():
    assert parsed(minOffsetsPerTrigger="10").terms.pace == Pace(10, 15 * MINUTES)
    assert parsed().terms.pace == Pace()


def test_a_group_that_is_told_is_not_one_of_a_load_in_airflow():
    assert parsed(commitGroup="mine").commit_group == "mine"
    with pytest.raises(SettingError, match=naming("'commitGroup' ... 'orderedkafka.orders' ... 'orderedkafka.'")):
        parsed(commitGroup="orderedkafka.orders")


def test_an_end_before_the_start_is_refused_and_not_an_empty_read():
    one, other = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    assert parsed(startingTimestamp=one, endingTimestamp=one).terms.end_time
    for start in ("startingTimestamp", "startingOffsets"):
        with pytest.raises(SettingError, match=naming("'endingTimestamp' ... 2026-01-01 ... 2026-01-02")):
            parsed(**{start: other, "endingTimestamp": one})
