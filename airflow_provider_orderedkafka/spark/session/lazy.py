"""The Spark session of an application: started in the background, with one attempt for each task."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_orderedkafka.compat.spark import connect_to_the_jvm, context_runs
from airflow_provider_orderedkafka.core.outputs import OPTIONS_VARIABLE
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.storage.store import local_path

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

ONE_ATTEMPT = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
}
"""Two copies of a task would write at the same time; the application itself retries a failed batch."""

AS_PLANNED = {"spark.sql.adaptive.enabled": "false"}
"""Keep partitions as slices, and run the plan that was checked."""

NOT_BY_FILE = {"spark.broadcast.UDFCompressionThreshold": "1g"}
"""Larger functions travel in a file in `spark.local.dir`, and ours contain Kafka's passwords."""

NOT_INHERITED = {f"spark.executorEnv.{OPTIONS_VARIABLE}": ""}
"""With a local master, Python's workers would inherit it from spark-submit's JVM, which cannot forget it."""

LOG_LEVEL = "spark.log.level"
EXTENSIONS = "spark.sql.extensions"

LOCAL = re.compile(r"local(\[[^,]+(,\s*(?P<tries>\d+))?\])?")
"""Local masters, which alone say how often a task is tried."""

Result = TypeVar("Result")


class LazySession:
    """A session that starts in the background, and is stopped by whoever started it.

    `settings` are what the output needs of a session that is started here, such as an extension of Spark's SQL.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = settings or {}
        self._coming: Future[SparkSession] | None = None
        self._ours = False

    def begin(self) -> None:
        """Start the session or use an active one, without waiting for it."""
        self._begun()

    def started(self) -> "SparkSession":
        """Wait for the session."""
        return self._begun().result()

    def there(self) -> "SparkSession | None":
        """The session, if started."""
        coming = self._coming
        return coming.result() if coming is not None and coming.done() and coming.exception() is None else None

    def stop(self) -> None:
        """Stop the session if it was started here; one that is still starting ends with the process."""
        session = self.there()
        if self._ours and session is not None:
            session.stop()

    def _begun(self) -> "Future[SparkSession]":
        if self._coming is None:
            self._ours = not context_runs()
            self._coming = in_background(self._start)
        return self._coming

    def _start(self) -> "SparkSession":
        session = start_session(self._settings)
        check_session(session)
        return session


def in_background(work: Callable[[], Result]) -> "Future[Result]":
    """Run in a daemon thread: a cluster may take minutes, and a terminated process does not wait for it."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is needed
            future.set_exception(error)

    Thread(target=run, name="orderedkafka-background", daemon=True).start()
    return future


def start_session(settings: Mapping[str, str] = MappingProxyType({})) -> "SparkSession":
    """The session, with the settings that a load needs; the interpreter of this process, unless one is set."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    connect_to_the_jvm()  # before, a SparkConf knows nothing of what was asked of spark-submit
    asked = SparkConf()
    builder = SparkSession.builder
    added = {} if context_runs() else with_extensions(settings, asked.get(EXTENSIONS, ""))
    for key, value in {**ONE_ATTEMPT, **AS_PLANNED, **NOT_BY_FILE, **NOT_INHERITED, **few_lines(asked)}.items():
        builder = builder.config(key, value)
    for key in [key for key in added if key == EXTENSIONS or not asked.contains(key)]:
        builder = builder.config(key, added[key])
    return builder.getOrCreate()


def with_extensions(settings: Mapping[str, str], before: str) -> dict[str, str]:
    """The settings, with the extensions of Spark's SQL that were asked for before."""
    found = dict(settings)
    if EXTENSIONS in found and before:
        found[EXTENSIONS] = ",".join(dict.fromkeys([*before.split(","), found[EXTENSIONS]]))
    return found


def few_lines(asked: "SparkConf") -> dict[str, str]:
    """On a terminal, limit Spark's log to warnings, unless a level is set."""
    if not sys.stdout.isatty() or asked.contains(LOG_LEVEL):
        return {}
    return {LOG_LEVEL: "WARN"}


def check_session(session: "SparkSession") -> None:
    """`SettingError` if an existing session would retry tasks."""
    context = session.sparkContext
    local = LOCAL.fullmatch(context.master)
    if local is not None:
        if local["tries"] not in (None, "1"):
            raise _tried_again(f"the master {context.master!r}", "leave its second number out")
        return
    for name, expected in ONE_ATTEMPT.items():
        found = context.getConf().get(name, expected)
        if found != expected:
            raise _tried_again(f"{name}={found!r}", f"start the session with {name}={expected}")


def check_location(session: "SparkSession", location: str) -> None:
    """`SettingError` for a checkpoint on local disk if the driver runs on a machine of the cluster."""
    mode = session.sparkContext.getConf().get("spark.submit.deployMode", "client")
    if mode == "cluster" and local_path(location) is not None:
        raise SettingError(
            f"the checkpoint {location!r} is on the local disk of whichever machine runs the driver: the next attempt "
            f"would not find it. Name one that the whole cluster reaches, such as hdfs://... or s3a://..."
        )


def _tried_again(what: str, instead: str) -> SettingError:
    return SettingError(
        f"the Spark session has {what}: a task that Spark runs twice writes its rows twice; {instead}, or let this "
        f"application start the session"
    )
