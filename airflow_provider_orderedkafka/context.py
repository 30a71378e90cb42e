"""Adapt a task's context for the steps: the load's documents, the run's name, the active runs, the time."""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar
from uuid import uuid4

from .compat.airflow import StateOfAsset, dag_file, dag_run_state, keep_for_ever, path_of_dag_file, queued_runs
from .core.lifecycle import AIRFLOW, parted
from .core.notation.spelling import arguments
from .errors import OrderedKafkaError, SettingError
from .loads.books import Books, Home, Memory, RunMemory
from .loads.ledger import SETTLE_SECONDS, LedgerStore
from .locations import bind, bound, has_notes, ledger_in, location_for, read_report

if TYPE_CHECKING:
    from airflow.sdk import Asset, BaseOperator, Context

P = ParamSpec("P")
R = TypeVar("R")

ENDED = frozenset({"success", "failed"})
"""The states of a DAG run that is over; in any other one it is active."""

SCHEME = "orderedkafka"
AIRFLOW_ID = "orderedkafka_airflow"
"""The Variable with the id of this Airflow."""

LEDGER = "where the load stands; if the asset's state is lost, the load starts over"


@arguments()
def ledger_asset(load: str, ledger: str | None = None) -> "Asset":
    """The asset of a load's ledger. An inlet only: as an outlet, each success would emit.

    :param load: Name of the load.
    :param ledger: The `ledger` of the load, which the command line finds here.
    """
    from airflow.sdk import Asset

    extra: dict[str, Any] = {"what": LEDGER} | ({} if ledger is None else {"ledger": ledger})
    return Asset(name=f"orderedkafka.{load}.ledger", uri=f"{SCHEME}://ledger/{load}", group="orderedkafka", extra=extra)


def with_assets(ours: Mapping[str, Sequence[Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given arguments, with the operator's own inlets and outlets added to theirs, `default_args` included."""
    defaults = given.get("default_args") or {}
    theirs = {name: given.get(name, defaults.get(name)) or [] for name in ("inlets", "outlets")}
    return {**given, **{name: [*ours.get(name, ()), *found] for name, found in theirs.items()}}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def run_of(context: "Context") -> str:
    """The DAG run as stored for owners: `<dag id>/<run id>`."""
    ti = context["ti"]
    return f"{ti.dag_id}/{ti.run_id}"


def airflow_id() -> str:
    """What tells this Airflow from others that reach the same ledger: made once, and kept in a Variable."""
    from airflow.sdk import Variable

    found = Variable.get(AIRFLOW_ID, default=None)
    if found is None:  # it may also mean that Airflow's API did not answer
        time.sleep(SETTLE_SECONDS)
        found = Variable.get(AIRFLOW_ID, default=None)
    if found is None:
        Variable.set(
            AIRFLOW_ID,
            uuid4().hex[:12],
            description="tells the runs of this Airflow from those of another one, in ledgers",
        )
        time.sleep(SETTLE_SECONDS)  # another task may make one at the same moment, and the last one holds
        found = Variable.get(AIRFLOW_ID)
    if not AIRFLOW.fullmatch(str(found)):
        raise SettingError(f"the Variable {AIRFLOW_ID!r} must be 12 digits or letters from a to f, found {found!r}")
    return str(found)


def is_active(owner: str, state_of: Callable[[str, str], str | None] = dag_run_state) -> bool:
    """Whether that DAG run of this Airflow may still do something; one that was deleted does not.

    Raises an `UnreachableError` where Airflow does not say.
    """
    dag_id, _, run_id = parted(owner)[0].partition("/")
    state = state_of(dag_id, run_id)
    return state is not None and state not in ENDED


def home_of(context: "Context") -> Home:
    own = Path(context["dag"].fileloc)
    return Home(context["ti"].dag_id, dag_file(context), lambda file: _is_elsewhere(path_of_dag_file(file), own))


def _is_elsewhere(path: Path | None, own: Path) -> bool:
    """Whether a DAG file, which may lie in an archive, is there and not another name of this one."""
    if path is None or not any(each.is_file() for each in (path, *path.parents)):
        return False
    return not (path.exists() and own.exists() and path.samefile(own))


def books_of(load: str, context: "Context", ledger: str | None = None) -> Books:
    location = location_for(load, ledger)
    return Books(
        store=_store_of(load, context, location),
        run=run_of(context) if location is None else f"{run_of(context)}@{airflow_id()}",
        is_active=is_active,
        now=now_ms,
        report=read_report,
        noted=has_notes,
        bound=bound,
        bind=bind,
        machine=platform.node(),
    )


def _store_of(load: str, context: "Context", location: str | None) -> LedgerStore:
    if location is not None:
        return ledger_in(load, location)
    return LedgerStore(load, StateOfAsset(context["asset_state_store"][ledger_asset(load)]))


def rendering(task: "BaseOperator", context: "Context") -> Callable[[Any], Any]:
    """Renders templates to text, in settings, too, and in a DAG that renders its own to Python's values."""

    def render(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: render(each) for name, each in value.items()}
        if not isinstance(value, str):
            return value
        return task.dag.get_template_env(force_sandboxed=True).from_string(value).render(context)

    return render


def memory_of(books: Books, context: "Context") -> Memory:
    """What this task remembers: in its own state store or, where Airflow has none, beside the ledger."""
    if context.get("task_state_store") is not None:
        return TaskMemory(context)
    ti = context["ti"]
    return RunMemory(books.store, books.run, f"{ti.task_id}[{ti.map_index}]")


class TaskMemory:
    """The task's own state store; values never expire."""

    def __init__(self, context: "Context") -> None:
        self._store: Any = context["task_state_store"]

    def get(self, key: str) -> Any:
        return self._store.get(key)

    def set(self, key: str, value: Any) -> None:
        keep_for_ever(self._store, key, value)


def tell(context: "Context", key: str, value: Any) -> None:
    """Show a value in the task's state store or, where Airflow has none, in an XCom."""
    if context.get("task_state_store") is not None:
        context["task_state_store"].set(key, value)
    else:
        context["ti"].xcom_push(key=key, value=value)


def skip(context: "Context", reason: str) -> NoReturn:
    """Skip this task and those after it, with the reason as XCom `skipped`."""
    from airflow.providers.common.compat.sdk import AirflowSkipException

    context["ti"].xcom_push(key="skipped", value=reason)
    raise AirflowSkipException(reason)


def fails(step: Callable[P, R]) -> Callable[P, R]:
    """Let a task end without a retry where its step raises an error of this package that a retry would raise again."""

    @wraps(step)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from airflow.providers.common.compat.sdk import AirflowFailException

        try:
            return step(*args, **kwargs)
        except OrderedKafkaError as error:
            if error.retryable:
                raise
            raise AirflowFailException(str(error)) from error

    return run


BY_HAND = frozenset({"manual", "operator_triggered", "asset_materialization"})
"""The types of runs that neither a schedule nor an asset's event started."""


def is_by_hand(context: "Context") -> bool:
    """Whether somebody asked for this run: in a form, by the API or a command, or another DAG's task."""
    return _run_type(context) in BY_HAND


def _run_type(context: "Context") -> str:
    return str(getattr(context.get("dag_run"), "run_type", "")).rpartition(".")[2].lower()


def queued_behind(dag_id: str | None) -> str | None:
    """Why a run of this DAG that only waits ends: another one is queued, and begins when it has ended; None if not."""
    if dag_id is None or not queued_runs(dag_id):
        return None
    return f"it gives way to a run of {dag_id!r} that is queued behind it"


def refuse_backfill(context: "Context", load: str) -> None:
    if _run_type(context) == "backfill":
        raise SettingError(
            f"load {load!r} is incremental, and this run is a backfill's: the ledger says what is missing, not the "
            "calendar. Let the load run on its schedule, and load older records again with `orderedkafka ledger "
            "rewind`; or use ordered_intervals() for another load, where backfills work"
        )


def interval_of(context: "Context", load: str) -> tuple[int, int]:
    """The run's data interval in milliseconds; `SettingError` if it has none, or if it has not even begun."""
    begin: datetime | None = context.get("data_interval_start")
    end: datetime | None = context.get("data_interval_end")
    if begin is None or end is None:
        raise SettingError(
            f"load {load!r} loads data intervals, and this run has none: it was triggered without a logical date. "
            "Trigger it with one (`airflow dags trigger` with --logical-date 2026-01-31T12:00:00Z), to load the "
            "interval that ended then; or load several with `airflow backfill create`"
        )
    if begin >= end:
        raise SettingError(
            f"load {load!r} loads data intervals, and this run's is empty (from {begin} to {end}): "
            "schedule the DAG with a timetable that has them, such as CronDataIntervalTimetable('@hourly', "
            "timezone='UTC')"
        )
    if _ms(begin) > now_ms():
        raise SettingError(
            f"load {load!r}: the data interval of this run begins at {begin}, in the future, and waiting for it would "
            "keep other runs from starting: delete this run, and the schedule makes one when the interval is over"
        )
    return _ms(begin), _ms(end)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
