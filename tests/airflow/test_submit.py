"""How the application is started: its connection, its secrets, its life. The application is a quick one."""

import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from dataclasses import fields
from hashlib import sha256
from inspect import signature
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from airflow.sdk import DAG
from support.bench import steps_of
from support.services import serving

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, SparkSubmit
from airflow_provider_orderedkafka.context import rendering
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import SECRET_REFERENCE, options_for
from airflow_provider_orderedkafka.hooks.submission import rendered
from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator
from airflow_provider_orderedkafka.tools.cli import main

CANARY = "canary-7d1f0a55"


def log_of(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("airflow.db")]
    return "".join(path.read_text(errors="replace") for path in files)


def database_of(folder):
    """What Airflow's database holds. Another process reads it: closing a file gives up SQLite's locks in this one."""
    files = sorted(folder.glob("airflow.db*"))
    return subprocess.run(["cat", *files], capture_output=True, check=True).stdout.decode(errors="replace")


def test_a_cluster_needs_a_checkpoint_that_all_of_it_reaches_and_no_attempt_is_written_without(
    bench, states, capsys, ledger_of
):
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    with create_session() as session:  # where parsing a DAG does not look
        session.add(Connection(conn_id="a_cluster", conn_type="spark", host="spark://127.0.0.1:1"))
    bench.write(1)
    run = bench.dag(arguments='spark=SparkSubmit("a_cluster")').test()
    assert steps_of(bench, states(run))["load"] == "failed"
    assert "checkpoint=" in capsys.readouterr().out
    assert ledger_of(bench.load).open.attempt == 0


@pytest.mark.parametrize(
    ("place", "spark"), [("hdfs://127.0.0.1:1/loads", ""), ("nope://bucket/loads", ""), ("nope://b/loads", "by_shell")]
)
def test_a_checkpoint_that_airflow_cannot_read_is_an_error_before_an_attempt_is_written_and_another_leads_out(
    bench, states, capsys, ledger_of, tmp_path, place, spark
):
    def dag(checkpoint):
        arguments = f"checkpoint={checkpoint!r}, " + (f"spark={spark}" if spark else "")
        return bench.dag(arguments=arguments, first="from support.services import by_shell")

    bench.write(1)
    run = dag(place).test()
    assert steps_of(bench, states(run))["load"] == "failed"
    assert f"'{place}/" in capsys.readouterr().out
    opened = ledger_of(bench.load).open
    assert (opened.attempt, opened.checkpoint, bench.diary) == (0, None, [])
    assert dag(str(tmp_path)).test().state == "success"
    assert [entry["range"] for entry in bench.diary] == [opened.range_id]


def test_each_attempt_takes_the_secret_that_the_connection_has_by_then(bench, kafka, monkeypatch):
    bench.write(1)
    bench.order("fail 75")
    for secret in ("old", "new"):
        extra = {"bootstrap.servers": kafka.bootstrap_servers, "sasl.username": "u", "sasl.password": secret}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
        bench.dag(arguments=f"to=KafkaOutput({bench.output!r})").test()
    assert [entry["secret"] for entry in bench.diary] == [sha256(each).hexdigest() for each in (b"old", b"new")]
    assert [entry["attempt"] for entry in bench.diary] == [1, 2]


NAMED = (
    *("azure", "access", "secret", "session", "google", "jaas", "apikey"),
    *("environment", "of_source", "of_output", "of_registry", "keytab", "said"),
)


@pytest.fixture
def secrets(monkeypatch):
    """A secret for each place that takes one, as Airflow's variables, whose values it does not know for secrets."""
    found = {name: f"{CANARY}-{name}" for name in NAMED}
    for name, value in found.items():
        monkeypatch.setenv(f"AIRFLOW_VAR_{name.upper()}", value)
    return found


@pytest.fixture
def registry():
    """A registry that has one schema, whatever it is asked for."""
    schema = json.dumps({"type": "record", "name": "order", "fields": [{"name": "id", "type": "int"}]})
    answer = {"subject": "orders-value", "version": 1, "id": 1, "schema": schema}
    with serving({"GET .*": lambda _: answer}) as url:
        yield url


def at(name):
    return f"{{{{ var.value.{name} }}}}"


CONF = {
    "spark.hadoop.fs.azure.account.key.lake": at("azure"),
    "spark.hadoop.fs.s3a.access.key": at("access"),
    "spark.hadoop.fs.s3a.secret.key": at("secret"),
    "spark.hadoop.fs.s3a.session.token": at("session"),
    "spark.hadoop.fs.gs.auth.service.account.private.key": at("google"),
    "spark.kafka.sasl.jaas.config": f'org.x.Module required username="u" password="{at("jaas")}";',
    "spark.openlineage.transport.auth.apiKey": at("apikey"),
}


@pytest.mark.parametrize("ends", ["success", "failed"])
def test_secrets_are_found_nowhere_wherever_they_are_said(
    bench, kafka, states, secrets, submitted, registry, monkeypatch, capfd, tmp_path, ends
):
    if ends == "failed":
        bench.order("fail 65")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    spark = f"SparkSubmit(conf={CONF!r}, env_vars={{'AWS_SECRET_KEY': {at('environment')!r}}})"
    arguments = f"to=KafkaOutput({bench.output!r}, kafka_conn_id='second'), spark={spark}"
    rows = "decode=Decode(value=Avro(registry='registry'))"
    for conn_id, secret in (("kafka_default", secrets["of_source"]), ("second", secrets["of_output"])):
        extra = {"bootstrap.servers": kafka.bootstrap_servers, "sasl.username": "somebody", "sasl.password": secret}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
    of_registry = {"conn_type": "http", "host": registry, "login": "u", "password": secrets["of_registry"]}
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps(of_registry))
    keytab = b64encode(secrets["keytab"].encode()).decode()
    of_spark = {"conn_type": "spark", "host": "local[2]", "extra": {"keytab": keytab, "principal": "u@REALM"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(of_spark))
    monkeypatch.setenv("ORDEREDKAFKA_SAID", f"https://u:{secrets['said']}@h password={secrets['said']}")
    bench.write(1)
    run = bench.dag(arguments=arguments, rows=rows).test()
    assert steps_of(bench, states(run))["load"] == ends
    seen = capfd.readouterr()
    given, settings = submitted.arguments, submitted.settings
    of_clients = {"kafka.sasl.password", "sink.kafka.sasl.password", "registry.basic.auth.user.info"}
    assert of_clients <= set(bench.diary[0]["options"])
    assert "--keytab" in given
    for command in (["loads", "--json"], ["ledger", "show", bench.load, "--json"]):
        assert main(command) in (0, 65)
    printed = capfd.readouterr().out
    assert bench.load in printed
    airflow_home = Path(os.environ["AIRFLOW_HOME"])
    for name, secret in (*secrets.items(), ("keytab as base64", keytab)):
        assert (secret in settings) == (name in NAMED[:7]), name
        for place, text in {
            "the command line": json.dumps(given),
            "the application's": json.dumps(bench.diary),
            "the log": seen.out + seen.err,
            "what commands say": printed,
            "the database": database_of(airflow_home),
            "files": log_of(airflow_home),
        }.items():
            assert secret not in text, f"{name} is in {place}"


def test_in_cluster_mode_a_secret_without_a_way_of_its_own_is_refused_by_name_and_not_by_value():
    options = {"kafka.bootstrap.servers": "b:9092", "sink.kafka.bootstrap.servers": "c:9092"}
    options |= {"kafka.sasl.password": CANARY}
    with pytest.raises(SettingError, match=r"'kafka\.sasl\.password'") as error:
        options_for(options, clustered=True, conf={}, load="orders")
    assert CANARY not in str(error.value)
    referred = options_for(options, clustered=True, conf={SECRET_REFERENCE: "name:key"}, load="orders")
    sink = ["--sink-option", "kafka.bootstrap.servers=c:9092"]
    assert referred.arguments == ["--option", "kafka.bootstrap.servers=b:9092", *sink]
    assert referred.environment == {}


CHILD = """
import os, sys, threading, time
from airflow_provider_orderedkafka.hooks.spark_process import SparkProcess
from airflow_provider_orderedkafka.hooks.submission import Submission, submit_command
submission = Submission(master="local[2]")
process = SparkProcess(submit_command(submission, sys.argv[2], [], {}), submission)
if sys.argv[1] == "on_kill":
    threading.Timer(float(sys.argv[3]), process.end).start()
print("ended", process.run())
"""


def spark_processes(mark):
    return [p for p in psutil.process_iter(["cmdline"]) if mark in " ".join(p.info["cmdline"] or [])]


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
@pytest.mark.parametrize("how", ["on_kill", "kill -9 of the worker"])
def test_the_application_ends_with_its_task(how, connections, airflow_home, tmp_path):
    application = tmp_path / "sleeper.py"
    application.write_text("import time\nprint('up', flush=True)\ntime.sleep(300)\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    arguments = [how.split()[0], str(application), "8"]
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD, *arguments], env={**os.environ, "PATH": path}
    )
    try:
        until(lambda: len(spark_processes(str(application))) >= 3, 60)
        if how != "on_kill":
            child.kill()
        child.wait(60)
        until(lambda: not [p for p in spark_processes(str(application)) if p.pid != child.pid], 30)
    finally:
        child.kill()


def until(true, seconds):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.2)


STAND_IN = """#!{python}
import json, os, sys
given = sys.argv[1:]
with open({given!r}, "w") as file:
    json.dump(given, file)
if "--properties-file" in given:
    with open({given!r} + ".settings", "w") as file, open(given[given.index("--properties-file") + 1]) as settings:
        file.write(settings.read())
print(os.environ.get("ORDEREDKAFKA_SAID", ""), flush=True)
application = next(index for index, each in enumerate(given) if each.endswith("quick.py"))
if "--files" in given:
    os.chdir(os.path.dirname(given[given.index("--files") + 1]))
print("Submitted application application_1700000000000_0001", flush=True)
os.execv(sys.executable, [sys.executable, *given[application:]])
"""


class Submitted:
    """What spark-submit was given."""

    def __init__(self, path):
        self._path = path

    @property
    def arguments(self):
        return json.loads(self._path.read_text())

    @property
    def settings(self):
        """The file of its settings."""
        return Path(f"{self._path}.settings").read_text()


@pytest.fixture
def submitted(monkeypatch, tmp_path):
    """What spark-submit was given; the application runs here, as it would on a cluster."""
    submit, given = tmp_path / "bin" / "spark-submit", tmp_path / "given.json"
    submit.parent.mkdir()
    submit.write_text(STAND_IN.format(python=sys.executable, given=str(given)))
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(submit.parent), os.environ["PATH"]]))
    return Submitted(given)


def on_yarn(monkeypatch, **extra):
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", **extra}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def test_on_yarn_in_cluster_mode_a_load_runs_with_what_airflow_s_operator_has_by_default(
    bench, states, submitted, monkeypatch, tmp_path
):
    on_yarn(monkeypatch)
    bench.write(3)
    run = bench.dag(arguments=f"checkpoint={str(tmp_path / 'loads')!r},").test()
    assert steps_of(bench, states(run)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    assert "--master yarn" in " ".join(submitted.arguments)
    assert "--deploy-mode cluster" in " ".join(submitted.arguments)


def test_default_arguments_of_the_dag_are_taken():
    from airflow.sdk import DAG

    with DAG("defaults", schedule=None, default_args={"spark": SparkSubmit(executor_memory="3g")}):
        orders = OrderedLoad("orders", topics=["orders"])
        load = SubmitOrderedLoadOperator(task_id="load", load=orders, to=KafkaOutput("out"))
    assert load.spark.executor_memory == "3g"


def test_every_other_parameter_of_airflow_s_operator_is_one_here_under_its_name():
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    theirs = set(signature(SparkSubmitOperator.__init__).parameters) - {"self", "kwargs"}
    for name in sorted(theirs - {each.name for each in fields(SparkSubmit)}):
        with pytest.raises(SettingError, match=f"'{name}': ") as refused:
            SparkSubmit(**{name: "x"})
        assert not str(refused.value).endswith("?"), "its own reason, and no guess"
        assert ", spark_binary, " not in str(refused.value), "nor a list of what there is"


@pytest.mark.parametrize("x", ["x", "1,2", '{"a": 1}', "1_000"])
def test_texts_of_spark_submit_are_templates_and_stay_texts_where_the_dag_renders_its_own_to_values(x):
    with DAG("native", schedule=None, render_template_as_native_obj=True):
        task = SubmitOrderedLoadOperator(task_id="load", load=OrderedLoad("orders", topics=["orders"]))
    said = "{{ params.said }}"
    asked = SparkSubmit(said, conf={"spark.a": said, "spark.b": x}, packages=said, name=said, env_vars={"A": said})
    found = rendered(asked, rendering(task, {"params": {"said": x}}))
    assert found == SparkSubmit(x, conf={"spark.a": x, "spark.b": x}, packages=x, name=x, env_vars={"A": x})


def test_what_airflow_adds_to_spark_s_settings_for_lineage_is_submitted(bench, states, submitted, monkeypatch):
    from airflow.providers.common.compat.openlineage.utils import spark

    for name in ("parent_job", "transport"):  # what they do where Airflow's OpenLineage provider is installed
        add = f"inject_{name}_information_into_spark_properties"
        added = {f"spark.openlineage.{name}": "told"}
        monkeypatch.setattr(spark, add, lambda properties, context, added=added: {**properties, **added})
    bench.write(3)
    lineage = "openlineage_inject_parent_job_info=True, openlineage_inject_transport_info=True"
    arguments = f"spark=SparkSubmit({lineage}, conf={{'spark.a': 'b'}})"
    assert steps_of(bench, states(bench.dag(arguments=arguments).test()))["commit"] == "success"
    settings = [value for name, value in pairwise(submitted.arguments) if name == "--conf"]
    for setting in ("spark.openlineage.parent_job=told", "spark.openlineage.transport=told", "spark.a=b"):
        assert setting in settings
    assert "spark.log.level=WARN" in settings
