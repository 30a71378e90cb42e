"""A real Airflow in processes of its own: scheduler, triggerer, DAG processor, API server; each can be killed alone."""

import json
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import psutil

from airflow_provider_orderedkafka.locations import VARIABLE
from support import quick_java

HOST = "127.0.0.1"
COMMANDS = {
    "api-server": ["api-server", "--workers", "1"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
}
DATABASE = "airflow.db"
START_SECONDS = 240
STOP_SECONDS = 15
LAST_LINES = 30

# What is waited for is shortened; what decides anything stays as Airflow has it.
SETTINGS = {
    "API_AUTH__JWT_SECRET": secrets.token_hex(32),
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__PARALLELISM": "6",
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    # The one file stays as it is: nobody parses it again, nor takes its DAGs away where that failed for want of time.
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "DAG_PROCESSOR__STALE_DAG_THRESHOLD": "3600",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    # Longer than two requests that wait for each other's lock on SQLite, which gives up after 30 s.
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "45",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
    "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "5",
    "TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "USAGE_DATA_COLLECTION__ENABLED": "False",
}


class AirflowProcesses:
    """One Airflow; `url` is where its API is once it has started."""

    def __init__(self, home: Path, dags: Path, bootstrap_servers: str, environment: dict[str, str]) -> None:
        self.home = home
        self.url = f"http://{HOST}:{_free_port()}"
        self._environment = self._configured(dags, bootstrap_servers) | environment
        self._running: dict[str, psutil.Popen] = {}

    def start(self) -> None:
        """Make the database, start everything, return when all of it says that it is healthy."""
        migrated = self._popen("migration", ["db", "migrate"])
        assert migrated.wait(START_SECONDS) == 0, self.logs("migration")
        # Who reads then keeps nobody from writing: otherwise the scheduler may find the file locked, and ends.
        with closing(sqlite3.connect(self.home / DATABASE)) as database:
            assert database.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
        for name in COMMANDS:
            self.start_one(name)
        self._until(self._healthy, "did not become healthy")

    def start_one(self, name: str) -> None:
        """Start one of the processes."""
        self._running[name] = self._popen(name, COMMANDS[name])

    def kill(self, name: str) -> None:
        """Kill one of the processes with -9, with all that it started, as a machine that stops does."""
        _kill(self._running.pop(name))

    def stop(self) -> None:
        """End everything, whatever state it is in, and what lost its parent on the way; nobody needs its last words."""
        for name in [*self._running]:
            self.kill(name)
        kill_all_at(self.home)

    def check(self) -> None:
        """Fail with the last lines of what has ended though nobody killed it."""
        ended = [name for name, process in [*self._running.items()] if process.poll() is not None]
        assert not ended, f"{ended} ended\n{self.logs(*ended)}"

    def logs(self, *names: str) -> str:
        """The last lines of what these processes wrote."""
        return "\n".join(f"--- {name}\n" + _tail(self._log(name)) for name in names or COMMANDS)

    def _healthy(self) -> bool:
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(health.get(part, {}).get("status") == "healthy" for part in parts)

    def _until(self, true: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not true():
            self.check()
            assert time.monotonic() < deadline, f"Airflow {otherwise} within {START_SECONDS} s\n{self.logs()}"
            time.sleep(0.3)

    def _popen(self, name: str, command: list[str]) -> psutil.Popen:
        with self._log(name).open("ab") as log:
            return psutil.Popen(
                [sys.executable, "-W", "ignore", "-m", "airflow", *command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def _configured(self, dags: Path, bootstrap_servers: str) -> dict[str, str]:
        port = self.url.rpartition(":")[2]
        settings = SETTINGS | {
            "API__BASE_URL": self.url,
            "API__HOST": HOST,
            "API__PORT": port,
            "CORE__DAGS_FOLDER": str(dags),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            # Airflow's processes share one SQLite file: whoever finds it locked waits.
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / DATABASE}?timeout=30",
        }
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap_servers}}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return {
            **inherited,
            **quick_java.environment(),
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
            **{name: value for name, value in os.environ.items() if name == VARIABLE},
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
        }


def kill_all_at(home: Path) -> list[psutil.Process]:
    """Kill what runs of the Airflow with this home; say what did."""
    found = [process for process in psutil.process_iter() if _home(process) == str(home)]
    for process in found:
        _kill(process)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _home(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("AIRFLOW_HOME")
    except (psutil.Error, OSError):
        return None


def _kill(process: psutil.Process) -> None:
    family = _family(process)
    for each in family:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, STOP_SECONDS)


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else ["no log"]
    return "\n".join(lines[-LAST_LINES:])
