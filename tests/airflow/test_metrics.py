"""The metrics of a load, as Airflow sends them: StatsD's datagrams, by UDP."""

import socket
import threading
from collections import defaultdict
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from support.runs import a_range

from airflow_provider_orderedkafka.compat.airflow import has_asset_state
from airflow_provider_orderedkafka.core.batches import Overtaken
from airflow_provider_orderedkafka.core.status import Status
from airflow_provider_orderedkafka.reporting import metrics
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState
from airflow_provider_orderedkafka.tools.commands.at_airflow import MetadataStore

pytest.importorskip("statsd", reason="Airflow's extra of that name brings it")

SECONDS = 10
LAST = "the.end"
COPIES = ("airflow.sdk._shared.observability.metrics.stats", "airflow._shared.observability.metrics.stats")
"""Airflow's metrics in a task, and in the triggerer."""


class StatsD:
    """What a StatsD server hears."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._heard = defaultdict(list)
        self._ended = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()

    def close(self):
        self._end()
        self._socket.close()

    def _end(self):
        self._socket.sendto(f"{LAST}:1|c".encode(), self._socket.getsockname())
        assert self._ended.wait(SECONDS)

    def _hear(self):
        while True:
            name, _, rest = self._socket.recv(65_536).decode().partition(":")
            if name == LAST:
                return self._ended.set()
            self._heard[name].append(rest)

    def metrics_of(self, load):
        """The numbers of a load, by name, in their order."""
        self._end()
        prefix = f"airflow.orderedkafka.{load}."
        return {name.removeprefix(prefix): each for name, each in self._heard.items() if name.startswith(prefix)}


@pytest.fixture
def statsd(airflow_home, monkeypatch):
    """A server that Airflow's metrics go to, as its worker and its triggerer set them up."""
    if not has_asset_state():
        pytest.skip("they are set up in another way before Airflow 3.3")
    server = StatsD()
    settings = {"statsd_on": "True", "statsd_host": "127.0.0.1", "statsd_port": server.port}
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name.upper()}", str(value))
    found = [import_module(name) for name in COPIES]
    makers = import_module("airflow.sdk.observability.metrics.stats_utils").get_stats_factory()
    for stats in found:
        monkeypatch.setattr(stats, "_factory", makers)
        monkeypatch.setattr(stats, "_backend", None)
    yield server
    server.close()
    for stats in found:
        if stats._backend is not None:
            stats._backend.statsd.close()


def test_a_run_sends_what_was_planned_read_and_written_and_the_lag_that_is_left(statsd, bench):
    bench.write(7)
    bench.order("doubt")
    assert bench.dag("max_offsets=5", f'to="topic:{bench.output}"').test().state == "success"
    metrics = statsd.metrics_of(bench.load)
    assert float(metrics.pop("lag_seconds")[-1].removesuffix("|g")) > 0
    assert metrics.pop("duration") == ["1.000000|ms"]
    assert metrics == {
        "waiting_offsets": ["7|g"],
        "lag_offsets": ["7|g", "2|g"],
        **{f"partition_lag_{name}": ["7|g", "2|g"] for name in ("min", "max")},
        "partition_lag_avg": ["7.0|g", "2.0|g"],
        "planned_offsets": ["5|g"],
        "attempts": ["1|c"],
        "commits": ["1|c"],
        "rows_read": ["5|c"],
        "rows_written": ["5|c"],
        "late": ["0|c"],
        "replayed": ["0|c"],
        "dead_letters": ["2|c"],
        "may_be_doubled": ["3|c"],
        "may_be_out_of_order": ["4|c"],
        "lost": ["5|c"],
    }


def test_a_run_that_waits_sends_how_much_there_is_each_time_that_the_triggerer_looks(statsd, bench):
    bench.write(3)
    dag = bench.dag('min_offsets=10, max_delay="2s"', 'wait="always", tasks={"wait": {"poke_interval": 0.2}}')
    assert dag.test().state == "success"
    metrics = statsd.metrics_of(bench.load)
    assert set(metrics["waiting_offsets"]) == {"3|g"}
    assert len(metrics["waiting_offsets"]) > 2
    assert metrics["lag_offsets"][-1] == "0|g"
    assert metrics["lag_seconds"][-1] == "0.0|g"


def test_an_attempt_that_failed_counts_and_a_commit_that_is_cleared_does_not_count_again(statsd, bench):
    bench.write(5)
    bench.order("fail 75")
    dag = bench.dag(arguments=f'to="topic:{bench.output}"')
    dag.test()
    dag.test()
    metrics = statsd.metrics_of(bench.load)
    assert (metrics["attempts"], metrics["commits"]) == (["1|c", "1|c"], ["1|c"])


def test_word_that_an_overtaken_attempt_left_after_the_commit_is_counted_once_by_the_runs_that_follow(
    statsd, bench, ledger_of
):
    bench.write(7)
    bench.order("doubt")
    dag = bench.dag(arguments=f'to="topic:{bench.output}"')
    dag.test()
    checkpoint, [committed] = bench.diary[0]["checkpoint"], ledger_of(bench.load).outcomes
    Checkpoint(LocalState(Path(checkpoint))).put_overtaken(Overtaken(attempt=1, batch=1, rows=2))
    for _ in range(2):
        dag.test()
    row = Status.from_value(MetadataStore(bench.load).get("status")).ranges[-1]
    metrics, [outcome] = statsd.metrics_of(bench.load), ledger_of(bench.load).outcomes
    assert (metrics["may_be_doubled"], metrics["commits"]) == (["3|c", "2|c"], ["1|c"])
    assert outcome == replace(committed, may_be_doubled=5)
    assert (row.id, row.state, row.counts.may_be_doubled) == (outcome.range_id, "committed", 5)


def test_without_a_server_nothing_happens(airflow_home):
    metrics.planned(a_range("r", 0, 0, 5))
