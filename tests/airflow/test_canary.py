"""The password of a secured Kafka, with which a load succeeds, searched for in all that a real Spark writes down."""

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest
from support.certificates import Authority
from support.secured import Secured, SecuredKafka

from airflow_provider_orderedkafka import Application
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools.commands.at_airflow import MetadataStore

CANARY = "canary-91c4be07"
SHORT = "cnry91c4"
FORMS = {
    "sasl.password: ": CANARY,
    "private_key: ": CANARY,
    "access_token: ": f"'{CANARY}'",
    "https://lake/x?sig=": CANARY,
    "--password ": CANARY,
    "Basic ": SHORT,
    "Bearer ": SHORT,
}
"""Secrets as programs say them, what stays in front of each."""
TESTS = Path(__file__).parents[1]
LANES = {
    "direct lane": (None, ", batch 1 of "),
    "DataFrame lane": ("support.transforms:environments_told", "MapInArrow"),
}

pytestmark = pytest.mark.fault


def files_with(secret, *folders):
    """Looked for by another process: who closes SQLite's file gives up all locks that this one has there."""
    words = ["grep", "--recursive", "--files-with-matches", "--text", "--fixed-strings", "--", secret]
    found = subprocess.run([*words, *map(str, folders)], capture_output=True, text=True, check=False)
    unread = [line.split(": ")[1] for line in found.stderr.splitlines()]
    assert not any(map(os.path.exists, unread)), found.stderr  # others may have gone meanwhile
    return found.stdout.splitlines()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    scram = Secured.sasl("SCRAM-SHA-512", {"loader": CANARY}, tls=Authority.make())
    everything = {"allow.everyone.if.no.acl.found": True}
    with SecuredKafka(tmp_path_factory.mktemp("secured"), {"SCRAM": scram}, properties=everything) as cluster:
        yield cluster


@pytest.fixture
def secret_connection(connections, kafka, monkeypatch):
    extra = kafka.secured_config("SCRAM", "loader")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))


@pytest.fixture(params=LANES)
def lane(request):
    """The transform of its rows, and what Spark's event log then shows."""
    return LANES[request.param]


@pytest.mark.usefixtures("secret_connection")
def test_a_secret_is_in_no_event_log_checkpoint_database_log_argument_or_environment_that_is_handed_on(
    bench, dag_file, records, monkeypatch, *, lane, tmp_path, capfd
):
    transform, shown = lane
    bench.write(50)
    environments = tmp_path / "environments"
    environments.mkdir()
    monkeypatch.setenv("TOLD_TO", str(environments))
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(tmp_path / "local"),
    }
    source = dag_of(bench, f"Rows(transform={transform!r})", tmp_path, conf)
    arguments = Arguments()
    with arguments:
        run = dag_file(source, "canary.py").test()
    assert run.state == "success"
    assert len(records.read(bench.output)) == 50
    seen = capfd.readouterr()
    assert any(events.rglob("*")), "Spark wrote no event log: nothing would be found in it"
    assert files_with(shown, events), "the event log does not show what the lane runs"
    if transform:
        assert {path.name.partition("-")[0] for path in environments.iterdir()} == {"driver", "worker"}
    assert arguments.seen, "no process of the application was seen"
    assert files_with(CANARY, tmp_path, os.environ["AIRFLOW_HOME"]) == []
    assert CANARY not in seen.out + seen.err
    assert CANARY not in "".join(arguments.seen)


@pytest.mark.usefixtures("secret_connection")
@pytest.mark.parametrize("kind", ["transform", "arrow_transform"])
def test_what_a_transform_prints_and_raises_shows_its_secrets_in_no_log_document_database_or_page(
    bench, dag_file, monkeypatch, tmp_path, capfd, kind
):
    bench.write(5)
    said = [f"{before}{value}" for before, value in FORMS.items()]
    monkeypatch.setenv("BETRAYED", json.dumps(said))
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    dag = dag_of(bench, f'Rows({kind}="support.transforms:betraying")', tmp_path, {})
    assert dag_file(dag, "canary.py").test().state == "failed"
    seen, [failure] = capfd.readouterr(), (tmp_path / "checkpoints").rglob("failure.json")
    on_the_page = MetadataStore(bench.load).get("status")["ranges"][-1]["error"]
    for place in (seen.out + seen.err, failure.read_text(), on_the_page):
        assert [before for before in FORMS if f"{before}***" not in place] == []
        assert not any(secret in place for secret in (CANARY, SHORT))
    for secret in (CANARY, SHORT):
        assert files_with(secret, tmp_path, os.environ["AIRFLOW_HOME"]) == []


@pytest.mark.parametrize("form", FORMS)
def test_an_application_that_is_handed_a_secret_is_refused_without_showing_it(form):
    with pytest.raises(SettingError) as refused:
        Application("own.py", [f"{form}{FORMS[form]}"])
    assert "***" in str(refused.value)
    assert not any(secret in str(refused.value) for secret in (CANARY, SHORT))


def dag_of(bench, rows, folder, conf):
    return f"""
from airflow.sdk import DAG
from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, Rows, SparkSubmit, ordered_load

load = OrderedLoad({bench.load!r}, topics=[{bench.topic!r}], start="earliest")
with DAG({bench.load!r}, schedule=None, catchup=False, max_active_runs=1):
    ordered_load(
        load,
        to=KafkaOutput({bench.output!r}),
        rows={rows},
        spark=SparkSubmit(conf={conf!r}),
        checkpoint={str(folder / "checkpoints")!r},
    )
"""


class Arguments:
    """The arguments of every process that shows the application's name, looked at while it runs."""

    def __init__(self):
        import threading

        self.seen = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _look(self):
        while not self._done.wait(0.5):
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                if "ordered_replay" in line:
                    self.seen.add(line)
