"""Download the broker's jars once into the user's cache directory, with the Ivy that pyspark ships."""

import contextlib
import fcntl
import importlib.util
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from airflow_provider_orderedkafka.tools.cache import cache_directory
from airflow_provider_orderedkafka.tools.embedded.errors import FetchError
from airflow_provider_orderedkafka.tools.embedded.java import Java

KAFKA_VERSION = "4.1.1"
_NAME = f"kafka_2.13-{KAFKA_VERSION}"
_DEADLINE_SECONDS = 1_800
_PROGRESS_EVERY = 10
_JARS = 46
_LAST_LINES = 6

# `bundle` is the type of five jars without which nothing starts; slf4j-simple is what makes Kafka's log readable.
_TYPES = ("jar", "bundle")
_DEPENDENCIES = f"""<ivy-module version="2.0">
  <info organisation="orderedkafka" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default"/>
  </dependencies>
</ivy-module>
"""

Announce = Callable[[str], None]


def say(line: str) -> None:
    """Print progress where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


def kafka_jars(java: Java, announce: Announce = say) -> Path:
    """Return the directory of the broker's jars; download them if needed.

    Several processes may ask at once: one fetches, the others wait for it. Raises FetchError.
    """
    cache = cache_directory()
    jars = cache / _NAME
    if jars.is_dir():
        return jars
    with _locked(cache, announce):
        if not jars.is_dir():
            _fetch(java, jars, announce)
    return jars


@contextlib.contextmanager
def _locked(cache: Path, announce: Announce) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / f"{_NAME}.lock").open("w")
    except OSError as error:
        raise FetchError(
            f"The cache directory {cache} cannot be written ({error}); set ORDEREDKAFKA_CACHE to one that can."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            announce("Another process is fetching Apache Kafka; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(java: Java, jars: Path, announce: Announce) -> None:
    announce(f"Fetching Apache Kafka {KAFKA_VERSION} into {jars} (43 MB, about a minute, only once).")
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=jars.parent) as directory:
        (Path(directory) / "ivy.xml").write_text(_DEPENDENCIES, encoding="utf-8")
        _run_ivy(_ivy_command(java), Path(directory), announce)
        # Only a complete directory ever gets the name that others look for.
        (Path(directory) / "jars").rename(jars)
    announce(f"Apache Kafka {KAFKA_VERSION} is downloaded.")


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


def _run_ivy(command: list[str], directory: Path, announce: Announce) -> None:
    with subprocess.Popen(  # noqa: S603 - the user's own Java
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        deadline = threading.Timer(_DEADLINE_SECONDS, ivy.kill)
        deadline.start()
        try:
            lines = [line.strip() for line in _with_progress(ivy.stdout or (), announce)]
        except BaseException:
            ivy.kill()
            raise
        finally:
            deadline.cancel()
    if ivy.returncode or not list((directory / "jars").glob(f"{_NAME}.jar")):
        raise FetchError(_why_not(lines))


def _with_progress(lines: Iterable[str], announce: Announce) -> Iterator[str]:
    fetched = 0
    for line in lines:
        if "[SUCCESSFUL ]" in line:
            fetched += 1
            if fetched % _PROGRESS_EVERY == 0:
                announce(f"  {fetched} of {_JARS} jars")
        yield line


def _why_not(lines: list[str]) -> str:
    reasons = [line for line in lines if "not found" in line or "rror" in line or "xception" in line]
    said = "\n  ".join((reasons or lines)[-_LAST_LINES:])
    return (
        f"Apache Kafka {KAFKA_VERSION} could not be fetched from Maven Central. Ivy said:\n  {said}\n"
        "Is there a network, and does it need a proxy (JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... "
        "-Dhttps.proxyPort=...')? Without a network, copy the directory "
        f"{cache_directory() / _NAME} from a machine that has it."
    )
