"""What Airflow and its providers have no public API for. Each comment names the version it was written for.

A newer one that lacks it is a `SettingError` in one sentence, where a load needs it, and not before.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from http import HTTPStatus
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ..core.notation.secrets import secrets_of
from ..errors import AccessDeniedError, SettingError, UnreachableError

if TYPE_CHECKING:
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
    from airflow.sdk import Asset, TaskGroup

P = ParamSpec("P")
R = TypeVar("R")

AIRFLOW, PROVIDER = "apache-airflow", "apache-airflow-providers-apache-kafka"
TRIED: Final = {AIRFLOW: ("3.1.8", "3.3.2"), PROVIDER: ("1.12.0", "2.1.0")}
"""The oldest and the newest version that loads were tried with."""

PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
COMMS = "airflow.sdk.execution_time.comms"
TIMETABLES = ("airflow.sdk.definitions.timetables", "airflow.timetables")
"""Where a DAG's timetable is from; since Airflow 3.2 in the first, unless the DAG names one of the second."""


def reaching(function: Callable[P, R]) -> Callable[P, R]:
    """`SettingError` where the installed Airflow lacks what the function uses."""

    @wraps(function)
    def reached(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (ImportError, AttributeError) as error:
            if _of_airflow(error) and (version := version_of(AIRFLOW)):
                raise _lacking(version, error) from error
            raise

    return reached


def _of_airflow(error: ImportError | AttributeError) -> bool:
    """Whether it is Airflow that lacks the name, and not what it imports in its turn."""
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] == "airflow"
    owner = getattr(error.obj, "__module__", None) or getattr(error.obj, "__name__", "")
    return str(owner).partition(".")[0] == "airflow"


def _lacking(version: str, why: object) -> SettingError:
    provider = version_of(PROVIDER) or "none"
    return SettingError(
        f"Airflow {version} with the Kafka provider {provider} lacks what orderedkafka uses beyond the public API "
        f"({why}): it was tried with Airflow {' to '.join(TRIED[AIRFLOW])} and the provider "
        f"{' to '.join(TRIED[PROVIDER])}. Run: pip install --upgrade airflow-provider-orderedkafka; or, if there is no "
        f"newer one, pip install '{AIRFLOW}<={TRIED[AIRFLOW][1]}' '{PROVIDER}<={TRIED[PROVIDER][1]}'"
    )


def version_of(name: str) -> str | None:
    return next((each.version for each in distributions(name=name)), None)


def check_installed() -> None:
    """`ModuleNotFoundError`, with the way out, where Airflow or its Kafka provider is missing."""
    for name in ("airflow.sdk", "airflow.providers.apache.kafka"):
        found, why = None, None
        try:
            found = find_spec(name)
        except ModuleNotFoundError as error:  # what is around it
            why = error
        if found is None:
            raise ModuleNotFoundError(
                f"orderedkafka in Airflow needs Airflow {TRIED[AIRFLOW][0]} or newer and its Kafka provider "
                f"{TRIED[PROVIDER][0]} or newer, but {name!r} is not in this Python ({sys.executable}): pip install "
                f"'airflow-provider-orderedkafka[airflow]', or, if Airflow is installed already, {PROVIDER}",
                name=name,
            ) from why


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
@reaching
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
    if home in TIMETABLES and kind == "trigger":
        return bool(_of_first(timetable, "interval"))
    return home not in TIMETABLES or kind not in {"assets", "events", "simple"}


def _of_first(timetable: Any, name: str) -> Any:
    """What a timetable, or the first of several in it, has under this name; core calls it `_name`, the task SDK not."""
    several = getattr(timetable, "timetables", getattr(timetable, "_timetables", (timetable,)))
    return getattr(several[0], name, getattr(several[0], f"_{name}", None))


# task-sdk 1.1.8 to 1.3.2. Public would be: what `ti.get_dagrun_state` is in a task, in the triggerer.
@reaching
def dag_run_state(dag_id: str, run_id: str) -> str | None:
    """The state of a DAG run, for a task or a trigger; None if Airflow's API says that there is no such run.

    Raises an `UnreachableError` where it says anything else, or nothing.
    """
    from airflow.sdk.api.client import ServerResponseError
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        state = RuntimeTaskInstance.get_dagrun_state(dag_id, run_id)
    except (AirflowRuntimeError, ServerResponseError) as error:
        if _no_such_thing(error):
            return None
        raise UnreachableError(
            f"Airflow does not say whether the DAG run {run_id!r} of {dag_id!r} has ended ({error}): until it does, "
            "the run counts as active. Try again once Airflow's API answers; or use the command `orderedkafka ledger`, "
            "which asks its database instead"
        ) from error
    return str(getattr(state, "value", state))  # an enum, although Airflow annotates it as str


# task-sdk 1.1.8 to 1.3.2; as above.
@reaching
def queued_runs(dag_id: str) -> int:
    """How many runs of a DAG wait for their turn, for a task or a trigger.

    Raises an `UnreachableError` where Airflow does not say.
    """
    from airflow.sdk.api.client import ServerResponseError
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        return RuntimeTaskInstance.get_dr_count(dag_id, states=["queued"])
    except (AirflowRuntimeError, ServerResponseError) as error:
        raise UnreachableError(
            f"Airflow does not say whether a run of {dag_id!r} waits for its turn ({error}): try again once its API "
            "answers"
        ) from error


def _no_such_thing(error: Any) -> bool:
    """Whether Airflow's API itself says that there is none: a proxy in front of it may answer 404, too."""
    response = getattr(error, "response", None)  # the error itself, where Airflow runs a task in its own process
    answer: Any = (
        error.error.detail if response is None else {"status_code": response.status_code, "detail": error.detail}
    )
    missing = isinstance(answer, dict) and answer.get("status_code") == HTTPStatus.NOT_FOUND
    while isinstance(answer, dict) and "detail" in answer:
        answer = answer["detail"]
    return missing and isinstance(answer, dict) and answer.get("reason") == "not_found"


# task-sdk 1.1.8 to 1.3.2. Public would be: the bundle and the path of a DAG's file, in a task's context.
@reaching
def dag_file(context: Any) -> str:
    """The file that defines a task's DAG: `<bundle>:<path in it>`, or its whole path where it is in no bundle."""
    bundle, path = getattr(context["ti"], "bundle_instance", None), Path(context["dag"].fileloc)
    name, folder = getattr(bundle, "name", ""), getattr(bundle, "path", None)
    if not name or folder is None or not path.is_relative_to(folder):
        return str(path)
    return f"{name}:{path.relative_to(folder)}"


# airflow 3.1.8 to 3.3.2. Public would be: the bundles that are configured.
@reaching
def path_of_dag_file(file: str) -> Path | None:
    """Where such a file is here; None if Airflow has no such bundle any more.

    Raises an `UnreachableError` where the bundle cannot be opened.
    """
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    name, _, path = file.partition(":")
    if not path:
        return Path(file)
    manager = DagBundlesManager()  # type: ignore[no-untyped-call]  # Airflow has no types there
    if name not in manager.get_all_bundle_names():
        return None
    try:
        bundle = manager.get_bundle(name)
        bundle.initialize()
        return Path(bundle.path, path)
    except Exception as error:  # what a kind of bundle raises is its own
        raise UnreachableError(
            f"the DAG bundle {name!r} cannot be opened here ({type(error).__name__}: {error}), so whether it still has "
            f"{path!r} is not known: try again once it can be reached"
        ) from error


DAG_BAG = "airflow.dag_processing.dagbag"


# airflow 3.1.8 has it in models, with Airflow's examples unless they are refused; 3.2.2 and 3.3.2 in dag_processing.
# Public would be: the DAGs of a file.
@reaching
def dags_of_files() -> list[tuple[str, Mapping[str, Any] | None]]:
    """The DAGs of each file in each bundle, parsed now; None for a file that does not parse."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.utils.file import list_py_file_paths

    bag: Any = import_module(DAG_BAG if find_spec(DAG_BAG) else "airflow.models.dagbag")
    found: list[tuple[str, Mapping[str, Any] | None]] = []
    for bundle in DagBundlesManager().get_all_dag_bundles():  # type: ignore[no-untyped-call]  # nor there
        bundle.initialize()
        more = {"bundle_name": bundle.name} if bag.__name__ == DAG_BAG else {"include_examples": False}
        for path in list_py_file_paths(bundle.path):
            with importing_from(bundle.path):
                parsed = bag.DagBag(path, bundle_path=bundle.path, **more)
            name = f"{bundle.name}:{Path(path).relative_to(bundle.path)}"
            found.append((name, None if parsed.import_errors else parsed.dags))
    return found


@contextmanager
def importing_from(*folders: Path | str) -> Iterator[None]:
    """Let DAG files import what lies in these folders, as Airflow lets those of a bundle."""
    more = [each for each in map(str, folders) if each not in sys.path]
    sys.path.extend(more)
    try:
        yield
    finally:
        for each in more:
            sys.path.remove(each)


# task-sdk 1.1.8 to 1.3.2. Public would be: an error of its own for a task whose supervisor is gone.
def lost_supervisor(error: BaseException) -> bool:
    """Whether it is an error of the socket to the task's supervisor, and not of whatever else raises the same."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return isinstance(error, OSError | EOFError) and frames[-1].f_globals.get("__name__") == COMMS


# task-sdk 1.1.8 to 1.3.2: an answer that there is no connection may also mean that the API did not answer. Public
# would be: an error that tells the one from the other.
@reaching
def connection_of(conn_id: str, what: str, way_out: str) -> Any:
    """A connection of Airflow's; `UnreachableError` if there is none as far as Airflow says."""
    from airflow.sdk import BaseHook

    with connection_errors(conn_id, what, way_out):
        return BaseHook.get_connection(conn_id)


@contextmanager
def connection_errors(conn_id: str, what: str, way_out: str) -> Iterator[None]:
    missing, failed = _connection_errors()
    try:
        yield
    except missing as error:
        raise UnreachableError(
            f"there is no {what} {conn_id!r}, or Airflow cannot be asked for it now: if it was never there, {way_out}"
        ) from error
    except failed as error:
        raise UnreachableError(f"Airflow cannot be asked for the {what} {conn_id!r} now: {error}") from error
    except PermissionError as error:
        raise AccessDeniedError(
            f"Airflow refuses the {what} {conn_id!r} to this task ({error}): allow it, or name another one"
        ) from error


@reaching
def _connection_errors() -> tuple[type[Exception], type[Exception]]:
    from airflow.providers.common.compat.sdk import AirflowNotFoundException
    from airflow.sdk.exceptions import AirflowRuntimeError

    return AirflowNotFoundException, AirflowRuntimeError


# task-sdk 1.3.2. Public would be: the same name in `airflow.sdk`.
@reaching
def keep_for_ever(store: Any, key: str, value: Any) -> None:
    from airflow.sdk.execution_time.context import NEVER_EXPIRE

    store.set(key, value, retention=NEVER_EXPIRE)


# task-sdk 1.3.2. Public would be: a name in `airflow.sdk` that is there with the asset state store.
@reaching
def has_asset_state() -> bool:
    from airflow.sdk import __version__

    major, minor = __version__.split(".")[:2]
    return (int(major), int(minor)) >= (1, 3)


# task-sdk 1.3.2. Public would be: a watcher's way to the state of another asset than the one it sits on.
@reaching
def asset_state(asset: "Asset") -> Any:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

    return AssetStateStoreAccessors(inlets=[asset])[asset]


ASKED = "asked"
"""The key under which a store is tried whether it answers."""


# task-sdk 1.3.2, which takes any 404, a proxy's too, for the answer that there is no such value. Public would be: that
# it is only taken for it where Airflow's API gives its own reason, as for DAG runs.
class StateOfAsset:
    """An asset's state store. That it has no value counts between two proofs that it is the store that answers.

    Raises an `UnreachableError` where it is not. A proxy that takes every other request is not noticed.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: str) -> Any:
        found = self._store.get(key)
        if found is not None:
            return found
        self._store.set(ASKED, True)  # noqa: FBT003 - a value; here a proxy's 404 is an error
        found = self._store.get(key)
        if found is None and self._store.get(ASKED) is None:
            raise UnreachableError(
                f"Airflow's state store says that it has no {key!r}, not even what was just written there: something "
                "in front of Airflow's API answers in its place. Try again once the API itself answers"
            )
        return found

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)

    def delete(self, key: str) -> None:
        self._store.delete(key)


# task-sdk 1.3.2. Public would be: an asset's state store outside of tasks, which asks the worker's backend by itself.
@reaching
def kept_elsewhere(value: Any) -> Any:
    """Resolve a value from the database that may be a reference into the worker's backend."""
    from airflow.sdk.execution_time.context import _get_worker_state_store_backend, _unwrap_external_ref

    keeper = _get_worker_state_store_backend()
    reference = _unwrap_external_ref(value) if keeper is not None and isinstance(value, dict) else None
    return value if keeper is None or reference is None else keeper.deserialize_asset_state_store_from_ref(reference)


# airflow 3.3.2. Public would be: an asset's state store outside of tasks.
@reaching
def asset_state_backend(asset_id: int) -> tuple[Any, Any]:
    """The backend that keeps the state of assets, and this asset's scope in it."""
    from airflow.state import AssetScope, get_state_backend

    return get_state_backend(), AssetScope(asset_id=asset_id)


# airflow 3.1.8 to 3.3.2. Public is Airflow's API alone, which needs a server and a token.
@reaching
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
@reaching
def stored_run_state(dag_id: str, run_id: str) -> str | None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return None if state is None else str(getattr(state, "value", state))


# airflow 3.3.2. Public would be: a backend that lists its keys.
@reaching
def asset_state_keys(scope: Any) -> list[str]:
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        asked = select(AssetStateStoreModel.key).where(AssetStateStoreModel.asset_id == scope.asset_id)
        return sorted(session.scalars(asked))


# task-sdk 1.3.2; see above.
@reaching
def to_keep(value: Any, key: str, scope: Any) -> Any:
    """Store a value in the worker's backend, if there is one, and return what the database should have."""
    from airflow.sdk.execution_time.context import _get_worker_state_store_backend, _wrap_external_ref

    keeper = _get_worker_state_store_backend()
    if keeper is None:
        return value
    return _wrap_external_ref(keeper.serialize_asset_state_store_to_ref(value=value, key=key, scope=scope))


# airflow 3.1.8 to 3.3.2. Public would be: the ticket of a worker that runs as somebody else.
@reaching
def kerberos_ticket(principal: str, keytab: str) -> dict[str, str]:
    """Renew the Kerberos ticket, and return the environment that says where it is."""
    from airflow.providers.common.compat.sdk import conf
    from airflow.security.kerberos import renew_from_kt

    renew_from_kt(principal, keytab, exit_on_fail=False)
    return {"KRB5CCNAME": conf.get_mandatory_value("kerberos", "ccache")}


# airflow 3.1.8 to 3.3.2. Public would be: the principal in Airflow's configuration, with the host's name filled in.
@reaching
def kerberos_principal(principal: str | None) -> str:
    """The principal as a ticket has it; without one, the configured one."""
    from airflow.security.kerberos import get_kerberos_principal

    return get_kerberos_principal(principal)


# task-sdk 1.1.8 to 1.3.2, where `pre_execute` is called each time. Public would be: whether it is called for the first.
def goes_on(ti: Any) -> bool:
    """Whether the task was deferred, and goes on now."""
    return bool(getattr(getattr(ti, "_ti_context_from_server", None), "next_method", None))


# Public on each version; here because all hooks need it.
@reaching
def keep_from_logs(settings: Mapping[str, Any]) -> None:
    from airflow.sdk.log import mask_secret

    for secret in secrets_of(settings):
        mask_secret(secret)


# apache-kafka provider 1.12.0 and 2.1.0. Public would be: the configuration that `get_conn` makes its client of.
@reaching
def kafka_config(hook: "KafkaBaseHook") -> dict[str, Any]:
    """A Kafka connection's configuration with callbacks, those for Google's and Amazon's managed Kafka included."""
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    class Configuration(KafkaBaseHook):  # type: ignore[misc]
        def _get_client(self, config: dict[str, Any]) -> dict[str, Any]:
            return config

    config: dict[str, Any] = Configuration(hook.kafka_config_id).get_conn
    if not isinstance(config, dict):  # a newer provider that makes its client in another way
        raise _lacking(version_of(AIRFLOW) or "unknown", f"a Kafka connection gives a {type(config).__name__}")
    return config


# airflow 3.1.8 has one for all processes; in 3.2.2 and 3.3.2 tasks set up the SDK's, and the triggerer the core's.
# Public would be: one name for both.
@reaching
def stats(*, in_triggerer: bool = False) -> Any:
    if find_spec("airflow.sdk.observability") is None:
        return import_module("airflow.stats").Stats
    return import_module(f"airflow.{'' if in_triggerer else 'sdk.'}observability.stats").Stats
