"""A load's ledger outside of a task, in Airflow's metadata database."""

import json
from typing import Any

from airflow_provider_orderedkafka.compat.airflow import (
    asset_state_backend,
    asset_state_keys,
    assets_like,
    kept_elsewhere,
    stored_run_state,
    to_keep,
)
from airflow_provider_orderedkafka.context import ACTIVE, ledger_asset
from airflow_provider_orderedkafka.errors import LifecycleError


class MetadataStore:
    """The asset state store of a load's ledger, in the database. Values in a worker's backend are fetched."""

    def __init__(self, load: str) -> None:
        self._backend, self._scope = asset_state_backend(_asset(load).id)

    def get(self, key: str) -> Any:
        text = self._backend.get(self._scope, key)
        return None if text is None else kept_elsewhere(json.loads(text))

    def set(self, key: str, value: Any) -> None:
        """Put a JSON value in place of what was there."""
        self._backend.set(self._scope, key, json.dumps(to_keep(value, key, self._scope)))

    def keys(self) -> list[str]:
        return asset_state_keys(self._scope)

    def delete(self, key: str) -> None:
        self._backend.delete(self._scope, key)


def run_is_active(owner: str) -> bool:
    """Whether that DAG run is queued or running, as the database says."""
    dag_id, _, run_id = owner.partition("/")
    return stored_run_state(dag_id, run_id) in ACTIVE


def location_of(load: str) -> str | None:
    """Where the load's DAG says that its ledger is kept; None if it does not, as with Airflow's own store."""
    told = (_asset(load).extra or {}).get("ledger")
    return None if told is None else str(told)


def _asset(load: str) -> Any:
    uri = ledger_asset(load).uri
    assets = assets_like(f"{uri.rpartition('/')[0]}/%")
    if uri in assets:
        return assets[uri]
    known = ", ".join(sorted(repr(each.rpartition("/")[2]) for each in assets)) or "none"
    raise LifecycleError(
        f"Airflow knows no load {load!r}; it knows {known}. A load is known once Airflow has parsed its DAG: is this "
        "the right AIRFLOW_HOME, and does the DAG parse?"
    )
