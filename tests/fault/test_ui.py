"""`make ui`: a real Airflow with the example DAGs, on loopback alone, until Ctrl-C."""

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from support.airflow_processes import kill_all_at
from support.airflow_rest import AirflowRest

from airflow_provider_orderedkafka.tools.embedded import EmbeddedKafka
from airflow_provider_orderedkafka.tools.embedded.sample import EVENTS
from airflow_provider_orderedkafka.tools.embedded.settings import free_port

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

UI = Path(__file__).parents[2] / "scripts" / "ui.py"
LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
AS_TEXT = {"capture_output": True, "text": True, "timeout": 120}
SERVES = re.compile(r"(http://127\.0\.0\.1:\d+)\s+user (\S+), password (\S+)")


@pytest.mark.nightly
def test_the_page_s_airflow_runs_an_example_talks_on_loopback_alone_and_leaves_nothing_running(tmp_path, monkeypatch):
    monkeypatch.setenv("PORT", str(free_port()))
    log, home = tmp_path / "told", tmp_path / "home"
    with log.open("wb") as told:
        process = psutil.Popen([sys.executable, UI, home], stdout=told, stderr=subprocess.STDOUT)
    try:
        with contextlib.closing(signed_in(*served(process, log))) as rest:
            rest.until(lambda: rest.get("/dags")["total_entries"] >= 10, lambda: "the examples were not found")
            rest.unpause("orders_ordered")  # its schedule starts a run at once
            rest.until(lambda: rest.runs("orders_ordered"), lambda: "no run was scheduled")
            run = rest.runs("orders_ordered")[0]["dag_run_id"]
            assert rest.wait_for_run("orders_ordered", run) == "success", rest.story("orders_ordered", run)
            assert rest.xcom("orders_ordered", run, "orders.commit")["rows"] == EVENTS
            shown = subprocess.run([home / "cli", "ledger", "show", "orders"], check=False, **AS_TEXT)
            assert "revision      1" in shown.stdout, shown.stderr
            kill_scheduler(process)
            rest.until(lambda: "scheduler ended" in log.read_text(), lambda: "it was not noticed")
            rest.unpause("orders_operations")
            again = rest.trigger("orders_operations")
            assert rest.wait_for_run("orders_operations", again) == "success"
        addresses = {address for each in process.children(recursive=True) for address in listening(each)}
        assert "127.0.0.1" in addresses <= LOOPBACK
    finally:
        process.terminate()  # as by Ctrl-C, which a test that runs in the background may not send
        end(process)
        left = kill_all_at(home)
    assert process.returncode == 0, log.read_text()
    assert left == []
    files = [each for each in home.iterdir() if each.is_file()]
    assert home / "airflow.db" in files
    assert [each for each in [home, *files] if each.stat().st_mode & 0o077] == [], "others can read it"
    assert not EmbeddedKafka.open(home / "kafka").running


def test_a_taken_port_is_said_at_once(tmp_path, monkeypatch, kafka):
    port = int(kafka.bootstrap_servers.rpartition(":")[2])
    monkeypatch.setenv("PORT", str(port))
    done = subprocess.run([sys.executable, UI, tmp_path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, f"Port {port} is taken: choose another one, make ui PORT={port + 1}\n")


def kill_scheduler(process):
    """As the kernel does where memory is short; what it had started lives on."""
    [scheduler] = [each for each in process.children() if "scheduler" in each.cmdline()]
    scheduler.kill()


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


def end(process):
    try:
        process.wait(60)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def listening(process):
    try:
        found = process.net_connections("inet")
    except psutil.Error:
        return set()
    return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}
