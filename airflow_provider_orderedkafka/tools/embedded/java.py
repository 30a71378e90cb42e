"""Find the Java that runs the broker: the one that Spark uses."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_orderedkafka.tools.embedded.errors import JavaError

OLDEST = 17
"""The oldest major version that Kafka 4 and Spark 4 run on."""

HOW_TO_INSTALL = (
    f"Install Java {OLDEST} or newer (Debian and Ubuntu: apt-get install openjdk-{OLDEST}-jre-headless; "
    f"Fedora: dnf install java-{OLDEST}-openjdk-headless; macOS: brew install openjdk@{OLDEST}), "
    "and set JAVA_HOME when `java` is not on PATH."
)
_ANSWER_SECONDS = 30
_VERSION = re.compile(r'version "(?P<full>(?:1\.)?(?P<major>\d+)[^"]*)"')


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
