"""Airflow's metadata database, with the ledgers in it, and its connections, for commands."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import unquote

from ...compat.airflow import (
    asset_state_backend,
    asset_state_keys,
    assets_like,
    kept_elsewhere,
    server_context,
    stored_run_state,
    to_keep,
)
from ...context import is_active, ledger_asset
from ...core.notation.spelling import listed, meant
from ...core.status import Status
from ...errors import LifecycleError, SettingError
from ...loads.ledger import AIRFLOW, LedgerStore
from ...locations import check_kept, ledger_in, location_for
from ...reporting.status import KEY as STATUS
from ...reporting.status import as_stored


class MetadataStore:
    """The asset state store of a load's ledger, in the database. Values in a worker's backend are fetched."""

    def __init__(self, load: str) -> None:
        self._backend, self._scope = asset_state_backend(_asset(load).id)

    def get(self, key: str) -> Any:
        text = self._backend.get(self._scope, key)
        return None if text is None else kept_elsewhere(json.loads(text))

    def set(self, key: str, value: Any) -> None:
        self._backend.set(self._scope, key, json.dumps(to_keep(value, key, self._scope)))

    def keys(self) -> list[str]:
        return asset_state_keys(self._scope)

    def delete(self, key: str) -> None:
        self._backend.delete(self._scope, key)


def statuses() -> dict[str, Status | None]:
    """How each load that Airflow knows stands, by its name; None for one without a status that can be read."""
    names = [unquote(uri.rpartition("/")[2]) for uri in _ledger_assets()]
    return {name: as_stored(MetadataStore(name).get(STATUS)) for name in names}


run_is_active = partial(is_active, state_of=stored_run_state)


def location_of(load: str) -> str | None:
    """Where the load's DAG says that its ledger is kept; None if it does not, as with Airflow's own store."""
    location = (_asset(load).extra or {}).get("ledger")
    return None if location is None else str(location)


def _asset(load: str) -> Any:
    uri, assets = ledger_asset(load).uri, _ledger_assets()
    if uri in assets:
        return assets[uri]
    known = sorted(unquote(each.rpartition("/")[2]) for each in assets)
    hint = meant(load, known, f"it knows {listed(known) or 'none'}.")
    raise LifecycleError(
        f"Airflow knows no load {load!r}: {hint} A load is known once Airflow has parsed its DAG: is this the right "
        "AIRFLOW_HOME, and does the DAG parse?"
    )


def _ledger_assets() -> dict[str, Any]:
    return assets_like(f"{ledger_asset('any').uri.rpartition('/')[0]}/%")


@contextmanager
def airflow() -> Iterator[None]:
    """Give access to Airflow's database and connections; `SettingError` without Airflow or its database."""
    try:
        with server_context():
            yield
    except ModuleNotFoundError as error:
        if not is_about_airflow(error):
            raise
        raise SettingError(
            "Airflow is not installed for this Python: run the command where Airflow runs, in its environment"
        ) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "sqlalchemy":
            raise
        raise SettingError(
            f"Airflow's metadata database cannot be used ({type(error).__name__}): is AIRFLOW_HOME "
            f"({os.environ.get('AIRFLOW_HOME', 'not set')!r}) the right one, is the database up, and was "
            "`airflow db migrate` run?"
        ) from error


def is_about_airflow(error: Exception) -> bool:
    return isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "airflow"


def store_of(load: str, location: str | None = None) -> LedgerStore:
    """The documents of a load, in this location or where its DAG says that they are."""
    place = place_of(load, location)
    if place != AIRFLOW:
        return ledger_in(load, place)
    check_kept(load, None)
    return LedgerStore(load, MetadataStore(load))


def place_of(load: str, location: str | None = None) -> str:
    """Where the ledger is: in this location, or where the load's DAG or Airflow's configuration says."""
    return location or location_for(load, location_of(load)) or AIRFLOW
