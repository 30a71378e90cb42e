"""The broker's jars: downloaded once into the user's cache directory, with the Ivy that pyspark ships."""

import contextlib
import fcntl
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.tools.doctor.installed import Java

DEFAULT_VERSION: Final = "4.1.1"

_DEADLINE_SECONDS = 1_800
_LAST_LINES = 12

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


def cache_directory() -> Path:
    """ORDEREDKAFKA_CACHE, else a folder of the user's cache directory."""
    if own := os.environ.get("ORDEREDKAFKA_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "orderedkafka"


def announce_on_stderr(line: str) -> None:
    """Print progress where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


def kafka_jars(java: Java, version: str, announce: Announce) -> Path:
    """Return the directory of the jars of a broker of this version, fetched first where they are not there yet."""
    jars = cache_directory() / f"kafka_2.13-{version}"
    with missing(jars) as fetch:
        if fetch:
            announce(f"Fetching Apache Kafka {version} into {jars} (some 45 MB, only this once, about a minute).")
            with tempfile.TemporaryDirectory(prefix=".fetching-", dir=jars.parent) as directory:
                run_ivy(java, _DEPENDENCIES.format(version=version), Path(directory), _TYPES)
                Path(directory, "jars").rename(jars)  # only a complete directory ever gets the name
    return jars


@contextlib.contextmanager
def missing(path: Path) -> Iterator[bool]:
    """Whether the path is still to be made: of several processes that ask at once one makes it, the others wait."""
    if path.exists():
        yield False
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not path.exists()


def run_ivy(java: Java, dependencies: str, directory: Path, types: Sequence[str] = ("jar",)) -> None:
    """Fetch what an `ivy-module` names into the folder `jars` of the directory; `FetchError` if that fails."""
    (directory / "ivy.xml").write_text(dependencies, encoding="utf-8")
    # Paths are relative to the working directory: Ivy reads brackets in them as a pattern.
    command = [str(java.executable), "-jar", str(_ivy_jar()), "-cache", "ivy", "-ivy", "ivy.xml", "-types", *types]
    command += ["-retrieve", "jars/[artifact]-[revision].[ext]"]
    with (directory / "ivy.log").open("w+", encoding="utf-8", errors="replace") as log:
        ivy = subprocess.run(  # noqa: S603 - the user's own Java
            command, cwd=directory, timeout=_DEADLINE_SECONDS, check=False, stdout=log, stderr=log
        )
        log.seek(0)
        last = "  ".join(log.readlines()[-_LAST_LINES:])
    if ivy.returncode:
        raise FetchError(
            f"Maven Central could not be read. Ivy's last lines:\n  {last}\n"
            "Is there such a version, and a network, and does it need a proxy (JAVA_TOOL_OPTIONS="
            "'-Dhttps.proxyHost=... -Dhttps.proxyPort=...')? "
            f"Without a network, copy {cache_directory()} from a machine that has it."
        )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # finds the package without importing it
    for location in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise FetchError("Ivy, which fetches the broker, is part of the `pyspark` package: pip install pyspark")
