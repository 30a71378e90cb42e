"""`ordered_load`: the four steps of a load as one task group, wired and checked when the DAG is parsed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup
from airflow.sdk.definitions._internal.contextmanager import DagContext

from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad

if TYPE_CHECKING:
    from airflow.sdk import Asset, BaseOperator

    from airflow_provider_orderedkafka.operators.resolve import OnClear
    from airflow_provider_orderedkafka.operators.submit import KeepOrder

STEPS = ("wait", "resolve", "load", "commit")


@dataclass(frozen=True, slots=True)
class Launch:
    """What another way to run the application gets, as templates: the range's text, where checkpoint and report are.

    `arguments` is what the packaged applications take. The operator that is made has to pass `task` on to its base.
    """

    range: str
    checkpoint: str
    report: str
    task: Mapping[str, Any]

    @property
    def arguments(self) -> list[str]:
        """The command line of the packaged applications, but for the output."""
        return ["--range", self.range, "--checkpoint", self.checkpoint]


Submit = Callable[[Launch], "BaseOperator"]


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
    keep_order: "KeepOrder" = "key",
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
    :param submit_arguments: More arguments of `SparkSubmitOperator`, such as `conf` or `executor_memory`.
    """
    from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
    from airflow_provider_orderedkafka.parsing import check_dag
    from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

    check_dag(load, mode)
    more = _checked_steps(load, steps)
    group = OrderedLoadGroup(load.name, tooltip=f"Load {', '.join(load.topics)} in time order")
    with group:
        resolve = ResolveOffsetRangeOperator(
            task_id="resolve",
            load=load,
            mode=mode,
            start=start,
            end=end,
            on_clear=on_clear,
            digest=_digest(output_topic, application, keep_order),
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
                application=_application(application),
                conn_id=spark_conn_id,
                **{**submit_arguments, **more["load"]},
            )
        else:
            loading = _submitted(load, resolve, submit, checkpoint, {**submit_arguments, **more["load"]})
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


def _submitted(
    load: OrderedLoad, resolve: "BaseOperator", submit: Submit, checkpoint: str | None, more: Mapping[str, Any]
) -> "BaseOperator":
    """The operator that another way to run it gives; its attempt is written down before it begins."""
    from airflow_provider_orderedkafka.assets import ledger_asset
    from airflow_provider_orderedkafka.operators.submit import begin_attempt
    from airflow_provider_orderedkafka.reports import report_location

    if checkpoint is None:
        raise SettingError(
            f"load {load.name!r}: submit= and no checkpoint=: name a location that the application and Airflow's "
            "workers reach, such as checkpoint='s3://bucket/orderedkafka'"
        )
    told = f"{{{{ ti.xcom_pull(task_ids='{resolve.task_id}', key='%s') }}}}"
    task = {
        "task_id": "load",
        "inlets": [ledger_asset(load.name)],
        "pre_execute": lambda context: begin_attempt(context, load, resolve.task_id),
        **more,
    }
    where = told % "checkpoint"
    return submit(Launch(told % "range", where, report_location(where), task))


def _checked_steps(load: OrderedLoad, steps: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Mapping[str, Any]]:
    unknown = sorted(set(steps or {}) - set(STEPS))
    if unknown:
        raise SettingError(f"load {load.name!r}: steps names {unknown[0]!r}, the steps are {', '.join(STEPS)}")
    return {step: (steps or {}).get(step, {}) for step in STEPS}


def _digest(*facts: Any) -> str:
    """What tells this output and application from others."""
    return sha256(repr(facts).encode()).hexdigest()[:16]


def _application(application: str) -> str:
    """An application's path; a relative one counts from the file that defines the DAG."""
    dag = DagContext.get_current()
    if not application or dag is None or "://" in application or Path(application).is_absolute():
        return application
    return str(Path(dag.fileloc).parent / application)
