"""The mistakes that people make in a DAG file, and what each is told: here alone the wording of a message is pinned."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from airflow_provider_orderedkafka.outputs import PACKAGES

FILE = """
from datetime import UTC, datetime, timedelta
from airflow.sdk import DAG, TaskGroup, task_group
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow_provider_orderedkafka import *
from airflow_provider_orderedkafka.assets import output_alias, watched_ledger_asset
from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
from airflow_provider_orderedkafka.operators.maintenance import TableMaintenanceOperator
from airflow_provider_orderedkafka.operators.operations import LedgerOperationsOperator
from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator
from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

OUT = KafkaOutput("out")
BAD = Rows(decode=Decode(value=Json("a int")), bad_records=Allow(1, "dead"))
LOAD = OrderedLoad("orders", topics=["orders", "refunds"])

def my_function(df):
    return df

def orders(**settings):
    return ordered_load(OrderedLoad(**{{"name": "orders", "topics": ["orders", "refunds"], **settings}}), to=OUT)

def replay(**more):
    return ordered_replay(LOAD, **{{"to": OUT, "start": "earliest", "end": "latest", **more}})

def rows(**more):
    return ordered_load(LOAD, to=OUT, rows=Rows(**more))

def maintain(to='delta:/lake', load=LOAD, **more):
    return TableMaintenanceOperator(task_id="maintain", load=load, to=to, **more)

with DAG("mistaken", **{{"schedule": None, "catchup": False, "max_active_runs": 1, **{dag}}}):
    {code}
"""

MODULE = """
from functools import partial

def lines(df):
    return df

def flat(df):
    df.select("value")

def two(df, more):
    return df

def none():
    return 1

def named(df, *, more):
    return df

def fine(df, more=1, *, flag=True):
    return df

def stops(df):
    raise NotImplementedError
"""
"""`my_transforms.py`, beside the DAG file."""


class Mistake(NamedTuple):
    """What is written in a DAG file, and parts of what is said of it, in their order; and the DAG's own arguments."""

    code: str
    said: str
    dag: str = "{}"

    @property
    def file(self) -> str:
        return FILE.format(code=self.code.replace("\n", "\n    "), dag=self.dag)


def written() -> Iterator[Mistake]:
    """The rows of `mistakes.txt`: a line of code, below it what is said; `@` begins the arguments of the DAGs below."""
    dag, code = "{}", ""
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line.startswith("@ "):
            dag = line.removeprefix("@ ")
        elif line.startswith("    "):
            yield Mistake(code, line.strip(), dag)
        elif not line.startswith("#"):
            code = line.replace("\\n", "\n")


ELSEWHERE = {
    "application": "set it with rows=Rows(application=Application('my_app.py'))",
    "application_args": "set it with rows=Rows(application=Application('my_app.py', arguments=",
    "arrow_transform": "set it with rows=Rows(arrow_transform=",
    "conf": "set it with spark=SparkSubmit(conf=",
    "conn_id": "set it with spark=SparkSubmit(conn_id=",
    "decode": "set it with rows=Rows(decode=",
    "executor_memory": "set it with spark=SparkSubmit(executor_memory=",
    "keep_order": "set it with to=KafkaOutput('...', keep_order=",
    "min_offsets": "it is a setting of the load: OrderedLoad(",
    "mode": "use ordered_intervals() or ordered_replay()",
    "name": "set it with spark=SparkSubmit(name=",
    "output": "it is to=",
    "output_topic": "set it with to=KafkaOutput('...')",
    "pre_execute": "it is an argument of a task: tasks={'load'",
    "retry_delay": "it is an argument of a task: tasks={'load'",
    "spark_conn_id": "set it with spark=SparkSubmit('...')",
    "transform": "set it with rows=Rows(transform=",
}
"""What belongs elsewhere, and how it is said."""

AT_PARSE = [
    *written(),
    *(
        Mistake(f"{how}({name}='x', **{ends})", f"{how}() takes no argument {name!r}: {said}")
        for how, ends in (
            ("ordered_load", "{'load': LOAD}"),
            ("ordered_intervals", "{'load': LOAD}"),
            ("ordered_replay", "{'load': LOAD, 'start': '-2h', 'end': 'latest'}"),
        )
        for name, said in ELSEWHERE.items()
    ),
]


class AtStart(NamedTuple):
    """Arguments of a load that its task refuses before an attempt is counted, what it says, and if a retry may help."""

    arguments: str
    said: str
    again: bool = False

    @property
    def file(self) -> str:
        return Mistake(f"ordered_load(LOAD, {self.arguments})", self.said).file


TABLE = "to=IcebergOutput('lake.shop.orders')"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime"

AT_START = [
    AtStart(
        "to=OUT, spark=SparkSubmit('spark_prod')",
        "airflow connections add spark_prod --conn-type spark ... or name another one with spark=SparkSubmit('...')",
        again=True,
    ),
    AtStart(
        "to=OUT, checkpoint='{{ var.value.folder }}'", "checkpoint must be an absolute path or a location ... found"
    ),
    AtStart(
        "to=OUT, checkpoint='/c', spark=SparkSubmit('dead')",
        "no master answers at 'spark://127.0.0.1:1' (Connection refused): is the cluster up ... No attempt was counted",
        again=True,
    ),
    AtStart(
        "to=OUT, checkpoint='/c', spark=SparkSubmit('portless')",
        "'spark://nohost' is no address of a cluster: spark://host:port",
    ),
    AtStart(
        "to=OUT, spark=SparkSubmit(env_vars={'JAVA_HOME': '/nowhere'})",
        "JAVA_HOME is '/nowhere', and there is no '/nowhere/bin/java' ... Java 17 or newer ... or correct JAVA_HOME",
    ),
    AtStart(
        "to=OUT, spark=SparkSubmit(spark_binary='spark9-submit')",
        "there is no program 'spark9-submit' on the PATH of this worker: ... spark_binary=",
    ),
    AtStart(
        f"{TABLE}, spark=SparkSubmit(packages='{ICEBERG}-3.4_2.13:1.8.0')",
        "iceberg-spark-runtime-3.4_2.13:1.8.0' is for Spark 3.4 and Scala 2.13, but this is Spark ... spark_binary=",
    ),
    AtStart(
        "to=DeltaOutput('/data'), spark=SparkSubmit(packages='io.delta:delta-spark_2.12:2.4.0')",
        "'io.delta:delta-spark_2.12:2.4.0' is for Spark 2 and Scala 2.12, but this is Spark ... packages='io.delta:",
    ),
    AtStart(
        "to=DeltaOutput('/data')", f"DeltaOutput('/data'): this is Spark ... packages={PACKAGES['delta'].of('4.2')!r}"
    ),
    AtStart("to=FilesOutput('/data', 'avro')", "which has no avro: name its package with packages='org.apache.spark:"),
    AtStart(
        TABLE,
        "IcebergOutput('lake.shop.orders'): this is Spark ... no Iceberg for Spark 4.2: use a Spark 4.1, with "
        f"spark_binary= and packages={PACKAGES['iceberg'].of('4.1')!r}",
    ),
    AtStart(
        f"{TABLE}, spark=SparkSubmit(jars='/data/iceberg.jar')",
        "Spark knows no catalog 'lake': set spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog",
    ),
]


class AtLook(NamedTuple):
    """What a run of a DAG finds out when it asks Kafka: which task says what, and whether a retry may help.

    `way` is how its connection leads to the broker, and `meanwhile` what happens to the topics that the load reads
    after a first run that went well: both are in test_mistakes.py.
    """

    code: str
    said: str
    task: str = "wait"
    again: bool = False
    way: str = "plain"
    meanwhile: str = ""

    @property
    def file(self) -> str:
        return "import re\n" + Mistake(self.code, self.said).file


UP = "is it up, can it be reached from here, and is 'security.protocol' right?"

AT_LOOK = [
    AtLook("orders(topics=['nothing'])", "topic 'nothing' does not exist at ... create it first, or check that this"),
    AtLook("orders(topics=['ordrs'])", "topic 'ordrs' does not exist at ... did you mean 'orders'?"),
    AtLook("orders(topics=re.compile('ordrs-.*'))", "the pattern 'ordrs-.*' matches no topic at ... topics there: "),
    AtLook("orders(topics={'orders': [0, 7]})", "orders[7] does not exist: 'orders' has the partitions 0 to 1"),
    AtLook("orders()", f"Connection refused ... {UP}", again=True, way="nobody"),
    AtLook("orders()", f"did not answer within ... {UP}", again=True, way="no Kafka"),
    AtLook("orders()", f"connecting to a PLAINTEXT broker listener? ... {UP}", again=True, way="TLS to plain"),
    AtLook("orders()", f"{UP} ... That port speaks TLS: set SSL or SASL_SSL", again=True, way="plain to TLS"),
    AtLook("orders()", "'ssl.ca.location' (or 'ssl.ca.pem') must have the CA", again=True, way="another authority"),
    AtLook("orders()", "check the user name, password and mechanism", again=True, way="another password"),
    AtLook("orders()", "the principal needs DESCRIBE (and READ) on the topic", way="who may see nothing"),
    AtLook(
        "orders()",
        "the principal needs READ on topic 'orders', to load it and to commit how far ... doctor --topic orders",
        way="who may only look",
    ),
    AtLook("orders()", "group 'orderedkafka.orders' ... needs DESCRIBE (and READ) on the group", way="without a group"),
    AtLook("orders(start='committed:nobody')", "group 'nobody' never committed any of orders[0], ... check its name"),
    AtLook("orders(start='committed:others')", "group 'others' never committed any of orders[0], ... check its name"),
    AtLook("replay(start='committed:nobody')", "group 'nobody' never committed any of orders[0], ", task="resolve"),
    AtLook(
        "orders(start={'orders': [99, 0], 'refunds': [0]})",
        "the start is orders[0]@99, beyond the high end orders[0]@3 ... another cluster? Choose another start",
    ),
    AtLook(
        "orders(start={'orders': [0], 'refunds': [0]})",
        "the start names no offset for orders[1]: name every partition that is read, with -2 for the earliest",
    ),
    AtLook("orders(start={'orders': [0, 0, 0], 'refunds': [0]})", "orders[2] does not exist: 'orders' has the"),
    AtLook(
        "orders(start='2099-01-01T00:00:00Z')",
        "the start 2099-01-01T00:00:00.000Z is in the future ... choose an earlier one, or 'latest'",
        again=True,
    ),
    AtLook(
        "replay(start={'orders': [2, 0], 'refunds': [0]}, end='earliest')",
        "the end orders[0]@0 is before the start orders[0]@2 ... swap them, or ask for a later end",
        task="resolve",
    ),
    AtLook(
        "replay(start='latest', end='2000-01-01T00:00:00Z')",
        "the end orders[0]@0 is before the start orders[0]@3 ... swap them, or ask for a later end",
        task="resolve",
    ),
    AtLook(
        "replay(end={'orders': [9, 0], 'refunds': [0]})",
        "the end is orders[0]@9, beyond the high end orders[0]@3 ... Choose another end",
        task="resolve",
    ),
    AtLook(
        "ordered_load(LOAD, to=KafkaOutput('otu'))",
        "output topic 'otu' does not exist at ... did you mean 'out'? ... create=NewTopics(partitions=6",
        task="resolve",
    ),
    AtLook("orders(topics=['doomed'], start='latest')", "topic 'doomed' does not exist at", meanwhile="deleted"),
    AtLook(
        "orders(topics=['renewed'], start='latest')",
        "topic 'renewed' was deleted and created again ... ledger rewind orders --topic renewed --to earliest",
        meanwhile="created again",
    ),
    AtLook(
        "orders(topics=['shortened'], start='latest')",
        "stands at shortened[0]@0, which is gone: the log starts at shortened[0]@2, and 2 ... on_data_loss='count'",
        meanwhile="retention",
    ),
]
