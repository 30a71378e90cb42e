"""What a load asks of its DAG, checked when the DAG is parsed: each error names both settings and the way out."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions._internal.contextmanager import DagContext, TaskGroupContext

from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad

if TYPE_CHECKING:
    from airflow.sdk import DAG

STEPS = ("wait", "resolve", "load", "commit")
OURS = ("task_id", "load", "range_id")
"""What the group sets itself: a load's state hangs on it."""


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


def check_steps(load: OrderedLoad, mode: Kind, steps: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the arguments by step; `SettingError` where one is for no step, or is the group's own."""
    unknown = sorted(set(steps) - set(STEPS))
    if unknown:
        raise SettingError(f"load {load.name!r}: steps names {unknown[0]!r}, the steps are {', '.join(STEPS)}")
    for step, arguments in steps.items():
        for name in OURS:
            if name in arguments:
                raise SettingError(
                    f"load {load.name!r}: steps sets {name!r} of {step!r} to {arguments[name]!r}: {name} is the "
                    "group's own, leave it out; with the four operators by hand you choose it yourself"
                )
        if mode == "incremental" and arguments.get("depends_on_past"):
            raise SettingError(
                f"load {load.name!r} is incremental and steps sets depends_on_past=True for {step!r}: a failed run "
                "would keep the next one from taking its range over; leave it out, or give the load mode='interval'"
            )


def check_checkpoint(load: OrderedLoad, conn_id: str, checkpoint: str | None) -> None:
    """A cluster needs a checkpoint that all of it reaches; only a connection in the environment tells so early."""
    text = os.environ.get(f"AIRFLOW_CONN_{conn_id.upper()}")
    if checkpoint is not None or not text:
        return
    master = _host(text, conn_id)
    if not master.startswith("local"):
        raise SettingError(no_checkpoint(load.name, conn_id, master))


def no_checkpoint(load: str, conn_id: str, master: str) -> str:
    """The error for a load on a cluster that has no place for its checkpoints."""
    return (
        f"load {load!r}: checkpoint= is missing, and the Spark connection {conn_id!r} names the cluster {master!r}: "
        "name a location that driver, executors and Airflow's workers reach, such as "
        "checkpoint='s3a://bucket/orderedkafka'"
    )


def _host(text: str, conn_id: str) -> str:
    from airflow.sdk import Connection

    try:
        found = Connection.from_json(text, conn_id) if text.startswith("{") else Connection.from_uri(text, conn_id)
    except Exception:  # noqa: BLE001 - what is wrong with a connection is said when it is used
        return "local"
    return found.host or "yarn"
