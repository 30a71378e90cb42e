"""A network that fails between a load and its brokers: attempt after attempt, until everything is there."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.audited import audited, counted
from support.loads import EXACTLY_ONCE, GUARANTEES, LANES, Load, events
from support.outputs import FLAWLESS, check, expected_of
from support.plain import as_argument
from support.proxied import ProxiedKafka
from support.ranges import whole_range
from support.records import Records
from support.table_formats import DELTA, ICEBERG, Format, rows_of
from support.topics import Topics

from airflow_provider_orderedkafka.spark.table_sink import table_sink

pytestmark = pytest.mark.fault

SECONDS = 15.0
RETRYABLE = 75
"""The exit code of an attempt that the next one may make good."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedKafka]:
    with ProxiedKafka(tmp_path_factory.mktemp("proxied")) as cluster:
        yield cluster


@pytest.mark.parametrize("guarantee", [(), pytest.param(EXACTLY_ONCE, marks=pytest.mark.nightly)], ids=GUARANTEES)
@pytest.mark.parametrize(
    ("lane", "seed"),
    [
        ("direct lane", 3),
        pytest.param("direct lane", 1, marks=pytest.mark.nightly),
        *(pytest.param("DataFrame lane", seed, marks=pytest.mark.nightly) for seed in (2, 3)),
    ],
)
def test_what_a_failing_network_does_is_made_good_by_the_attempts_after_it(
    kafka: ProxiedKafka,
    topics: Topics,
    records: Records,
    tmp_path: Path,
    lane: str,
    seed: int,
    guarantee: tuple[str, ...],
) -> None:
    source, output = topics.create("in", 4), topics.create("out", 3)
    records.produce(source, events(4_000, seed))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=500)
    argv = ("--output-topic", output, "--option", "sliceOffsets=250", *LANES[lane], *guarantee)
    load = Load(kafka.proxied_servers, tmp_path, loaded, *argv)
    with kafka.proxy.at_random(random.Random(seed), SECONDS):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and not load.complete():
            assert load.ending_here() in (0, RETRYABLE)
    report = load.finish_here()
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert (report.complete, report.may_be_doubled, report.may_be_out_of_order) == (True, 0, 0)
    assert len(kafka.proxy.done) > 4


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (5, 6))])
def test_files_have_each_row_once_and_in_order_however_the_network_failed(
    kafka: ProxiedKafka, topics: Topics, records: Records, tmp_path: Path, capfd: Any, seed: int
) -> None:
    source = topics.create("in", 4)
    records.produce(source, events(4_000, seed))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=500)
    argv = ("--output", f"parquet:{tmp_path / 'files'}", "--option", "sliceOffsets=250")
    load = Load(kafka.proxied_servers, tmp_path, loaded, *argv)
    with kafka.proxy.at_random(random.Random(seed), SECONDS):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and not load.complete():
            assert load.ending_here(sink=table_sink) in (0, RETRYABLE)
    report = load.finish_here(sink=table_sink)
    assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, 4_000, 0)
    code, found = audited(kafka.bootstrap_servers, load.checkpoint, capfd)
    assert (code, counted(found), found["others"]) == (0, {}, {})
    assert [each["rows"] for each in found["ranges"]] == [4_000]


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("of", [DELTA, ICEBERG], ids=lambda each: each.name)
def test_a_table_has_each_row_once_and_in_order_however_the_network_failed(
    kafka: ProxiedKafka, topics: Topics, records: Records, tmp_path: Path, of: Format
) -> None:
    source = topics.create("in", 4)
    records.produce(source, events(8_000, 7))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=500)
    output = of.output(tmp_path, "orders")
    conf = (part for item in of.settings(tmp_path).items() for part in ("--conf", "=".join(item)))
    load = Load(
        kafka.proxied_servers,
        tmp_path,
        loaded,
        *("--output", as_argument(output), "--option", "sliceOffsets=250"),
        app="ordered_table.py",
        submit=("--master", "local[2]", *conf),
        home=of.home(),
    )
    with kafka.proxy.at_random(random.Random(7), 8 * SECONDS):
        until = time.monotonic() + 8 * SECONDS
        while time.monotonic() < until and not load.complete():
            application = load.start()
            assert application.wait() in (0, RETRYABLE), application.log()[-3000:]
    report = load.finish()
    assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, 8_000, 0)
    files = of.files(of.place(tmp_path, output))
    rows = {file: rows_of(file, "order_time", "topic", "partition", "offset") for file in files}
    assert all(each == sorted(each) for each in rows.values())
    found = sorted(row for each in rows.values() for row in each)
    assert [row[1:] for row in found] == [each.position for each in expected_of(records, source)]
