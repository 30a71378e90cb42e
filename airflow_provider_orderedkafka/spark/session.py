"""The Spark session of an application: started in the background, with one attempt for each task."""

import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.state import local_path

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

ONE_ATTEMPT = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
}
"""Two copies of one task would write side by side: a failed batch is run again by the application instead."""

AS_PLANNED = {"spark.sql.adaptive.enabled": "false"}
"""Slices are partitions, and the plan that was checked for shuffles is the one that runs."""

NOT_BY_FILE = {"spark.broadcast.UDFCompressionThreshold": "1g"}
"""A function above this size goes to the tasks by a file in `spark.local.dir`, and Kafka's passwords are in ours."""

LOG_LEVEL = "spark.log.level"

LOCAL = re.compile(r"local(\[[^,]+(,\s*(?P<tries>\d+))?\])?")
"""The masters in this process: how often they try a task is theirs alone to say."""

Result = TypeVar("Result")


class LazySession:
    """A session that starts in the background, and is stopped where it was started."""

    def __init__(self) -> None:
        self._coming: Future[SparkSession] | None = None
        self._ours = False

    def begin(self) -> None:
        """Start it, or take the one that is there, and do not wait."""
        self._begun()

    def started(self) -> "SparkSession":
        """The session, once it is there."""
        return self._begun().result()

    def there(self) -> "SparkSession | None":
        """The session, where it has come."""
        coming = self._coming
        return coming.result() if coming is not None and coming.done() and coming.exception() is None else None

    def stop(self) -> None:
        """Stop it, where it was started here; one that is still on its way ends with the process."""
        session = self.there()
        if self._ours and session is not None:
            session.stop()

    def _begun(self) -> "Future[SparkSession]":
        from pyspark.sql import SparkSession

        if self._coming is None:
            self._ours = SparkSession.getActiveSession() is None  # it is active in the thread that made it
            self._coming = in_background(self._start)
        return self._coming

    def _start(self) -> "SparkSession":
        session = start_session()
        check_session(session)
        return session


def in_background(work: Callable[[], Result]) -> "Future[Result]":
    """Run in a daemon thread: a cluster may take minutes, and a process that is told to end does not wait for it."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is needed
            future.set_exception(error)

    Thread(target=run, name="orderedkafka-background", daemon=True).start()
    return future


def start_session() -> "SparkSession":
    """The session, with the settings that a load needs; the interpreter of this process, unless one is set."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    SparkContext._ensure_initialized()  # before, a SparkConf knows nothing of what was asked of spark-submit
    asked = SparkConf()
    builder = SparkSession.builder
    for key, value in {**ONE_ATTEMPT, **AS_PLANNED, **NOT_BY_FILE, **few_lines(asked)}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def few_lines(asked: "SparkConf") -> dict[str, str]:
    """On a terminal Spark's own lines do not hide ours, unless that is asked for."""
    if not sys.stdout.isatty() or asked.contains(LOG_LEVEL):
        return {}
    return {LOG_LEVEL: "WARN"}


def check_session(session: "SparkSession") -> None:
    """`SettingError` where a session that was there before would run a task twice."""
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
    """`SettingError` where the driver runs on a machine of the cluster, and the checkpoint would stay on its disk."""
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
