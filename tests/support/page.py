"""An Airflow that serves the page, with loads that went through this and that."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import httpx
import pytest

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.compat.airflow import has_asset_state
from airflow_provider_orderedkafka.context import ledger_asset
from airflow_provider_orderedkafka.reporting import status
from broker import free_port
from support import statuses

with_state = pytest.mark.skipif(not has_asset_state(), reason="needs the state stores of Airflow 3.3")

PATIENCE = 120
NOW = time.time_ns() // 1_000_000
LONG_NAME = "warehouse-eu-central-1-customer-orders-and-refunds-enriched-with-prices-hourly-into-the-lakehouse"
STORIES: dict[str, Callable[[], statuses.Story | None]] = {
    "orders": lambda: statuses.loading(NOW),
    "refunds": lambda: statuses.waiting(NOW, "refunds"),
    "payments": lambda: statuses.failing(NOW, "payments"),
    "limited": lambda: statuses.spent(NOW, "limited"),
    "moved": lambda: statuses.moved(NOW, "moved"),
    "proved": lambda: statuses.audited(NOW, "proved"),
    "hourly": lambda: statuses.in_intervals(NOW, "hourly"),
    "thousand": lambda: statuses.loading(NOW, "thousand", 1_000),
    LONG_NAME: lambda: statuses.loading(NOW, LONG_NAME),
    "new": lambda: None,
}


@cache
def story_of(load: str) -> statuses.Story | None:
    """Made once, where it is asked for: each process that collects the tests would make them all."""
    return STORIES[load]()


class Served:
    """An Airflow's API server behind the prefix /airflow, over the database of the tests."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}/airflow"
        self.page = f"{self.url}/orderedkafka/"
        self._passwords = folder / "passwords"
        self.log = folder / "log"
        settings = {
            "API__BASE_URL": self.url,
            "API__HOST": "127.0.0.1",
            "API__PORT": self.url.split(":")[2].partition("/")[0],
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": "anna:admin,eve:",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
        }
        self.environment = {**os.environ, **{f"AIRFLOW__{name}": value for name, value in settings.items()}}

    @contextlib.contextmanager
    def running(self):
        command = [sys.executable, "-W", "ignore", "-m", "airflow", "api-server", "--workers", "1"]
        with self.log.open("wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        try:
            self._until_healthy(process)
            yield self
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def token(self, user):
        password = json.loads(self._passwords.read_text())[user]
        answer = httpx.post(f"{self.url}/auth/token", json={"username": user, "password": password}, timeout=60)
        return answer.json()["access_token"]

    def client(self):
        return httpx.Client(
            base_url=f"{self.url}/api/v2", headers={"Authorization": f"Bearer {self.token('anna')}"}, timeout=60
        )

    def _until_healthy(self, process):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/api/v2/version", timeout=5).is_success:
                    return
            time.sleep(0.3)
        raise AssertionError(self.log.read_text())


def keep(served, loads):
    """Have the assets of these loads, with their statuses, or the events that tell them."""
    from airflow.models.asset import AssetActive, AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(AssetModel))  # what another module's loads have left
        for load, story in loads.items():
            asset = asset_of(load)
            model = AssetModel(name=asset.name, uri=asset.uri, group=asset.group, extra={})
            session.add(model)
            session.flush()
            session.add(AssetActive(name=asset.name, uri=asset.uri))
            for each in [] if story is None or has_asset_state() else story.statuses:
                session.add(AssetEvent(asset_id=model.id, extra={"status": json.loads(each.to_text())}))
                session.flush()
    with served.client() as client:
        for load, story in loads.items():
            if story is not None and has_asset_state():
                change(client, load, story.found)


def asset_of(load):
    """The asset that has a load's status."""
    (asset,) = status.outlets(OrderedLoad(load, topics=["orders"])) or [ledger_asset(load)]
    return asset


def change(client, load, found):
    kept(client, "put", load, json={"value": json.loads(found.to_text())})


def kept(client, method, load, **how):
    """Change what Airflow keeps of a load's status."""
    (asset,) = client.get("/assets", params={"uri_pattern": f"orderedkafka://ledger/{load}"}).json()["assets"]
    answer = client.request(method, f"/assets/{asset['id']}/state-store/status", **how)
    assert answer.is_success, answer.text


@contextlib.contextmanager
def showing(served, load, found):
    """While it lasts, this is the load's status."""
    with served.client() as client:
        change(client, load, found)
        yield
        change(client, load, story_of(load).found)


def with_lag(load, **fields):
    found = story_of(load).found
    return statuses.replace(found, lag=statuses.replace(found.lag, **fields))


def with_last(load, **fields):
    """The status with other facts of its last range."""
    found = story_of(load).found
    return statuses.replace(found, ranges=(*found.ranges[:-1], statuses.replace(found.ranges[-1], **fields)))


def set_state(run, task, state):
    """Have a run's task in this state."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        (found,) = session.query(TaskInstance).filter_by(run_id=run.run_id, task_id=task)
        found.state = state
