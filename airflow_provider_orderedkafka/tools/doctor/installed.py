"""Check what is installed, in which version, and whether the versions match."""

import re
import sys
from collections.abc import Callable, Iterator
from importlib import metadata

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.tools.doctor.finding import Finding
from airflow_provider_orderedkafka.tools.embedded.java import HOW_TO_INSTALL, OLDEST, find_java

_OLDEST_PYTHON, _FIRST_UNKNOWN_PYTHON = (3, 11), (3, 14)
_REQUIREMENT = re.compile(r"([\w.-]+?)\s*\(?([<>=!~][^;()]*)\)?")  # without those of extras
_DISTRIBUTIONS = (
    "airflow-provider-orderedkafka",
    "apache-airflow",
    "apache-airflow-providers-apache-kafka",
    "apache-airflow-providers-apache-spark",
    "pyspark",
    "pyspark-client",
    "confluent-kafka",
    "pyarrow",
    "numpy",
)


def installed(version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    """Check Python, each package, librdkafka and Java; `version_of` returns None for a missing package."""
    required = _required()
    yield _python(sys.version_info[:2])
    for name in _DISTRIBUTIONS:
        yield _package(name, version_of(name), required.get(name))
    yield _librdkafka()
    yield _same_spark(version_of("pyspark"), version_of("pyspark-client"))
    yield _java()


def version_here(name: str) -> str | None:
    """The version of a package in this environment; None if it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _python(version: tuple[int, int]) -> Finding:
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if _OLDEST_PYTHON <= version < _FIRST_UNKNOWN_PYTHON:
        return Finding("python", "ok", found)
    return Finding("python", "broken", found, "Use Python 3.11, 3.12 or 3.13.")


def _required() -> dict[str, str]:
    """The versions that this package asks for, by the name of each package."""
    try:
        stated = metadata.requires(_DISTRIBUTIONS[0]) or []
    except metadata.PackageNotFoundError:
        return {}
    return {found[1]: found[2] for each in stated if (found := _REQUIREMENT.fullmatch(each))}


def _package(name: str, version: str | None, required: str | None) -> Finding:
    from packaging.specifiers import SpecifierSet

    if not version:
        return Finding(name, "broken", "not installed", "Run: pip install airflow-provider-orderedkafka")
    if required and not SpecifierSet(required).contains(version, prereleases=True):
        found = f"{version} is not supported: {required} is needed"
        return Finding(name, "broken", found, f"Run: pip install '{name}{required}'")
    return Finding(name, "ok", version)


def _librdkafka() -> Finding:
    try:
        from confluent_kafka import libversion
    except ImportError as error:
        return Finding("librdkafka", "broken", f"cannot be loaded: {error}", "Run: pip install confluent-kafka")
    return Finding("librdkafka", "ok", str(libversion()[0]))


def _same_spark(full: str | None, client: str | None) -> Finding:
    name = "pyspark = pyspark-client"
    if full == client and full:
        return Finding(name, "ok", f"both {full}")
    which = client or full or "4.2.0"  # there are more versions of pyspark
    return Finding(
        name,
        "broken",
        f"pyspark is {full or 'missing'}, pyspark-client is {client or 'missing'}",
        "Both unpack into the same directory, so they must be the same version. Run: "
        f"pip install --force-reinstall --no-deps pyspark-client=={which} pyspark=={which}",
    )


def _java() -> Finding:
    try:
        java = find_java()
    except OrderedKafkaError as error:
        return Finding("java", "broken", str(error).removesuffix(HOW_TO_INSTALL).strip(), HOW_TO_INSTALL)
    return Finding("java", "ok", f"{java.version} at {java.executable} ({OLDEST} or newer is needed)")
