"""What PySpark has no public API for, seen in pyspark 3.5.8, 4.0.4, 4.1.3, 4.2.0 and 4.3.0.

The functions on nodes read a physical plan in the JVM. Public would be: a plan as a document, and not as text alone.

At the end are features of newer versions: an error with what to use instead, or a substitute. Applications run from
Spark 3.5 on.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ..errors import SettingError

if TYPE_CHECKING:
    from pyarrow import Schema
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

Node = Any
"""A physical plan in the JVM."""


class RunningNode(NamedTuple):
    """A node of a plan that runs: its text, and its counts so far."""

    text: str
    counts: dict[str, int]


WITHIN: Final[dict[str, Callable[[Node], Node]]] = {
    "AdaptiveSparkPlan": lambda node: node.initialPlan(),
    "ColumnarToRow": lambda node: node.children().head(),
    "InMemoryTableScan": lambda node: node.relation().cachedPlan(),
    "InputAdapter": lambda node: node.children().head(),
    "RowToColumnar": lambda node: node.children().head(),
    "WholeStageCodegen": lambda node: node.children().head(),
}
"""Wrappers that only say how the node inside them is run."""

NAMES: Final = {"PythonMapInArrow": "MapInArrow"}
"""What nodes were called by Spark before 4.0."""

ROWS, SHUFFLED, READ = "number of output rows", "shuffle records written", "records read"
COUNTS: Final = frozenset({ROWS, SHUFFLED, READ})
"""What Spark counts of a node while it runs: its rows, and those that went into and came out of a shuffle."""

LATEST: Final = 20
"""Among how many of the latest executions those that run are looked for."""

WORKER_GONE: Final = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|heartbeat timed out|Connection reset"
)
"""What Spark says of a Python worker or an executor that died. Public would be: an error class of its own."""

OWN_STOP: Final = "py4j.protocol.Py4JJavaError: An error occurred while calling stop: java.lang.InterruptedException"

NOT_FITTING: Final = re.compile(
    r"\b(?:IncompatibleClassChange|NoSuchMethod|NoSuchField|AbstractMethod|UnsupportedClassVersion|Verify)Error\b[^\n]*"
    r"|\bNoClassDefFoundError: (?!Could not initialize)[^\n]*"
    r"|\bClassNotFoundException: (?:Class )?(?:org\.apache\.(?:iceberg|hadoop|spark)|io\.delta)\.[^\n]*"
)
"""What Java says where the classes of a package are for another Spark, or are not there."""

NO_CLASSES: Final = re.compile(
    r"Cannot find catalog plugin class for catalog '?(?P<catalog>[\w-]+)'?|"
    r"Failed to find (?:the )?data source: (?P<format>[\w.-]*\w)"
)
"""What Spark says where the package of a catalog or a format was not named."""

NO_MASTER: Final = re.compile(r"(?:Could not parse Master|Invalid master) URL: ?'?([^\s']+)")
"""What Spark says of a master that is none."""

STOPPED: Final = "Cannot call methods on a stopped SparkContext"
"""What Spark says of a context that ended before it was whole, as it does where no master answers."""

SHOWN: Final = 100
"""The most characters of a node to show."""


# Public would be: a SparkConf that knows the settings of spark-submit before there is a context.
def connect_to_the_jvm() -> None:
    from pyspark import SparkContext

    SparkContext._ensure_initialized()


# Public is SparkSession.getActiveSession, which knows only what this thread made.
def context_runs() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


# Public is pyspark.sql.is_remote, of Spark 4, which knows a session that was made and not one that will be.
def remote() -> str | None:
    """What of the environment makes sessions those of Spark Connect, as NAME='value'; None where nothing does."""
    for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE", "SPARK_API_MODE"):
        value = os.environ.get(name, "")
        if value and (name != "SPARK_API_MODE" or value.lower() == "connect"):
            return f"{name}={value!r}"
    return None


# Nothing public leads to Java.
def gateway(session: "SparkSession") -> Any:
    return session.sparkContext._gateway


# Nothing public leads to Java.
def hadoop_configuration(session: "SparkSession") -> Any:
    return session._jsc.hadoopConfiguration()


# Public would be: the id as a property of the table, or in one of its metadata tables.
def iceberg_table(session: "SparkSession", name: str) -> Any:
    """An Iceberg table as a Java object, which knows its `uuid` and its `location`; seen in Iceberg 1.11 and 1.12."""
    tables = gateway(session).jvm.org.apache.iceberg.spark.Spark3Util
    return tables.loadIcebergTable(session._jsparkSession, name)


# Public would be: types of columns as their table declares them; the schema of a table has STRING in their place.
def declared(field: "StructField") -> str:
    """The type of a column that is CHAR or VARCHAR, or has such parts; empty for others. Seen in Spark 4.1 and 4.2."""
    return str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))


# Public would be: StatusTracker.getExecutorInfos, which Java and Scala have.
def tasks_running(session: "SparkSession") -> bool:
    """Whether any executor runs a task, including cancelled ones."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    return any(executor.numRunningTasks() for executor in tracker.getExecutorInfos())


# Public is nothing by which a function of foreachBatch says that it was stopped. Spark looks for this text by a pattern
# that takes stack for each character behind it: the trace of a real interruption overflows it.
def be_interrupted() -> NoReturn:
    """Raise what Spark takes for its own stop."""
    raise InterruptedError(OWN_STOP)


# Public is the same, by Spark's REST API, which is there only with its UI.
def running_plans(session: "SparkSession") -> list[list[RunningNode]]:
    """What SQL does now, the oldest first: the nodes of each plan, with what their tasks have counted so far."""
    store = session._jsparkSession.sharedState().statusStore()
    known = store.executionsCount()
    latest = _each(store.executionsList(max(known - LATEST, 0), LATEST))
    running = [each.executionId() for each in latest if not each.completionTime().isDefined()]
    return [[*_running_nodes(store, number)] for number in running]


def _running_nodes(store: Any, number: int) -> Iterator[RunningNode]:
    counted = store.executionMetrics(number)
    for node in _each(store.planGraph(number).allNodes()):
        counts = {}
        for metric in _each(node.metrics()):
            if metric.name() in COUNTS and counted.contains(metric.accumulatorId()):
                counts[metric.name()] = int(counted.apply(metric.accumulatorId()).replace(",", ""))
        yield RunningNode(node.desc(), counts)


# Public is the same, by Spark's REST API, which is there only with its UI.
def failed_tasks(session: "SparkSession") -> tuple[int, set[int]]:
    """Of the stage that failed last: how many tasks it has, and the numbers of those that failed."""
    context = session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()  # what it hears comes a little later than the failure itself
    store = context.statusStore()
    jobs = [job for job in _each(store.jobsList(None)) if job.status().toString() == "FAILED"]
    for number in _each(max(jobs, key=lambda job: job.jobId()).stageIds()):
        stage = store.lastStageAttempt(number)
        if stage.numFailedTasks():
            tasks = _each(store.taskList(number, stage.attemptId(), stage.numTasks()))
            return stage.numTasks(), {task.index() for task in tasks if task.status() == "FAILED"}
    return 0, set()


# Undocumented is the way to the JVM alone: what it is asked is Java's own.
def time_of_driver(session: "SparkSession") -> int | None:
    """Nanoseconds of processor time of the driver's JVM, with the tasks that run in it; None if Java does not know."""
    took = session._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration()
    return int(took.get().toNanos()) if took.isPresent() else None


# Public is the same, by Spark's REST API, which is there only with its UI.
def time_of_tasks(session: "SparkSession", jobs: Sequence[int]) -> int:
    """Nanoseconds of processor time that the JVMs of executors took for the tasks of these jobs."""
    context = session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    store = context.statusStore()
    stages = {stage for job in jobs for stage in _each(store.job(job).stageIds())}
    return sum(int(store.lastStageAttempt(stage).executorCpuTime()) for stage in stages)


# Undocumented, though without an underscore.
def python_of_workers(context: "SparkContext") -> str:
    return str(context.pythonExec)


# Public would be: a list of what --py-files brought.
def shipped_names(context: "SparkContext") -> list[str]:
    return list(context._python_includes)


# Undocumented, though without an underscore.
def spark_schema(schema: "Schema") -> "StructType":
    """Convert an Arrow schema to Spark's; through text it would take half a second, to start Spark's SQL parser."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)  # the default from 4.2 on


VOLATILE: Final = re.compile(r"\b(current_timestamp|now|current_date|localtimestamp|rand|randn|random|randstr|uuid)\(")
"""Functions that give other values when they run again, as plans show them."""


def volatile(frame: "DataFrame") -> set[str]:
    """Which of its functions give other values when they run again, in the plan as it was written."""
    plan = frame._jdf.queryExecution().analyzed()
    found = set(VOLATILE.findall(" ".join(_expressions(plan))))
    return found or (set() if plan.deterministic() else {"a function that is not deterministic"})


def _expressions(plan: Node) -> Iterator[str]:
    """All expressions of a plan: the plan's own text has the first 25 columns alone."""
    yield from (each.toString() for each in _each(plan.expressions()))
    for child in _each(plan.children()):
        yield from _expressions(child)


def executed_plan(frame: "DataFrame") -> Node:
    return inner(frame._jdf.queryExecution().executedPlan())


def inner(node: Node) -> Node:
    """The node, or the one inside it if it is a wrapper."""
    while (within := WITHIN.get(name(node))) is not None:
        node = within(node)
    return node


def name(node: Node) -> str:
    text: str = node.nodeName()
    kind = text.partition(" ")[0]
    return NAMES.get(kind, kind)


def shown(node: Node) -> str:
    text: str = node.simpleString(SHOWN).strip().partition(", [plan_id")[0]
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def python_function(node: Node) -> str:
    """The name of the function in Python that a MapInArrow runs, or of its class."""
    called: str = node.func().name()
    return called


def children(node: Node) -> list[Node]:
    return [inner(child) for child in _each(node.children())]


def columns(node: Node) -> set[str]:
    return {column.name() for column in _each(node.output())}


def is_scan_of(source: str, node: Node) -> bool:
    return bool(node.nodeName() == f"BatchScan {source}")


def is_empty(node: Node) -> bool:
    return name(node) == "LocalTableScan" and bool(node.rows().isEmpty())


def has_subqueries(node: Node) -> bool:
    """Whether its expressions have plans of their own, which run in other tasks."""
    return not node.subqueries().isEmpty()


def is_deterministic(node: Node) -> bool:
    return all(each.deterministic() for each in _each(node.expressions()))


def with_replacement(sample: Node) -> bool:
    return bool(sample.withReplacement())


def join_of(join: Node) -> tuple[str, str]:
    """The join type, and which side is broadcast: BuildLeft or BuildRight."""
    return join.joinType().toString().partition("(")[0], join.buildSide().toString()


def sides(join: Node) -> tuple[Node, Node]:
    return inner(join.left()), inner(join.right())


def hinted(join: Node) -> list[str]:
    """The sides with a broadcast hint: without one, adaptive execution may change the join."""
    if join.logicalLink().isEmpty():
        return []
    hint = join.logicalLink().get().hint()
    asked = {"BuildLeft": hint.leftHint(), "BuildRight": hint.rightHint()}
    return [side for side, said in asked.items() if "broadcast" in said.toString()]


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(place) for place in range(found.size()))


AN_APPLICATION = (
    "load with an application, run_available_now of airflow_provider_orderedkafka.spark.app, which any Spark from 3.5 "
    "on runs. It keeps its place in its checkpoint, and takes minOffsetsPerTrigger, maxTriggerDelay and "
    "maxOffsetsPerTrigger with --option"
)
A_BATCH = "write each micro-batch with foreachBatch and df.write, or load with an application"


def check_data_sources() -> None:
    """`SettingError` where Spark has no data sources in Python."""
    _check("the data source 'orderedkafka'", "4.0", AN_APPLICATION)


def check_read_stream() -> None:
    """`SettingError` where Spark passes no limit, no target and no start to a stream in Python."""
    _check("readStream of 'orderedkafka'", "4.2", AN_APPLICATION)


def check_write_stream() -> None:
    """`SettingError` where Spark writes no Arrow from a stream."""
    _check("writeStream to 'orderedkafka'", "4.1", A_BATCH)


def _check(what: str, since: str, instead: str) -> None:
    import pyspark

    if _minor(pyspark.__version__) < _minor(since):
        raise SettingError(f"{what} needs Spark {since} or newer, this is Spark {pyspark.__version__}: {instead}")


def _minor(version: str) -> list[int]:
    return [int(number) for number in version.split(".")[:2]]


def distributed_by(frame: "DataFrame", column: str, writers: int, writer: "Column") -> "DataFrame":
    """Distribute rows among writers, those with the same value of a column to the same one.

    Before 4.1, Spark chooses the writer by the value's hash: as well for keys, and less evenly for partitions.
    """
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(writers, writer)
    return frame.repartition(writers, column)


def arrow_udf(function: Callable[[Any], Any], returns: str) -> Callable[["Column"], "Column"]:
    """A function from an Arrow array of bytes to another array, for columns; before 4.1 by way of pandas."""
    from pyspark.sql import functions as f

    if hasattr(f, "arrow_udf"):
        found: Callable[[Column], Column] = f.arrow_udf(function, returns)
        return found
    import pandas as pd
    import pyarrow as pa

    def by_pandas(values: pd.Series) -> pd.Series:
        return function(pa.array(values, pa.binary())).to_pandas()

    through: Callable[[Column], Column] = f.pandas_udf(by_pandas, returns)
    return through
