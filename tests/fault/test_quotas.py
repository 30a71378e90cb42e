"""A broker that throttles a load's clients by their quotas: the load takes longer, and nothing else."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.applications import START, Application
from support.loads import LANES
from support.outputs import FLAWLESS, check, expected_of
from support.quotas import give_quotas
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

WINDOW_SECONDS = 11
"""Over how long a broker counts: within it, clients may have sent all that they may."""

QUOTAS = {
    "what is written": (2_700_000, {"producer_byte_rate": 100_000}),
    "what is read": (2_400_000, {"consumer_byte_rate": 100_000}),
    "writes of which one is what half a minute may send": (600_000, {"producer_byte_rate": 15_000}),
    "requests": (600_000, {"request_percentage": 5}),
}
"""How many bytes a topic has, and what its load's clients may send or get in a second."""


@pytest.mark.parametrize(
    ("lane", "quota"),
    [
        ("direct lane", "what is written"),
        *(pytest.param("direct lane", quota, marks=pytest.mark.nightly) for quota in list(QUOTAS)[1:]),
        *(pytest.param("DataFrame lane", quota, marks=pytest.mark.nightly) for quota in QUOTAS),
    ],
)
def test_a_load_whose_clients_are_throttled_takes_the_time_that_it_may_and_ends_in_one_attempt(
    kafka: Any, spark: SparkSession, topics: Topics, records: Records, tmp_path: Path, lane: str, quota: str
) -> None:
    source, output, chance = topics.create("in", 4), topics.create("out", 3), random.Random(1)
    size, given = QUOTAS[quota]
    made = [Record(chance.randbytes(10_000), START + n, n % 4, b"key-%d" % (n % 4)) for n in range(size // 10_000)]
    records.produce(source, made)
    give_quotas(kafka.bootstrap_servers, source, given)
    batch = len(made) // 3 + 1
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=batch)
    named = ("--option", f"kafka.client.id={source}", "--sink-option", f"kafka.client.id={source}")
    began = time.monotonic()
    report = Application(kafka.bootstrap_servers, tmp_path).load(loaded, "--output-topic", output, *named, *LANES[lane])
    rates = [rate for name, rate in given.items() if name.endswith("_byte_rate")]
    waited_for = size - batch * 10_000  # a client is told to wait with its answer: nobody waits after the last one
    assert time.monotonic() - began > max((waited_for / rate - WINDOW_SECONDS for rate in rates), default=0)
    assert (report.attempt, report.complete, report.replayed, report.may_be_doubled) == (1, True, 0, 0)
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
