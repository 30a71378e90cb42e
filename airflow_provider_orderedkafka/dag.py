"""`ordered_load`: the four steps of a load as one task group, wired and checked when the DAG is parsed."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.submitting import Launch, Submit, submitted

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset, BaseOperator

    from airflow_provider_orderedkafka.core.lanes import OrderBy
    from airflow_provider_orderedkafka.operators.resolve import OnClear

__all__ = ["Launch", "OrderedLoadGroup", "Submit", "ordered_load"]


class OrderedLoadGroup(TaskGroup):
    """The task group of a load; `output` is what the commit tells: range, revision, rows, late."""

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
    output: "Asset | None" = None,
    wait: bool = True,
    submit: Submit | None = None,
    steps: Mapping[str, Mapping[str, Any]] | None = None,
    **submit_arguments: Any,
) -> OrderedLoadGroup:
    """Add `<load>.wait`, `.resolve`, `.load` and `.commit` to the DAG that is being defined.

    :param load: The load.
    :param output_topic: Where the packaged application writes.
    :param spark_conn_id: The Spark connection.
    :param application: Another application; a relative path counts from the DAG file.
    :param checkpoint: See `SubmitOrderedLoadOperator`.
    :param keep_order: What keeps its order in the output.
    :param mode: How the range is found, with `start`, `end` and `on_clear`: see `ResolveOffsetRangeOperator`.
    :param output: The asset that the commit emits under the alias; the output topic's, unless another is named.
    :param wait: Whether to wait until there is enough; without, the run is skipped when nothing is there.
    :param submit: Another way to run the application: gets a `Launch`, returns the operator. Needs `checkpoint`.
    :param steps: More arguments by step, such as `{"load": {"retries": 3, "pool": "spark"}}`.
    :param submit_arguments: More arguments of `SubmitOrderedLoadOperator`, such as `conf` or `executor_memory`.
    """
    from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
    from airflow_provider_orderedkafka.parsing import (
        STEPS,
        check_checkpoint,
        check_dag,
        check_output,
        check_steps,
        shape_of,
    )
    from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor
    from airflow_provider_orderedkafka.steps.restating import digest_of

    group = _group(load)
    check_dag(load, mode, group)
    check_steps(load, mode, steps or {})
    more = {step: (steps or {}).get(step, {}) for step in STEPS}
    arguments = {**submit_arguments, **more["load"]}
    if submit is None:
        check_checkpoint(load, spark_conn_id, checkpoint)
    else:
        check_output(load, output_topic, application, None)
    digest = digest_of(
        output_topic=output_topic,
        application=application or "packaged",
        keep_order=keep_order,
        **shape_of(arguments.get("application_args")),
    )
    with group:
        resolve = ResolveOffsetRangeOperator(
            task_id="resolve",
            load=load,
            mode=mode,
            start=start,
            end=end,
            on_clear=on_clear,
            digest=digest,
            checkpoint=checkpoint,
            **more["resolve"],
        )
        if submit is None:
            loading = _spark_submit(
                load,
                resolve,
                output_topic=output_topic,
                checkpoint=checkpoint,
                keep_order=keep_order,
                application=_application(application, group.dag),
                conn_id=spark_conn_id,
                digest=digest,
                **arguments,
            )
        else:
            loading = submitted(load, resolve.task_id, submit, checkpoint=checkpoint, digest=digest, more=arguments)
        commit = CommitOffsetRangeOperator(
            task_id="commit",
            load=load,
            range_id=resolve.output,
            output_topic=output_topic,
            asset=output,
            **more["commit"],
        )
        tasks: dict[str, Any] = {"resolve": resolve, "load": loading, "commit": commit}
        if wait and mode != "replay":
            tasks["wait"] = OffsetRangeSensor(task_id="wait", load=load, kind=mode, **more["wait"])
            tasks["wait"] >> resolve
        resolve >> loading >> commit
    group.output, group.steps = commit.output, tasks
    return group


def _spark_submit(load: OrderedLoad, resolve: "BaseOperator", **arguments: Any) -> "BaseOperator":
    from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator

    return SubmitOrderedLoadOperator(task_id="load", load=load, range_id=resolve.output, **arguments)


def _group(load: OrderedLoad) -> OrderedLoadGroup:
    try:
        return OrderedLoadGroup(load.name, tooltip=f"Load {', '.join(load.topics)} in time order")
    except RuntimeError as error:  # what Airflow says there
        raise SettingError(f"load {load.name!r}: ordered_load() is called inside a DAG: `with DAG(...):`") from error


def _application(application: str, dag: "DAG") -> str:
    """An application's path; a relative one counts from the file that defines the DAG."""
    if not application or "://" in application or Path(application).is_absolute():
        return application
    return str(Path(dag.fileloc).parent / application)
