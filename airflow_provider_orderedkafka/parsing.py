"""Check what a load needs from its DAG and its arguments; errors name the way out."""

import os
from collections.abc import Collection, Container, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from .compat.airflow import has_data_intervals, mapped_group
from .context import SCHEME
from .core.documents import Kind
from .core.notation.subscriptions import check_not_fed_back
from .decoding.formats import Json, JsonSchema, Protobuf
from .errors import SettingError
from .hooks.submission import SparkSubmit, master_of
from .job import Job, Rows
from .kafka.clients.config import misspelled
from .load import OrderedLoad
from .locations import location_for
from .outputs import TEMPLATED, FilesOutput, Output, named
from .reporting.lineage import cluster_uri

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset, TaskGroup

Form = Literal["load", "replay"]

READERS: Mapping[str, str] = {"delta": "deltalake", "iceberg": "pyiceberg", "avro": "cramjam"}
"""What reads tables, and Spark's Avro, back without Spark."""

ELSEWHERE = {
    **{each.name: "it is a setting of the load: OrderedLoad(...)" for each in fields(OrderedLoad)},
    **{each.name: f"set it with spark=SparkSubmit({each.name}=...)" for each in fields(SparkSubmit)},
    **{name: f"set it with rows=Rows({name}=...)" for name in ("decode", "transform", "arrow_transform")},
    "application": "set it with rows=Rows(application=Application('my_app.py'))",
    "application_args": "set it with rows=Rows(application=Application('my_app.py', arguments=[...]))",
    "keep_order": "set it with to=KafkaOutput('...', keep_order=...)",
    "mode": "use ordered_intervals() or ordered_replay()",
    "output": "it is to=",
    "output_topic": "set it with to=KafkaOutput('...')",
    "spark_conn_id": "set it with spark=SparkSubmit('...')",
}
"""Where an argument belongs that functions and operators do not take."""

WAITS: Mapping[Kind, tuple[str, ...]] = {
    "incremental": ("scheduled", "always", "never"),
    "interval": ("always", "never"),
    "replay": ("never",),
}
FORMS: Mapping[Form, Kind] = {"load": "incremental", "replay": "replay"}
"""What each form is for."""

ASKED = {
    "start": "{{ params.start }}",
    "end": "{{ params.end }}",
    "to": "{{ params.format }}:{{ params.target }}",
    "row_limit": "{{ params.row_limit or '' }}",
    "dry_run": "{{ params.dry_run }}",
}
"""What the form of a replay asks for, and how a replay takes it from there."""

ON_THE_RUN_BEFORE = ("wait_for_downstream", "depends_on_past")
"""What a task has; Airflow sets the second with the first."""


def check_load(load: object) -> None:
    if not isinstance(load, OrderedLoad):
        raise SettingError(
            f"the first argument must be an OrderedLoad, found {load!r}: ordered_load(OrderedLoad('orders', "
            "topics=['orders']), to=KafkaOutput('orders-ordered'))"
        )


def check_wait(load: OrderedLoad, mode: Kind, wait: object, *, by_form: bool) -> None:
    """`SettingError` unless it says which runs wait; `by_form` if a person says that in a form, and not the DAG."""
    if wait not in WAITS[mode]:
        expected = ", ".join(map(repr, WAITS[mode]))
        raise SettingError(f"load {load.name!r}: wait must be one of {expected}, found {wait!r}")
    if by_form and wait in {"always", "never"}:
        raise SettingError(
            f"load {load.name!r}: wait={wait!r}, and load_params() of its DAG ask in a form whether a run waits: leave "
            "one of them out"
        )


def check_dag(load: OrderedLoad, mode: Kind, group: "TaskGroup") -> None:
    """Check the DAG that a load's group is in; `SettingError` where the load cannot run in it."""
    mapped = mapped_group(group)
    if mapped is not None:
        raise SettingError(
            f"load {load.name!r} is inside the mapped task group {mapped.group_id!r}: one load is one ledger, and "
            "mapped copies would share it; make several loads in a loop, each with its own name"
        )
    location_for(load.name, load.ledger)
    if mode == "incremental":
        _incremental(load, group.dag)
    if mode == "interval":
        _interval(load, group.dag)


def _incremental(load: OrderedLoad, dag: "DAG") -> None:
    wrong = {
        "max_active_runs": (dag.max_active_runs, 1, "the runs of one load follow each other"),
        "catchup": (dag.catchup, False, "the ledger says what is missing, not the calendar"),
    }
    for name, (found, needed, why) in wrong.items():
        if found != needed:
            raise SettingError(
                f"load {load.name!r} is incremental and DAG {dag.dag_id!r} has {name}={found!r}: {why}; set "
                f"{name}={needed!r}, or load data intervals with ordered_intervals()"
            )


def _interval(load: OrderedLoad, dag: "DAG") -> None:
    if not has_data_intervals(dag.timetable):
        found = type(dag.timetable).__name__
        raise SettingError(
            f"load {load.name!r} loads data intervals and DAG {dag.dag_id!r} has the timetable {found}, whose runs "
            "have none: use schedule=CronDataIntervalTimetable('@hourly', timezone='UTC') "
            "(from airflow.timetables.interval), or load what is new with ordered_load()"
        )


def output_of(load: OrderedLoad, to: Any, rows: Rows) -> Output | str | None:
    """The output as a value, or as a text where it is a template as a whole."""
    if isinstance(to, str) and not TEMPLATED.search(to):
        try:
            to = named(to)
        except SettingError as error:
            raise SettingError(
                f"load {load.name!r}: to={to!r}: {error}; a topic is KafkaOutput('orders-ordered') or "
                "'topic:orders-ordered'"
            ) from error
    if not isinstance(to, Output | str | None):
        raise SettingError(
            f"load {load.name!r}: to= must be a KafkaOutput, IcebergOutput, DeltaOutput or FilesOutput, found {to!r}"
        )
    if to is None and not (rows.application and rows.application.file):
        raise SettingError(
            f"load {load.name!r}: to= is missing: give to=KafkaOutput('orders-ordered'), "
            "IcebergOutput('catalog.schema.orders'), DeltaOutput(...) or FilesOutput('/data/orders'); only with a "
            "program of your own, rows=Rows(application=...), it may be left out"
        )
    return to


def check_job(load: OrderedLoad, to: Output | str | None, rows: Any, mode: Kind = "incremental") -> None:
    """Check what is to be done with the load's ranges, as far as it is known when the DAG is parsed."""
    if not isinstance(rows, Rows):
        raise SettingError(f"load {load.name!r}: rows must be Rows(decode=..., transform=...), found {rows!r}")
    job = Job(None if isinstance(to, str) else to, rows)
    try:
        job.check()
    except SettingError as error:
        raise SettingError(f"load {load.name!r}: {error}") from error
    if job.upserts and mode == "interval":
        raise SettingError(
            f"load {load.name!r}: upsert= needs the order that a ledger keeps, and intervals are loaded in any order: "
            "use ordered_load(), or leave upsert out"
        )
    check_first_rows(load, rows, load.row_limit)
    if job.kafka is not None and rows.function is None and rows.application is None:
        _check_bytes(load, rows)
    for name in () if job.kafka is None else job.kafka.producer:
        if (setting := misspelled(name)) is not None:
            raise SettingError(f"load {load.name!r}: KafkaOutput: producer has {name!r}: did you mean {setting!r}?")
    if job.kafka is not None and job.kafka.create is not None and not topics_of_source_cluster(load, job):
        raise SettingError(
            f"load {load.name!r}: create= only makes topics on the load's own cluster, and its KafkaOutput is on "
            f"another one, {job.kafka.kafka_conn_id!r}: create its topics there, and leave create out"
        )
    check_not_fed_back(load.name, load.subscription, dict.fromkeys(topics_of_source_cluster(load, job), "to"))


def check_first_rows(load: OrderedLoad, rows: Rows, limit: int | None) -> None:
    """`SettingError` where a limit asks for the first rows, and records that cannot be decoded may be left out."""
    if limit is not None:
        _refuse_first_rows(load, rows, f"row_limit={limit}", "leave one out")


def check_forms(load: OrderedLoad, mode: Kind, forms: Collection[Form]) -> None:
    """`SettingError` for a form in which a person would ask for what such a load does not do."""
    for form in forms:
        if mode != FORMS[form]:
            raise SettingError(
                f"load {load.name!r} has mode {mode!r}, but {form}_params() of its DAG are the form of an "
                f"ordered_{form}(): leave them out, or move one of the two into a DAG of its own"
            )


def check_form(load: OrderedLoad, rows: Rows, fields: Container[str]) -> None:
    """`SettingError` where the load's form may ask for the first rows, as well."""
    if "row_limit" in fields:
        way_out = "leave the field out, with row_limit=False in load_params() or replay_params(), or leave Allow out"
        _refuse_first_rows(load, rows, "a form with the field 'row_limit'", way_out)


def check_asked(load: OrderedLoad, fields: Container[str], given: Mapping[str, Any]) -> None:
    """`SettingError` where a person would fill in a field of a replay's form that the replay does not take from it."""
    for name, value in given.items():
        unasked = name == "row_limit" and name not in fields
        if not unasked and TEMPLATED.search(repr(value)) is None:
            raise SettingError(
                f"load {load.name!r}: {name}={value!r}, and replay_params() of its DAG ask for it in a form, where it "
                f"would mean nothing: take it from there, {name}={ASKED[name]!r}, or leave the form out"
            )


def _refuse_first_rows(load: OrderedLoad, rows: Rows, asked: str, way_out: str) -> None:
    bad = rows.bad_records
    if bad is not None and rows.decode is not None:
        raise SettingError(
            f"load {load.name!r} has {asked} and Allow({bad.most}, ...): the first rows would depend on how many "
            f"records may be bad; {way_out}"
        )


def _check_bytes(load: OrderedLoad, rows: Rows) -> None:
    """`SettingError` for columns of several fields, which no topic takes as they are."""
    decoded = {} if rows.decode is None else rows.decode.formats
    for column, each in decoded.items():
        if isinstance(each, Json | JsonSchema | Protobuf):
            raise SettingError(
                f"load {load.name!r}: decode makes {column!r} a struct, but a topic takes bytes or text: convert it in "
                f"a transform, as with to_json({column}), or write to a table"
            )


def check_audit(load: OrderedLoad, to: Output | str | None, rows: Rows) -> None:
    """`SettingError` where an audit could say nothing of any range, or could not even read its output here."""
    said = f"load {load.name!r} has audit=True"
    if to is None:
        raise SettingError(f"{said}, but only its own application knows where it writes: leave audit out, or name to=")
    if isinstance(to, str):
        return  # a template as a whole: the audit itself says what it cannot read
    if getattr(to, "provenance", True) is False:
        raise SettingError(
            f"{said}, but with provenance=False rows do not say which record they come from: leave one out"
        )
    if isinstance(to, FilesOutput) and to.format == "csv":
        raise SettingError(f"{said}, but files of csv are not read back: leave audit out, or write Parquet")
    for output in (to, rows.dead_letters):
        reader = READERS.get(getattr(output, "format", getattr(output, "kind", "")))
        if reader is not None and find_spec(reader) is None:
            raise SettingError(
                f"{said}, and {reader!r}, which reads {getattr(output, 'of', '')} back, is not installed: "
                "pip install 'airflow-provider-orderedkafka[audit]' where Airflow's tasks run, or leave audit out"
            )


def topics_of_source_cluster(load: OrderedLoad, job: Job) -> tuple[str, ...]:
    """The topics that it writes to on the cluster that the load reads."""
    there = None if job.kafka is None else job.kafka.kafka_conn_id
    return job.topics if there in {None, load.kafka_conn_id} else ()


def check_alone(load: OrderedLoad, tasks: Mapping[str, Any]) -> None:
    """`SettingError` for a task that waits for the run before, whether it, its DAG or a group around it says so."""
    for task, made in tasks.items():
        for name in ON_THE_RUN_BEFORE:
            if getattr(made, name, False):
                raise SettingError(
                    f"load {load.name!r} is incremental and its task {task!r} has {name}=True: a failed run would keep "
                    f"the next one from taking its range over; set {name}=False, or load data intervals with "
                    "ordered_intervals()"
                )


def check_tasks(load: OrderedLoad, tasks: Mapping[str, Any], known: Collection[str]) -> None:
    """`SettingError` for arguments of a task that the load does not have."""
    for task, given in tasks.items():
        if not isinstance(given, Mapping):
            raise SettingError(
                f"load {load.name!r}: tasks gives {given!r} for {task!r}: expected arguments, such as {{'retries': 3}}"
            )
        if task not in known:
            raise SettingError(
                f"load {load.name!r}: tasks names {task!r}, but its tasks are {', '.join(known)}: leave it out; "
                "audit=True adds an 'audit', and with wait='never' there is no 'wait'"
            )


def check_checkpoint(load: OrderedLoad, conn_id: str, checkpoint: str | None) -> None:
    """Require `checkpoint=` for a cluster, if the connection is an environment variable and so known here."""
    connection = _given(conn_id)
    if checkpoint is not None or connection is None:
        return
    master = master_of(connection)
    if not master.startswith("local"):
        raise SettingError(no_checkpoint(load.name, conn_id, master))


def no_checkpoint(load: str, conn_id: str, master: str) -> str:
    return (
        f"load {load!r}: checkpoint= is missing, and the Spark connection {conn_id!r} names the cluster {master!r}: "
        "name a location that driver, executors and Airflow's workers reach, such as "
        "checkpoint='s3a://bucket/orderedkafka'"
    )


def topic_assets(load: OrderedLoad) -> "list[Asset]":
    """The assets of the topics that a load reads: by Kafka's address where the connection is an environment variable.

    Another connection is not known when the DAG is parsed, and inlets are what a parse says they are: by its ID, then.
    """
    from airflow.sdk import Asset

    connection = _given(load.kafka_conn_id)
    servers = "" if connection is None else str(connection.extra_dejson.get("bootstrap.servers") or "")
    place = cluster_uri(servers) if servers.strip() else f"{SCHEME}://topic/{quote(load.kafka_conn_id, safe='')}"
    return [Asset(uri=f"{place}/{topic}") for topic in load.named]


def _given(conn_id: str) -> Any:
    """The connection, if it is an environment variable that can be read: what is wrong with it shows in use."""
    from airflow.sdk import Connection

    text = os.environ.get(f"AIRFLOW_CONN_{conn_id.upper()}", "")
    if not text:
        return None
    try:
        return Connection.from_json(text, conn_id) if text.startswith("{") else Connection.from_uri(text, conn_id)
    except Exception:  # noqa: BLE001 - Airflow's own errors about it differ
        return None
