"""Show what the next run of a load would load, and why it would start or wait; or what a replay would load.

An interval is planned like a replay, from --start to --end. Reads the ledger and Kafka; changes nothing. Needs
Airflow's configuration (AIRFLOW_HOME) and the load's DAG file.
"""

import argparse
import json
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...compat.airflow import importing_from
from ...core.notation.spelling import listed, meant
from ...core.notation.starts import parse_start
from ...errors import LifecycleError, OrderedKafkaError, SettingError, exit_code
from ...load import OrderedLoad
from ...loads.ledger import AIRFLOW, LedgerStore
from ...locations import location_for
from .at_airflow import airflow, is_about_airflow, store_of

if TYPE_CHECKING:
    from ...loads.previews import Preview


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dag_file", type=Path, help="the DAG file that defines the load")
    parser.add_argument("load", nargs="?", help="name of the load, if the file defines several")
    parser.add_argument(
        "--start", metavar="PLACE", help="plan a replay from here: earliest, latest, -2h, or a timestamp"
    )
    parser.add_argument("--end", metavar="PLACE", help="where the replay ends, exclusive (default: latest)")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Plan, and print the plan; the exit code is that of the error that a run would fail with."""
    with airflow():
        load, tasks = defined_in(arguments.dag_file, arguments.load)
        if arguments.start is None:
            _check_incremental(load, tasks)
        found = _preview(load, tasks, arguments.start, arguments.end)
    print(json.dumps(found.to_json()) if arguments.json else found.text)
    return 0 if found.error is None else exit_code(found.error)


def _preview(load: OrderedLoad, tasks: Iterable[Any], start: str | None, end: str | None) -> "Preview":
    from ...hooks.ordered_kafka import OrderedKafkaHook

    hook = OrderedKafkaHook(load.kafka_conn_id)
    if start is None and end is not None:
        raise SettingError("--end is where a replay ends: name its --start, too")
    if start is None:
        dags = {task.dag_id for task in tasks if getattr(task, "mode", "") == "incremental"}
        return hook.preview(load, _store(load), dags.pop() if len(dags) == 1 else None)
    return hook.preview_replay(load, (parse_start(start, "--start"), parse_start(end or "latest", "--end")))


def _check_incremental(load: OrderedLoad, tasks: Iterable[Any]) -> None:
    """`SettingError` for a load whose runs load something else than what is new: an interval, or a replay."""
    modes = {task.mode for task in tasks if hasattr(task, "mode")}
    if modes and "incremental" not in modes:
        how = "data intervals" if "interval" in modes else "replays"
        raise SettingError(
            f"load {load.name!r} is loaded by {how}: name one to plan by --start and --end, such as --start -2h"
        )


def defined_in(path: Path, name: str | None) -> tuple[OrderedLoad, list[Any]]:
    """The load of this name that a DAG file defines, or the only one, and the tasks of the file's DAGs that load it."""
    from ...dag import groups_made

    if not path.is_file():
        raise SettingError(f"there is no DAG file {str(path)!r}: name the file that defines the load")
    with groups_made() as groups:
        values = list(_defined(path))
    dags = [each for each in values if hasattr(each, "task_dict")]
    tasks = [task for dag in dags for task in dag.task_dict.values()]
    tasks += [task for group in groups for task in group.tasks.values()]
    loads = [*values, *(getattr(task, "load", None) for task in tasks)]
    found = {load.name: load for load in loads if isinstance(load, OrderedLoad)}
    if name is None and len(found) == 1:
        name = next(iter(found))
    if name in found:
        return found[name], [task for task in tasks if getattr(task, "load", None) == found[name]]
    if not found:
        raise SettingError(f"{str(path)!r} defines no load: keep the OrderedLoad in a variable of the file")
    if name is None:
        raise SettingError(f"{str(path)!r} defines several loads: name one of {listed(sorted(found))}")
    hint = meant(name, found, f"name one of {listed(sorted(found))}")
    raise SettingError(f"{str(path)!r} defines no load {name!r}: {hint}")


def _defined(path: Path) -> Iterable[object]:
    from airflow.providers.common.compat.sdk import conf

    try:
        with importing_from(path.absolute().parent, conf.get("core", "dags_folder")):
            return runpy.run_path(str(path)).values()
    except OrderedKafkaError:
        raise
    except Exception as error:
        if is_about_airflow(error):
            raise
        raise SettingError(f"DAG file {str(path)!r} does not run: {type(error).__name__}: {error}") from error


def _store(load: OrderedLoad) -> LedgerStore | None:
    """The load's documents; None if Airflow has not parsed the DAG yet."""
    try:
        return store_of(load.name, location_for(load.name, load.ledger) or AIRFLOW)
    except LifecycleError:
        return None
