"""Download the broker's jars once into the user's cache directory, with the Ivy that pyspark ships."""

import contextlib
import fcntl
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_provider_orderedkafka.tools.embedded.errors import FetchError
from airflow_provider_orderedkafka.tools.embedded.java import Java
from airflow_provider_orderedkafka.tools.embedded.settings import DEFAULT_VERSION

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


def cache_directory() -> Path:
    """ORDEREDKAFKA_CACHE, else a folder of the user's cache directory."""
    if own := os.environ.get("ORDEREDKAFKA_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "orderedkafka"


def say(line: str) -> None:
    """Print progress where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


def kafka_jars(java: Java, announce: Announce = say, version: str = DEFAULT_VERSION) -> Path:
    """Return the directory of the jars of a broker of this version, fetched first where they are not there yet.

    Several processes may ask at once: one fetches, the others wait for it. Raises FetchError.
    """
    jars = cache_directory() / f"kafka_2.13-{version}"
    if jars.is_dir():
        return jars
    with _locked(jars, announce):
        if not jars.is_dir():
            _fetch(java, jars, version, announce)
    return jars


@contextlib.contextmanager
def _locked(jars: Path, announce: Announce) -> Iterator[None]:
    try:
        jars.parent.mkdir(parents=True, exist_ok=True)
        lock = jars.with_name(f"{jars.name}.lock").open("w")
    except OSError as error:
        raise FetchError(
            f"The cache directory {jars.parent} cannot be written ({error}); set ORDEREDKAFKA_CACHE to one that can."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            announce("Another process is fetching Apache Kafka; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(java: Java, jars: Path, version: str, announce: Announce) -> None:
    announce(f"Fetching Apache Kafka {version} into {jars} (some 45 MB, only this once, about a minute).")
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=jars.parent) as directory:
        (Path(directory) / "ivy.xml").write_text(_DEPENDENCIES.format(version=version), encoding="utf-8")
        code, said = _run_ivy(_ivy_command(java), directory)
        if code or not (Path(directory) / "jars" / f"{jars.name}.jar").is_file():
            raise FetchError(_why_not(said, jars, version))
        # Only a complete directory ever gets the name that others look for.
        (Path(directory) / "jars").rename(jars)
    announce(f"Apache Kafka {version} is there.")


def _ivy_command(java: Java) -> list[str]:
    """Paths are relative to the working directory: Ivy reads brackets in them as a pattern."""
    return [
        *(str(java.executable), "-jar", str(_ivy_jar())),
        *("-cache", "ivy", "-ivy", "ivy.xml", "-types", *_TYPES),
        *("-retrieve", "jars/[artifact]-[revision].[ext]"),
    ]


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # finds the package without importing it
    for location in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise FetchError(
        "Ivy, which fetches the broker, is part of the `pyspark` package, and that has no jars here "
        "(`pyspark-client` alone has none). Install it: pip install pyspark"
    )


def _run_ivy(command: list[str], directory: str) -> tuple[int, list[str]]:
    """Ivy's exit code and its output; `FetchError` when it takes too long."""
    try:
        ivy = subprocess.run(  # noqa: S603 - the user's own Java
            command,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"Apache Kafka was not fetched within {_DEADLINE_SECONDS} seconds: try again") from error
    return ivy.returncode, [line.strip() for line in ivy.stdout.splitlines()]


def _why_not(lines: list[str], jars: Path, version: str) -> str:
    reasons = [line for line in lines if "not found" in line or "rror" in line or "xception" in line]
    said = "\n  ".join((reasons or lines)[-_LAST_LINES:])
    return (
        f"Apache Kafka {version} could not be fetched from Maven Central. Ivy said:\n  {said}\n"
        "Is there such a version, and a network, and does it need a proxy (JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... "
        "-Dhttps.proxyPort=...')? Without a network, copy the directory "
        f"{jars} from a machine that has it."
    )
