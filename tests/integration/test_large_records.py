"""Records of ten megabytes, and records of a hundred thousand headers: by both lanes, by the reader, and audited."""

import subprocess
import sys
from typing import Any

import pytest
from support.applications import START, Application
from support.audited import audited, counted
from support.messages import says
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.reader import read

LARGE = {"max.message.bytes": 12 * 2**20}
HEADERS = 100_000
"""Kafka's client reads a record that has more as if it had none."""
LANES = {"direct": (), "frames": ("--transform", "support.transforms:unchanged", "--sink-option", "writers=2")}
lanes = pytest.mark.parametrize("lane", LANES)


def of_many_headers(count: int, many: int = HEADERS - 1) -> list[Record]:
    """Records of which each has so many, some with the same name and some without a value."""
    headers = [(f"name-{n % 7}", None if n % 5 == 0 else b"%d" % n) for n in range(many)]
    return [Record(b"%d" % n, START + n, n % 2, b"key-%d" % (n % 2), headers) for n in range(count)]


def of_ten_megabytes(count: int) -> list[Record]:
    return [Record(b"%d" % (n % 10) * 10_000_000, START + n, n % 2, b"key-%d" % (n % 2)) for n in range(count)]


@lanes
@pytest.mark.parametrize("made", [of_ten_megabytes, of_many_headers])
def test_large_records_come_whole_and_nothing_is_found_by_an_audit(
    app: Application, topics: Topics, records: Records, capfd: Any, lane: str, made: Any
) -> None:
    source, output = topics.create("in", 2, LARGE), topics.create("out", 2, LARGE)
    records.produce(source, made(6))
    loaded = whole_range(app.servers, source, include_headers=True)
    report = app.load(loaded, "--output-topic", output, *LANES[lane])
    found = records.read(output)
    assert check(expected_of(records, source), found) == FLAWLESS
    assert (report.rows_emitted, report.may_be_doubled) == (6, 0)
    written = {record.value: record.headers for record in records.read(source)}
    assert all(record.headers[:-1] == written[record.value] for record in found)
    code, printed = audited(app.servers, app.checkpoint, capfd)
    assert (code, counted(printed), [each["rows"] for each in printed["ranges"]]) == (0, {}, [6])


def test_a_record_whose_headers_nobody_could_read_any_more_is_refused_or_a_dead_letter_and_says_why(
    app: Application, topics: Topics, records: Records, capfd: Any
) -> None:
    source, output, dead = (topics.create(name, 2, LARGE) for name in ("in", "out", "dead"))
    records.produce(source, [*of_many_headers(1, HEADERS), *of_many_headers(1, 5)])
    loaded, argv = whole_range(app.servers, source, include_headers=True), ("--output-topic", output)
    with pytest.raises(SystemExit) as caught:
        app.load(loaded, *argv)
    assert caught.value.code == 65
    assert says(capfd.readouterr().err, "100,000 headers ... provenance")
    report = app.load(loaded, *argv, "--bad-records", "1", "--dead-letters", dead)
    assert (report.rows_emitted, report.dead_letters) == (1, 1)
    [letter] = records.read(dead)
    assert [name for name, _ in letter.headers] == ["orderedkafka.error", "orderedkafka"]


def test_a_record_of_many_headers_is_read_in_order_without_spark(kafka: Any, topics: Topics, records: Records) -> None:
    source = topics.create("in", 2, LARGE)
    records.produce(source, made := of_many_headers(6, HEADERS))
    with read(kafka.bootstrap_servers, source, headers=True) as batches:
        rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [record.value for record in made]
    for row, record in zip(rows, made, strict=True):
        assert [(each["key"], each["value"]) for each in row["headers"]] == record.headers


def test_a_record_of_more_headers_than_kafkas_client_reads_comes_without_any(
    kafka: Any, topics: Topics, records: Records
) -> None:
    source = topics.create("in", 1, LARGE)
    records.produce(source, of_many_headers(1, HEADERS + 1))
    with read(kafka.bootstrap_servers, source, headers=True) as batches:
        assert [row["headers"] for batch in batches for row in batch.to_pylist()] == [None]


READING = """
import resource, sys
from airflow_provider_orderedkafka.reader import read

peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
with read(sys.argv[1], sys.argv[2]) as batches:
    rows = sum(batch.num_rows for batch in batches)
print(rows, peak() - before)
"""


def test_memory_does_not_grow_with_the_records_of_ten_megabytes_that_are_read(
    kafka: Any, topics: Topics, records: Records
) -> None:
    source, count = topics.create("in", 2, LARGE), 60
    for _ in range(3):
        records.produce(source, of_ten_megabytes(count // 3))
    command = [sys.executable, "-c", READING, kafka.bootstrap_servers, source]
    rows, megabytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(rows) == count
    assert int(megabytes) < 10 * count / 2
