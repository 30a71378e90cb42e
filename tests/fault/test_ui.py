"""`make ui`: a real Airflow with the example DAGs, on loopback alone, until Ctrl-C."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from support.airflow_processes import kill_all_at
from support.airflow_rest import AirflowRest
from support.records import Records

from broker import free_port, sample

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1500)]

UI = Path(__file__).parents[2] / "scripts" / "ui.py"
LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
AS_TEXT = {"capture_output": True, "text": True, "timeout": 120}
SERVES = re.compile(r"(http://127\.0\.0\.1:\d+)\s+user (\S+), password (\S+)")
MORE = re.compile(r"make sample PORT=(\d+)")
DAG, LEDGER = "orders_ordered", "orderedkafka://ledger/orders"

PARTS = ("triggerer", "dag-processor", "api-server", "scheduler")
SOON = {"ORPHANED_TASKS_CHECK_INTERVAL": "15", "TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60"}
"""Airflow waits five minutes for a task that says nothing."""

LOCKED_SECONDS = 12
"""Longer than SQLite waits by itself."""


class Ui:
    """What runs, as a person finds it."""

    def __init__(self, process, log, home, rest):
        self.process, self.log, self.home, self.rest = process, log, home, rest

    @property
    def servers(self):
        return f"127.0.0.1:{MORE.search(self.log.read_text())[1]}"

    @property
    def status(self):
        return self.rest.asset_state(LEDGER, "status") or {"revision": 0, "rows": 0, "ranges": []}

    def until(self, true):
        self.rest.until(true, lambda: f"{self.status} {self.log.read_text()}")

    def until_loading(self):
        self.until(lambda: [row["state"] for row in self.status["ranges"]][-1:] == ["loading"])

    def kill(self, name):
        """As the kernel does where memory is short; what it had started lives on."""
        [part] = [each for each in self.process.children() if name in " ".join(each.cmdline()).replace("_", "-")]
        part.kill()
        deadline = time.monotonic() + 240
        while f"{name} ended" not in self.log.read_text() or not self.healthy:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.3)

    @property
    def healthy(self):
        with contextlib.suppress(httpx.HTTPError):
            health = self.rest.get("/monitor/health")
            return {part["status"] for part in health.values() if part["status"]} == {"healthy"}
        return False


@contextlib.contextmanager
def make_ui(folder, monkeypatch, *ends):
    """`make ui` until a person ends it so; nothing of it may be left."""
    monkeypatch.setenv("PORT", str(free_port()))
    log, home = folder / "told", folder / "home"
    command = [sys.executable, UI, home]
    with log.open("wb") as output:
        process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        with contextlib.closing(signed_in(*served(process, log))) as rest:
            rest.until(lambda: rest.get("/dags")["total_entries"] >= 10, lambda: "the examples were not found")
            yield Ui(process, log, home, rest)
    finally:
        end(process, ends)
        left = kill_all_at(home)
    assert process.returncode == 0, log.read_text()
    assert left == []


@pytest.mark.nightly
def test_an_example_runs_while_the_database_is_locked_on_loopback_alone_and_leaves_nothing_running(
    tmp_path, monkeypatch
):
    with make_ui(tmp_path, monkeypatch, signal.SIGTERM) as ui:
        ui.rest.unpause(DAG)  # its schedule starts a run at once
        ui.until(lambda: ui.rest.runs(DAG))
        run = ui.rest.runs(DAG)[0]["dag_run_id"]
        ui.until_loading()
        ui.until(lambda: any("Spark" in line for line in ui.rest.log(DAG, run, "orders.load")))
        lock(ui.home / "airflow.db", LOCKED_SECONDS)
        assert ui.rest.wait_for_run(DAG, run) == "success", ui.rest.story(DAG, run)
        assert ui.rest.xcom(DAG, run, "orders.commit")["rows"] == sample.EVENTS
        shown = subprocess.run([ui.home / "cli", "ledger", "show", "orders"], check=False, **AS_TEXT)
        assert "revision      1" in shown.stdout, shown.stderr
        addresses = {address for each in ui.process.children(recursive=True) for address in listening(each)}
        assert "127.0.0.1" in addresses <= LOOPBACK
        assert "ended" not in ui.log.read_text()
    files = [each for each in ui.home.iterdir() if each.is_file()]
    assert ui.home / "airflow.db" in files
    assert [each for each in [ui.home, *files] if each.stat().st_mode & 0o077] == [], "others can read it"


@pytest.mark.nightly
def test_each_part_that_is_killed_while_a_load_runs_is_started_again_and_the_load_is_committed_once(
    tmp_path, monkeypatch
):
    for name, value in SOON.items():
        monkeypatch.setenv(f"AIRFLOW__SCHEDULER__{name}", value)
    with make_ui(tmp_path, monkeypatch, signal.SIGINT, signal.SIGINT) as ui:
        ui.rest.unpause(DAG)
        for revision, name in enumerate(PARTS, start=1):
            ui.until_loading()
            ui.kill(name)
            ui.rest.trigger(DAG)  # takes the range over where the run has failed, and else is the next one
            ui.until(lambda revision=revision: ui.status["revision"] == revision)
            if name != PARTS[-1]:
                sample.write_events(ui.servers, first=False)
        rows = Records(ui.servers).read("orders-ordered")
        assert len(rows) == ui.status["rows"] > sample.EVENTS
        assert [ui.log.read_text().count(f"{name} ended") for name in PARTS] == [1] * len(PARTS)


def test_a_taken_port_is_said_at_once(tmp_path, monkeypatch, kafka):
    port = int(kafka.bootstrap_servers.rpartition(":")[2])
    monkeypatch.setenv("PORT", str(port))
    done = subprocess.run([sys.executable, UI, tmp_path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"Port {port} is in use: choose another, such as make ui PORT={port + 1}\n",
    )


def lock(database, seconds):
    """As somebody does who looks into the database with a tool, or makes a copy of it."""
    with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")


def served(process, log):
    deadline = time.monotonic() + 300
    while (found := SERVES.search(log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.3)
    return found.groups()


def signed_in(url, user, password):
    answer = httpx.post(f"{url}/auth/token", json={"username": user, "password": password}, timeout=60)
    return AirflowRest(url, {"Authorization": f"Bearer {answer.json()['access_token']}"})


def end(process, ends):
    """Ctrl-C goes to all processes of a terminal, and some press it twice."""
    for each in ends:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, each)
        time.sleep(1)
    try:
        process.wait(120)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def listening(process):
    try:
        found = process.net_connections("inet")
    except psutil.Error:
        return set()
    return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}
