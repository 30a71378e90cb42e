"""The Spark session of an application: started in the background, with one attempt for each task.

It is checked before anything is written: that it retries no task, that there are executors, and that they have what
tasks need.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread
from time import process_time_ns
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...compat.spark import connect_to_the_jvm, context_runs, python_of_workers, remote, shipped_names, time_of_driver
from ...decoding.formats import INSTALLED_BY, has
from ...decoding.formats import NEEDED as TO_DECODE
from ...errors import SettingError, no_connect
from ...outputs import OPTIONS_VARIABLE
from ...storage import local_path

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

ONE_ATTEMPT = {"spark.task.maxFailures": "1", "spark.stage.maxConsecutiveAttempts": "1", "spark.speculation": "false"}
"""Two copies of a task would write at the same time; the application itself retries a failed batch."""

ADAPTIVE = "spark.sql.adaptive.enabled"
AS_PLANNED = {ADAPTIVE: "false"}
"""Keep partitions as slices, and run the plan that was checked."""

NOT_BY_FILE = {"spark.broadcast.UDFCompressionThreshold": "1g"}
"""Larger functions travel in a file in `spark.local.dir`, and ours contain Kafka's passwords."""

NOT_INHERITED = {f"spark.executorEnv.{OPTIONS_VARIABLE}": ""}
"""With a local master, Python's workers would inherit it from spark-submit's JVM, which cannot forget it."""

OFTEN = {"spark.executor.heartbeatInterval": "5s"}
"""How often executors report how far their tasks are, unless that is set: progress may be as old as this."""

LOG_LEVEL = "spark.log.level"
EXTENSIONS = "spark.sql.extensions"

LOCAL = re.compile(r"local(\[[^,]+(,\s*(?P<tries>\d+))?\])?")
"""Local masters, which alone say how often a task is tried."""


class LazySession:
    """A session that starts in the background, and is stopped by whoever started it.

    `settings` are what the output needs of a session that is started here, such as an extension of Spark's SQL.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = settings or {}
        self._coming: Future[SparkSession] | None = None
        self._ours = False
        self._before: int | None = 0

    def begin(self) -> "Future[SparkSession]":
        """Start the session or use an active one, without waiting for it."""
        if self._coming is None:
            self._ours = not context_runs()
            self._coming = in_background(self._start)
        return self._coming

    def started(self) -> "SparkSession":
        return self.begin().result()

    def there(self) -> "SparkSession | None":
        coming = self._coming
        return coming.result() if coming is not None and coming.done() and coming.exception() is None else None

    def spent(self) -> int | None:
        """Nanoseconds of processor time that this process and the driver's JVM have taken; None if not known.

        In a session that was there before, it is counted from then on.
        """
        now = _spent(self.started())
        return None if now is None or self._before is None else now - self._before

    def stop(self) -> None:
        """Stop the session if it was started here; one that is still starting ends with the process."""
        session = self.there()
        if self._ours and session is not None:
            session.stop()

    def _start(self) -> "SparkSession":
        session = start_session(self._settings)
        check_session(session)
        self._before = 0 if self._ours else _spent(session)
        return session


def _spent(session: "SparkSession") -> int | None:
    with suppress(Exception):  # no load fails because of a number
        of_jvm = time_of_driver(session)
        return None if of_jvm is None else of_jvm + process_time_ns()
    return None


@contextmanager
def lent_session(location: str) -> "Iterator[SparkSession | None]":
    """A session to read a location with, where that is not on this machine; one that is started here ends again.

    What is read may say with which settings a session is to be started.
    """
    if local_path(location) is not None:
        yield None
        return
    ours, session = not context_runs(), start_session()
    try:
        yield session
    finally:
        if ours:
            session.stop()


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

    check_classic()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    connect_to_the_jvm()  # before, a SparkConf knows nothing of what was asked of spark-submit
    asked = SparkConf()
    builder = SparkSession.builder
    added = {} if context_runs() else with_extensions({**OFTEN, **settings}, asked.get(EXTENSIONS, ""))
    for key, value in {**ONE_ATTEMPT, **AS_PLANNED, **NOT_BY_FILE, **NOT_INHERITED, **few_lines(asked)}.items():
        builder = builder.config(key, value)
    for key in [key for key in added if key == EXTENSIONS or not asked.contains(key)]:
        builder = builder.config(key, added[key])
    return builder.getOrCreate()


def check_classic() -> None:
    """`SettingError` where a session of this process would be one of Spark Connect."""
    if said := remote():
        raise no_connect(said)


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
    context = session.sparkContext
    local = LOCAL.fullmatch(context.master)
    if local is not None:
        if local["tries"] not in (None, "1"):
            raise _retries_refused(f"the master {context.master!r}", "leave its second number out")
        return
    for name, expected in ONE_ATTEMPT.items():
        found = context.getConf().get(name, expected)
        if found != expected:
            raise _retries_refused(f"{name}={found!r}", f"start the session with {name}={expected}")


def check_location(session: "SparkSession", location: str) -> None:
    """`SettingError` for a checkpoint on local disk if the driver runs on a machine of the cluster."""
    mode = session.sparkContext.getConf().get("spark.submit.deployMode", "client")
    if mode == "cluster" and local_path(location) is not None:
        raise SettingError(
            f"the checkpoint {location!r} is on the local disk of whichever machine runs the driver: the next attempt "
            f"would not find it. Name one that the whole cluster reaches, such as hdfs://... or s3a://..."
        )


def _retries_refused(what: str, instead: str) -> SettingError:
    return SettingError(
        f"the Spark session has {what}: a task that Spark runs twice writes its rows twice; {instead}, or let this "
        f"application start the session"
    )


OURS = __name__.split(".", 1)[0]
NEEDED = ("confluent_kafka", "pyarrow", "numpy")
"""What the executors import for every load."""

ANSWER_SECONDS = 60
_LOOK = """
import importlib.util, sys
for name in sys.argv[1:]:
    try:
        found = any(importlib.util.find_spec(each) is not None for each in name.split("|"))
    except ModuleNotFoundError:
        found = False
    print(*([] if found else [name]))
"""


class Missing(NamedTuple):
    interpreter: str
    names: Sequence[str]


def check_executors(session: "SparkSession", more: Sequence[str] = ()) -> None:
    """Raise `SettingError` if the executors' Python lacks a package, with the ways to ship it.

    `more` names what this load imports there beyond what every load needs.
    """
    context, needed = session.sparkContext, (OURS, *NEEDED, *more)
    found = (
        _missing_locally(context, needed) if LOCAL.fullmatch(context.master) else _missing_on_executor(context, needed)
    )
    if found is None:
        return
    interpreter, names = found
    if OURS in names:
        raise SettingError(
            f"the executors' Python ({interpreter}) has no {OURS}: ship it with --py-files {OURS}.zip, which "
            f"`orderedkafka bundle {OURS}.zip` builds, or install it there"
        )
    packages = " and ".join(INSTALLED_BY.get(name, name) for name in names)
    raise SettingError(
        f"the executors' Python ({interpreter}) has no {packages}, and --py-files cannot ship packages with compiled "
        "parts. Install there what `orderedkafka bundle bundle.zip --requirements requirements.txt` lists; or name a "
        "Python that has it with PYSPARK_PYTHON; or ship an environment that venv-pack made, with --archives "
        "environment.tar.gz#env --conf spark.pyspark.python=./env/bin/python"
    )


def lacking(error: ModuleNotFoundError) -> Exception:
    """The error for a driver that cannot even begin: it names all that a load may need and that is not there."""
    needed = [*NEEDED, *sorted({name for names in TO_DECODE.values() for name in names})]
    names = [INSTALLED_BY.get(name, name) for name in needed if not has(name)]
    if not any(name in names for name in ("confluent-kafka", *NEEDED)):
        return error
    return SettingError(
        f"this Python ({sys.executable}) has no {' and '.join(names)}: every load needs confluent-kafka, pyarrow and "
        "numpy, and the others decode records. Install what `orderedkafka bundle bundle.zip --requirements "
        "requirements.txt` lists, here and where executors run"
    )


def _missing_locally(context: "SparkContext", needed: Sequence[str]) -> Missing | None:
    """What the workers of a local master lack, asked of their interpreter without a Spark job."""
    interpreter = python_of_workers(context)
    folders = [*_shipped(context), os.environ.get("PYTHONPATH", "")]
    try:
        answer = subprocess.run(  # noqa: S603 - Spark runs it too
            [interpreter, "-c", _LOOK, *needed],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
            check=True,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SettingError(
            f"the executors' Python {interpreter!r} does not run ({error}): point PYSPARK_PYTHON at an interpreter "
            f"that has {', '.join(INSTALLED_BY.get(name, name) for name in needed if name != OURS)}"
        ) from error
    names = answer.stdout.split()
    return Missing(interpreter, names) if names else None


def _shipped(context: "SparkContext") -> list[str]:
    from pyspark import SparkFiles

    names = shipped_names(context)
    if not names:
        return []
    root = SparkFiles.getRootDirectory()
    return [root, *(os.path.join(root, name) for name in names)]  # noqa: PTH118 - a path of the JVM


def _missing_on_executor(context: "SparkContext", needed: Sequence[str]) -> Missing | None:
    """What an executor lacks; this task needs only the standard library."""

    def look(_: Iterator[Any]) -> Iterator[tuple[str, list[str]]]:
        import importlib.util
        import sys

        def has(name: str) -> bool:
            try:
                return any(importlib.util.find_spec(each) is not None for each in name.split("|"))
            except ModuleNotFoundError:  # what is around it
                return False

        yield sys.executable, [name for name in needed if not has(name)]

    tasks = max(context.defaultParallelism, 1)
    answers = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    return next((Missing(*answer) for answer in answers if answer[1]), None)
