"""The first example, run as a user runs it: from Kafka to Kafka, twice, with new events in between."""

import itertools
import time

import pytest
from support.records import Record

SUCCESS = {f"orders.{step}": "success" for step in ("wait", "resolve", "load", "commit")}


@pytest.fixture
def orders(topics):
    for name, partitions in (("orders", 3), ("refunds", 1), ("orders-ordered", 2)):
        topics.create_named(name, partitions)


def events(begin, count, partitions, since):
    """Events since a moment, or of now, dealt out unevenly; a key's events lie in several partitions."""
    for number in range(begin, begin + count):
        partition = 0 if number % 7 else number % partitions
        timestamp = None if since is None else since + number // 10
        yield Record(f"{number}".encode(), timestamp, partition, f"k{number % 10}".encode())


def times_by_key(seen):
    """The times of each key's events as they stand in the output."""
    found = {}
    for record in seen:
        found.setdefault(record.key, []).append(record.timestamp)
    return found


@pytest.mark.usefixtures("orders", "connections")
def test_two_runs_load_everything_once_and_in_order(example, records, ledger_of, states):
    dag = example("orders_ordered")
    written, a_minute_ago = 0, round(time.time() * 1_000) - 60_000
    for run_number, (counts, since) in enumerate([((9_000, 3_000), a_minute_ago), ((10_000, 1), None)], start=1):
        for topic, partitions, count in zip(("orders", "refunds"), (3, 1), counts, strict=True):
            records.produce(topic, events(written, count, partitions, since))
            written += count
        run = dag.test(run_conf={"now": False})  # the second one waits until they are older than the grace
        assert states(run) == SUCCESS
        ledger = ledger_of("orders")
        assert (ledger.revision, ledger.rows_emitted, ledger.open) == (run_number, written, None)
        assert [outcome.late for outcome in ledger.outcomes] == [0] * run_number
    output = records.read("orders-ordered")
    assert sorted(int(record.value) for record in output) == list(range(written))
    for times in times_by_key(output).values():
        assert all(before <= after for before, after in itertools.pairwise(times))
