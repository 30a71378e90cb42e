"""A load's status on its way to Airflow: told now and then, on every version, and without harm where it cannot be."""

import json
import logging
from dataclasses import replace
from socket import socketpair
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time.comms import CommsDecoder, GetDagRunState
from support.keeping import DictStore
from support.plain import plain_range, plain_report

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.context import ledger_asset
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.core.status import Status
from airflow_provider_orderedkafka.loads.loading import CommitResult
from airflow_provider_orderedkafka.outputs import IcebergOutput, KafkaOutput
from airflow_provider_orderedkafka.reporting import status

LOAD = OrderedLoad("orders", topics=["orders"])
RANGE = plain_range()


class StateStores(dict):
    """State stores by their assets' names, as Airflow's own: before 3.2 an asset cannot be hashed."""

    def __getitem__(self, asset):
        return super().__getitem__(asset.name)


class Task:
    """The parts of a task's context that a status is told by."""

    def __init__(self) -> None:
        from airflow.sdk.execution_time.context import OutletEventAccessors

        self.store, self.progress = DictStore(), DictStore()
        self.events = OutletEventAccessors()

    @property
    def context(self):
        return {
            "ti": SimpleNamespace(dag_id="d", run_id="run 1", task_id="orders.load"),
            "task": SimpleNamespace(upstream_task_ids={"orders.resolve", "orders.load"}),
            "asset_state_store": StateStores({ledger_asset("orders").name: self.store}),
            "task_state_store": self.progress,
            "outlet_events": self.events,
        }

    @property
    def status(self) -> Status:
        return Status.from_text(json.dumps(self.store.get("status")))


def progress(batch):
    return Progress("r1", 1, batch, batch + 1, 9, batch + 1, batch + 1, 0, 10, None, None, 9)


@pytest.fixture
def task(monkeypatch):
    monkeypatch.setattr(status, "has_asset_state", lambda: True)
    return Task()


def test_batches_that_come_quickly_are_told_together_and_none_is_left_out(task):
    with status.Attempt(task.context, LOAD, RANGE, 1) as attempt:
        for batch in range(5):
            attempt.progress(progress(batch))
        (row,) = task.status.ranges
        assert [each.batch for each in row.written] == [0]
    (row,) = task.status.ranges
    assert [each.batch for each in row.written] == [0, 1, 2, 3, 4]
    assert (row.state, row.attempts, row.task) == ("loading", 1, "orders.load")
    assert task.progress.get("progress")["batch"] == 4


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (KafkaOutput("out-{{ ds }}"), "topic:out-2026-01-31"),
        ("parquet:/lake/{{ ds }}", "parquet:/lake/2026-01-31"),
        (IcebergOutput("lake.shop.orders"), "iceberg:lake.shop.orders"),
        (None, ""),
    ],
)
def test_a_step_tells_where_the_load_writes_to(task, to, expected):
    context = task.context
    context["task"].to = to
    context["task"].dag, context["ds"] = DAG("orders", schedule=None), "2026-01-31"
    status.begun(context, LOAD, RANGE, 1)
    assert task.status.output == expected


def test_without_a_state_store_progress_is_an_xcom_of_the_task(task):
    pushed = {}
    context = task.context
    del context["task_state_store"]
    context["ti"].xcom_push = lambda key, value: pushed.update({key: value})
    with status.Attempt(context, LOAD, RANGE, 1) as attempt:
        attempt.progress(progress(3))
    assert pushed["progress"]["batch"] == 3


def test_an_attempt_that_fails_says_why(task):
    with pytest.raises(RuntimeError), status.Attempt(task.context, LOAD, RANGE, 2):
        raise RuntimeError("the disk is full")
    (row,) = task.status.ranges
    assert (row.state, row.error, row.attempts) == ("failed", "the disk is full", 2)


def test_a_status_that_cannot_be_told_fails_nothing(task, caplog):
    context = {**task.context, "asset_state_store": StateStores()}
    with caplog.at_level(logging.WARNING), status.Attempt(context, LOAD, RANGE, 1) as attempt:
        attempt.progress(progress(0))
    assert f"{LOAD.name}: " in caplog.text


@pytest.mark.parametrize(
    "error", [PermissionError("s3: denied"), OSError("disk full"), ConnectionResetError("by the store"), EOFError()]
)
def test_a_store_that_refuses_a_status_fails_no_load(task, caplog, error):
    def refuse(*_):
        raise error

    task.store.set = task.progress.set = refuse
    with caplog.at_level(logging.WARNING), status.Attempt(task.context, LOAD, RANGE, 1) as attempt:
        attempt.progress(progress(0))
    assert f"{LOAD.name}: " in caplog.text


def test_a_task_that_lost_its_supervisor_ends(task):
    ours, theirs = socketpair()
    theirs.close()
    task.store.set = lambda *_: CommsDecoder(socket=ours).send(GetDagRunState(dag_id="d", run_id="r"))
    with ours, pytest.raises((BrokenPipeError, ConnectionResetError, EOFError)):
        status.planned(task.context, LOAD, RANGE)


def test_a_status_of_another_release_is_begun_anew(task):
    task.store.set("status", {"version": 99})
    status.planned(task.context, LOAD, RANGE)
    assert [row.state for row in task.status.ranges] == ["planned"]


def test_before_airflow_3_3_each_resolve_and_commit_is_an_event_of_an_asset_of_its_own(task, monkeypatch):
    monkeypatch.setattr(status, "has_asset_state", lambda: False)
    (asset,) = status.outlets(LOAD)
    assert asset.uri == "orderedkafka://status/orders"
    status.committed(task.context, LOAD, CommitResult(Action.MOVE, "", None, RANGE, plain_report(rows_emitted=7)))
    status.planned(task.context, LOAD, replace(RANGE, id="r2"))
    found = Status.from_text(json.dumps(task.events[asset].extra["status"]))
    row, _ = found.ranges
    assert (row.state, row.counts.rows_emitted, row.run, row.task) == ("committed", 7, "d/run 1", "orders.load")
