"""The doctor with a real broker and a real Spark."""

import json
import zipfile

import pytest
from confluent_kafka.admin import ResourceType
from support.certificates import Authority
from support.secured import Secured, SecuredKafka, let
from support.topics import Topics

from airflow_provider_orderedkafka.compat.spark import gateway, hadoop_configuration
from airflow_provider_orderedkafka.spark.probe import look
from airflow_provider_orderedkafka.tools import cli, doctor
from airflow_provider_orderedkafka.tools.doctor.finding import Tries


@pytest.fixture
def connect(tmp_path, monkeypatch):
    """Defines a connection of Airflow's in the environment."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))

    def made(name, **connection):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))

    return made


def statuses(findings, *words):
    return {each.name: each.status for each in findings if each.name.startswith(words)}


def test_a_connection_that_leads_to_a_broker_is_ok(kafka, connect):
    connect("broker", conn_type="kafka", extra=json.dumps({"bootstrap.servers": kafka.bootstrap_servers}))
    (finding,) = [f for f in doctor.examine("broker", "nowhere") if f.name == "connection broker"]
    assert (finding.status, finding.found) == ("ok", f"{kafka.bootstrap_servers} answers")


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    scram = Secured.sasl("SCRAM-SHA-512", {"loader": "sesame"}, tls=Authority.make())
    with SecuredKafka(tmp_path_factory.mktemp("secured"), {"SCRAM": scram}) as kafka:
        yield kafka


def test_certificates_and_each_missing_permission_are_told_by_name(secured, connect, request):
    topics = Topics(secured.bootstrap_servers, request.node.name)
    source, output, closed = topics.create("in"), topics.create("out"), topics.create("closed")
    let(topics.admin, "loader", {ResourceType.TOPIC: ["READ"]}, source)
    let(topics.admin, "loader", {ResourceType.TOPIC: ["READ"]}, output)
    let(topics.admin, "loader", {ResourceType.GROUP: ["READ"]}, "orderedkafka.orders")
    connect("broker", conn_type="kafka", extra=json.dumps(secured.secured_config("SCRAM", "loader")))
    tries = Tries(topics=[source, closed], outputs=[output], load="orders")
    findings = doctor.examine("broker", "nowhere", tries)
    assert statuses(findings, "topic", "output", "group") == {
        f"topic {source}": "ok",
        f"topic {closed}": "broken",
        f"output {output}": "broken",
        "group orderedkafka.orders": "ok",
    }
    (lacking,) = [each for each in findings if each.name == f"output {output}"]
    assert lacking.found == "its principal lacks WRITE"
    assert set(statuses(findings, "certificate").values()) == {"ok"}
    assert any(name.startswith("certificate of ") for name in statuses(findings, "certificate"))
    (denied,) = [each for each in doctor.examine("broker", "no", Tries(load="other")) if each.name.startswith("group")]
    assert denied.status == "broken"


def test_driver_and_executors_are_tried_at_the_checkpoint(connect, kafka, tmp_path, capsys):
    connect("broker", conn_type="kafka", extra=json.dumps({"bootstrap.servers": kafka.bootstrap_servers}))
    connect("master", conn_type="spark", host="local[2]")
    place = tmp_path / "checkpoints"
    asked = ["doctor", "--json", "--kafka-conn-id", "broker", "--spark-conn-id", "master", "--spark"]
    assert cli.main([*asked, "--checkpoint", str(place)]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    names = ("checkpoint from here", "spark driver", "spark executors", "checkpoint from the driver")
    assert {each["name"]: each["status"] for each in found}.items() >= {
        **dict.fromkeys(names, "ok"),
        "checkpoint from executors": "ok",
    }.items()
    assert list(place.iterdir()) == []


def test_a_checkpoint_that_spark_cannot_write_to_is_broken_for_driver_and_executors(connect, tmp_path):
    connect("master", conn_type="spark", host="local[2]")
    (tmp_path / "file").touch()
    findings = doctor.examine("no", "master", Tries(checkpoint=f"{tmp_path}/file", spark=True))
    assert set(statuses(findings, "checkpoint").values()) == {"broken"}
    assert statuses(findings, "spark driver") == {"spark driver": "ok"}


def test_a_master_that_is_not_there_is_told_with_the_command_to_try(connect, monkeypatch):
    connect("master", conn_type="spark", host="no-such-master")
    findings = doctor.examine("no", "master", Tries(spark=True))
    (finding,) = [each for each in findings if each.name == "spark" and each.status == "broken"]
    assert "probe.py" in finding.remedy


@pytest.fixture
def with_jar(spark, tmp_path):
    """Puts a jar with S3A's file system before what Spark's Hadoop finds."""
    configuration = hadoop_configuration(spark)
    before = configuration.getClassLoader()

    def put(name):
        with zipfile.ZipFile(tmp_path / name, "w") as jar:
            jar.writestr("org/apache/hadoop/fs/s3a/S3AFileSystem.class", b"")
        java = gateway(spark)
        urls = java.new_array(java.jvm.java.net.URL, 1)
        urls[0] = java.jvm.java.io.File(str(tmp_path / name)).toURI().toURL()
        configuration.setClassLoader(java.jvm.java.net.URLClassLoader(urls, before))

    yield put
    configuration.setClassLoader(before)


def test_a_hadoop_aws_of_another_version_than_sparks_hadoop_is_broken(spark, with_jar):
    hadoop = gateway(spark).jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    found = {}
    for version in (hadoop, "3.3.4"):
        with_jar(f"org.apache.hadoop_hadoop-aws-{version}.jar")
        found[version] = next(each for each in look(spark, "") if each[0] == "hadoop-aws")
    assert found[hadoop] == ("hadoop-aws", f"{hadoop}, as Hadoop", "")
    assert f"hadoop-aws is 3.3.4 and Spark's Hadoop is {hadoop}" in found["3.3.4"][2]
    assert f"Name org.apache.hadoop:hadoop-aws:{hadoop}" in found["3.3.4"][2]
