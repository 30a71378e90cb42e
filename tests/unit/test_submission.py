"""spark-submit's command line: a value, made of an operator's words and a connection's."""

from base64 import b64encode
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import own_spark
from airflow_provider_orderedkafka.hooks.submission import (
    Command,
    Submission,
    kill_command,
    masked,
    master_of,
    submission_of,
    submit_command,
)


@dataclass
class Connection:
    conn_type: str = "spark"
    host: str | None = None
    port: int | None = None
    extra_dejson: dict = field(default_factory=dict)
    conn_id: str = "spark_default"


def on_yarn(**extra):
    return Connection(host="yarn", extra_dejson={"deploy-mode": "cluster", **extra})


def on_kubernetes(**extra):
    return Connection(host="k8s://https://api:443", extra_dejson={"deploy-mode": "cluster", **extra})


def told(submission, name):
    """The values that an option has on the command line."""
    argv = submit_command(submission, "app.py", [], {}).argv
    return [value for option, value in pairwise(argv) if option == name]


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (Connection(host="local[*]"), "local[*]"),
        (Connection(host="yarn"), "yarn"),
        (Connection(), "yarn"),
        (Connection(host="spark://one:7077,two:7077"), "spark://one:7077,two:7077"),
        (Connection(host="one", port=7077), "spark://one:7077"),
        (Connection(host="k8s://https://api", port=443), "k8s://https://api:443"),
        (Connection("k8s", "https://api", 443), "k8s://https://api:443"),
    ],
)
def test_a_connection_names_its_master_in_its_host_or_as_a_uri(connection, master):
    assert master_of(connection) == master


def test_what_the_operator_says_goes_before_what_the_connection_says():
    extra = {"queue": "theirs", "deploy-mode": "cluster", "principal": "theirs", "spark-binary": "spark3-submit"}
    connection = Connection(host="yarn", extra_dejson=extra)
    theirs = submission_of(connection, {"yarn_queue": None, "executor_memory": "2g"})
    assert (theirs.yarn_queue, theirs.deploy_mode, theirs.principal) == ("theirs", "cluster", "theirs")
    assert (theirs.spark_binary, theirs.executor_memory) == ("spark3-submit", "2g")
    given = {"yarn_queue": "ours", "deploy_mode": "client", "principal": "ours", "spark_binary": "/opt/submit"}
    ours = submission_of(connection, given)
    assert (ours.yarn_queue, ours.deploy_mode, ours.principal) == ("ours", "client", "ours")
    assert ours.spark_binary == "/opt/submit"


def test_a_keytab_is_a_path_of_the_operator_s_or_the_content_that_the_connection_has():
    connection = on_yarn(keytab=b64encode(b"keys").decode())
    assert submission_of(connection, {}).keytab_content == b"keys"
    ours = submission_of(connection, {"keytab": "/etc/keytab"})
    assert (ours.keytab, ours.keytab_content) == ("/etc/keytab", None)
    assert "keys" not in repr(submission_of(connection, {}))


@pytest.mark.parametrize(
    ("connection", "given", "message"),
    [
        (Connection(host="yarn", extra_dejson={"spark-home": "/opt/spark"}), {}, "'spark-home' is no longer heeded"),
        (Connection(host="yarn", extra_dejson={"spark-binary": "rm"}), {}, "'spark-binary' must be one of"),
        (Connection(host="yarn"), {"deploy_mode": "clusters"}, r"must be one of \('client', 'cluster'\)"),
        (Connection(host="one", port=7077), {"deploy_mode": "cluster"}, "no Python application in cluster mode"),
        (Connection(host="local[2]"), {"deploy_mode": "cluster"}, "no Python application in cluster mode"),
        (Connection(host="yarn"), {"yarn_track_via_rm_api": True}, "is for YARN in cluster mode"),
        (on_yarn(), {"yarn_track_via_rm_api": True}, "needs 'yarn_resourcemanager_webapp_address'"),
        (
            on_yarn(yarn_resourcemanager_webapp_address="rm"),
            {"yarn_track_via_rm_api": True, "conf": {"spark.yarn.submit.waitAppCompletion": True}},
            "leave one of them out",
        ),
        (on_yarn(keytab="a"), {}, "'keytab' is not base64"),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_the_name_of_the_connection(connection, given, message):
    with pytest.raises(SettingError, match=message) as error:
        submission_of(connection, given)
    assert "Spark connection 'spark_default'" in str(error.value)


def test_each_parameter_has_its_option():
    submission = Submission(
        master="yarn",
        conf={"spark.a": "b", "spark.log.level": "INFO"},
        files="a.txt",
        py_files="a.py",
        archives="a.tar.gz#a",
        driver_class_path="a.jar",
        jars="b.jar",
        packages="g:a:1",
        exclude_packages="g:b",
        repositories="https://maven",
        total_executor_cores=8,
        executor_cores=2,
        executor_memory="2g",
        driver_memory="1g",
        keytab="/keytab",
        principal="me",
        proxy_user="you",
        name="orders",
        num_executors=4,
        verbose=True,
        properties_file="p.conf",
        yarn_queue="fast",
        deploy_mode="cluster",
        use_krb5ccache=True,
    )
    assert " ".join(submit_command(submission, "app.py", ["--range", "range.json"], {}).argv) == (
        "spark-submit --master yarn --conf spark.a=b --conf spark.log.level=INFO "
        "--conf spark.kerberos.renewal.credentials=ccache --properties-file p.conf --files a.txt --py-files a.py "
        "--archives a.tar.gz#a --driver-class-path a.jar --jars b.jar --packages g:a:1 --exclude-packages g:b "
        "--repositories https://maven --num-executors 4 --total-executor-cores 8 --executor-cores 2 "
        "--executor-memory 2g --driver-memory 1g --keytab /keytab --principal me --proxy-user you --name orders "
        "--queue fast --deploy-mode cluster --verbose app.py --range range.json"
    )


def test_in_client_mode_spark_says_little_unless_it_is_told_otherwise():
    here = Submission(master="local[2]")
    assert told(here, "--conf") == ["spark.log.level=WARN"]
    assert told(replace(here, conf={"spark.log.level": "INFO"}), "--conf") == ["spark.log.level=INFO"]
    assert told(replace(here, master="yarn", deploy_mode="cluster"), "--conf") == []


@pytest.mark.parametrize(
    ("master", "conf", "environment"),
    [
        ("local[2]", [], {"A": "1"}),
        ("yarn", ["spark.yarn.appMasterEnv.A=1"], {"A": "1"}),
        ("k8s://https://api", ["spark.kubernetes.driverEnv.A=1"], {}),
    ],
)
def test_the_driver_s_environment_goes_the_way_of_its_cluster(master, conf, environment):
    submission = Submission(master=master, env_vars={"A": 1}, conf={"spark.log.level": "WARN"})
    command = submit_command(submission, "app.py", [], {"OURS": "x"})
    assert told(submission, "--conf") == ["spark.log.level=WARN", *conf]
    assert command.environment == {**environment, "OURS": "x"}


def test_the_namespace_of_the_connection_is_used_unless_spark_s_settings_name_one():
    submission = submission_of(on_kubernetes(namespace="theirs"), {})
    assert told(submission, "--conf") == ["spark.kubernetes.namespace=theirs"]
    ours = submission_of(on_kubernetes(namespace="theirs"), {"conf": {"spark.kubernetes.namespace": "ours"}})
    assert told(ours, "--conf") == ["spark.kubernetes.namespace=ours"]


@pytest.mark.parametrize("address", ["rm:8088", "http://rm:8088/"])
def test_where_the_resource_manager_follows_spark_submit_does_not_wait(address):
    connection = on_yarn(yarn_resourcemanager_webapp_address=address)
    submission = submission_of(connection, {"yarn_track_via_rm_api": True})
    assert told(submission, "--conf") == ["spark.yarn.submit.waitAppCompletion=false"]
    assert submission.resource_manager == "http://rm:8088"


def test_what_runs_in_a_cluster_is_ended_by_the_cluster_s_own_program():
    yarn = kill_command(submission_of(on_yarn(), {}), "application_1_2", {})
    assert yarn.argv == ("yarn", "application", "-kill", "application_1_2")
    kubernetes = submission_of(on_kubernetes(), {"conf": {"spark.kubernetes.context": "prod"}})
    assert kill_command(kubernetes, "ns:pod-driver", {}).argv == (
        *("spark-submit", "--master", "k8s://https://api:443", "--conf", "spark.kubernetes.context=prod"),
        *("--deploy-mode", "cluster", "--kill", "ns:pod-driver"),
    )


def test_what_looks_like_a_secret_is_not_shown():
    shown = Command(
        ("spark-submit", "--conf", "spark.ssl.keyPassword=a b", "--db-password", "c", "app.py", "x", "secret='d' e"),
        {"PASSWORD": "f"},
    )
    assert shown.shown == (
        "spark-submit --conf spark.ssl.keyPassword=****** --db-password ****** app.py x secret=******"
    )
    assert "'f'" not in repr(shown)


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("password=abc rest", "password=****** rest"),
        ("HivePassword='a b' rest", "HivePassword=****** rest"),
        ('{"sasl.password": "abc", "x": 1}', '{"sasl.password": ******, "x": 1}'),
        ("Kafka refused the password: SASL failed", "Kafka refused the password: SASL failed"),
    ],
)
def test_a_line_of_output_is_told_without_its_secrets(line, without):
    assert masked(line) == without


def test_a_long_line_is_masked_in_no_time():
    assert masked("password" * 100_000) == "password" * 100_000


def test_a_pyspark_that_another_client_was_unpacked_over_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert own_spark() is not None
    (tmp_path / "pyspark_client-4.0.0.dist-info").mkdir()
    (tmp_path / "pyspark_client-4.0.0.dist-info" / "METADATA").write_text("Name: pyspark-client\nVersion: 4.0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match=r"is 4\.0\.0: both unpack .* pyspark-client==4\.0\.0 pyspark==4\.0\.0"):
        own_spark()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert own_spark() == tmp_path
