"""What the broker runs on: the Java that Spark uses, and the broker's jars.

These are downloaded once into the user's cache directory, with the Ivy that pyspark ships.
"""

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...errors import OrderedKafkaError

OLDEST = 17
"""The oldest major version that Kafka 4 and Spark 4 run on."""

HOW_TO_INSTALL = (
    f"Install Java {OLDEST} or newer (Debian and Ubuntu: apt-get install openjdk-{OLDEST}-jre-headless; "
    f"Fedora: dnf install java-{OLDEST}-openjdk-headless; macOS: brew install openjdk@{OLDEST}), "
    "and set JAVA_HOME when `java` is not on PATH."
)
_ANSWER_SECONDS = 30
_VERSION = re.compile(r'version "(?P<full>(?:1\.)?(?P<major>\d+)[^"]*)"')


class JavaError(OrderedKafkaError):
    """No suitable Java was found: install one that is new enough, or set JAVA_HOME."""


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    version: str
    major: int


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else of PATH, as Spark does; raise when there is none or it is too old."""
    java = installed_java()
    if java.major < OLDEST:
        raise JavaError(
            f"Java {java.version} was found at {java.executable}, but Kafka and Spark need {OLDEST} or newer. "
            f"{HOW_TO_INSTALL}"
        )
    return java


def installed_java() -> Java:
    """Return the Java that is there, however old; raise when there is none that answers."""
    executable = _executable()
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{executable} cannot be run ({error}). {HOW_TO_INSTALL}") from error
    found = _VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode or not found:  # macOS has a `java` that only says that there is none
        said = (answer.stderr + answer.stdout).strip()
        raise JavaError(f"`{executable} -version` names no version, it said {said!r}. {HOW_TO_INSTALL}")
    return Java(executable, found["full"], int(found["major"]))


def _executable() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        inside = Path(home) / "bin" / "java"
        if not inside.is_file():
            raise JavaError(f"JAVA_HOME is {home!r}, but {inside} does not exist. {HOW_TO_INSTALL}")
        return inside
    if on_path := shutil.which("java"):
        return Path(on_path)
    raise JavaError(f"No Java was found: JAVA_HOME is not set and PATH has no `java`. {HOW_TO_INSTALL}")


DEFAULT_VERSION: Final = "4.1.1"

_DEADLINE_SECONDS = 1_800
_LAST_LINES = 6

# `bundle` is the type of five jars without which nothing starts; slf4j-simple is what makes Kafka's log readable.
_TYPES = ("jar", "bundle")
_DEPENDENCIES = """<ivy-module version="2.0">
  <info organisation="orderedkafka" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default"/>
  </dependencies>
</ivy-module>
"""

Announce = Callable[[str], None]


class FetchError(OrderedKafkaError):
    """The broker could not be downloaded: try again, or copy the cache directory from another machine."""

    retryable = True


def cache_directory() -> Path:
    """ORDEREDKAFKA_CACHE, else a folder of the user's cache directory."""
    if own := os.environ.get("ORDEREDKAFKA_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "orderedkafka"


def announce_on_stderr(line: str) -> None:
    """Print progress where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


def kafka_jars(java: Java, announce: Announce = announce_on_stderr, version: str = DEFAULT_VERSION) -> Path:
    """Return the directory of the jars of a broker of this version, fetched first where they are not there yet.

    Several processes may ask at once: one fetches, the others wait for it. Raises FetchError.
    """
    jars = cache_directory() / f"kafka_2.13-{version}"
    if jars.is_dir():
        return jars
    with _locked(jars):
        if not jars.is_dir():
            _fetch(java, jars, version, announce)
    return jars


@contextlib.contextmanager
def _locked(jars: Path) -> Iterator[None]:
    try:
        jars.parent.mkdir(parents=True, exist_ok=True)
        lock = jars.with_name(f"{jars.name}.lock").open("w")
    except OSError as error:
        raise FetchError(
            f"The cache directory {jars.parent} cannot be written ({error}); set ORDEREDKAFKA_CACHE to one that can."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(java: Java, jars: Path, version: str, announce: Announce) -> None:
    announce(f"Fetching Apache Kafka {version} into {jars} (some 45 MB, only this once, about a minute).")
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=jars.parent) as directory:
        output = run_ivy(java, _DEPENDENCIES.format(version=version), Path(directory), _TYPES)
        fetched = Path(directory) / "jars"
        if not (fetched / f"{jars.name}.jar").is_file():
            raise FetchError(_why_not(output, jars, version))
        fetched.rename(jars)  # only a complete directory ever gets the name that others look for


def run_ivy(java: Java, dependencies: str, directory: Path, types: Sequence[str] = ("jar",)) -> list[str]:
    """Fetch what an `ivy-module` names into the folder `jars` of the directory; return Ivy's output."""
    (directory / "ivy.xml").write_text(dependencies, encoding="utf-8")
    # Paths are relative to the working directory: Ivy reads brackets in them as a pattern.
    command = [str(java.executable), "-jar", str(_ivy_jar()), "-cache", "ivy", "-ivy", "ivy.xml", "-types", *types]
    command += ["-retrieve", "jars/[artifact]-[revision].[ext]"]
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    try:
        ivy = subprocess.run(command, cwd=directory, timeout=_DEADLINE_SECONDS, check=False, **how)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"Ivy did not fetch within {_DEADLINE_SECONDS} seconds: try again") from error
    return [line.strip() for line in ivy.stdout.splitlines()]


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # finds the package without importing it
    for location in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise FetchError(
        "Ivy, which fetches the broker, is part of the `pyspark` package, and that has no jars here "
        "(`pyspark-client` alone has none). Install it: pip install 'airflow-provider-orderedkafka[spark]'"
    )


def _why_not(lines: list[str], jars: Path, version: str) -> str:
    reasons = [line for line in lines if "not found" in line or "rror" in line or "xception" in line]
    shown = "\n  ".join((reasons or lines)[-_LAST_LINES:])
    return (
        f"Apache Kafka {version} could not be fetched from Maven Central. Ivy's last lines:\n  {shown}\n"
        "Is there such a version, and a network, and does it need a proxy (JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... "
        "-Dhttps.proxyPort=...')? Without a network, copy the directory "
        f"{jars} from a machine that has it."
    )
