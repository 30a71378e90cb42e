"""Run the application with an operator of the user's choice instead of spark-submit.

The attempt is recorded in the ledger before that operator begins, and the commit relies on the report beside the
checkpoint, as with spark-submit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.context import books_of, fail, ledger_asset, skip
from airflow_provider_orderedkafka.core.lanes import OrderBy
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.hooks.launching import (
    check_keep_order,
    decode_arguments,
    output_arguments,
    packaged_for,
)
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.loading import load as what_to_do
from airflow_provider_orderedkafka.outputs import Output
from airflow_provider_orderedkafka.parsing import known_output, topic_assets
from airflow_provider_orderedkafka.reports import readable, report_location
from airflow_provider_orderedkafka.telling import docs, metrics, status

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


@dataclass(frozen=True, slots=True)
class Launch:
    """What a `submit=` function gets, to make the operator that runs the application.

    :param load: Name of the load.
    :param range: Template of the range document's text.
    :param packed_range: Template of the same as one word, which nothing on its way changes.
    :param checkpoint: Template of the checkpoint's location, as Spark knows it.
    :param report: Template of the report's location.
    :param application: Path of the application, as this DAG file sees it.
    :param output: The arguments that name the output and its order.
    :param task: Arguments that the operator must get, as `**launch.task`.
    """

    load: str
    range: str
    packed_range: str
    checkpoint: str
    report: str
    application: str
    output: Sequence[str]
    task: Mapping[str, Any]

    @property
    def arguments(self) -> list[str]:
        """The command line of the application, without the Kafka options."""
        return ["--range", self.packed_range, "--checkpoint", self.checkpoint, *self.output]


Submit = Callable[[Launch], "BaseOperator"]


def submitted(
    resolve: str,
    submit: Submit,
    *,
    load: OrderedLoad,
    application: str,
    checkpoint: str | None,
    digest: str,
    output_topic: str | None,
    output: Output | str | None,
    keep_order: OrderBy | None,
    decode: Decode | None,
    more: Mapping[str, Any],
) -> "BaseOperator":
    """Make the user's operator and check it; `resolve` is the ID of the task whose range it loads."""
    known = known_output(load, output)
    if checkpoint is None:
        raise SettingError(
            f"load {load.name!r}: submit= and no checkpoint=: name a location that the application and Airflow's "
            "workers reach, such as checkpoint='s3://bucket/orderedkafka'"
        )
    pulled = f"ti.xcom_pull(task_ids='{resolve}', key='%s')"
    told = f"{{{{ {pulled} }}}}"
    task = {
        "task_id": "load",
        "inlets": [ledger_asset(load.name, load.ledger), *topic_assets(load)],
        "doc_md": docs.LOAD,
        "pre_execute": lambda context: begin_attempt(context, load, resolve, digest),
        **more,
    }
    launch = Launch(
        load=load.name,
        range=told % "range",
        packed_range=told % "packed_range",
        # Airflow may name a connection in the location; before it did, there was but one.
        checkpoint=f"{{{{ {pulled % 'spark_checkpoint'} or {pulled % 'checkpoint'} }}}}",
        report=report_location(told % "checkpoint"),
        application=application or packaged_for(known),
        output=[*output_arguments(output_topic, check_keep_order(keep_order), output=known), *decode_arguments(decode)],
        task=task,
    )
    made = submit(launch)
    if made.task_id.rpartition(".")[2] != task["task_id"] or not made.inlets:
        raise SettingError(
            f"load {load.name!r}: the operator that submit= gives must pass all of the launch's `task` on to its base, "
            f"found task id {made.task_id!r}: `lambda launch: SomeOperator(..., **launch.task)`"
        )
    return made


def begin_attempt(context: "Context", load: OrderedLoad, resolve: str, digest: str = "") -> None:
    """Record the attempt in the ledger before the operator begins; skip the task if the range is committed."""
    ti = context["ti"]
    where, range_id = ti.xcom_pull(task_ids=resolve, key="checkpoint"), ti.xcom_pull(task_ids=resolve)
    try:
        books = books_of(load.name, context, load.ledger)
        todo = what_to_do(books, range_id or None, lambda *_: readable(str(where)), digest)
    except OrderedKafkaError as error:
        fail(error)
    if todo.action is Action.SKIP:
        skip(context, todo.reason)
    if todo.action is Action.REFUSE:
        fail(LifecycleError(f"nothing is loaded for {load.name!r}: {todo.reason}"))
    if todo.range is not None and todo.report is None:
        status.begun(context, load, todo.range, todo.attempt)
    metrics.attempted(load.name)
