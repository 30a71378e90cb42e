"""One Airflow in processes of its own for all the tests that need one, and a lake of each format."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.applications import events
from support.lake import Lake, Loading, MakeLoading
from support.outputs import Position, expected_of
from support.ranges import whole_range
from support.records import Records
from support.table_formats import DELTA, ICEBERG, Format
from support.topics import Topics

if TYPE_CHECKING:
    from support.airflow_loads import LoadInAirflow
    from support.airflow_processes import AirflowProcesses
    from support.airflow_rest import AirflowRest

    from broker import LocalKafka

DAGS = Path(__file__).parent / "dags"


@pytest.fixture(autouse=True)
def no_application_outlives_its_test() -> Iterator[None]:
    """Whatever happens in a test."""
    yield
    from support.children import end_what_was_started

    end_what_was_started()


@pytest.fixture(scope="session")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the application is told what to do."""
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="session")
def airflow(
    kafka: "LocalKafka", orders: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["AirflowProcesses"]:
    """Scheduler, triggerer, DAG processor and API server, until the last test has ended."""
    from support.airflow_processes import AirflowProcesses

    home = tmp_path_factory.mktemp("airflow")
    processes = AirflowProcesses(home, DAGS, kafka.bootstrap_servers, {"ORDERS": str(orders)})
    try:
        processes.start()
        yield processes
    finally:
        processes.stop()


def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Function | None) -> None:
    """Do not let Airflow run beside the tests that come after the last one that needs it."""
    if "airflow" in item.funcargs and "airflow" not in getattr(nextitem, "fixturenames", ()):
        item.funcargs["airflow"].stop()


@pytest.fixture(scope="session")
def rest(airflow: "AirflowProcesses") -> Iterator["AirflowRest"]:
    """Its API; every test DAG is known and has no error."""
    from support.airflow_rest import AirflowRest

    client = AirflowRest(airflow.url, check=airflow.check)
    client.until(lambda: client.get("/dags")["total_entries"] > 0, airflow.logs)
    assert client.get("/importErrors")["import_errors"] == []
    yield client
    client.close()


@pytest.fixture(scope="session")
def load(
    rest: "AirflowRest", airflow: "AirflowProcesses", kafka: "LocalKafka", orders: Path
) -> Callable[[str], "LoadInAirflow"]:
    """One of the test DAGs' loads, with its topics."""
    from support.airflow_loads import LoadInAirflow
    from support.records import Records
    from support.topics import Topics

    records, topics = Records(kafka.bootstrap_servers), Topics(kafka.bootstrap_servers, "airflow")
    return lambda name: LoadInAirflow(name, rest, records, topics, orders, airflow.home)


@pytest.fixture(scope="module")
def story(
    request: pytest.FixtureRequest,
    load: Callable[[str], "LoadInAirflow"],
    rest: "AirflowRest",
    airflow: "AirflowProcesses",
) -> Iterator[Callable[[str], None]]:
    """Plays all stories of a module side by side, for each mostly waits; a test waits for the end of its own."""
    pool = ThreadPoolExecutor()
    played = {name: pool.submit(play, load, rest, airflow) for name, play in request.module.STORIES.items()}
    yield lambda name: played[name].result()
    pool.shutdown(wait=False, cancel_futures=True)  # what nobody waits for ends with Airflow


@pytest.fixture(scope="session")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Format], Lake]]:
    """One lake of each table format for the whole run."""
    with ExitStack() as held:
        yield cache(lambda each: held.enter_context(closing(Lake(tmp_path_factory.mktemp("lake"), each))))


@pytest.fixture(scope="session", params=[DELTA, ICEBERG], ids=lambda each: each.name)
def lake(request: pytest.FixtureRequest, lakes: Callable[[Format], Lake]) -> Lake:
    return lakes(request.param)


@pytest.fixture
def loading(lake: Lake, kafka: Any, topics: Topics, records: Records, tmp_path: Path) -> MakeLoading:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    name = f"orders_{uuid.uuid4().hex}"

    def make(**output: Any) -> Loading:
        loaded = replace(whole_range(kafka.bootstrap_servers, source, batch_offsets=50), id=f"r-{tmp_path.name}")
        table = lake.format.output(lake.folder, name, **output)
        return Loading(lake, kafka.bootstrap_servers, tmp_path, loaded, table)

    return make


@pytest.fixture
def expected(loading: MakeLoading, records: Records) -> list[Position]:
    [topic] = loading().loaded.topics
    return sorted(each.position for each in expected_of(records, topic))
