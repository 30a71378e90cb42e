"""What reaches into Airflow, tried on the Airflow that is installed; the rest of it is tried by DAG runs."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from airflow.sdk import DAG, TaskGroup
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import DagRunStateResult, ErrorResponse
from airflow.timetables.events import EventsTimetable
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.timetables.trigger import CronTriggerTimetable, MultipleCronTriggerTimetable

from airflow_provider_orderedkafka.compat.airflow import (
    AIRFLOW,
    PROCESS_CONTEXT,
    PROVIDER,
    TRIED,
    StateOfAsset,
    check_installed,
    connection_of,
    dag_run_state,
    has_data_intervals,
    kafka_config,
    kept_elsewhere,
    mapped_group,
    reaching,
    server_context,
    stored_run_state,
    to_keep,
    version_of,
)
from airflow_provider_orderedkafka.context import is_active
from airflow_provider_orderedkafka.errors import SettingError, UnreachableError


@pytest.mark.parametrize("before", [None, "client"])
def test_the_context_of_a_server_ends_with_the_work(monkeypatch, before):
    monkeypatch.delenv(PROCESS_CONTEXT, raising=False)
    if before:
        monkeypatch.setenv(PROCESS_CONTEXT, before)
    with server_context():
        assert os.environ[PROCESS_CONTEXT] == "server"
    assert os.environ.get(PROCESS_CONTEXT) == before


@pytest.fixture
def worker_backend(state_stores, monkeypatch, tmp_path):
    """Airflow's own backend of workers: what tasks put into their state lies in files."""
    from airflow.providers.common.io.state_store import backend
    from airflow.sdk.execution_time import context

    name = "airflow.providers.common.io.state_store.backend.StateStoreObjectStorageBackend"
    caches = [backend._get_base_path, context._get_worker_state_store_backend]
    monkeypatch.setenv("AIRFLOW__WORKERS__STATE_STORE_BACKEND", name)
    monkeypatch.setenv("AIRFLOW__COMMON_IO__STATE_STORE_OBJECTSTORAGE_PATH", tmp_path.as_uri())
    for each in caches:
        each.cache_clear()
    yield tmp_path
    for each in caches:
        each.cache_clear()


def test_a_value_that_the_worker_s_backend_keeps_is_put_there_and_found_there(worker_backend):
    from airflow.sdk.state import AssetScope

    reference = to_keep({"revision": 1}, "ledger", AssetScope(name="orders", uri="orders://x"))
    assert reference != {"revision": 1}
    assert any(path.is_file() for path in worker_backend.rglob("*"))
    assert kept_elsewhere(reference) == {"revision": 1}
    assert kept_elsewhere({"revision": 2}) == {"revision": 2}


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("schedule", "has"),
    [
        (CronDataIntervalTimetable("@hourly", timezone="UTC"), True),
        (CronTriggerTimetable("@hourly", timezone="UTC"), False),
        (CronTriggerTimetable("@hourly", timezone="UTC", interval=HOUR), True),
        (MultipleCronTriggerTimetable("@hourly", "@daily", timezone="UTC"), False),
        (MultipleCronTriggerTimetable("@hourly", "@daily", timezone="UTC", interval=HOUR), True),
        (EventsTimetable([datetime(2026, 1, 31, tzinfo=UTC)]), False),
        (None, False),
        ("@once", False),
        ("@continuous", False),
    ],
)
def test_a_schedule_has_data_intervals_or_not(schedule, has):
    runs = {"max_active_runs": 1} if schedule == "@continuous" else {}
    assert has_data_intervals(DAG("timed", schedule=schedule, **runs).timetable) is has


@pytest.mark.parametrize("kind", ["CronTriggerTimetable", "MultipleCronTriggerTimetable"])
def test_a_trigger_of_the_task_sdk_has_data_intervals_where_it_is_told_how_long_they_are(kind):
    made = getattr(pytest.importorskip("airflow.sdk.definitions.timetables.trigger"), kind)
    assert not has_data_intervals(made("@hourly", timezone="UTC"))
    assert has_data_intervals(made("@hourly", timezone="UTC", interval=HOUR))


NOT_FOUND = {"detail": {"reason": "not_found", "message": "Dag run with dag_id 'd' and run_id 'r' was not found"}}
MOMENT = "scheduled__2026-01-31T12:00:00.404123+00:00"


def api_error(status, body=None):
    """What a task's supervisor hands on of an error of Airflow's API."""
    detail = {"status_code": status, "message": f"Server returned error for {MOMENT}", "detail": body}
    return ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail)


class Supervisor:
    """Answers the one question that a task asks."""

    def __init__(self, answer):
        self.answer = answer

    def send(self, msg):
        if isinstance(self.answer, ErrorResponse):
            raise AirflowRuntimeError(self.answer)
        return self.answer


@pytest.fixture
def answered(monkeypatch):
    return lambda answer: monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(answer), raising=False)


@pytest.mark.parametrize(
    ("answer", "active"),
    [
        (DagRunStateResult(state="queued"), True),
        (DagRunStateResult(state="running"), True),
        (DagRunStateResult(state="success"), False),
        (DagRunStateResult(state="failed"), False),
        (DagRunStateResult.model_construct(state="of a later Airflow"), True),
        (DagRunStateResult.model_construct(state=None), True),
        (api_error(404, NOT_FOUND), False),
        (api_error(404, {"detail": "Not Found"}), None),
        (api_error(404, "404 page not found"), None),
        (api_error(404), None),
        (api_error(401, {"detail": {"reason": "not_found"}}), None),
        (api_error(403, {"detail": "Forbidden"}), None),
        (api_error(409, NOT_FOUND), None),
        (api_error(500, {"detail": f"{MOMENT} 404 not_found"}), None),
        (api_error(None), None),
        (ErrorResponse(error=ErrorType.GENERIC_ERROR, detail={"message": f"{MOMENT}: not_found"}), None),
        (ErrorResponse(error=ErrorType.GENERIC_ERROR, detail=None), None),
        (ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"reason": "not_found"}), None),
    ],
)
def test_a_run_is_over_only_where_airflow_says_so_and_what_is_not_known_is_told_with_the_way_out(
    answered, answer, active
):
    answered(answer)
    if active is not None:
        assert is_active(f"d/{MOMENT}") is active
        return
    with pytest.raises(UnreachableError) as error:
        is_active(f"d/{MOMENT}")
    assert MOMENT in str(error.value)
    assert error.value.retryable


class ApiBehindAProxy:
    """Airflow's API for a state store, and a proxy in front of it, whose backends are away for some of the requests."""

    def __init__(self, away):
        self.values, self.away, self.requests = {}, away, 0

    def answer(self, request):
        self.requests += 1
        if self.requests in self.away:
            return httpx.Response(404, json={"message": "no Route matched with those values"})
        key = request.url.params["key"]
        if request.method == "PUT":
            self.values[key] = json.loads(request.content)["value"]
            return httpx.Response(204)
        if key not in self.values:
            return httpx.Response(404, json=NOT_FOUND)
        return httpx.Response(200, json={"value": self.values[key]})


class SupervisorOf:
    """Asks that API by Airflow's own client, as a task's supervisor does."""

    def __init__(self, api):
        from airflow.sdk.api.client import Client

        self.client = Client(base_url="http://airflow", token="", transport=httpx.MockTransport(api.answer))

    def send(self, msg):
        from airflow.sdk.api.client import ServerResponseError
        from airflow.sdk.execution_time.comms import AssetStateStoreResult, SetAssetStateStoreByName

        try:
            if isinstance(msg, SetAssetStateStoreByName):
                return self.client.asset_state_store.set(msg.key, msg.value, name=msg.name)
            found = self.client.asset_state_store.get(msg.key, name=msg.name)
        except ServerResponseError as error:
            status = {"status_code": error.response.status_code, "message": str(error), "detail": error.detail}
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=status)) from error
        return (
            found if isinstance(found, ErrorResponse) else AssetStateStoreResult.from_asset_state_store_response(found)
        )


@pytest.fixture
def behind(state_stores, monkeypatch):
    """A ledger's store, behind a proxy that answers some of the requests itself; `kept` says what is there."""
    from airflow.sdk.execution_time.context import AssetStateStoreAccessor

    def made(away, **kept):
        api = ApiBehindAProxy(away)
        api.values |= kept
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SupervisorOf(api), raising=False)
        return StateOfAsset(AssetStateStoreAccessor(name="ledger"))

    return made


def test_a_store_that_answers_for_itself_has_a_value_or_none(behind):
    assert behind((), ledger={"revision": 7}).get("ledger") == {"revision": 7}
    assert behind(()).get("ledger") is None


@pytest.mark.parametrize("away", [range(1, 2), range(1, 3), range(1, 4), range(1, 1_000), [1, 3, 4], [1, 4]])
def test_a_proxy_that_answers_in_its_place_does_not_hide_a_value(behind, away):
    store = behind(away, ledger={"revision": 7})
    try:
        found = store.get("ledger")
    except (UnreachableError, AirflowRuntimeError):
        return
    assert found == {"revision": 7}


REACHES = {
    "airflow.sdk.execution_time.task_runner": lambda: dag_run_state("under_test", "run"),
    "airflow.sdk.execution_time.context": lambda: kept_elsewhere({}),
    "airflow.sdk.exceptions": lambda: connection_of("nowhere", "connection", "add it"),
    "airflow.models.dagrun": lambda: stored_run_state("under_test", "run"),
}
"""Modules of Airflow's own, and what needs them."""


@pytest.mark.parametrize("module", REACHES)
def test_what_a_newer_airflow_lacks_is_one_sentence_with_what_was_tried_and_the_way_out(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingError) as found:
        REACHES[module]()
    said = str(found.value)
    assert said.startswith(f"Airflow {version_of(AIRFLOW)} with the Kafka provider {version_of(PROVIDER)} lacks what ")
    assert module in said
    assert f"Airflow {' to '.join(TRIED[AIRFLOW])} " in said
    assert "pip install --upgrade airflow-provider-orderedkafka" in said
    assert "\n" not in said


def test_an_airflow_without_its_kafka_provider_is_told_how_to_install_that(monkeypatch):
    monkeypatch.setitem(sys.modules, "airflow.providers.apache.kafka", None)
    with pytest.raises(ModuleNotFoundError) as found:
        check_installed()
    assert "'airflow.providers.apache.kafka'" in str(found.value)
    assert str(found.value).endswith(PROVIDER)


def test_a_name_that_airflow_lacks_is_told_like_a_module_and_an_error_of_others_is_left_alone(monkeypatch):
    from airflow.sdk.definitions import taskgroup

    with monkeypatch.context() as patch:
        patch.delattr(taskgroup, "MappedTaskGroup")
        with pytest.raises(SettingError, match="'MappedTaskGroup'"):
            mapped_group(TaskGroup("group", dag=DAG("under_test")))

    @reaching
    def of_others():
        import nothing_of_airflow

        return nothing_of_airflow

    with pytest.raises(ModuleNotFoundError):
        of_others()


def test_a_kafka_provider_that_makes_its_client_in_another_way_is_told(monkeypatch, connections):
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    monkeypatch.setattr(KafkaBaseHook, "get_conn", property(lambda _: 9))
    with pytest.raises(SettingError, match=r"\(.* int\)"):
        kafka_config(KafkaBaseHook("kafka_default"))


LACKING = """
import airflow.sdk
from airflow.sdk import DAG

del airflow.sdk.__version__

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_load

with DAG("of_orderedkafka", schedule=None):
    ordered_load(OrderedLoad("orders", topics=["orders"], start="earliest"), to=KafkaOutput("out"))
"""

OF_OTHERS = """
from airflow.sdk import DAG, TaskGroup, task

with DAG("of_others", schedule=None):
    @task
    def work():
        pass
    with TaskGroup("group"):
        work()
"""

PARSE = """
import json, sys
from pathlib import Path
import airflow_provider_orderedkafka.plugins, airflow_provider_orderedkafka.provider_info
reached = [name for name in sys.modules if name.startswith("airflow_provider_orderedkafka.compat")]
from support.dag_files import dags_of
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = sorted(dags_of(Path(name), Path(name).parent))
    except RuntimeError as error:
        found[name] = str(error.args[0]).strip().splitlines()[-1]
print(json.dumps([reached, *found.values()]))
"""


def test_what_a_newer_airflow_lacks_is_an_error_of_our_dags_alone(airflow_home, tmp_path):
    """Nothing that Airflow loads for everybody reaches into it: the plugin and the provider's description."""
    ours, others = tmp_path / "ours.py", tmp_path / "others.py"
    ours.write_text(LACKING)
    others.write_text(OF_OTHERS)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", PARSE, str(ours), str(others)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=env)
    reached, error, dags = json.loads(done.stdout.splitlines()[-1])
    assert (reached, dags) == ([], ["of_others"])
    assert error.startswith("airflow_provider_orderedkafka.errors.SettingError: Airflow ")
    assert "'__version__'" in error
