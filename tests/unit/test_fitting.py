"""What is known of a Spark before it starts, and what it says itself: refused where it is sure, and taken where not."""

import socket
from pathlib import Path
from typing import Any

import py4j.protocol
import pytest
from pyspark.errors import AnalysisException
from support.messages import says

from airflow_provider_orderedkafka.compat.spark_submit import why_not_started
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError, TransformError, UnreachableError
from airflow_provider_orderedkafka.hooks.fitting import SPARKS_OWN, InstalledSpark, check_fits, check_master
from airflow_provider_orderedkafka.hooks.submission import Submission
from airflow_provider_orderedkafka.job import Allow, Application, Job, Rows
from airflow_provider_orderedkafka.outputs import DeltaOutput, FilesOutput, IcebergOutput, KafkaOutput
from airflow_provider_orderedkafka.spark.session.failures import classify_failure

ICEBERG = IcebergOutput("lake.shop.orders")
CATALOG = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
FITS = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a Spark 4.1, with a Java beside it."""
    for name in ("jars/spark-core_2.13-4.1.3.jar", "jars/avro-1.12.0.jar", "bin/spark-submit", "bin/java"):
        path = tmp_path / "spark" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\nexec spark-class {SPARKS_OWN}\n")
        path.chmod(0o755)
    return tmp_path / "spark"


def check(home: Path, job: Job, *, environment: dict[str, str] | None = None, **given: Any) -> None:
    there = {"PATH": str(home / "bin"), "SPARK_HOME": "", "JAVA_HOME": "", "SPARK_CONF_DIR": "", **(environment or {})}
    check_fits(Submission(**{"master": "local[2]", **given}), job, there)


def job(to: Any, **rows: Any) -> Job:
    return Job(to, Rows(**rows))


@pytest.mark.parametrize(
    ("given", "environment", "said"),
    [
        ({"conf": {"spark.remote": "sc://host"}}, {}, "spark.remote='sc://host'"),
        ({"conf": {"spark.api.mode": "connect"}}, {}, "spark.api.mode='connect'"),
        ({"master": "spark_connect://host:15002"}, {}, "'spark_default' ... 'spark_connect'"),
        ({}, {"SPARK_REMOTE": "local"}, "SPARK_REMOTE='local'"),
    ],
)
def test_a_session_of_spark_connect_is_refused(home: Path, given: Any, environment: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError) as refused:
        check(home, job(KafkaOutput("out")), environment=environment, **given)
    assert says(str(refused.value), said)


def test_a_classic_session_is_one_whatever_the_worker_says_where_the_driver_is_elsewhere(home: Path) -> None:
    conf = {"spark.api.mode": "classic"}
    check(home, job(KafkaOutput("out")), conf=conf)
    there = {"master": "yarn", "deploy_mode": "cluster"}
    check(home, job(KafkaOutput("out")), environment={"SPARK_REMOTE": "local"}, **there)


def test_a_spark_is_known_by_its_jars(home: Path) -> None:
    found = InstalledSpark.at(home)
    assert found is not None
    assert (found.version, found.minor, found.scala, found.number) == ("4.1.3", "4.1", "2.13", (4, 1))
    assert InstalledSpark.at(home / "bin") is None


@pytest.mark.parametrize(
    ("to", "given"),
    [
        (KafkaOutput("out"), {}),
        (FilesOutput("/data", "orc"), {}),
        (FilesOutput("/data", "avro"), {"packages": "org.apache.spark:spark-avro_2.13:4.1.3"}),
        (ICEBERG, {"packages": FITS, "conf": CATALOG}),
        (ICEBERG, {"packages": "org.example:lake:1", "conf": CATALOG}),
        (ICEBERG, {"jars": "/opt/iceberg.jar", "conf": CATALOG}),
        (ICEBERG, {"driver_class_path": "/opt/*", "conf": CATALOG}),
        (ICEBERG, {"conf": {**CATALOG, "spark.jars.packages": FITS}}),
        (ICEBERG, {"deploy_mode": "cluster", "master": "yarn"}),
        (DeltaOutput("/data"), {"packages": "io.delta:delta-spark_4.1_2.13:4.4.0"}),
        (DeltaOutput("/data"), {"packages": "io.delta:delta-spark_2.13:4.0.0,org.example:x:1"}),
        (DeltaOutput("/data"), {"conf": {"spark.driver.extraClassPath": "/opt/*"}}),
    ],
)
def test_what_fits_or_may_fit_is_started(home: Path, to: Any, given: dict[str, Any]) -> None:
    check(home, job(to), **given)


@pytest.mark.parametrize(
    ("to", "given"),
    [
        (ICEBERG, {"packages": FITS}),
        (ICEBERG, {"conf": CATALOG}),
        (ICEBERG, {"packages": FITS.replace("4.1_", "4.0_"), "conf": CATALOG}),
        (ICEBERG, {"conf": {**CATALOG, "spark.jars.packages": FITS.replace("_2.13", "_2.12")}}),
        (DeltaOutput("/data"), {}),
        (DeltaOutput("/data"), {"packages": "io.delta:delta-spark_2.13:3.2.0"}),
        (DeltaOutput("/data"), {"packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}),
        (FilesOutput("/data", "avro"), {}),
    ],
)
def test_what_cannot_fit_is_refused(home: Path, to: Any, given: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        check(home, job(to), **given)


def test_a_table_of_dead_letters_needs_its_package_too(home: Path) -> None:
    with pytest.raises(SettingError, match="delta"):
        check(home, job(FilesOutput("/data"), bad_records=Allow(1, DeltaOutput("/dead"))))


def test_what_files_of_settings_or_a_spark_itself_may_bring_is_not_refused(home: Path, tmp_path: Path) -> None:
    (home / "jars" / "delta-spark_4.1_2.13-4.4.0.jar").touch()
    check(home, job(DeltaOutput("/data")))
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text("spark.jars.packages x:y:1\nspark.sql.catalog.lake z\n")
    check(home, job(ICEBERG))
    named = tmp_path / "settings.conf"
    named.write_text("spark.sql.catalog.other=z\n")
    check(home, job(IcebergOutput("other.shop.orders")), properties_file=str(named))


def test_where_spark_s_own_environment_a_program_of_one_s_own_or_another_submit_may_do_it_nothing_is_refused(
    home: Path,
) -> None:
    check(home, job(ICEBERG, application=Application("mine.py")))
    (home / "conf").mkdir()
    (home / "conf" / "spark-env.sh").touch()
    check(home, job(ICEBERG), environment={"JAVA_HOME": "/nowhere"})
    (home / "conf" / "spark-env.sh").unlink()
    (home / "bin" / "spark-submit").write_text("#!/bin/sh\nssh edge spark-submit $@\n")
    check(home, job(ICEBERG), environment={"JAVA_HOME": "/nowhere"}, master="spark://127.0.0.1:1")


def test_without_a_java_nothing_is_started(home: Path) -> None:
    with pytest.raises(SettingError, match="'/nowhere'"):
        check(home, job(KafkaOutput("out")), environment={"JAVA_HOME": "/nowhere"})
    (home / "bin" / "java").unlink()
    with pytest.raises(SettingError, match="JAVA_HOME"):
        check(home, job(KafkaOutput("out")))


def test_one_master_of_several_is_enough_and_none_may_be_there_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        check_master(f"spark://{address}", {})
        check_master(f"spark://127.0.0.1:1,{address}", {})
        check_master(f"k8s://https://{address}", {})
    with pytest.raises(UnreachableError, match="refused") as away:
        check_master("spark://127.0.0.1:1,127.0.0.1:2", {})
    assert away.value.retryable


def test_what_is_behind_a_proxy_or_of_another_kind_is_not_asked() -> None:
    check_master("k8s://https://127.0.0.1:1", {"HTTPS_PROXY": "http://proxy:3128"})
    for master in ("local[2]", "yarn", "k8s://https://cluster.example/path"):
        check_master(master, {})


UNRESOLVED = """
\tHost repos.spark-packages.org not found. url=https://repos.spark-packages.org/io/nowhere/x_2.13/1.0/x_2.13-1.0.pom
:: io.nowhere#x_2.13;1.0: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: io.nowhere#x_2.13;1.0: not found]
"""
UNREACHED = UNRESOLVED.replace(
    "\tHost", "\tServer access error at url https://jars.example.org/x (java.net.ConnectException)\n\tHost"
)
NO_JAVA = "/opt/spark/bin/spark-class: line 71: /nowhere/bin/java: No such file or directory"
OLD_JAVA = (
    "java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a more recent version "
    "of the Java Runtime (class file version 61.0)"
)


@pytest.mark.parametrize(
    ("output", "kind", "part"),
    [
        (UNRESOLVED, SettingError, "'io.nowhere:x_2.13:1.0'"),
        (UNREACHED, UnreachableError, "jars.example.org"),
        (NO_JAVA, SettingError, "/nowhere/bin/java"),
        ("JAVA_HOME is not set", SettingError, "JAVA_HOME"),
        (OLD_JAVA, SettingError, "Java"),
    ],
)
def test_why_spark_submit_did_not_start_the_application_is_one_sentence(
    output: str, kind: type[OrderedKafkaError], part: str
) -> None:
    found = why_not_started(f"26/11/25 INFO before\n{output}\nafter")
    assert type(found) is kind
    assert part in str(found)
    assert "\n" not in str(found)


def test_what_is_not_known_of_spark_submit_stays_as_it_was_said() -> None:
    assert why_not_started("Killed") is None


def java(text: str) -> Exception:
    """What a call into Java raises, as text has it."""
    error = Exception.__new__(py4j.protocol.Py4JError)
    error.args = (f"An error occurred while calling o30.tableExists.\n: {text}\n\tat org.apache.spark.x(X.scala:1)",)
    return error


@pytest.mark.parametrize(
    ("error", "kind", "part"),
    [
        (
            java("org.apache.spark.SparkException: Cannot find catalog plugin class for catalog 'lake': x.Catalog."),
            SettingError,
            "'lake'",
        ),
        (AnalysisException("Failed to find data source: avro. Avro is built-in but external"), SettingError, "'avro'"),
        (
            java("o.a.s.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: io.x. Ma"),
            SettingError,
            "'io.x'",
        ),
        (
            java("java.lang.IncompatibleClassChangeError: class com.example.Mixed can not implement b"),
            SettingError,
            "com.example.Mixed",
        ),
        (java("java.lang.NoSuchMethodError: 'void a.b()'"), SettingError, "a.b()"),
        (java("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"), None, "S3A"),
        (
            java("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
            SettingError,
            "S3AFileSystem",
        ),
        (java("java.lang.NoClassDefFoundError: Could not initialize class x"), None, "x"),
        (java("o.a.s.SparkException: Could not parse Master URL: 'sparkk://x'"), SettingError, "'sparkk://x'"),
        (java("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."), UnreachableError, ""),
    ],
)
def test_what_spark_says_of_its_own_setup_is_one_sentence_and_final_unless_it_may_pass(
    error: Exception, kind: type[OrderedKafkaError] | None, part: str
) -> None:
    found = classify_failure(error)
    assert part in str(found)
    assert "\n" not in str(found)
    if kind is None:
        assert found.retryable
    else:
        assert type(found) is kind


def test_what_a_users_function_says_in_such_words_is_the_users() -> None:
    text = 'Traceback (most recent call last):\n  File "/x.py", line 3, in f\nValueError: NoSuchMethodError\n'
    assert type(classify_failure(AnalysisException(text))) is TransformError
