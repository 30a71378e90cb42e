"""What Airflow and its providers have no public API for. Each comment names the version it was written for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
    from airflow.sdk import Asset, TaskGroup

PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_DAG_BAG = "airflow.dag_processing.dagbag"
TIMETABLES = ("airflow.sdk.definitions.timetables", "airflow.timetables")
"""Where a DAG's timetable is from; since Airflow 3.2 in the first, unless the DAG names one of the second."""


# airflow 3.1.8 to 3.3.2. Public would be: a command of Airflow's that runs ours with its connections at hand.
@contextmanager
def server_context() -> Iterator[None]:
    """Find connections in Airflow's database, as Airflow's own commands do."""
    before = os.environ.get(PROCESS_CONTEXT)
    os.environ[PROCESS_CONTEXT] = "server"
    try:
        yield
    finally:
        os.environ.pop(PROCESS_CONTEXT)
        os.environ.update({} if before is None else {PROCESS_CONTEXT: before})


# task-sdk 1.1.8 to 1.3.2. Public would be: `TaskGroup.mapped`; `iter_mapped_task_groups` is marked as private.
def mapped_group(group: "TaskGroup") -> "TaskGroup | None":
    """The group itself if it is mapped, or else the nearest mapped group around it."""
    from airflow.sdk.definitions.taskgroup import MappedTaskGroup

    found: TaskGroup | None = group
    while found is not None and not isinstance(found, MappedTaskGroup):
        found = found.parent_group
    return found


# airflow-core 3.1.8, task-sdk 1.2.2 and 1.3.2. Public would be: a timetable that says whether its runs have one.
def has_data_intervals(timetable: Any) -> bool:
    """Whether a DAG's runs have a data interval; assumed of timetables that are not Airflow's own."""
    home, _, kind = type(timetable).__module__.rpartition(".")
    return home not in TIMETABLES or kind not in {"assets", "simple", "trigger"}


# task-sdk 1.1.8 to 1.3.2. Public would be: what `ti.get_dagrun_state` is in a task, in the triggerer.
def dag_run_state(dag_id: str, run_id: str) -> str | None:
    """The state of a DAG run, for a task or a trigger; None if there is no such run."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        state = RuntimeTaskInstance.get_dagrun_state(dag_id, run_id)
    except AirflowRuntimeError as error:
        if "not_found" in str(error) or "404" in str(error):
            return None
        raise
    return str(getattr(state, "value", state))  # an enum, although Airflow annotates it as str


# task-sdk 1.3.2. Public would be: the same name in `airflow.sdk`.
def keep_for_ever(store: Any, key: str, value: Any) -> None:
    """Store a value in a task's state store, without expiry."""
    from airflow.sdk.execution_time.context import NEVER_EXPIRE

    store.set(key, value, retention=NEVER_EXPIRE)


# task-sdk 1.3.2. Public would be: a name in `airflow.sdk` that is there with the asset state store.
def has_asset_state() -> bool:
    """Whether this Airflow has a state store for assets: the task SDK from 1.3 on."""
    from airflow.sdk import __version__

    major, minor = __version__.split(".")[:2]
    return (int(major), int(minor)) >= (1, 3)


# task-sdk 1.3.2. Public would be: a watcher's way to the state of another asset than the one it sits on.
def asset_state(asset: "Asset") -> Any:
    """The state store of an asset, for a trigger."""
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

    return AssetStateStoreAccessors(inlets=[asset])[asset]


# task-sdk 1.3.2. Public would be: an asset's state store outside of tasks, which asks the worker's backend by itself.
def kept_elsewhere(value: Any) -> Any:
    """Resolve a value from the database that may be a reference into the worker's backend."""
    from airflow.sdk.execution_time.context import _get_worker_state_store_backend, _unwrap_external_ref

    keeper = _get_worker_state_store_backend()
    reference = _unwrap_external_ref(value) if keeper is not None and isinstance(value, dict) else None
    return value if keeper is None or reference is None else keeper.deserialize_asset_state_store_from_ref(reference)


# airflow 3.3.2. Public would be: an asset's state store outside of tasks.
def asset_state_backend(asset_id: int) -> tuple[Any, Any]:
    """The backend that keeps the state of assets, and this asset's scope in it."""
    from airflow.state import AssetScope, get_state_backend

    return get_state_backend(), AssetScope(asset_id=asset_id)


# airflow 3.1.8 to 3.3.2. Public is Airflow's API alone, which needs a server and a token.
def assets_like(pattern: str) -> dict[str, Any]:
    """The assets that the database has, by URI; `pattern` is SQL's."""
    from airflow.models.asset import AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(AssetModel).where(AssetModel.uri.like(pattern))).all()
        session.expunge_all()
    return {asset.uri: asset for asset in found}


# airflow 3.1.8 to 3.3.2. Public is Airflow's API alone, which needs a server and a token.
def stored_run_state(dag_id: str, run_id: str) -> str | None:
    """The state of a DAG run, as the database has it; None if there is no such run."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return None if state is None else str(getattr(state, "value", state))


# airflow 3.3.2. Public would be: a backend that lists its keys.
def asset_state_keys(scope: Any) -> list[str]:
    """The keys of an asset's state store, as the database has them."""
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        asked = select(AssetStateStoreModel.key).where(AssetStateStoreModel.asset_id == scope.asset_id)
        return sorted(session.scalars(asked))


# task-sdk 1.3.2; see above.
def to_keep(value: Any, key: str, scope: Any) -> Any:
    """Store a value in the worker's backend, if there is one, and return what the database should have."""
    from airflow.sdk.execution_time.context import _get_worker_state_store_backend, _wrap_external_ref

    keeper = _get_worker_state_store_backend()
    if keeper is None:
        return value
    return _wrap_external_ref(keeper.serialize_asset_state_store_to_ref(value=value, key=key, scope=scope))


# airflow 3.1.8 has it in models, 3.2.2 and 3.3.2 in dag_processing. Public would be: the DAGs of a file.
def dags_of(path: Path, folder: Path) -> dict[str, Any]:
    """The DAGs that a file in a DAG folder defines, by ID; `RuntimeError` where it cannot be parsed."""
    bag: Any = import_module(_DAG_BAG if find_spec(_DAG_BAG) else "airflow.models.dagbag")
    arguments = {"bundle_name": "dags-folder"} if bag.__name__ == _DAG_BAG else {}
    found = bag.DagBag(str(path), bundle_path=folder, **arguments)
    if found.import_errors:
        raise RuntimeError(*found.import_errors.values())
    dags: dict[str, Any] = found.dags
    return dags


# airflow 3.1.8 to 3.3.2. Public would be: the ticket of a worker that runs as somebody else.
def kerberos_ticket(principal: str, keytab: str) -> dict[str, str]:
    """Renew the Kerberos ticket, and return the environment that says where it is."""
    from airflow.providers.common.compat.sdk import conf
    from airflow.security.kerberos import renew_from_kt

    renew_from_kt(principal, keytab, exit_on_fail=False)
    return {"KRB5CCNAME": conf.get_mandatory_value("kerberos", "ccache")}


# airflow 3.1.8 to 3.3.2. Public would be: the principal in Airflow's configuration, with the host's name filled in.
def kerberos_principal(principal: str | None) -> str:
    """The principal as a ticket has it; without one, the configured one."""
    from airflow.security.kerberos import get_kerberos_principal

    return get_kerberos_principal(principal)


# apache-kafka provider 1.12.0 and 2.1.0. Public would be: the configuration that `get_conn` makes its client of.
def kafka_config(hook: "KafkaBaseHook") -> dict[str, Any]:
    """A Kafka connection's configuration with callbacks, those for Google's and Amazon's managed Kafka included."""
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    class Configuration(KafkaBaseHook):  # type: ignore[misc]
        def _get_client(self, config: dict[str, Any]) -> dict[str, Any]:
            return config

    config: dict[str, Any] = Configuration(hook.kafka_config_id).get_conn
    return config


# airflow 3.1.8 has one for all processes; in 3.2.2 and 3.3.2 tasks set up the SDK's, and the triggerer the core's.
# Public would be: one name for both.
def stats(*, in_triggerer: bool = False) -> Any:
    """Airflow's metrics, as this process has set them up."""
    if find_spec("airflow.sdk.observability") is None:
        return import_module("airflow.stats").Stats
    return import_module(f"airflow.{'' if in_triggerer else 'sdk.'}observability.stats").Stats
