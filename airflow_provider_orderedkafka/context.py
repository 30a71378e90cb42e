"""Adapt a task's context for the steps: the load's documents, the run's name, the active runs, the time."""

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider_orderedkafka.compat.airflow import dag_run_state, keep_for_ever
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.ledgers import ledger_in, location_for
from airflow_provider_orderedkafka.loads.books import Books, Memory, RunMemory
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.reports import has_notes, read_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Asset, Context

ACTIVE = frozenset({"queued", "running"})
SCHEME = "orderedkafka"
LEDGER = "where the load stands; without its asset state store the load begins anew"


def ledger_asset(load: str, ledger: str | None = None) -> "Asset":
    """The asset of a load's ledger. An inlet only: as an outlet, each success would emit.

    :param load: Name of the load.
    :param ledger: The `ledger` of the load, which the command line finds here.
    """
    from airflow.sdk import Asset

    extra: dict[str, Any] = {"what": LEDGER} | ({} if ledger is None else {"ledger": ledger})
    return Asset(name=f"orderedkafka.{load}.ledger", uri=f"{SCHEME}://ledger/{load}", group="orderedkafka", extra=extra)


def beside(ours: "Mapping[str, Sequence[Any]]", given: "Mapping[str, Any]") -> dict[str, Any]:
    """The operator's own inlets and outlets, and those that are given beside them, by `default_args` too."""
    defaults = given.get("default_args") or {}
    theirs = {name: given.get(name, defaults.get(name)) or [] for name in ("inlets", "outlets")}
    return {**given, **{name: [*ours.get(name, ()), *found] for name, found in theirs.items()}}


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def run_of(context: "Context") -> str:
    """The DAG run as stored for owners: `<dag id>/<run id>`."""
    ti = context["ti"]
    return f"{ti.dag_id}/{ti.run_id}"


def is_active(owner: str) -> bool:
    """Whether that DAG run is queued or running; one that was deleted is not."""
    dag_id, _, run_id = owner.partition("/")
    return dag_run_state(dag_id, run_id) in ACTIVE


def books_of(load: str, context: "Context", ledger: str | None = None) -> Books:
    """The books of a load, for this task; `ledger` is where the load keeps its ledger."""
    return Books(
        store=_store_of(load, context, ledger),
        run=run_of(context),
        is_active=is_active,
        now=now_ms,
        report=read_report,
        noted=has_notes,
    )


def _store_of(load: str, context: "Context", ledger: str | None) -> LedgerStore:
    location = location_for(load, ledger)
    if location is not None:
        return ledger_in(load, location)
    return LedgerStore(load, context["asset_state_store"][ledger_asset(load)])


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
        """Store a value, which is kept over retries and clears."""
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


def fail(error: OrderedKafkaError) -> NoReturn:
    """Fail the task; without a retry if that would fail again."""
    from airflow.providers.common.compat.sdk import AirflowFailException

    if error.retryable:
        raise error
    raise AirflowFailException(str(error)) from error


def refuse_backfill(context: "Context", load: str) -> None:
    """Raise `SettingError` for a backfill of an incremental load, whose ledger decides what is loaded."""
    run = context.get("dag_run")
    if str(getattr(run, "run_type", "")).rpartition(".")[2].lower() == "backfill":
        raise SettingError(
            f"load {load!r} is incremental, and this run is a backfill's: the ledger says what is missing, not the "
            "calendar. Let the load run on its schedule; go back with `orderedkafka ledger rewind`; or give a load of "
            "its own mode='interval', where backfills just work"
        )


def interval_of(context: "Context", load: str) -> tuple[int, int]:
    """The run's data interval in milliseconds; `SettingError` if it has none, or if it has not even begun."""
    begin: datetime | None = context.get("data_interval_start")
    end: datetime | None = context.get("data_interval_end")
    if begin is None or end is None:
        raise SettingError(
            f"load {load!r} has mode='interval', and this run has no data interval, as a run that is triggered without "
            "a logical date: trigger it with one (for `airflow dags trigger`, --logical-date 2026-01-31T12:00:00Z), "
            "and it loads the interval that was over then; or load several with `airflow backfill create`"
        )
    if begin >= end:
        raise SettingError(
            f"load {load!r} has mode='interval', and this run's data interval is empty (from {begin} to {end}): "
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
