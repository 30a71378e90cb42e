"""The doctor: whatever is not in order is named, with its remedy."""

import json
import sys
from datetime import UTC, datetime, timedelta
from importlib import metadata

import pytest
from support.certificates import Authority
from support.children import executable

from airflow_provider_orderedkafka.compat.airflow import has_asset_state
from airflow_provider_orderedkafka.tools import cli, doctor
from airflow_provider_orderedkafka.tools.doctor.certificates import certificates
from airflow_provider_orderedkafka.tools.doctor.finding import Finding, Tries, as_json, as_table, must_be_mended
from airflow_provider_orderedkafka.tools.doctor.installed import installed
from airflow_provider_orderedkafka.tools.doctor.workers import workers_python

OK = Finding("java", "ok", "17.0.1")
WARNING = Finding("airflow database", "warning", "never set up", "Run: airflow db migrate")
BROKEN = Finding("pyspark", "broken", "not installed", "Run: pip install pyspark")


@pytest.fixture
def no_airflow(tmp_path, monkeypatch):
    """An Airflow that was never set up."""
    home = tmp_path / "airflow"
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    for name in ("AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    return home


def named(findings, name):
    (finding,) = [finding for finding in findings if finding.name == name]
    return finding


def test_only_what_is_broken_must_be_mended():
    assert not must_be_mended([OK, WARNING])
    assert must_be_mended([OK, WARNING, BROKEN])


@pytest.mark.parametrize(("status", "remedy"), [("ok", "do this"), ("warning", ""), ("broken", "")])
def test_a_finding_has_a_remedy_exactly_when_it_is_not_ok(status, remedy):
    with pytest.raises(ValueError, match="remedy"):
        Finding("java", status, "something", remedy)


def test_the_table_is_aligned_and_has_each_remedy_below_its_row():
    assert as_table([OK, WARNING, BROKEN]).splitlines() == [
        "java              ok       17.0.1",
        "airflow database  warning  never set up",
        "                           -> Run: airflow db migrate",
        "pyspark           broken   not installed",
        "                           -> Run: pip install pyspark",
        "",
        "1 broken, 1 warnings.",
    ]


def test_the_json_says_the_same_to_a_program():
    document = json.loads(as_json([OK, BROKEN]))
    assert document["ok"] is False
    assert document["findings"][1] == {
        "name": "pyspark",
        "status": "broken",
        "found": "not installed",
        "remedy": "Run: pip install pyspark",
    }


def test_what_is_installed_here_is_found():
    findings = list(installed(metadata.version))
    assert {finding.status for finding in findings} == {"ok"}
    assert named(findings, "pyspark").found == metadata.version("pyspark")
    assert named(findings, "python").found.startswith(sys.version.split()[0])


def test_a_missing_package_is_broken():
    findings = list(installed(lambda name: None if name == "pyarrow" else metadata.version(name)))
    assert [finding.name for finding in findings if finding.status == "broken"] == ["pyarrow"]


@pytest.mark.parametrize("client", [None, "4.1.0"])
def test_two_versions_of_spark_are_broken_and_the_remedy_names_one(client):
    versions = {"pyspark": "4.2.0", "pyspark-client": client}
    finding = named(installed(lambda name: versions.get(name, "1")), "pyspark = pyspark-client")
    assert finding.status == "broken"
    both = client or "4.2.0"  # what pyspark-client has, pyspark has
    assert f"pyspark-client=={both} pyspark=={both}" in finding.remedy


def test_a_version_that_is_not_supported_is_broken_and_the_remedy_names_those_that_are():
    finding = named(installed(lambda name: "2.11.0" if name == "apache-airflow" else "1"), "apache-airflow")
    assert finding.status == "broken"
    assert finding.found.startswith("2.11.0 is not supported: ")
    assert finding.remedy.startswith("Run: pip install 'apache-airflow")


CA = Authority.make()
TLS = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "ssl"}


@pytest.mark.parametrize(
    ("days", "status", "said"), [(-1, "broken", "expired on"), (13, "warning", "in 12 days"), (20, "ok", "valid until")]
)
def test_a_certificate_is_told_by_its_setting_and_its_date(tmp_path, days, status, said):
    pem = tmp_path / "loader.pem"
    pem.write_text(CA.issue("loader", days=days).certificate)
    (finding,) = certificates(TLS | {"ssl.certificate.location": str(pem)})
    assert (finding.name, finding.status) == ("certificate ssl.certificate.location", status)
    assert said in finding.found


def test_of_authorities_one_that_lasts_is_enough():
    old = CA.issue("old", days=-1).certificate
    (finding,) = certificates(TLS | {"ssl.ca.pem": old + CA.certificate})
    assert finding.status == "ok"
    (finding,) = certificates(TLS | {"ssl.ca.pem": old})
    assert finding.status == "broken"


def test_a_certificate_of_the_future_is_broken():
    (finding,) = certificates(TLS | {"ssl.ca.pem": CA.certificate}, datetime.now(UTC) - timedelta(days=3650))
    assert "is only valid from" in finding.found


@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("nothing", "holds no certificate")])
def test_a_certificate_that_cannot_be_read_is_broken(tmp_path, text, said):
    place = tmp_path / "ca.pem"
    if text is not None:
        place.write_text(text)
    (finding,) = certificates(TLS | {"ssl.ca.location": str(place)})
    assert finding.status == "broken"
    assert said in finding.found


def test_without_tls_no_certificate_is_looked_at():
    assert list(certificates({"bootstrap.servers": "127.0.0.1:9", "ssl.ca.location": "/no/such"})) == []


def test_a_checkpoint_is_tried_from_here_and_nothing_is_left_there(no_airflow, tmp_path):
    place = tmp_path / "checkpoints"
    finding = named(doctor.examine("no", "no", Tries(checkpoint=str(place))), "checkpoint from here")
    assert finding.status == "ok"
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("location", ["{file}/below", "nowhere://bucket/checkpoints"])
def test_a_checkpoint_that_cannot_be_reached_from_here_is_broken(no_airflow, tmp_path, location):
    (tmp_path / "file").touch()
    location = location.format(file=tmp_path / "file")
    finding = named(doctor.examine("no", "no", Tries(checkpoint=location)), "checkpoint from here")
    assert finding.status == "broken"
    assert location in finding.found


def test_no_java_is_broken_and_the_remedy_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = named(installed(metadata.version), "java")
    assert finding.status == "broken"
    assert str(tmp_path) in finding.found
    assert "openjdk-17" in finding.remedy


def test_the_workers_python_is_fine_when_it_can_import_everything(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert workers_python().status == "ok"


def test_a_workers_python_without_the_packages_is_broken(monkeypatch, tmp_path):
    bare = executable(tmp_path / "python", f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    finding = workers_python()
    assert finding.status == "broken"
    assert "confluent_kafka (ModuleNotFoundError), pyarrow" in finding.found
    assert finding.remedy.endswith(f"export PYSPARK_PYTHON={sys.executable}")


def test_a_workers_python_of_another_version_is_broken(monkeypatch, tmp_path):
    other = executable(tmp_path / "python", '#!/bin/sh\necho \'{"version": [3, 99], "missing": []}\'\n')
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    finding = workers_python()
    assert finding.status == "broken"
    assert "is Python 3.99" in finding.found


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n"])
def test_a_workers_python_that_does_not_answer_is_broken(monkeypatch, tmp_path, script):
    monkeypatch.setenv("PYSPARK_PYTHON", str(executable(tmp_path / "python", script)))
    assert "does not answer" in workers_python().found


def test_without_a_setting_the_python_that_spark_would_take_is_tried(monkeypatch, tmp_path):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (workers_python().status, "cannot be run" in workers_python().found) == ("warning", True)
    executable(tmp_path / "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    assert workers_python().status == "ok"


def test_an_airflow_that_was_never_set_up_is_said_plainly_and_not_begun(no_airflow):
    findings = doctor.examine("kafka_default", "spark_default")
    finding = named(findings, "airflow database")
    assert finding.status == "warning"
    assert f"never set up in {no_airflow}" in finding.found
    assert named(findings, "connection kafka_default").status == "warning"
    assert not no_airflow.exists()


def test_connections_of_the_environment_are_found_and_tried(no_airflow, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}')
    monkeypatch.setenv("AIRFLOW_CONN_MASTER", '{"conn_type": "spark", "host": "spark://there", "port": 7077}')
    findings = doctor.examine("broker", "master")
    kafka = named(findings, "connection broker")
    assert kafka.status == "broken"
    assert "127.0.0.1:9 cannot be reached" in kafka.found
    assert named(findings, "connection master").found == "master spark://there:7077"
    assert named(findings, "spark-submit").status == "ok"


def test_where_ledgers_are_kept_is_told(no_airflow, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", '{"conn_type": "kafka"}')
    monkeypatch.setenv("AIRFLOW__ORDEREDKAFKA__LEDGER", "s3://bucket/ledgers")
    assert named(doctor.examine("broker", "master"), "ledgers").found == "s3://bucket/ledgers"
    monkeypatch.delenv("AIRFLOW__ORDEREDKAFKA__LEDGER")
    found = named(doctor.examine("broker", "master"), "ledgers")
    if has_asset_state():
        assert (found.status, found.found) == ("ok", "in Airflow's asset state store")
    else:
        assert (found.status, "AIRFLOW__ORDEREDKAFKA__LEDGER" in found.remedy) == ("warning", True)


def test_settings_that_librdkafka_refuses_and_missing_ones_are_named(no_airflow, monkeypatch):
    extra = '{"bootstrap.servers": "127.0.0.1:9", "no.such.setting": "1"}'
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", f'{{"conn_type": "kafka", "extra": {extra}}}')
    monkeypatch.setenv(
        "AIRFLOW_CONN_MASTER", '{"conn_type": "spark", "host": "local", "extra": {"spark-binary": "no"}}'
    )
    findings = doctor.examine("broker", "master")
    assert "no.such.setting" in named(findings, "connection broker").found
    assert named(findings, "no").status == "broken"


def test_the_command_prints_json_and_fails_when_something_must_be_mended(no_airflow, monkeypatch, capsys):
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    assert cli.main(["doctor", "--json"]) == 65
    document = json.loads(capsys.readouterr().out)
    assert {finding["name"] for finding in document["findings"] if finding["status"] == "broken"} == {
        "python of Spark's workers"
    }
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert cli.main(["doctor"]) == 0
    assert "0 broken" in capsys.readouterr().out


def test_an_airflow_without_tables_and_a_connection_without_brokers_are_broken(no_airflow, monkeypatch):
    no_airflow.mkdir()
    (no_airflow / "airflow.cfg").touch()
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", '{"conn_type": "kafka"}')
    findings = doctor.examine("broker", "spark_default")
    database = named(findings, "airflow database")
    assert (database.status, database.remedy) == ("broken", "Run: airflow db migrate")
    assert "has no tables yet" in database.found
    connection = named(findings, "connection broker")
    assert connection.status == "broken"
    assert "no bootstrap.servers" in connection.found


def test_an_airflow_that_cannot_be_asked_is_broken(no_airflow, monkeypatch):
    no_airflow.mkdir()
    (no_airflow / "airflow.cfg").write_text("this is no configuration")
    assert named(doctor.examine("kafka_default", "spark_default"), "airflow").found.startswith(
        "Airflow cannot be asked:"
    )
