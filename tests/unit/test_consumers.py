"""How much a slice's consumer asks of each partition at once, and whose settings win."""

import pytest

from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings, configuration, fetch_bytes


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([100_000], 1_048_576),
        ([97_000, *[430] * 7], 1_048_576),
        ([12_500] * 8, 262_144),
        ([200] * 500, 32_768),
        ([1], 262_144),
    ],
)
def test_a_request_asks_much_of_few_partitions_and_little_of_many(offsets, expected):
    assert fetch_bytes(offsets) == expected


def test_a_users_setting_wins_over_what_suits_but_not_over_what_the_reader_relies_on():
    kafka = {"queued.max.messages.kbytes": "9", "auto.offset.reset": "earliest", "fetch.message.max.bytes": "7"}
    config = configuration(ReadSettings(kafka, isolation="read_uncommitted"), 32_768)
    assert config["queued.max.messages.kbytes"] == "9"
    assert config["fetch.message.max.bytes"] == "7"
    assert config["auto.offset.reset"] == "error"
    assert config["isolation.level"] == "read_uncommitted"
