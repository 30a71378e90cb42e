"""Check what is installed, in which version, and whether the versions match; and how findings are printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal

from ...compat.spark_submit import NO_JAVA
from ...core.notation.secrets import masked
from ...core.notation.spelling import counted
from ...errors import OrderedKafkaError, SettingError
from ...hooks.fitting import InstalledSpark, java_of
from .. import GREEN, RED, YELLOW, painted

Status = Literal["ok", "warning", "broken"]

AS_SAID: Final = "Do what it says"
"""The remedy where an error of this package is the finding: it says the way out."""

_COLOURS: Final[dict[Status, str]] = {"ok": GREEN, "warning": YELLOW, "broken": RED}


@dataclass(frozen=True, slots=True)
class Tries:
    """What is tried: connections, topics to read and to write, a load's group, a checkpoint, another spark-submit.

    With `dags`, all DAG files are parsed.
    """

    kafka_conn_id: str = "kafka_default"
    spark_conn_id: str = "spark_default"
    topics: Sequence[str] = field(default_factory=list)
    outputs: Sequence[str] = field(default_factory=list)
    load: str = ""
    checkpoint: str = ""
    spark_binary: str = ""
    dags: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, without secrets; everything that is not ok has a remedy."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if (self.status == "ok") == bool(self.remedy):
            raise ValueError(f"{self.name}: {self.status!r} with remedy {self.remedy!r}")
        object.__setattr__(self, "found", masked(self.found))


def must_be_mended(findings: Sequence[Finding]) -> bool:
    return any(finding.status == "broken" for finding in findings)


def as_json(findings: Sequence[Finding]) -> str:
    document = {"ok": not must_be_mended(findings), "findings": [asdict(finding) for finding in findings]}
    return json.dumps(document, indent=2)


def as_table(findings: Sequence[Finding]) -> str:
    """The findings for people: a row for each, and its remedy below."""
    name_width = max(len(finding.name) for finding in findings)
    status_width = max(len(finding.status) for finding in findings)
    indent = " " * (name_width + status_width + 4)
    lines: list[str] = []
    for finding in findings:
        status = painted(f"{finding.status:<{status_width}}", _COLOURS[finding.status])
        lines.append(f"{finding.name:<{name_width}}  {status}  {finding.found}")
        if finding.remedy:
            lines.append(f"{indent}-> {finding.remedy}")  # one line, however long: commands are copied from it
    counts = {status: sum(f.status == status for f in findings) for status in ("broken", "warning")}
    good = not any(counts.values())
    return "\n".join(
        [
            *lines,
            "",
            "Everything is fine." if good else f"{counts['broken']} broken, {counted(counts['warning'], 'warning')}.",
        ]
    )


Minor = tuple[int, int]

_OLDEST_SPARK, _PYTHON_3_12_FROM, _JAVA_24_FROM = (3, 5), (4, 0), (4, 2)
_OLDEST_JAVA = 17
"""The oldest major version that Kafka 4 and Spark 4 run on."""
_JAVA_SECONDS = 30
_JAVA_VERSION = re.compile(r'version "(?P<full>(?:1\.)?(?P<major>\d+)[^"]*)"')
_WITH_SPARK = "pip install 'airflow-provider-orderedkafka[spark]'"
_READER_ONLY = (
    "reader only: Airflow and Spark are not installed; for loads, pip install "
    "'airflow-provider-orderedkafka[airflow,spark]' brings both"
)
_AIRFLOW = ("apache-airflow", "apache-airflow-providers-apache-kafka")
_BASE = ("airflow-provider-orderedkafka", "confluent-kafka", "pyarrow", "numpy")


def installed(version_of: Callable[[str], str | None], *, needs_airflow: bool = False) -> Iterator[Finding]:
    """Findings on Python, each package and Java; `version_of` returns None for a missing package.

    Without Airflow and Spark it is the reader, which is in order if nothing that was asked `needs_airflow`.
    """
    yield Finding("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    yield from (_package(name, version_of(name)) for name in _BASE)
    if needs_airflow or any(map(version_of, (*_AIRFLOW, "pyspark"))):
        yield from _for_loads(version_of)
    else:
        yield Finding("install", "ok", _READER_ONLY)


def _for_loads(version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    yield from (_package(name, version_of(name)) for name in _AIRFLOW)
    spark = version_of("pyspark")
    absent = f"not installed; if no other Spark is used, {_WITH_SPARK} brings one"
    yield Finding("pyspark", "ok", spark or absent)
    yield _java("broken" if spark else "warning")


def _package(name: str, version: str | None) -> Finding:
    if version is None:
        what = "'airflow-provider-orderedkafka[airflow]'" if name in _AIRFLOW else "airflow-provider-orderedkafka"
        return Finding(name, "broken", "not installed", f"Run: pip install {what}")
    return Finding(name, "ok", version)


def _java(missing: Status) -> Finding:
    try:
        java = find_java()
    except OrderedKafkaError as error:
        return Finding("java", missing, str(error).removesuffix(NO_JAVA).strip(), NO_JAVA)
    return Finding("java", "ok", f"{java.version} at {java.executable} ({_OLDEST_JAVA} or newer is needed)")


def spark_behind(binary: str) -> Iterator[Finding]:
    """A finding on the Spark that this program starts; none where it cannot be seen."""
    from ...hooks.spark_process import interpreter_environment

    try:
        environment = interpreter_environment(binary)
    except SettingError as error:  # such as a pyspark-client that is another version than pyspark
        yield Finding("spark", "broken", str(error), AS_SAID)
        return
    program = shutil.which(binary, path=environment.get("PATH", os.environ.get("PATH")))
    home = environment.get("SPARK_HOME") or (program and str(Path(program).resolve().parents[1]))
    if home and (spark := InstalledSpark.at(Path(home))):
        python = sys.version_info[:2] if environment["PYSPARK_PYTHON"] == sys.executable else None
        yield fits(str(spark).removeprefix("Spark "), spark.number, python, _java_major())


def fits(name: str, version: Minor, python: Minor | None, java: int | None) -> Finding:
    """Whether a Spark goes with a Python and a Java, as far as these are known."""
    if version < _OLDEST_SPARK:
        return Finding("spark", "broken", f"{name} is too old", "Name the spark-submit of Spark 3.5 or newer")
    if java is not None and java > 23 and version < _JAVA_24_FROM:  # noqa: PLR2004 - Java 24 took away what they use
        return Finding("spark", "broken", f"{name} does not start on Java {java}", "Set JAVA_HOME to Java 17 or 21")
    if python is not None and python > (3, 11) and version < _PYTHON_3_12_FROM:
        remedy = "Set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to a Python 3.11"
        return Finding("spark", "broken", f"{name} does not support Python {'.'.join(map(str, python))}", remedy)
    return Finding("spark", "ok", name)


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    version: str
    major: int


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else of PATH, as Spark does; `SettingError` if there is none or it is too old."""
    java = installed_java()
    if java.major < _OLDEST_JAVA:
        raise SettingError(
            f"Java {java.version} was found at {java.executable}, but Kafka and Spark need {_OLDEST_JAVA} or newer. "
            f"{NO_JAVA}"
        )
    return java


def installed_java() -> Java:
    """Return the Java that is there, however old; `SettingError` if there is none that answers."""
    executable = Path(java_of(os.environ))
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingError(f"{executable} cannot be run ({error}). {NO_JAVA}") from error
    found = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode or not found:  # macOS has a `java` that only says that there is none
        said = (answer.stderr + answer.stdout).strip()
        raise SettingError(f"`{executable} -version` printed no version, but {said!r}. {NO_JAVA}")
    return Java(executable, found["full"], int(found["major"]))


def _java_major() -> int | None:
    try:
        return installed_java().major
    except OrderedKafkaError:  # there is a finding on Java
        return None
