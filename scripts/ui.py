"""A real Airflow on this machine with the example DAGs and a broker, until Ctrl-C.

Everything it keeps is in `.airflow` of the checkout, or in the directory that is named, and readable by this user
alone. PORT chooses the page's port. A part of Airflow that ends is started again.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from broker import LocalKafka, sample

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".airflow").absolute()
KAFKA = HOME / "kafka"
PASSWORDS = HOME / "simple_auth_manager_passwords.json.generated"
SCRIPTS = Path(sys.executable).parent
HOST = "127.0.0.1"
START_SECONDS = 300
STOP_SECONDS = 20
# Neither `airflow standalone` nor servers of logs: those listen on every address of the machine, and take no other. The
# API server finds logs, those of running tasks too, in the folder that all share. That it asked such a server in vain,
# at each look, is in its own log.
PARTS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
}
RESTARTS = 5
"""How often parts are started again, all in all, before it is given up."""

ENDING = (signal.SIGINT, signal.SIGTERM)
HEALTH = ("metadatabase", "scheduler", "triggerer", "dag_processor")
LOOK_SECONDS = 0.5


def main() -> int:
    """Start broker and Airflow; return when a person ends them."""
    port = int(os.environ.get("PORT") or 8080)
    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            print(f"Port {port} is in use: choose another, such as make ui PORT={port + 1}", file=sys.stderr)
            return 1
    heed(signal.default_int_handler)
    os.umask(0o077)
    HOME.mkdir(parents=True, exist_ok=True)
    HOME.chmod(0o700)
    try:
        with LocalKafka(KAFKA) as kafka:
            if sample.make_topics(kafka.bootstrap_servers):
                sample.write_events(kafka.bootstrap_servers)
            return serve(port, kafka.bootstrap_servers)
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
        "AIRFLOW__CORE__PARALLELISM": str(max(4, os.cpu_count() or 1)),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(PASSWORDS),
        # Airflow's parts share one SQLite file: whoever finds it locked waits.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db?timeout=60",
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap_servers}}
        ),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_VAR_ORDERS_CHECKPOINTS": str(HOME / "checkpoints"),
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
    }


def serve(port: int, bootstrap_servers: str) -> int:
    """Run Airflow until Ctrl-C, or until its parts end again and again; leave no process behind."""
    print(f"Starting Airflow (its logs: {HOME}/*.log) ...", flush=True)
    parts: dict[str, psutil.Popen] = {}
    configuration = environment(port, bootstrap_servers)
    try:
        if begin(parts, configuration) and wait_until_healthy(parts, port):
            tell(port, bootstrap_servers, configuration)
            keep_up(parts, configuration)
        names = ended(parts) or [*parts]
        print(f"{' and '.join(names)} ended or did not start: look at {HOME / names[0]}.log", file=sys.stderr)
        return 1
    finally:
        heed(signal.SIG_IGN)  # a second Ctrl-C would leave behind what has not ended yet
        print("Stopping ...", flush=True)
        stop(parts.values())


def heed(handler: Any) -> None:
    """Do this when a person ends the program."""
    for each in ENDING:
        signal.signal(each, handler)


def begin(parts: dict[str, psutil.Popen], configuration: dict[str, str]) -> bool:
    """Bring the database up to date, then start every part; say whether the database is."""
    parts["migration"] = start("migration", ["db", "migrate"], configuration)
    if parts["migration"].wait() != 0:
        return False
    del parts["migration"]
    for name, command in PARTS.items():
        parts[name] = start(name, command, configuration)
    return True


def keep_up(parts: dict[str, psutil.Popen], configuration: dict[str, str]) -> None:
    """Start each part that ends again; return when that was too often."""
    for _ in range(RESTARTS):
        while not (names := ended(parts)):
            time.sleep(LOOK_SECONDS)
        for name in names:
            stop([parts[name]])
            print(f"{name} ended ({HOME / name}.log) and is started again", file=sys.stderr, flush=True)
            parts[name] = start(name, PARTS[name], configuration)
    while not ended(parts):
        time.sleep(LOOK_SECONDS)


def start(name: str, command: list[str], configuration: dict[str, str]) -> psutil.Popen:
    """Start a part of Airflow, with a log of its own."""
    with (HOME / f"{name}.log").open("ab") as log:
        return psutil.Popen(
            [sys.executable, "-m", "airflow", *command],
            env=configuration,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def tell(port: int, bootstrap_servers: str, configuration: Mapping[str, str]) -> None:
    """Say where the page is, and what can be done."""
    command = HOME / "cli"
    exports = [f"export {n}={shlex.quote(v)}" for n, v in configuration.items() if os.environ.get(n) != v]
    command.write_text("\n".join(["#!/bin/sh", *exports, f'exec {SCRIPTS}/orderedkafka "$@"', ""]))
    command.chmod(0o700)
    user, password = next(iter(json.loads(PASSWORDS.read_text()).items()))
    print(f"\n  http://{HOST}:{port}\n  user {user}, password {password}\n")
    print("Switch a DAG on to start it. Ctrl-C stops everything.")
    print(f"More to load: make sample PORT={bootstrap_servers.rpartition(':')[2]}")
    print(f"On the command line: {command} ledger show orders", flush=True)


def wait_until_healthy(parts: Mapping[str, psutil.Popen], port: int) -> bool:
    """Say whether every part told that it is healthy, before one ended or the time was over."""
    deadline = time.monotonic() + START_SECONDS
    while not ended(parts) and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
        except (OSError, ValueError):
            health = {}
        if {health.get(part, {}).get("status") for part in HEALTH} == {"healthy"}:
            return True
        time.sleep(LOOK_SECONDS)
    return False


def ended(parts: Mapping[str, psutil.Popen]) -> list[str]:
    """Name the parts that run no more."""
    return [name for name, process in parts.items() if process.poll() is not None]


def stop(parts: Iterable[psutil.Popen]) -> None:
    """End Airflow and everything that it started; what does not end in time is killed."""
    families = {part: set(relatives(part)) for part in parts}
    for part, family in families.items():
        for each in [part] if part.poll() is None else family:  # who lost the part has to be asked itself
            with suppress(psutil.Error):
                each.terminate()
    _, left = psutil.wait_procs([*families, *set().union(*families.values())], timeout=STOP_SECONDS)
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=STOP_SECONDS)


def relatives(part: psutil.Popen) -> list[psutil.Process]:
    """Every process that it started and that still runs; those of its session outlive it where it was killed."""
    found = [each for each in psutil.process_iter() if each.pid != part.pid and session_of(each.pid) == part.pid]
    return [*found, *(child for each in (part, *found) for child in children(each))]


def children(process: psutil.Process) -> list[psutil.Process]:
    """What it started, and what that started; none where it has ended."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def session_of(pid: int) -> int | None:
    """The session of a process; None where it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
