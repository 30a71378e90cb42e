"""A real Airflow on this machine with the example DAGs and an embedded broker, until Ctrl-C.

Everything it keeps is in `.airflow` of the checkout. PORT chooses the page's port.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from airflow_provider_orderedkafka.embedded import EmbeddedKafka, sample
from airflow_provider_orderedkafka.errors import OrderedKafkaError

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".airflow"
KAFKA = HOME / "kafka"
LOG = HOME / "airflow.log"
PASSWORDS = HOME / "simple_auth_manager_passwords.json.generated"
SCRIPTS = Path(sys.executable).parent
HOST = "127.0.0.1"
START_SECONDS = 300
STOP_SECONDS = 20


def main() -> int:
    """Start broker and Airflow; return when a person ends them."""
    port = int(os.environ.get("PORT") or 8080)
    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            print(f"Port {port} is taken: choose another one, make ui PORT={port + 1}", file=sys.stderr)
            return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    HOME.mkdir(exist_ok=True)
    try:
        with EmbeddedKafka(KAFKA) as kafka:
            fill(kafka.bootstrap_servers)
            return serve(port, environment(port, kafka.bootstrap_servers))
    except OrderedKafkaError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def environment(port: int, bootstrap_servers: str) -> dict[str, str]:
    """Airflow's configuration: this checkout, loopback, and both connections."""
    page = f"http://{HOST}:{port}"
    return os.environ | {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__API__BASE_URL": page,
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{page}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(PASSWORDS),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap_servers}}
        ),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_VAR_ORDERS_CHECKPOINTS": str(HOME / "checkpoints"),
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
    }


def fill(bootstrap_servers: str) -> None:
    """Make the topics that the example DAGs read and write, the first time with some records to load."""
    if "orders" in sample.make_topics(bootstrap_servers):
        sample.write_events(bootstrap_servers)


def serve(port: int, configuration: dict[str, str]) -> int:
    """Run Airflow until Ctrl-C or its own end; leave no process behind."""
    print(f"Starting Airflow (its log: {LOG}) ...", flush=True)
    with LOG.open("wb") as log:
        airflow = psutil.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            env=configuration,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        if wait_until_served(airflow, port):
            user, password = next(iter(json.loads(PASSWORDS.read_text()).items()))
            print(f"\n  http://{HOST}:{port}\n  user {user}, password {password}\n")
            print("Switch a DAG on to start it. Ctrl-C stops everything.")
            print(f"More to load: {SCRIPTS}/orderedkafka broker sample --directory {KAFKA}", flush=True)
            airflow.wait()
        print(f"Airflow ended by itself or did not start: its log is {LOG}", file=sys.stderr)
        return 1
    finally:
        print("Stopping ...", flush=True)
        stop(airflow)


def wait_until_served(airflow: psutil.Popen, port: int) -> bool:
    """Say whether the page came up before Airflow ended or the time was over."""
    deadline = time.monotonic() + START_SECONDS
    while airflow.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/api/v2/monitor/health", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    return False


def stop(airflow: psutil.Popen) -> None:
    """End Airflow and everything that it started; what does not end in time is killed."""
    family = descendants(airflow)
    if airflow.poll() is None:
        airflow.send_signal(signal.SIGINT)
    _, left = psutil.wait_procs([airflow, *family], timeout=STOP_SECONDS)
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=STOP_SECONDS)


def descendants(airflow: psutil.Popen) -> list[psutil.Process]:
    """Return every process that Airflow started and that still runs."""
    try:
        return airflow.children(recursive=True)
    except psutil.Error:
        return []


if __name__ == "__main__":
    sys.exit(main())
