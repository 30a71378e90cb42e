"""What Spark would fail with in Java, found before an attempt is counted: a wrong package, no catalog, no Java.

Only what is known for sure is refused. Where Spark's own spark-submit is not what is started, or the driver is
elsewhere, nothing is known; and jars, class paths and files of settings may bring whatever they like.
"""

import os
import re
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Final

from ..compat.spark_submit import NO_JAVA
from ..errors import SettingError, UnreachableError, no_connect
from ..job import Job
from ..outputs import PACKAGES, DeltaOutput, FilesOutput, IcebergOutput, no_catalog
from .launching import DEFAULTS
from .submission import Submission, check_classic

SPARKS_OWN: Final = "org.apache.spark.deploy.SparkSubmit"
"""What Spark's own spark-submit has in it; another program by that name may do anything."""

MASTER_SECONDS: Final = 20
_CORE: Final = re.compile(r"spark-core_(?P<scala>[\d.]+)-(?P<version>(?P<major>\d+)\.(?P<minor>\d+)\S*)\.jar")
_PACKAGE: Final = re.compile(
    r"(?P<name>org\.apache\.iceberg:iceberg-spark-runtime|io\.delta:delta-spark|org\.apache\.spark:spark-avro)"
    r"(?:[-_](?P<minor>\d+\.\d+)(?=_))?_(?P<scala>\d+\.\d+):(?P<major>\d+)[^,\s]*"
)
_KINDS: Final = {
    "org.apache.iceberg:iceberg-spark-runtime": "iceberg",
    "io.delta:delta-spark": "delta",
    "org.apache.spark:spark-avro": "avro",
}
"""Packages by their names; their major versions are Spark's where they do not say for which Spark they are."""

_JARS: Final = {"iceberg": "*iceberg*.jar", "delta": "*delta*.jar", "avro": "spark-avro*.jar"}
_CLASS_PATHS: Final = ("spark.jars", "spark.driver.extraClassPath")
_ADDRESS: Final = re.compile(r"(?P<host>\[[^\]]+\]|[^:/]+):(?P<port>\d+)")
_PROXIES: Final = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """A Spark on this machine, as its jars say."""

    home: Path
    version: str
    minor: str
    scala: str

    @classmethod
    def at(cls, home: Path) -> "InstalledSpark | None":
        for jar in sorted((home / "jars").glob("spark-core_*.jar")):
            if core := _CORE.fullmatch(jar.name):
                return cls(home, core["version"], f"{core['major']}.{core['minor']}", core["scala"])
        return None

    @property
    def major(self) -> str:
        return self.minor.partition(".")[0]

    @property
    def number(self) -> tuple[int, int]:
        major, minor = self.minor.split(".")
        return int(major), int(minor)

    def __str__(self) -> str:
        return f"Spark {self.version} (Scala {self.scala}) at {self.home}"

    def advice(self, kind: str) -> str:
        """What to name so that a Spark writes this format: its package for this one, or else a Spark that has one."""
        if kind == "avro":
            return f"name its package with packages='org.apache.spark:spark-avro_{self.scala}:{self.version}'"
        package = PACKAGES[kind]
        if self.minor in package.versions:
            return f"name its package with packages={package.of(self.minor, self.scala)!r}"
        return (
            f"this release knows no {package.title} for Spark {self.minor}: use a Spark {package.newest}, with "
            f"spark_binary= and packages={package.of(package.newest)!r}"
        )


def started_by(submission: Submission, environment: Mapping[str, str]) -> InstalledSpark | None:
    """The Spark that spark-submit starts here; None where that is not known."""
    program = shutil.which(str(submission.spark_binary), path=environment.get("PATH"))
    try:
        if program is None or SPARKS_OWN not in Path(program).read_text("utf-8"):
            return None
    except (OSError, ValueError):  # a program that is no script
        return None
    return InstalledSpark.at(Path(environment.get("SPARK_HOME") or Path(program).resolve().parents[1]))


def check_fits(submission: Submission, job: Job, environment: Mapping[str, str]) -> None:
    """`SettingError` for what this Spark cannot start or write, `UnreachableError` for a master that does not answer.

    `environment` is what spark-submit gets besides the worker's own.
    """
    env_vars = {} if submission.on_kubernetes else submission.env_vars
    whole = {**os.environ, **{name: str(value) for name, value in env_vars.items()}, **environment}
    _check_classic(submission, whole)
    spark = started_by(submission, whole)
    if spark is None:
        return
    _check_versions(spark, submission)
    settings = Path(whole.get("SPARK_CONF_DIR") or spark.home / "conf")
    if not (settings / "spark-env.sh").exists():  # it may set anything
        java_of(whole)
        if not submission.clustered and not (job.rows.application and job.rows.application.file):
            _check_formats(spark, submission, job, _settings_text(submission, settings), whole)
    check_master(submission.master, whole)


def _check_classic(submission: Submission, environment: Mapping[str, str]) -> None:
    check_classic(submission.conf)
    remote = environment.get("SPARK_REMOTE")
    asked = {
        f"the connection {submission.conn_id!r} of type 'spark_connect'": submission.master.startswith("spark_connect"),
        f"SPARK_REMOTE={remote!r}": remote and not submission.clustered,
    }
    for said, is_so in asked.items():
        if is_so:
            raise no_connect(said)


def _check_versions(spark: InstalledSpark, submission: Submission) -> None:
    if submission.clustered:
        return  # there may be another one
    for found in _PACKAGE.finditer(_packages(submission)):
        minor = found["minor"]
        needed, there = (minor, spark.minor) if minor else (found["major"], spark.major)
        if (needed, found["scala"]) != (there, spark.scala):
            raise SettingError(
                f"packages: {found[0]!r} is for Spark {needed} and Scala {found['scala']}, but this is {spark}: "
                f"{spark.advice(_KINDS[found['name']])}; or set spark_binary= to the spark-submit of a Spark that this "
                "package is for"
            )


def _packages(submission: Submission) -> str:
    return ",".join([submission.packages or "", str(submission.conf.get("spark.jars.packages", ""))])


def _settings_text(submission: Submission, settings: Path) -> str:
    """What files of settings say; spark-submit may read either of them."""
    files = [settings / DEFAULTS, *([Path(submission.properties_file)] if submission.properties_file else [])]
    return "\n".join(file.read_text("utf-8", errors="replace") for file in files if file.is_file())


def _check_formats(
    spark: InstalledSpark, submission: Submission, job: Job, said: str, environment: Mapping[str, str]
) -> None:
    may_bring = (
        _packages(submission).strip(","),
        submission.jars,
        submission.driver_class_path,
        environment.get("SPARK_DIST_CLASSPATH"),
        *(name in f"{said} {' '.join(submission.conf)}" for name in _CLASS_PATHS),
    )
    for output in (job.to, job.rows.dead_letters):
        kind = _kind(output)
        if kind and not any(may_bring) and not any((spark.home / "jars").glob(_JARS[kind])):
            raise SettingError(
                f"{getattr(output, 'of', output)}: this is {spark}, which has no {kind}: {spark.advice(kind)}"
            )
        if isinstance(output, IcebergOutput):
            _check_catalog(output, f"{said} {' '.join(submission.conf)}")


def _kind(output: object) -> str | None:
    if isinstance(output, IcebergOutput | DeltaOutput):
        return output.kind
    return "avro" if isinstance(output, FilesOutput) and output.format == "avro" else None


def _check_catalog(output: IcebergOutput, said: str) -> None:
    catalog, *rest = output.table.split(".")
    if len(rest) > 1 and f"spark.sql.catalog.{catalog}" not in said:
        raise SettingError(no_catalog(output))


def check_master(master: str, environment: Mapping[str, str]) -> None:
    """Raise `UnreachableError` if none of a master's addresses answers within 20 seconds.

    A cluster that starts again is there again soon. Where the way leads through a proxy, it is not known.
    """
    standalone, kubernetes = master.startswith("spark://"), master.startswith("k8s://")
    if not standalone and (not kubernetes or any(environment.get(name) for name in _PROXIES)):
        return
    rest = master.rpartition("://")[2]
    found = [_ADDRESS.fullmatch(each) for each in rest.split(",")]
    if standalone and not all(found):
        raise SettingError(
            f"the Spark connection's master {master!r} is no address of a cluster: spark://host:port, with commas "
            "between several, such as 'spark://spark-master:7077'"
        )
    addresses = [(each["host"].strip("[]"), int(each["port"])) for each in found if each]
    why = _tried(addresses) if addresses else ""
    if why:
        raise UnreachableError(
            f"no master answers at {master!r} ({why}): is the cluster up, and can it be reached from this worker? "
            "No attempt was counted, and a retry goes on where the load was"
        )


def _tried(addresses: list[tuple[str, int]]) -> str:
    """Why none of them answers; empty if one does."""
    answers: Queue[str] = Queue()

    def ask(address: tuple[str, int]) -> None:
        try:
            socket.create_connection(address, MASTER_SECONDS / 2).close()
            answers.put("")
        except OSError as error:
            answers.put(error.strerror or str(error))

    why, deadline = "no answer in time", time.monotonic() + MASTER_SECONDS
    for address in addresses:
        Thread(target=ask, args=(address,), daemon=True).start()  # a name server may take longer than this waits
    for _ in addresses:
        try:
            why = answers.get(timeout=max(deadline - time.monotonic(), 0.01))
        except Empty:
            return why
        if not why:
            return ""
    return why


def java_of(environment: Mapping[str, str]) -> str:
    """The Java that Spark starts; `SettingError` if there is none."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if (found := shutil.which(java, path=environment.get("PATH"))) is None:
        why = f"JAVA_HOME is {home!r}, and there is no {java!r}" if home else "PATH has no 'java', JAVA_HOME is not set"
        raise SettingError(f"Spark finds no Java: {why}. {NO_JAVA}")
    return found
