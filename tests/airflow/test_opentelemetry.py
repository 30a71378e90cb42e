"""The metrics of a load, as Airflow sends them to an OpenTelemetry collector, from a process that soon ends."""

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.exporter.otlp", reason="Airflow may be without it")

TASK = """
from importlib import import_module
from importlib.util import find_spec

from support.runs import a_range, a_report

from airflow_provider_orderedkafka.compat.airflow import has_asset_state, stats
from airflow_provider_orderedkafka.core.pacing import Lag
from airflow_provider_orderedkafka.reporting import metrics

if find_spec("airflow.sdk.observability"):  # as a task's process begins; in 3.1 the first number does it
    makers = import_module("airflow.sdk.observability.metrics.stats_utils").get_stats_factory
    if has_asset_state():
        import_module("airflow.sdk.observability.stats").initialize(factory=makers(), export_legacy_names=True)
    else:
        stats().initialize(factory=makers(stats()))
loaded = a_range("r1", 0, 0, 5)
metrics.planned(loaded)
metrics.attempted("orders")
metrics.committed("orders", a_report(loaded, 1), Lag(2, 1_500))
"""

DELTA = 1


class Collector:
    """A collector that keeps what it was sent, by OTLP."""

    def __init__(self):
        self._sent = []
        sent = self._sent

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self):
                sent.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Answers)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    @property
    def metrics(self):
        """What was sent of each metric, the newest."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        assert {path for path, _ in self._sent} == {"/v1/metrics"}
        requests = [ExportMetricsServiceRequest.FromString(body) for _, body in self._sent]
        scopes = [scope for each in requests for resource in each.resource_metrics for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}


@pytest.fixture
def collector():
    found = Collector()
    yield found
    found.close()


def numbers(points):
    """The value of a metric, with what it is told apart by."""
    (point,) = points
    return point.as_int or point.as_double, {each.key: each.value.string_value for each in point.attributes}


def test_a_collector_gets_the_numbers_of_a_task_before_its_process_ends(airflow_home, collector):
    at = f"http://127.0.0.1:{collector.port}"
    settings = {
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "AIRFLOW__METRICS__OTEL_HOST": "127.0.0.1",  # as it was said before 3.2
        "AIRFLOW__METRICS__OTEL_PORT": str(collector.port),
        "OTEL_EXPORTER_OTLP_ENDPOINT": at,
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TASK],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    metrics, prefix = collector.metrics, "airflow.orderedkafka.orders."
    named = {name.removeprefix(prefix) for name in metrics if name.startswith(prefix)}
    assert named >= {"planned_offsets", "lag_offsets", "lag_seconds", "attempts", "rows_read", "late", "duration"}
    of = {"load": "orders"}
    assert numbers(metrics[f"{prefix}planned_offsets"].gauge.data_points) == (5, of)
    assert numbers(metrics[f"{prefix}lag_seconds"].gauge.data_points) == (1.5, of)
    read = metrics[f"{prefix}rows_read"].sum
    assert numbers(read.data_points) == (5, of)
    assert read.aggregation_temporality == DELTA
