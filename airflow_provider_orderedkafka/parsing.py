"""Check what a load needs from its DAG, and the form of a replay; errors name the settings and the way out."""

import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_orderedkafka.compat.airflow import has_data_intervals, mapped_group
from airflow_provider_orderedkafka.context import SCHEME
from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.core.outputs import TO_TABLES, TO_TOPICS, Outputs, check_not_fed_back
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import packaged_application
from airflow_provider_orderedkafka.hooks.submission import master_of
from airflow_provider_orderedkafka.ledgers import location_for
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.outputs import KafkaOutput, Output, named

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset, TaskGroup

TEMPLATED = re.compile(r"\{[{%#]")
ON_THE_RUN_BEFORE = ("depends_on_past", "wait_for_downstream")
WHY_ALONE = "a failed run would keep the next one from taking its range over"

TOPIC = (
    TO_TOPICS,
    "name a topic with output_topic='orders-ordered'; or, where a transform makes a column 'topic', the topics that it "
    "may name with application_args=['--sink-option', 'outputTopics=a,b']",
)
TABLE = (
    TO_TABLES,
    "name it with output=FilesOutput('/data/orders'), IcebergOutput('catalog.schema.orders') or DeltaOutput(...)",
)
NEEDED = {"ordered_replay": TOPIC, "enrich_orders": TOPIC, "ordered_table": TABLE}
"""For each packaged application: the sink options of which one is required, and how to set it."""


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
        **{name: (bool(dag.default_args.get(name)), False, WHY_ALONE) for name in ON_THE_RUN_BEFORE},
    }
    for name, (found, needed, why) in wrong.items():
        if found != needed:
            raise SettingError(
                f"load {load.name!r} is incremental and DAG {dag.dag_id!r} has {name}={found!r}: {why}; set "
                f"{name}={needed!r}, or give the load mode='interval'"
            )


def _interval(load: OrderedLoad, dag: "DAG") -> None:
    if not has_data_intervals(dag.timetable):
        found = type(dag.timetable).__name__
        raise SettingError(
            f"load {load.name!r} has mode='interval' and DAG {dag.dag_id!r} has the timetable {found}, "
            "whose runs have no data interval: use schedule=CronDataIntervalTimetable('@hourly', timezone='UTC') "
            "(from airflow.timetables.interval), or give the load mode='incremental'"
        )


def named_output(
    load: OrderedLoad, output: Any, output_topic: str | None, asset: "Asset | None"
) -> tuple[Output | str | None, "Asset | None"]:
    """The output, if one is given, and the asset to emit; an asset may be given as `output`, too."""
    from airflow.sdk import Asset

    if output is None:
        return None, asset
    if isinstance(output, Asset):
        if asset is not None:
            raise SettingError(f"load {load.name!r}: output= and asset= are both assets: leave one out")
        return None, output
    if isinstance(output, str) and not TEMPLATED.search(output):
        output = _named(load, output)
    if not isinstance(output, Output | str):
        raise SettingError(
            f"load {load.name!r}: output= must be a KafkaOutput, IcebergOutput, DeltaOutput or FilesOutput, found "
            f"{output!r}; a topic's name alone goes into output_topic="
        )
    if output_topic is not None:
        raise SettingError(f"load {load.name!r}: output_topic={output_topic!r} and output= are both set: leave one out")
    known = None if isinstance(output, str) else output.uri
    return output, asset or (None if known is None else Asset(uri=known))


def _named(load: OrderedLoad, text: str) -> Output:
    try:
        return named(text)
    except SettingError as error:
        raise SettingError(
            f"load {load.name!r}: output={text!r}: {error}; a topic's name alone goes into output_topic="
        ) from error


def settled(output: Output | str | None) -> Output | None:
    """The output, once its template is rendered."""
    return named(output) if isinstance(output, str) else output


def known_output(load: OrderedLoad, output: Output | str | None) -> Output | None:
    """Another operator than spark-submit's gets its arguments when the DAG is parsed: `SettingError` for a template."""
    if isinstance(output, str):
        raise SettingError(
            f"load {load.name!r}: output={output!r} is a template, and submit= needs to know the output when the DAG "
            "is parsed: name it as a value, or leave submit= out"
        )
    return output


def check_output(
    load: OrderedLoad, output_topic: Any, application: str, arguments: Any, output: Output | str | None = None
) -> None:
    """Require an output that the load does not read, as far as this can be known when the DAG is parsed."""
    if not isinstance(output_topic, str | None) or not isinstance(arguments, list | tuple | None):
        return  # another task says it
    outputs = Outputs.of(output_topic, arguments or ())
    outputs.check_names(load.name)
    check_not_fed_back(load.name, load.topics, outputs.topics)
    if output is not None:
        _check_value(load, output, outputs)
        return
    for name, (options, way_out) in NEEDED.items():
        if application == packaged_application(name) and not outputs.names(*options):
            raise SettingError(f"load {load.name!r}: where {name}.py is to write is not said: {way_out}")


def check_decode(load: OrderedLoad, decode: Any, *, to_kafka: bool) -> None:
    """Check what a load's records are decoded with, and that its dead letters are not read again."""
    if not isinstance(decode, Decode | None):
        raise SettingError(f"load {load.name!r}: decode must be Decode(value=..., key=...), found {decode!r}")
    if decode is None:
        return
    if to_kafka:
        decode.check_topic()
    if isinstance(decode.dead_letters, str):
        check_not_fed_back(load.name, load.topics, {decode.dead_letters: "dead_letters"})
    if decode.max_bad_records and load.row_limit is not None:
        raise SettingError(
            f"load {load.name!r} has row_limit={load.row_limit} and max_bad_records={decode.max_bad_records}: which "
            "rows are the first ones would depend on what may be bad; leave one out"
        )


def _check_value(load: OrderedLoad, output: Output | str, beside: Outputs) -> None:
    if beside.names(*TO_TOPICS, *TO_TABLES):
        raise SettingError(f"load {load.name!r}: output= and application_args both say where to write: leave one out")
    check_not_fed_back(load.name, load.topics, topics_here(load, output))


def topics_here(load: OrderedLoad, output: Output | str | None) -> dict[str, str]:
    """The topics of an output on the cluster that the load reads, with the argument that names each."""
    if not isinstance(output, KafkaOutput) or output.kafka_conn_id not in {None, load.kafka_conn_id}:
        return {}
    return output.named


def outputs_of(
    load: OrderedLoad,
    output_topic: Any,
    arguments: Any,
    output: Output | str | None = None,
    decode: Decode | None = None,
    *,
    create: bool,
) -> list[str]:
    """The topics that a load writes to, as far as they are known here and on the cluster that it reads."""
    known = isinstance(output_topic, str | None) and isinstance(arguments, list | tuple | None)
    said = Outputs.of(output_topic, arguments or ()).topics if known else {}
    topics = list(topics_here(load, output) | said)
    dead = None if decode is None else decode.dead_letters
    if isinstance(dead, str) and dead not in topics and (topics or not isinstance(output, KafkaOutput | None)):
        topics.append(dead)  # beside the rows, or beside the source of a table's rows
    if create and not topics and not isinstance(output, str):
        raise SettingError(
            f"load {load.name!r}: create_output= and no topic on the load's own cluster to create: name it with "
            "output_topic=, or leave create_output out"
        )
    return topics


def shape_of(arguments: Any) -> dict[str, Any]:
    """The arguments that determine an application's rows; empty if they come from another task."""
    outputs = Outputs.of(None, arguments) if isinstance(arguments, list | tuple) else Outputs()
    return {"sink_options": outputs.shape, "transform": outputs.transform}


def check_checkpoint(load: OrderedLoad, conn_id: str, checkpoint: str | None) -> None:
    """Require `checkpoint=` for a cluster, if the connection is an environment variable and so known here."""
    connection = _given(conn_id)
    if checkpoint is not None or connection is None:
        return
    master = master_of(connection)
    if not master.startswith("local"):
        raise SettingError(no_checkpoint(load.name, conn_id, master))


def no_checkpoint(load: str, conn_id: str, master: str) -> str:
    """The message for a load on a cluster without `checkpoint=`."""
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
    server = servers.split(",", maxsplit=1)[0].strip()
    place = f"kafka://{server}" if server else f"{SCHEME}://topic/{quote(load.kafka_conn_id, safe='')}"
    return [Asset(uri=f"{place}/{topic}") for topic in load.topics]


def _given(conn_id: str) -> Any:
    """The connection, if it is an environment variable that can be read: what is wrong with it is said when used."""
    from airflow.sdk import Connection

    text = os.environ.get(f"AIRFLOW_CONN_{conn_id.upper()}", "")
    if not text:
        return None
    try:
        return Connection.from_json(text, conn_id) if text.startswith("{") else Connection.from_uri(text, conn_id)
    except Exception:  # noqa: BLE001 - Airflow's own errors about it differ
        return None


def check_form(
    params: Mapping[str, Any], given: Mapping[str, Any] | None, taken: Collection[str], load: OrderedLoad | None = None
) -> None:
    """Raise a `SettingError` for unknown keys, unreadable places or targets, and duplicates that were not agreed to.

    Call it in a task of the replay's DAG, whose `params` are the form: `start`, `end`, `target`, `duplicates_are_fine`
    and, where the target may be a table, its `format`.

    :param params: The run's params.
    :param given: The run's `conf`: Airflow accepts any key there, and adds it to the params.
    :param taken: Topics, tables and paths that other loads write to.
    :param load: The replay's load; it may not write to a topic that it reads.
    """
    from airflow.sdk import get_current_context

    form = get_current_context()["dag"].params
    unknown = sorted(set(given or {}) - set(form))
    if unknown:
        raise SettingError(f"the form has no {unknown[0]!r}: it takes {', '.join(map(repr, sorted(form)))}")
    for name in ("start", "end"):
        parse_start(params[name], name)
    kind, target = params.get("format") or "topic", str(params["target"])
    found = named(f"{kind}:{target}")
    if load is not None and isinstance(found, KafkaOutput):
        check_not_fed_back(load.name, load.topics, {target: "target"})
    if target.rstrip("/") in taken and not params["duplicates_are_fine"]:
        raise SettingError(
            f"{kind} {target!r} is written to by another load: its rows would be there twice; name a new one, or say "
            "that duplicates are fine"
        )
