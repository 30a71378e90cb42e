"""What a load asks of its DAG, checked when the DAG is parsed: each error names both settings and the way out."""

from typing import TYPE_CHECKING

from airflow.sdk.definitions._internal.contextmanager import DagContext, TaskGroupContext

from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad

if TYPE_CHECKING:
    from airflow.sdk import DAG


def check_dag(load: OrderedLoad, mode: Kind) -> None:
    """Check the DAG that is being defined; `SettingError` where the load cannot run in it."""
    dag = DagContext.get_current()
    if dag is None:
        raise SettingError(f"load {load.name!r}: ordered_load() is called inside a DAG: `with DAG(...):`")
    _not_mapped(load, dag)
    if mode == "incremental":
        _incremental(load, dag)
    if mode == "interval":
        _interval(load, dag)


def _not_mapped(load: OrderedLoad, dag: "DAG") -> None:
    from airflow.sdk.definitions.taskgroup import MappedTaskGroup

    group = TaskGroupContext.get_current(dag)
    while group is not None:
        if isinstance(group, MappedTaskGroup):
            raise SettingError(
                f"load {load.name!r} is inside the mapped task group {group.group_id!r}: one load is one ledger, and "
                "mapped copies would share it; make several loads in a loop, each with its own name"
            )
        group = group.task_group


def _incremental(load: OrderedLoad, dag: "DAG") -> None:
    wrong = {
        "max_active_runs": (dag.max_active_runs, 1, "the runs of one load follow each other"),
        "catchup": (dag.catchup, False, "the ledger says what is missing, not the calendar"),
        "depends_on_past": (
            bool(dag.default_args.get("depends_on_past")),
            False,
            "a failed run would keep the next one from taking its range over",
        ),
    }
    for name, (found, needed, why) in wrong.items():
        if found != needed:
            raise SettingError(
                f"load {load.name!r} is incremental and DAG {dag.dag_id!r} has {name}={found!r}: {why}; set "
                f"{name}={needed!r}, or give the load mode='interval'"
            )


def _interval(load: OrderedLoad, dag: "DAG") -> None:
    from airflow.sdk.definitions.timetables import assets, simple, trigger

    timetable = type(dag.timetable)
    if timetable.__module__ in {assets.__name__, simple.__name__, trigger.__name__}:
        raise SettingError(
            f"load {load.name!r} has mode='interval' and DAG {dag.dag_id!r} has the timetable {timetable.__name__}, "
            "whose runs have no data interval: use schedule=CronDataIntervalTimetable('@hourly', timezone='UTC') "
            "(from airflow.sdk), or give the load mode='incremental'"
        )
