"""The doctor: whatever is not in order is named, with its remedy."""

import json
import re
import sys
from dataclasses import asdict
from importlib import metadata
from types import SimpleNamespace

import pytest
from support.children import executable
from support.messages import naming, says

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools import cli, doctor
from airflow_provider_orderedkafka.tools.doctor import connections as the_doctor
from airflow_provider_orderedkafka.tools.doctor.connections import checkpoint, connections, main
from airflow_provider_orderedkafka.tools.doctor.installed import (
    Finding,
    Java,
    Tries,
    as_json,
    as_table,
    find_java,
    fits,
    installed,
    spark_behind,
)

OK = Finding("java", "ok", "17.0.1")
WARNING = Finding("airflow", "warning", "never set up", "Run: airflow db migrate")
BROKEN = Finding("pyspark", "broken", "not installed", "Run: pip install it")


@pytest.fixture
def no_airflow(tmp_path, monkeypatch):
    """An Airflow that was never set up."""
    home = tmp_path / "airflow"
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    for name in ("AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    return home


def asked(tries=None):
    """What the process that asks Airflow finds, where none was set up: here, and not in a process of its own."""
    return list(main(json.dumps(asdict(tries or Tries())), ""))


def named(findings, name):
    (finding,) = [finding for finding in findings if finding.name == name]
    return finding


def test_a_finding_has_no_secret():
    found = Finding("kafka", "broken", "sasl.password=hush at https://u:hush@registry", "Correct it")
    assert "hush" not in as_json([found]) + as_table([found])


def test_the_table_is_aligned_and_has_each_remedy_below_its_row():
    assert as_table([OK, WARNING, BROKEN]).splitlines() == [
        "java     ok       17.0.1",
        "airflow  warning  never set up",
        "                  -> Run: airflow db migrate",
        "pyspark  broken   not installed",
        "                  -> Run: pip install it",
        "",
        "1 broken, 1 warning.",
    ]


def test_what_is_installed_here_is_found():
    findings = list(installed(metadata.version))
    assert {finding.status for finding in findings} == {"ok"}
    assert named(findings, "pyspark").found == metadata.version("pyspark")
    assert named(findings, "python").found.startswith(sys.version.split()[0])


def test_a_missing_package_is_broken():
    findings = list(installed(lambda name: None if name == "pyarrow" else metadata.version(name)))
    assert [finding.name for finding in findings if finding.status == "broken"] == ["pyarrow"]


def test_an_airflow_that_is_missing_is_told_once_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "airflow", None)
    found = list(installed(lambda name: None if name.startswith("apache-airflow") else metadata.version(name)))
    broken = {each.name: each.remedy for each in (*found, *connections(Tries())) if each.status != "ok"}
    assert broken.keys() == {"apache-airflow", "apache-airflow-providers-apache-kafka"}
    assert all("pip install 'airflow-provider-orderedkafka[airflow]'" in each for each in broken.values())


@pytest.fixture
def reader_alone(monkeypatch, tmp_path):
    """This package without its extras, and no Java."""
    extras = ("apache-airflow", "apache-airflow-providers-apache-kafka", "pyspark")
    monkeypatch.setitem(sys.modules, "airflow", None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name in extras else metadata.version(name))


def test_the_reader_alone_is_in_order_and_what_loads_need_is_said(reader_alone, capsys):
    assert cli.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "pip install 'airflow-provider-orderedkafka[airflow,spark]'" in printed
    assert printed.endswith("Everything is fine.\n")
    assert "java" not in printed


def test_the_reader_alone_cannot_check_what_airflow_knows(reader_alone):
    findings = doctor.examine(Tries(topics=["orders"]))
    assert named(findings, "apache-airflow").status == "broken"
    assert "install" not in {each.name for each in findings}


def test_the_reader_alone_without_a_package_of_its_own_is_broken(reader_alone, monkeypatch):
    lacking = ("apache-airflow", "apache-airflow-providers-apache-kafka", "pyspark", "pyarrow")
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name in lacking else metadata.version(name))
    assert [each.name for each in doctor.examine(Tries()) if each.status != "ok"] == ["pyarrow"]


def test_an_environment_needs_no_spark_and_then_no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    findings = list(installed(lambda name: None if name == "pyspark" else metadata.version(name)))
    assert {finding.name: finding.status for finding in findings if finding.status != "ok"} == {"java": "warning"}
    assert "pip install 'airflow-provider-orderedkafka[spark]'" in named(findings, "pyspark").found


def test_a_checkpoint_is_tried_from_here_and_nothing_is_left_there(tmp_path):
    place = tmp_path / "checkpoints"
    assert checkpoint(str(place)).status == "ok"
    assert list(place.iterdir()) == []


def test_a_checkpoint_that_cannot_be_read_keeps_nothing_of_what_was_tried(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("stale")

    monkeypatch.setattr(type(tmp_path), "read_text", fail)
    assert "stale" in checkpoint(str(tmp_path)).found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["{file}/below", "nowhere://bucket/checkpoints"])
def test_a_checkpoint_that_cannot_be_reached_from_here_is_broken(tmp_path, location):
    (tmp_path / "file").touch()
    location = location.format(file=tmp_path / "file")
    finding = checkpoint(location)
    assert finding.status == "broken"
    assert location in finding.found


def test_no_java_is_broken_and_the_remedy_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = named(installed(metadata.version), "java")
    assert finding.status == "broken"
    assert str(tmp_path) in finding.found
    assert "openjdk-17" in finding.remedy


def java_home(directory, script):
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(directory)


def test_the_java_of_java_home_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2"))
    assert find_java() == Java(tmp_path / "bin" / "java", "21.0.2", 21)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_an_older_java_is_refused_with_what_was_found_and_how_to_get_a_newer_one(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, f"echo 'java version \"{version}\"' >&2"))
    with pytest.raises(SettingError, match=naming(f"{version} ... {tmp_path} ... apt-get")):
        find_java()


def test_no_java_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingError, match="JAVA_HOME"):
        find_java()


def test_a_java_that_is_none_is_named_with_what_it_said(tmp_path, monkeypatch):
    message = "No Java runtime present."
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, f"echo '{message}' >&2; exit 1"))
    with pytest.raises(SettingError, match=message):
        find_java()


@pytest.mark.parametrize(
    ("version", "python", "java", "status", "word"),
    [
        ((3, 5), (3, 11), 17, "ok", ""),
        ((4, 2), (3, 13), 25, "ok", ""),
        ((3, 5), None, None, "ok", ""),
        ((3, 4), (3, 11), 17, "broken", "old"),
        ((3, 5), (3, 12), 17, "broken", "Python 3.12"),
        ((4, 1), (3, 11), 25, "broken", "Java 25"),
        ((4, 4), (3, 11), 17, "ok", ""),
    ],
)
def test_a_spark_that_does_not_go_with_its_python_or_its_java_is_not_ok(version, python, java, status, word):
    finding = fits("this one", version, python, java)
    assert (finding.status, word in finding.found) == (status, True)


def test_the_spark_behind_a_spark_submit_is_known_by_its_jars(tmp_path):
    binary = executable(tmp_path / "bin" / "spark-submit", "#!/bin/sh\n")
    assert list(spark_behind(str(binary))) == []
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.4.1.jar").touch()
    (finding,) = spark_behind(str(binary))
    assert finding.found == f"3.4.1 (Scala 2.12) at {tmp_path} is too old"
    (ours,) = spark_behind("spark-submit")
    assert (ours.status, metadata.version("pyspark") in ours.found) == ("ok", True)


def test_two_versions_of_spark_in_one_environment_are_broken(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(
        "airflow_provider_orderedkafka.hooks.launching.distributions",
        lambda name: iter([SimpleNamespace(version=name)]),
    )
    (finding,) = spark_behind("spark-submit")
    assert finding.status == "broken"
    assert says(finding.found, "pyspark ... pyspark-client")


def test_connections_of_the_environment_are_found_and_tried(no_airflow, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}')
    monkeypatch.setenv("AIRFLOW_CONN_MASTER", '{"conn_type": "spark", "host": "spark://there", "port": 7077}')
    findings = asked(Tries("broker", "master"))
    kafka = named(findings, "connection broker")
    assert kafka.status == "broken"
    assert "127.0.0.1:9" in kafka.found
    assert named(findings, "connection master").found == "master spark://there:7077"
    assert named(findings, "spark-submit").status == "ok"


def test_settings_that_librdkafka_refuses_and_missing_ones_are_named(no_airflow, monkeypatch):
    extra = '{"bootstrap.servers": "127.0.0.1:9", "no.such.setting": "1"}'
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", f'{{"conn_type": "kafka", "extra": {extra}}}')
    monkeypatch.setenv(
        "AIRFLOW_CONN_MASTER", '{"conn_type": "spark", "host": "local", "extra": {"spark-binary": "no"}}'
    )
    findings = asked(Tries("broker", "master"))
    assert "no.such.setting" in named(findings, "connection broker").found
    assert named(findings, "no").status == "broken"


def test_a_connection_to_amazon_s_kafka_whose_tokens_airflow_makes_is_tried_with_them(no_airflow, monkeypatch):
    servers = "b-1.orders.abc.c2.kafka.eu-west-1.amazonaws.com:9098"
    extra = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setattr(the_doctor, "discover", lambda *_: None)
    found = named(asked(Tries("broker", "nowhere")), "connection broker")
    assert (found.status, found.found) == ("ok", f"{servers} answers")


@pytest.mark.parametrize("name", ["AIRFLOW_CONFIG", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_SECRET"])
def test_an_airflow_that_is_set_up_by_the_environment_is_asked(no_airflow, tmp_path, monkeypatch, name):
    (config := tmp_path / "elsewhere.cfg").touch()
    monkeypatch.setenv(name, str(config))
    monkeypatch.setattr(the_doctor, "_asked", lambda tries, home, environment: [home])
    assert connections(Tries()) == [str(no_airflow)]


def test_a_spark_submit_is_named_by_its_path(no_airflow, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_MASTER", '{"conn_type": "spark", "host": "local"}')
    there, not_there = executable(tmp_path / "bin" / "spark-submit", "#!/bin/sh\n"), tmp_path / "no" / "spark-submit"
    for binary, status in ((str(there), "ok"), (str(not_there), "broken")):
        findings = asked(Tries("nowhere", "master", spark_binary=binary))
        assert named(findings, binary).status == status


def test_an_airflow_that_was_never_set_up_is_said_plainly_and_not_begun(no_airflow, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main(["doctor", "--checkpoint", f"{tmp_path}/file"]) == 65
    said = capsys.readouterr().out
    assert re.search("checkpoint +broken", said)
    assert str(no_airflow) in said
    assert re.search("airflow +warning", said)
    assert re.search("connection kafka_default +warning", said)
    assert "1 broken" in said
    assert not no_airflow.exists()


def test_an_airflow_without_tables_and_a_connection_without_brokers_are_broken(no_airflow, monkeypatch):
    no_airflow.mkdir()
    (no_airflow / "airflow.cfg").touch()
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", '{"conn_type": "kafka"}')
    findings = doctor.examine(Tries("broker", "spark_default"))
    database = named(findings, "airflow")
    assert (database.status, database.remedy) == ("broken", "Run: airflow db migrate")
    connection = named(findings, "connection broker")
    assert connection.status == "broken"
    assert "bootstrap.servers" in connection.found
    assert named(findings, "connection spark_default").remedy.startswith("Run: airflow connections add spark_default")


def test_an_airflow_that_cannot_be_asked_is_broken_and_the_command_fails_and_prints_json(no_airflow, capsys):
    no_airflow.mkdir()
    (no_airflow / "airflow.cfg").write_text("this is no configuration")
    assert cli.main(["doctor", "--json"]) == 65
    findings = {each["name"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert [name for name, each in findings.items() if each["status"] == "broken"] == ["airflow"]
    assert findings["airflow"]["found"].startswith("Airflow cannot be asked:")
