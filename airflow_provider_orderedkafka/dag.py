"""`ordered_load`: the four steps of a load as one task group, wired and checked when the DAG is parsed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup
from airflow.sdk.definitions._internal.contextmanager import DagContext

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset

    from airflow_provider_orderedkafka.operators.resolve import Mode
    from airflow_provider_orderedkafka.operators.submit import KeepOrder

STEPS = ("wait", "resolve", "load", "commit")


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
    mode: "Mode" = "incremental",
    output: "Asset | None" = None,
    wait: bool = True,
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
    :param mode: How the range is found; see `ResolveOffsetRangeOperator`. Only an incremental load waits.
    :param output: The asset that the commit emits; the output topic's, unless another is named.
    :param wait: Whether to wait for enough offsets; without, the run is skipped when nothing is there.
    :param steps: More arguments by step, such as `{"load": {"retries": 3, "pool": "spark"}}`.
    :param submit_arguments: More arguments of `SparkSubmitOperator`, such as `conf` or `executor_memory`.
    """
    from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
    from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
    from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator, check_keep_order
    from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

    more = _checked_steps(load, steps)
    _check_dag(load, mode)
    group = OrderedLoadGroup(load.name, tooltip=f"Load {', '.join(load.topics)} in time order")
    with group:
        resolve = ResolveOffsetRangeOperator(
            task_id="resolve", load=load, mode=mode, digest=_digest(output_topic, application), **more["resolve"]
        )
        submit = SubmitOrderedLoadOperator(
            task_id="load",
            load=load,
            range_id=resolve.output,
            output_topic=output_topic,
            checkpoint=checkpoint,
            keep_order=check_keep_order(keep_order),
            application=_application(application),
            conn_id=spark_conn_id,
            **{**submit_arguments, **more["load"]},
        )
        commit = CommitOffsetRangeOperator(
            task_id="commit", load=load, range_id=resolve.output, asset=output, **more["commit"]
        )
        tasks: dict[str, Any] = {"resolve": resolve, "load": submit, "commit": commit}
        if wait and mode == "incremental":
            tasks["wait"] = OffsetRangeSensor(task_id="wait", load=load, **more["wait"])
            tasks["wait"] >> resolve
        resolve >> submit >> commit
    group.output, group.steps = commit.output, tasks
    return group


def _checked_steps(load: OrderedLoad, steps: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Mapping[str, Any]]:
    unknown = sorted(set(steps or {}) - set(STEPS))
    if unknown:
        raise SettingError(f"load {load.name!r}: steps names {unknown[0]!r}, the steps are {', '.join(STEPS)}")
    return {step: (steps or {}).get(step, {}) for step in STEPS}


def _check_dag(load: OrderedLoad, mode: str) -> None:
    """What the load asks of its DAG, as errors that name both settings."""
    dag = DagContext.get_current()
    if dag is None:
        raise SettingError(f"load {load.name!r}: ordered_load() is called inside a DAG: `with DAG(...):`")
    if mode == "incremental":
        _check_incremental(load, dag)


def _check_incremental(load: OrderedLoad, dag: "DAG") -> None:
    wrong = {
        "max_active_runs": (dag.max_active_runs, 1, "runs of one load follow each other"),
        "catchup": (dag.catchup, False, "the ledger says what is missing, not the calendar"),
    }
    for name, (found, needed, why) in wrong.items():
        if found != needed:
            raise SettingError(
                f"load {load.name!r} is incremental and DAG {dag.dag_id!r} has {name}={found!r}: {why}; set "
                f"{name}={needed!r}, or use mode='interval'"
            )
    if dag.default_args.get("depends_on_past"):
        raise SettingError(
            f"load {load.name!r} is incremental and DAG {dag.dag_id!r} has depends_on_past=True: a failed run would "
            "keep the next one from taking its range over; leave depends_on_past out"
        )


def _digest(*facts: Any) -> str:
    """What tells this output and application from others."""
    from hashlib import sha256

    return sha256(repr(facts).encode()).hexdigest()[:16]


def _application(application: str) -> str:
    """An application's path; a relative one counts from the file that defines the DAG."""
    from pathlib import Path

    dag = DagContext.get_current()
    if not application or dag is None or "://" in application or Path(application).is_absolute():
        return application
    return str(Path(dag.fileloc).parent / application)
