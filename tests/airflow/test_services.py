"""Loads by the value of a service: its provider's own operator asks a stand-in, which runs what it was asked for."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import pytest
from botocore.session import Session
from support import dataproc, services
from support.applications import events
from support.audited import audit_of
from support.bench import HELD
from support.certificates import Authority
from support.leaner import WITHOUT_AIRFLOW, environment_without
from support.messages import naming, says
from support.object_store import BUCKET, ObjectStore
from support.outputs import FLAWLESS, check_rows, expected_of

from airflow_provider_orderedkafka import EmrServerless, KafkaOutput, OrderedLoad, SparkKubernetes
from airflow_provider_orderedkafka.compat.airflow import dags_of_files
from airflow_provider_orderedkafka.core.codec import unpacked
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.job import LONGEST, Job, bundle_name
from airflow_provider_orderedkafka.spark.bundle import build_code
from airflow_provider_orderedkafka.spark.session.starting import in_background
from airflow_provider_orderedkafka.tools.doctor import connections as the_doctor

DAG = """
from airflow.sdk import DAG

from airflow_provider_orderedkafka import *

orders = OrderedLoad({load!r}, topics=[{load!r}], start="earliest")
with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    output = KafkaOutput({output!r}, keep_order="partition")
    rows = Rows(application=Application("flaky.py"))
    ordered_load(orders, to=output, rows=rows, spark={spark}, checkpoint={checkpoint!r}, wait="never")
"""

FLAKY = """
import time
from pathlib import Path

from airflow_provider_orderedkafka.spark.app import run_available_now

try:
    import airflow
except ImportError:
    pass
else:
    raise AssertionError("Airflow is here")

PLAN = Path(__file__).with_name("plan")


def flaky(frame):
    plan = PLAN.read_text() if PLAN.exists() else ""
    if plan == "fail":
        raise RuntimeError(NO_LUCK)
    if plan == "hang":
        PLAN.write_text("")
        while not PLAN.with_name("go on").exists():
            time.sleep(0.2)
    return frame


if __name__ == "__main__":
    run_available_now(flaky)
"""


@pytest.fixture(scope="session")
def without_airflow(tmp_path_factory):
    """A Python without Airflow and this package."""
    return environment_without(tmp_path_factory.mktemp("cluster") / "environment", *WITHOUT_AIRFLOW)


@pytest.fixture
def code(tmp_path):
    """Where a service finds the code: what `orderedkafka bundle` writes, and an application beside it."""
    folder = tmp_path / "code"
    build_code(folder)
    (folder / "flaky.py").write_text(FLAKY)
    return folder


@pytest.fixture
def runs(without_airflow, tmp_path):
    made = services.Runs(without_airflow, tmp_path)
    yield made
    made.end()


def known_as_aws(url, monkeypatch):
    aws = {"region_name": "eu-west-1", "endpoint_url": url}
    connection = {"conn_type": "aws", "login": "id", "password": "key", "extra": aws}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(connection))


@pytest.fixture
def emr_steps(runs, code, monkeypatch):
    with services.serving(services.emr_steps(runs)) as url:
        known_as_aws(url, monkeypatch)
        yield f"EmrSteps('file://{code}', cluster='j-1', operator={{'waiter_delay': 1}})"


@pytest.fixture
def emr_serverless(runs, code, monkeypatch):
    """The value, and a stand-in for what its operator asks."""
    with services.serving(services.emr_serverless(runs)) as url:
        known_as_aws(url, monkeypatch)
        role = "role='arn:aws:iam::123456789012:role/orders'"
        yield f"EmrServerless('file://{code}', application_id='00f1', {role}, operator={{'waiter_delay': 1}})"


@pytest.fixture
def glue(runs, code, monkeypatch):
    where = f"s3://{BUCKET}/code"
    with ObjectStore() as store, services.serving(services.glue(runs, where, code)) as url:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        for file in code.iterdir():
            store.client.upload_file(str(file), BUCKET, f"code/{file.name}")
        known_as_aws(url, monkeypatch)
        role = "role='arn:aws:iam::123456789012:role/orders'"
        yield f"Glue('{where}', {role}, operator={{'waiter_delay': 1}})"


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Who signs Google's certificate: one for all tests, since gRPC reads whom it trusts once."""
    made, file = Authority.make(), tmp_path_factory.mktemp("google") / "authority.pem"
    file.write_text(made.certificate)
    return made, file


@pytest.fixture
def google(runs, authority, monkeypatch):
    """What makes a value of Dataproc, with the provider, which is in no lock, on Python's path."""
    dataproc.find_provider(monkeypatch)
    made, file = authority
    with dataproc.serving(runs, made) as url:
        for name, value in dataproc.environment(url, file).items():
            monkeypatch.setenv(name, value)
        yield "project='data', region='europe-west1', operator={'polling_interval_seconds': 1}"


@pytest.fixture
def dataproc_batch(google, code):
    return f"Dataproc('file://{code}', image='europe-docker.pkg.dev/data/spark/orderedkafka:1', {google})"


@pytest.fixture
def dataproc_cluster(google, code):
    return f"Dataproc('file://{code}', cluster='loads', {google})"


OPTIONS = {"kafka.ssl.key.password": "hidden from all"}
"""What the secret of a service has: Kafka's public settings are told by the connection."""


@pytest.fixture
def kafka_with_a_secret(kafka, connections, monkeypatch):
    extra = {"bootstrap.servers": kafka.bootstrap_servers, "ssl.key.password": "hidden from all"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))


@pytest.fixture
def databricks(runs, code, monkeypatch, kafka_with_a_secret):
    secrets = {"kafka/orders": json.dumps(OPTIONS)}
    with services.serving(services.clouds(runs, secrets, code / bundle_name())) as url:
        where = {"schema": "http", "host": "127.0.0.1", "port": int(url.rpartition(":")[2])}
        connection = {"conn_type": "databricks", "password": "token-of-databricks", **where}
        monkeypatch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", json.dumps(connection))
        cluster = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 2}
        polling = "operator={'polling_period_seconds': 1}"
        yield f"Databricks('{code}', cluster={cluster}, secret='kafka/orders', {polling})"


@pytest.fixture
def kubernetes(runs, code, monkeypatch, kafka_with_a_secret):
    routes = services.kubernetes(runs, {"kafka-orders": {"options": json.dumps(OPTIONS)}})
    with services.serving(routes, created=201) as url:
        known = {
            "clusters": [{"name": "here", "cluster": {"server": url}}],
            "users": [{"name": "me", "user": {"token": "token-of-kubernetes"}}],
            "contexts": [{"name": "it", "context": {"cluster": "here", "user": "me"}}],
        }
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "it", **known}
        connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(config)}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        polling = "operator={'poll_interval': 1}"
        yield f"SparkKubernetes('local://{code}', image='spark:1', secret='kafka-orders:options', {polling})"


@pytest.fixture
def livy(runs, code, monkeypatch):
    with services.serving(services.livy(runs), created=201) as url:
        where = {"schema": "http", "host": "127.0.0.1", "port": int(url.rpartition(":")[2])}
        monkeypatch.setenv("AIRFLOW_CONN_LIVY_DEFAULT", json.dumps({"conn_type": "livy", **where}))
        yield f"Livy('file://{code}', operator={{'polling_interval': 1}})"


nightly = [pytest.mark.nightly, pytest.mark.timeout(900)]


OLD_WAYS = ("default:ProvidersManager.hooks is deprecated", "default:BasicAuth is", "default:The 'auth' parameter is")
"""What Databricks' provider 7.23 uses, and is told by Airflow and aiohttp."""


@pytest.fixture(
    params=[
        pytest.param("emr_serverless", marks=pytest.mark.fault),
        pytest.param("databricks", marks=[*nightly, pytest.mark.filterwarnings(*OLD_WAYS)]),
        pytest.param("kubernetes", marks=nightly),
        pytest.param("livy", marks=nightly),
        pytest.param("emr_steps", marks=nightly),
        pytest.param("glue", marks=nightly),
        pytest.param("dataproc_batch", marks=nightly),
        pytest.param("dataproc_cluster", marks=nightly),
    ]
)
def spark(request, connections):
    return request.getfixturevalue(request.param)


def test_a_load_by_a_service_fails_with_its_reason_and_then_goes_its_whole_way(
    spark, runs, code, dag_file, topics, records, ledger_of, states, tmp_path, capsys
):
    load, output = topics.create("in", 3), topics.create("out")
    dag = dag_file(DAG.format(load=load, output=output, spark=spark, checkpoint=f"file://{tmp_path}/checkpoints"))
    records.produce(load, events(600, 1))
    (code / "plan").write_text("fail")
    assert states(dag.test())[f"{load}.load"] == "failed"
    said = capsys.readouterr().out
    assert says(said, f"attempt 1 ... {ledger_of(load).open.range_id!r} ")
    assert "RuntimeError" in said
    assert ledger_of(load).open.attempt == 1

    (code / "plan").unlink()
    assert set(states(dag.test()).values()) == {"success"}, runs.printed("2")
    assert (ledger_of(load).revision, ledger_of(load).rows_emitted) == (1, 600)
    assert check_rows(expected_of(records, load), records.read(output), 1) == FLAWLESS
    assert [runs.state(each) for each in "12"] == ["failed", "success"]
    assert len(runs.requests) == 2
    assert "hidden" not in json.dumps(runs.requests)


RUN = """
import sys
from datetime import datetime
from pathlib import Path

from support.dag_files import dags_of

at = datetime.fromisoformat(sys.argv[2])
(dag,) = dags_of(Path(sys.argv[1]), Path(sys.argv[1]).parent).values()
dag.test(logical_date=at, run_after=at)
"""


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_task_that_is_killed_leaves_no_second_writer_and_a_clear_goes_on(
    spark, runs, code, dag_file, topics, records, ledger_of, states, tmp_path
):
    load, output = topics.create("in", 3), topics.create("out")
    records.produce(load, events(600, 1))
    (code / "plan").write_text("hang")
    dag = dag_file(DAG.format(load=load, output=output, spark=spark, checkpoint=f"file://{tmp_path}/checkpoints"))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    path = os.pathsep.join([str(Path(services.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    run = [sys.executable, "-W", "ignore", "-c", RUN, dag.fileloc, at.isoformat()]
    log = tmp_path / "killed.log"
    with log.open("wb") as log_file:
        task = subprocess.Popen(run, env={**os.environ, "PYTHONPATH": path}, stdout=log_file, stderr=log_file)
    try:
        deadline = time.monotonic() + 300
        while (code / "plan").read_text():  # until the application holds the range
            assert time.monotonic() < deadline, log.read_text()
            assert task.poll() is None, log.read_text()
            time.sleep(0.2)
    finally:
        task.kill()
        task.wait()
    assert runs.state("1") == "running"
    assert set(states(dag.test(logical_date=at, run_after=at)).values()) == {"success"}, runs.printed("2")
    (code / "go on").touch()
    deadline = time.monotonic() + 120
    while runs.state("1") == "running":
        assert time.monotonic() < deadline, runs.printed("1")
        time.sleep(0.2)
    assert runs.state("1") == "failed", runs.printed("1")
    assert (ledger_of(load).revision, ledger_of(load).rows_emitted) == (1, 600)
    assert check_rows(expected_of(records, load), records.read(output), 1) == FLAWLESS


@pytest.mark.fault
@pytest.mark.timeout(900)
def test_a_task_that_its_service_s_timeout_cuts_while_the_driver_writes_loses_nothing_and_doubles_nothing_uncounted(
    emr_serverless, runs, code, dag_file, topics, records, ledger_of, states, tmp_path, monkeypatch, kafka, connections
):
    load, output, state = topics.create("in", 3), topics.create("out", 3), runs.state
    records.produce(load, events(6_000, 1))
    shutil.copy(HELD, code / "flaky.py")
    dag_of = partial(DAG.format, load=load, output=output, checkpoint=f"file://{tmp_path}/checkpoints")

    def state_once_it_writes(run):
        while state(run) == "running" and not (code / "held").exists():
            time.sleep(0.1)
        return state(run)

    def go_on_once_another_attempt_has_begun():
        while len([*tmp_path.glob("checkpoints/*/lease/0*.json")]) < 2:
            time.sleep(0.1)
        (code / "go on").touch()

    monkeypatch.setattr(runs, "state", state_once_it_writes)
    cut = dag_of(spark=emr_serverless.replace("'waiter_delay': 1", "'waiter_delay': 1, 'waiter_max_attempts': 3"))
    assert (states(dag_file(cut).test())[f"{load}.load"], state("1")) == ("failed", "running"), runs.printed("1")
    in_background(go_on_once_another_attempt_has_begun)
    dag = dag_file(dag_of(spark=emr_serverless))
    assert set(states(dag.test()).values()) == {"success"}, runs.printed("2")
    while state("1") == "running":
        time.sleep(0.1)
    dag.test()
    [outcome] = ledger_of(load).outcomes
    [found] = audit_of(kafka.bootstrap_servers, tmp_path / "checkpoints" / outcome.range_id).ranges
    assert {what for what, count in found.compared.counts.items() if count} <= {"doubled", "unknown"}, found
    assert len(records.read(output)) - 6_000 == found.compared.counts["doubled"] <= outcome.may_be_doubled
    assert outcome.rows == 6_000
    assert [f"{outcome.may_be_doubled:,} row" in note for note in found.notes] == [True] * bool(outcome.may_be_doubled)


ORDERS = OrderedLoad("orders", topics=["orders"])
COPY = Job(KafkaOutput("orders-ordered"))
TO_EMR = {"application_id": "00f1", "role": "arn:aws:iam::123456789012:role/orders"}


@pytest.fixture
def kafka_says(monkeypatch):
    """A Kafka connection with these settings."""

    def say(**more):
        extra = {"bootstrap.servers": "b:9092", **{name.replace("_", "."): value for name, value in more.items()}}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))

    return say


def test_what_is_public_of_kafka_s_settings_is_one_word_and_the_rest_is_the_service_s_secret(airflow_home, kafka_says):
    kafka_says(sasl_password="hidden", client_id="loads")
    service = SparkKubernetes("local:///opt/orderedkafka", image="spark", secret="kafka-orders:options")
    options = json.loads(unpacked(service.options(ORDERS, COPY)))
    assert options == {"kafka.bootstrap.servers": "b:9092", "kafka.client.id": "loads"}


@pytest.mark.parametrize(
    ("service", "way_out"),
    [
        (SparkKubernetes("local:///c", image="spark"), "secret="),
        (EmrServerless("local:///c", **TO_EMR), "'orderedkafka.resolver'"),
    ],
)
def test_a_secret_that_would_be_an_argument_is_refused_with_the_way_out(airflow_home, kafka_says, service, way_out):
    kafka_says(sasl_password="hidden")
    with pytest.raises(SettingError, match=r"'kafka\.sasl\.password'") as refused:
        service.options(ORDERS, COPY)
    assert way_out in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_settings_that_no_service_would_take_as_an_argument_are_refused(airflow_home, kafka_says):
    kafka_says(ssl_ca_pem="".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=2 * LONGEST)))
    with pytest.raises(SettingError, match=r"'kafka\.ssl\.ca\.pem'"):
        SparkKubernetes("local:///c", image="spark").options(ORDERS, COPY)


def test_code_of_another_release_is_said_before_an_attempt_is_counted(airflow_home, kafka_says, tmp_path):
    kafka_says()
    service = EmrServerless(f"file://{tmp_path}", **TO_EMR)
    with pytest.raises(SettingError, match=naming(f"{bundle_name()}' ... orderedkafka bundle")):
        service.options(ORDERS, COPY)
    build_code(tmp_path)
    assert service.options(ORDERS, COPY)


def test_a_transform_beside_the_dag_file_is_taken_by_the_service_from_where_it_is_said_to_be(dag_file, airflow_home):
    module = airflow_home / "dags" / "cleaned_orders.py"
    module.write_text("def clean(frame):\n    return frame\n")
    emr = f"EmrServerless('s3://b/code', py_files=('s3://b/code/cleaned_orders.py',), **{TO_EMR})"
    text = DAG.format(load="cleaned", output="cleaned-out", spark=emr, checkpoint="s3://b/c")
    dag = dag_file(text.replace('application=Application("flaky.py")', "transform='cleaned_orders:clean'"))
    module.unlink()
    asked = dag.get_task("cleaned.load").job_driver["sparkSubmit"]
    assert asked["entryPoint"] == "s3://b/code/ordered_replay.py"
    assert asked["sparkSubmitParameters"] == f"--py-files s3://b/code/{bundle_name()},s3://b/code/cleaned_orders.py"


ROLE = "arn:aws:iam::123456789012:role/orders"
VALUES = {
    "EmrServerless": f"EmrServerless('s3://b/code', application_id='00f1', role='{ROLE}')",
    "EmrSteps": "EmrSteps('s3://b/code', cluster='j-1')",
    "Glue": f"Glue('s3://b/code', role='{ROLE}')",
    "Databricks": "Databricks('s3://b/code', cluster={'num_workers': 2})",
    "SparkKubernetes": "SparkKubernetes('local:///opt/orderedkafka', image='spark:1')",
    "Livy": "Livy('hdfs:///orderedkafka')",
    "Dataproc": "Dataproc('gs://b/code', project='data', region='europe-west1', cluster='loads')",
}
REQUESTS = ("job_driver", "steps", "script_args", "spark_python_task", "template_spec", "spark_params", "job")
"""Where the operators have what they ask for."""


def bound(service, operation, *way):
    """The longest text that Amazon's own schema lets through there."""
    shape = Session().get_service_model(service).operation_model(operation).input_shape
    for each in way:
        shape = shape.members[each] if each else shape.member
    return shape.metadata["max"]


@pytest.mark.parametrize("name", [*list(VALUES)[:-1], pytest.param("Dataproc", marks=pytest.mark.nightly)])
def test_the_longest_words_and_all_around_them_fit_into_a_service_s_request(name, dag_file, airflow_home, monkeypatch):
    if name == "Dataproc":
        dataproc.find_provider(monkeypatch)
    load = dag_file(DAG.format(load="long", output="out", spark=VALUES[name], checkpoint="s3://b/c")).get_task(
        "long.load"
    )
    (asked,) = [getattr(load, each) for each in REQUESTS if hasattr(load, each)]
    text = re.sub(r"{{.*?}}", LONGEST * "w", json.dumps(asked, default=vars))
    assert 2 * LONGEST < len(text) < 2 * LONGEST + 2_000, "Databricks takes 10,000, and Glue some 180,000"
    assert bound("emr", "AddJobFlowSteps", "Steps", "", "HadoopJarStep", "Args", "") > LONGEST


def test_loads_whose_names_differ_a_little_have_jobs_of_their_own_in_glue(dag_file, airflow_home):
    """Whoever starts brings the job up to date: of two loads, the one would run the other's application."""
    loads = ("orders_eu", "orders-eu", "Orders_eu")
    how = {"output": "out", "spark": VALUES["Glue"], "checkpoint": "s3://b/c"}
    dags = [dag_file(DAG.format(load=load, **how), f"{load}.py") for load in loads]
    found = [dag.get_task(f"{load}.load").job_name for dag, load in zip(dags, loads, strict=True)]
    assert found == [f"orderedkafka-{load}" for load in loads]


@pytest.fixture
def doctor_of(dag_file, airflow_home, kafka_says):
    """What the doctor finds of a load by this service, without what it says of each: its place in the DAG."""

    def findings(spark, checkpoint="s3://b/c"):
        dag = dag_file(DAG.format(load="orders", output="out", spark=spark, checkpoint=checkpoint))
        found = list(the_doctor.services([("dags:a.py", {"orders": dag})], "broken"))
        return {each.name.partition(" for ")[0]: each for each in found}, found

    return findings


def test_the_doctor_looks_at_what_a_service_needs(doctor_of, kafka_says, tmp_path, monkeypatch):
    kafka_says(sasl_password="hidden")
    emr = f"EmrServerless('file://{tmp_path}/code', application_id='00f1', role='{ROLE}')"
    named, found = doctor_of(emr, f"file://{tmp_path}/checkpoints")
    assert [each.name for each in found if each.status == "broken"] == [
        *2 * ("code for EmrServerless of load orders",),
        "secrets for EmrServerless of load orders",
    ]
    assert "orderedkafka bundle code/" in named["code"].remedy
    assert "orderedkafka.resolver" in named["secrets"].found
    assert named["connection"].found == "aws_default is not defined: AWS looks for credentials by itself"
    assert named["checkpoint"].status == "ok"

    kafka_says()
    build_code(tmp_path / "code")
    (tmp_path / "code" / "flaky.py").write_text(FLAKY)
    assert {each.status for each in doctor_of(emr, f"file://{tmp_path}/checkpoints")[1]} == {"ok"}


def test_the_doctor_says_which_connection_to_a_service_is_missing_and_what_it_cannot_see(doctor_of, kafka_says):
    kafka_says()
    named, _ = doctor_of("Livy('hdfs:///orderedkafka', environment='hdfs:///environment.tar.gz')", "{{ params.place }}")
    assert named["connection"].status == "broken"
    assert named["connection"].remedy.startswith("Run: airflow connections add livy_default --conn-type livy")
    assert named["code"].found == "hdfs:///orderedkafka/flaky.py cannot be seen from here"
    assert ("checkpoint" in named, doctor_of(VALUES["SparkKubernetes"])[0]["connection"].status) == (False, "ok")


def test_the_doctor_finds_the_services_in_the_dag_files_that_airflow_parses(dag_file, airflow_home, kafka_says):
    kafka_says()
    dag_file(DAG.format(load="by_livy", output="out", spark=VALUES["Livy"], checkpoint="hdfs://namenode/c"))
    (broken := airflow_home / "dags" / "broken.py").write_text("from airflow.sdk import DAG\nimport no_such_package\n")
    files = dict(dags_of_files())
    broken.unlink()
    assert files.keys() == {"dags-folder:under_test.py", "dags-folder:broken.py"}
    assert files["dags-folder:broken.py"] is None
    assert any(says(each.name, "Livy ... by_livy") for each in the_doctor.services(list(files.items()), "broken"))
