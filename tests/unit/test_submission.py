"""spark-submit's command line: a value, made of an operator's words and a connection's."""

import re
from base64 import b64encode
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from support.messages import naming

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import own_spark, private_settings
from airflow_provider_orderedkafka.hooks.submission import (
    Command,
    SparkSubmit,
    Submission,
    kill_command,
    master_of,
    secret_settings,
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


def values(submission, name):
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
    theirs = submission_of(connection, SparkSubmit(yarn_queue=None, executor_memory="2g"))
    assert (theirs.yarn_queue, theirs.deploy_mode, theirs.principal) == ("theirs", "cluster", "theirs")
    assert (theirs.spark_binary, theirs.executor_memory) == ("spark3-submit", "2g")
    given = {"yarn_queue": "ours", "deploy_mode": "client", "principal": "ours", "spark_binary": "/opt/submit"}
    ours = submission_of(connection, SparkSubmit(**given))
    assert (ours.yarn_queue, ours.deploy_mode, ours.principal) == ("ours", "client", "ours")
    assert ours.spark_binary == "/opt/submit"


def test_a_keytab_is_a_path_of_the_operator_s_or_the_content_that_the_connection_has():
    connection = on_yarn(keytab=b64encode(b"keys").decode())
    assert submission_of(connection, SparkSubmit()).keytab_content == b"keys"
    ours = submission_of(connection, SparkSubmit(keytab="/etc/keytab"))
    assert (ours.keytab, ours.keytab_content) == ("/etc/keytab", None)
    assert "keys" not in repr(submission_of(connection, SparkSubmit()))


@pytest.mark.parametrize(
    ("connection", "given", "message"),
    [
        (Connection(host="yarn", extra_dejson={"spark-home": "/opt/spark"}), {}, "'spark-home'"),
        (Connection(host="yarn", extra_dejson={"spark-binary": "rm"}), {}, "'spark-binary' ... 'rm'"),
        (Connection(host="yarn"), {"deploy_mode": "clusters"}, "('client', 'cluster') ... 'clusters'"),
        (Connection(host="one", port=7077), {"deploy_mode": "cluster"}, "deploy_mode='client'"),
        (Connection(host="local[2]"), {"deploy_mode": "cluster"}, "deploy_mode='client'"),
        (
            on_yarn(),
            {"conf": {"spark.yarn.submit.waitAppCompletion": False}},
            "spark.yarn.submit.waitAppCompletion='False'",
        ),
        (
            on_kubernetes(),
            {"conf": {"spark.kubernetes.submission.waitAppCompletion": "no"}},
            "spark.kubernetes.submission.waitAppCompletion='no'",
        ),
        (on_yarn(keytab="a"), {}, "'keytab' ... base64"),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_the_name_of_the_connection(connection, given, message):
    with pytest.raises(SettingError, match=naming(message)) as error:
        submission_of(connection, SparkSubmit(**given))
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
        "--conf spark.yarn.submit.waitAppCompletion=true --conf spark.kerberos.renewal.credentials=ccache "
        "--properties-file p.conf --files a.txt --py-files a.py "
        "--archives a.tar.gz#a --driver-class-path a.jar --jars b.jar --packages g:a:1 --exclude-packages g:b "
        "--repositories https://maven --num-executors 4 --total-executor-cores 8 --executor-cores 2 "
        "--executor-memory 2g --driver-memory 1g --keytab /keytab --principal me --proxy-user you --name orders "
        "--queue fast --deploy-mode cluster --verbose app.py --range range.json"
    )


def test_in_client_mode_spark_says_little_unless_it_is_told_otherwise():
    here = Submission(master="local[2]")
    assert values(here, "--conf") == ["spark.log.level=WARN"]
    assert values(replace(here, conf={"spark.log.level": "INFO"}), "--conf") == ["spark.log.level=INFO"]
    assert values(replace(here, master="yarn", deploy_mode="cluster"), "--conf") == [
        "spark.yarn.submit.waitAppCompletion=true"
    ]


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
    assert values(submission, "--conf") == ["spark.log.level=WARN", *conf]
    assert command.environment == {**environment, "OURS": "x"}


def test_the_namespace_of_the_connection_is_used_unless_spark_s_settings_name_one():
    submission = submission_of(on_kubernetes(namespace="theirs"), SparkSubmit())
    assert "spark.kubernetes.namespace=theirs" in values(submission, "--conf")
    ours = submission_of(on_kubernetes(namespace="theirs"), SparkSubmit(conf={"spark.kubernetes.namespace": "ours"}))
    assert [each for each in values(ours, "--conf") if "namespace" in each] == ["spark.kubernetes.namespace=ours"]


@pytest.mark.parametrize(
    ("connection", "setting"),
    [
        (on_yarn(), "spark.yarn.submit.waitAppCompletion=true"),
        (on_kubernetes(), "spark.kubernetes.submission.waitAppCompletion=true"),
    ],
)
def test_spark_submit_waits_for_an_application_in_a_cluster_whatever_a_file_of_settings_says(connection, setting):
    submission = submission_of(connection, SparkSubmit(properties_file="spark.conf"))
    assert values(submission, "--conf") == [setting]
    assert values(replace(submission, conf=dict([setting.split("=")])), "--conf") == [setting]


def test_what_runs_in_a_cluster_is_ended_by_the_cluster_s_own_program():
    yarn = kill_command(submission_of(on_yarn(), SparkSubmit()), "application_1_2", {})
    assert yarn.argv == ("yarn", "application", "-kill", "application_1_2")
    kubernetes = submission_of(on_kubernetes(), SparkSubmit(conf={"spark.kubernetes.context": "prod"}))
    assert kill_command(kubernetes, "ns:pod-driver", {}).argv == (
        *("spark-submit", "--master", "k8s://https://api:443", "--conf", "spark.kubernetes.context=prod"),
        *("--conf", "spark.kubernetes.submission.waitAppCompletion=true"),
        *("--deploy-mode", "cluster", "--kill", "ns:pod-driver"),
    )


def test_what_looks_like_a_secret_is_not_shown():
    shown = Command(
        ("spark-submit", "--conf", "spark.ssl.keyPassword=a b", "--db-password", "c", "app.py", "x", "secret='d' e"),
        {"PASSWORD": "f"},
    )
    assert shown.shown == ("spark-submit --conf spark.ssl.keyPassword=*** --db-password *** app.py x secret=***")
    assert "'f'" not in repr(shown)


SECRET_CONF = {"spark.hadoop.fs.azure.account.key.lake": "a=b: c\\d", "spark.hadoop.fs.s3a.secret.key": "e"}


def read_by_java(text):
    """The properties as Java reads them, from their lines."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name] = value.replace("\\=", "=").replace("\\:", ":").replace("\\ ", " ").replace("\\\\", "\\")
    return found


@pytest.mark.parametrize("how", ["named", "SPARK_CONF_DIR", "SPARK_HOME", "beside the program"])
def test_a_secret_among_spark_s_settings_goes_into_a_private_file_after_what_spark_would_read(tmp_path, how):
    (tmp_path / "jars").mkdir()
    for folder in ("bin", "conf"):
        (tmp_path / folder).mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.theirs=1\\\n")
    program = tmp_path / "bin" / "spark-submit"
    program.touch(0o755)
    conf = {**SECRET_CONF, "spark.ours": "2"}
    submission = Submission(master="local[2]", conf=conf, spark_binary=str(program))
    environment = {"SPARK_CONF_DIR": str(tmp_path / "conf")} if how == "SPARK_CONF_DIR" else {}
    environment |= {"SPARK_HOME": str(tmp_path)} if how == "SPARK_HOME" else {}
    if how == "named":
        submission = replace(submission, properties_file=str(tmp_path / "conf" / "spark-defaults.conf"))
    found = read_by_java(private_settings(submission, environment))
    assert found["spark.theirs"] == "1\\"
    assert {name: found[name] for name in SECRET_CONF} == SECRET_CONF
    assert "spark.ours" not in found
    assert re.search(found["spark.redaction.regex"].removeprefix("(?i)"), "fs.azure.account.key")
    assert values(submission, "--conf") == ["spark.log.level=WARN", "spark.ours=2"]


def test_a_secret_is_not_put_into_a_file_that_would_hide_settings_of_which_nobody_knows(tmp_path, monkeypatch):
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "spark3-submit"
    program.touch(0o755)
    submission = Submission(master="local[2]", conf=SECRET_CONF, spark_binary=str(program))
    with pytest.raises(SettingError, match="properties_file=") as error:
        private_settings(submission, {})
    assert "a=b" not in str(error.value)
    with pytest.raises(SettingError, match="none"):
        private_settings(replace(submission, properties_file=str(tmp_path / "none")), {})
    assert private_settings(replace(submission, conf={"spark.a": "b"}), {}) is None


def test_a_secret_of_the_driver_s_environment_in_a_cluster_is_on_no_command_line():
    submission = Submission(master="yarn", deploy_mode="cluster", env_vars={"AWS_SECRET_ACCESS_KEY": "s", "A": "b"})
    assert values(submission, "--conf") == ["spark.yarn.submit.waitAppCompletion=true", "spark.yarn.appMasterEnv.A=b"]
    assert "spark.yarn.appMasterEnv.AWS_SECRET_ACCESS_KEY" in secret_settings(submission)


def test_a_pyspark_that_another_client_was_unpacked_over_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert own_spark() is not None
    (tmp_path / "pyspark_client-4.0.0.dist-info").mkdir()
    (tmp_path / "pyspark_client-4.0.0.dist-info" / "METADATA").write_text("Name: pyspark-client\nVersion: 4.0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match=r"pyspark==4\.0\.0"):
        own_spark()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert own_spark() == tmp_path
