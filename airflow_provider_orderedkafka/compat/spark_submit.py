"""What spark-submit prints, by the classes of Spark 3.5.8, 4.0.4, 4.1.3, 4.2.0 and 4.3.0. No documentation promises it.

Public would be: the application's ID in a place of its own, the application's exit code as spark-submit's, and an error
class for each reason not to start.
"""

import re
from typing import Final

from ..errors import OrderedKafkaError, SettingError, UnreachableError

ON_YARN: Final = re.compile(r"\bapplication_\d+_\d+\b")
"""The ID of an application on YARN, as Hadoop's client writes it (3.3.4 to 3.5.0)."""

ON_KUBERNETES: Final = re.compile(r"\bsubmission ID (\S+:\S+)")
"""The namespace and the driver's pod, in "Deployed Spark application ... and submission ID ... into Kubernetes"."""

CONTAINER: Final = re.compile(r"\bcontainer name: (\S+)")
EXIT_CODE: Final = re.compile(r"\bexit code: (\d+)")
"""A container of the driver's pod on Kubernetes, and its exit code: lines below "Container final statuses"."""

DRIVER: Final = "spark-kubernetes-driver"
"""The container of the driver, where no template of the pod names it."""

NO_JAVA: Final = (
    "Install Java 17 or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install "
    "java-17-openjdk-headless; macOS: brew install openjdk@17), or correct JAVA_HOME"
)

_NO_JAVA: Final = re.compile(r"(\S*java): (?:No such file or directory|cannot execute|not found)|JAVA_HOME is not set")
_OLD_JAVA: Final = re.compile(r"UnsupportedClassVersionError: (\S+) .*class file version")
_UNRESOLVED: Final = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+): not found")
_NO_REPOSITORY: Final = re.compile(
    r"(?:Server access error at url |Host [^\n]* not found\. url=|SERVER ERROR: [^\n]* url=)"
    r"(?!https://repos\.spark-packages\.org)(\S+)"
)
"""A repository that did not answer; one that Spark asks beside Maven's has nothing that others lack."""

_BAD_MASTER: Final = re.compile(r"Master must (?:either )?be|Invalid master URL|Could not parse Master URL")


def why_not_started(output: str) -> OrderedKafkaError | None:
    """Why spark-submit ended before the application began, in one sentence; None if it says nothing that is known."""
    if found := _NO_JAVA.search(output):
        return SettingError(f"Spark finds no Java ({found[0]}): {NO_JAVA}")
    if found := _OLD_JAVA.search(output):
        return SettingError(f"this Java is too old for Spark ({found[0]}): {NO_JAVA}")
    if found := _UNRESOLVED.search(output):
        package = ":".join(found.groups())
        if away := _NO_REPOSITORY.search(output):
            return UnreachableError(
                f"packages: {package!r} could not be fetched, since {away[1]} did not answer: check that this worker "
                "reaches it; or name another repository with repositories=, or the files with jars="
            )
        return SettingError(
            f"packages: {package!r} is not in Maven's repositories: correct its name or version, or name the "
            "repository that has it with repositories="
        )
    if found := _BAD_MASTER.search(output):
        return SettingError(f"Spark does not know this master ({found[0]}): correct the Spark connection's host")
    return None
