"""`ordered_load`: the four tasks of a load as one task group, checked when the DAG is parsed."""

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from airflow.sdk import TaskGroup

from airflow_provider_orderedkafka.arguments import STEPS, check_arguments, check_load
from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import missing_application
from airflow_provider_orderedkafka.hooks.transforms import Transform
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.parsing import check_form
from airflow_provider_orderedkafka.submitting import Launch, Submit, submitted

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset, BaseOperator

    from airflow_provider_orderedkafka.core.lanes import OrderBy
    from airflow_provider_orderedkafka.hooks.launching import SubmitArguments
    from airflow_provider_orderedkafka.operators.resolve import OnClear
    from airflow_provider_orderedkafka.outputs import Output

__all__ = ["Launch", "OrderedLoadGroup", "Submit", "check_form", "ordered_load"]


class OrderedLoadGroup(TaskGroup):
    """The task group of a load.

    `steps` holds its tasks by name (`wait`, `resolve`, `load`, `commit`). `output` is the XCom of `commit`: the range,
    the ledger's revision, and how many rows were written and how many of them were late.
    """

    output: Any = None
    steps: Mapping[str, Any] = {}


def ordered_load(
    load: OrderedLoad,
    *,
    output_topic: str | None = None,
    spark_conn_id: str = "spark_default",
    application: str = "",
    checkpoint: str | None = None,
    keep_order: "OrderBy | None" = "key",
    mode: Kind = "incremental",
    start: Any = None,
    end: Any = None,
    on_clear: "OnClear" = "skip",
    output: "Output | str | Asset | None" = None,
    asset: "Asset | None" = None,
    create_output: Mapping[str, Any] | None = None,
    row_limit: int | str | None = None,
    dry_run: bool | str = False,
    wait: bool = True,
    submit: Submit | None = None,
    steps: Mapping[str, Mapping[str, Any]] | None = None,
    decode: Decode | None = None,
    transform: str | None = None,
    arrow_transform: str | None = None,
    **submit_arguments: Unpack["SubmitArguments"],
) -> OrderedLoadGroup:
    """Add a load's four tasks to the DAG that is being defined, as a task group named after the load.

    :param load: The load.
    :param output_topic: The topic to write to, which must not be one that the load reads. It has to exist, unless
        `create_output` says how to create it. Short for `output=KafkaOutput("...")`; a template is allowed here.
    :param spark_conn_id: ID of the Airflow connection to Spark.
    :param application: Path of your own application, relative to the DAG file. Default: a copy to the output.
    :param checkpoint: Folder for checkpoints. Required for a cluster; with a local master, a folder under AIRFLOW_HOME
        by default. Driver, executors and Airflow's workers must be able to reach it.
    :param keep_order: Which order the output keeps: that of each `"key"`, of each `"partition"`, or none (None).
    :param mode: Which range a run loads. `"incremental"`: everything new since the last run. `"interval"`: the run's
        data interval. `"replay"`: from `start` to `end`, leaving the ledger alone.
    :param start: Where a replay starts; takes the same values as `OrderedLoad.start`.
    :param end: Where a replay ends, exclusive; the same values.
    :param on_clear: What clearing a loaded interval or replay does: `"skip"` it, or `"reload"` it as a whole.
    :param output: Where to write: a `KafkaOutput`, `IcebergOutput`, `DeltaOutput` or `FilesOutput`. Or
        `"<format>:<name>"`, such as `"delta:s3a://lake/orders"`, which may be a template; the formats are `topic`,
        `iceberg`, `delta` and those of `FilesOutput`. (An asset, which this used to be, is still taken, as `asset`.)
    :param asset: The asset to emit when a load is committed. Default: the asset of the output.
    :param create_output: How to create the topics that the load writes to, where they do not exist:
        `{"partitions": 6, "replication": 3, "config": {"retention.ms": 86_400_000}}`, each with the broker's default. A
        topic that exists stays as it is.
    :param row_limit: The most rows that a replay writes: the first ones in order; may be a template.
    :param dry_run: Whether a replay only logs what it would load: `True`, or a template that gives `"True"`.
    :param wait: Whether to add the `wait` task. Without it, a run with nothing to load is skipped.
    :param submit: A function from a `Launch` to an operator that runs the application in place of spark-submit. Needs
        `checkpoint`.
    :param steps: Further arguments of single tasks, such as `{"load": {"retries": 3, "pool": "spark"}}`.
    :param decode: How keys and values are decoded before the transform, such as `Decode(value=Avro(registry="main"))`.
    :param transform: A function from DataFrame to DataFrame, as `"module:function"`. Its module may lie beside the DAG
        file: then it travels with the application.
    :param arrow_transform: A function from `pyarrow.RecordBatch` to `pyarrow.RecordBatch` instead; faster.
    :param submit_arguments: Arguments of spark-submit, under the names of Airflow's `SparkSubmitOperator`, such as
        `conf`, `executor_memory` or `packages`.
    """
    from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
    from airflow_provider_orderedkafka.parsing import (
        check_checkpoint,
        check_dag,
        check_decode,
        check_output,
        named_output,
        outputs_of,
    )
    from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

    check_load(load)
    group = _group(load)
    check_dag(load, mode, group)
    steps = steps or {}
    check_arguments(load, mode, submit_arguments, steps, signature(ordered_load).parameters, spark_submit=not submit)
    value, asset = named_output(load, output, output_topic, asset)
    more = {step: steps.get(step, {}) for step in STEPS}
    travels = Transform.of(load.name, Path(group.dag.fileloc).parent, transform, arrow_transform)
    given: dict[str, Any] = {**submit_arguments, **more["load"]}
    arguments = given if travels is None else travels.added(given)
    written: dict[str, Any] = {"output_topic": output_topic, "output": value}
    check_decode(load, decode, to_kafka=output_topic is not None or isinstance(value, KafkaOutput))
    if submit is None:
        check_checkpoint(load, spark_conn_id, checkpoint)
    else:
        check_output(load, output_topic, application, None, value)
    options = arguments.get("application_args")
    outputs = outputs_of(load, output_topic, options, value, decode, create=create_output is not None)
    shape: dict[str, Any] = {"keep_order": keep_order, "decode": decode}
    digest = _digest(options, application=application, **written, **shape)
    shared: dict[str, Any] = {"load": load, "checkpoint": checkpoint, "digest": digest}
    application = _application(load, application, group.dag)
    with group:
        resolve = ResolveOffsetRangeOperator(
            task_id="resolve",
            mode=mode,
            start=start,
            end=end,
            on_clear=on_clear,
            outputs=outputs,
            create_output=create_output,
            output=value,
            row_limit=row_limit,
            plan_only=dry_run,
            **shared,
            **more["resolve"],
        )
        how = {"application": application, **shared, **written, **shape}
        loading = _loading(resolve, submit, spark_conn_id, arguments, **how)
        commit = CommitOffsetRangeOperator(
            task_id="commit", load=load, range_id=resolve.output, asset=asset, **written, **more["commit"]
        )
        tasks: dict[str, Any] = {"resolve": resolve, "load": loading, "commit": commit}
        if wait and mode != "replay":
            tasks["wait"] = OffsetRangeSensor(task_id="wait", load=load, kind=mode, **more["wait"])
            tasks["wait"] >> resolve
        resolve >> loading >> commit
    group.output, group.steps = commit.output, tasks
    return group


def _digest(
    options: Any,
    *,
    output_topic: str | None,
    output: "Output | str | None",
    application: str,
    keep_order: Any,
    decode: Decode | None,
) -> str:
    """The digest of the settings that a range is loaded with, but for those that are its own."""
    from airflow_provider_orderedkafka.loads.changed_settings import digest_of
    from airflow_provider_orderedkafka.parsing import shape_of

    return digest_of(
        output_topic=getattr(output, "topic", output_topic),
        output=output if isinstance(output, str | None) else output.shape,
        application=application or "packaged",
        keep_order=keep_order,
        decode=None if decode is None else decode.shape,
        **shape_of(options),
    )


def _loading(
    resolve: "BaseOperator", submit: Submit | None, conn_id: str, arguments: dict[str, Any], **how: Any
) -> "BaseOperator":
    if submit is not None:
        return submitted(resolve.task_id, submit, more=arguments, **how)
    from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator

    return SubmitOrderedLoadOperator(task_id="load", range_id=resolve.output, conn_id=conn_id, **how, **arguments)


def _group(load: OrderedLoad) -> OrderedLoadGroup:
    try:
        return OrderedLoadGroup(load.name, tooltip=f"Load {', '.join(load.topics)} in time order")
    except RuntimeError as error:  # what Airflow says there
        raise SettingError(f"load {load.name!r}: ordered_load() is called inside a DAG: `with DAG(...):`") from error


def _application(load: OrderedLoad, application: str, dag: "DAG") -> str:
    """Resolve a relative path against the folder of the DAG file, where the application has to be."""
    if not application or "://" in application or Path(application).is_absolute():
        return application
    path = Path(dag.fileloc).parent / application
    if "{{" not in application and not path.is_file():
        raise missing_application(load.name, application, path)
    return str(path)
