"""Where a load's ledger is: in Airflow's asset state store, or in a location of its own."""

from airflow_provider_orderedkafka.compat.airflow import has_asset_state
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.revisions import store_in
from airflow_provider_orderedkafka.reports import path_of
from airflow_provider_orderedkafka.storage.objects import ObjectState
from airflow_provider_orderedkafka.storage.store import LocalState, State, join, local_path

VARIABLE = "AIRFLOW__ORDEREDKAFKA__LEDGER"
"""The environment's name for `[orderedkafka] ledger`."""


def ledger_in(load: str, location: str) -> LedgerStore:
    return store_in(load, open_location(join(location, load)))


def default_location() -> str | None:
    """The location in Airflow's configuration, for loads without `ledger`."""
    from airflow.providers.common.compat.sdk import conf

    return conf.get("orderedkafka", "ledger", fallback=None) or None


def location_for(load: str, ledger: str | None) -> str | None:
    """Where a load keeps its ledger: its own `ledger`, or the one of Airflow's configuration; None: in Airflow's store.

    `SettingError` where Airflow has no store for it, and nothing names a location.
    """
    location = ledger or default_location()
    check_kept(load, location)
    return location


def check_kept(load: str, location: str | None) -> None:
    """`SettingError` for a load without a location where Airflow has no asset state store."""
    if location is None and not has_asset_state():
        raise SettingError(
            f"load {load!r}: ledger= is missing, and this Airflow has no asset state store (it came with 3.3): name a "
            "location that all of Airflow reaches, such as ledger='s3://bucket/ledgers' or a shared folder; or one for "
            f"all loads, as ledger in the section [orderedkafka] of airflow.cfg, or as {VARIABLE}"
        )


def open_location(location: str) -> State:
    """The documents in a folder of this machine or, with the connections of Airflow, in an object store."""
    try:
        path = path_of(location)
        return LocalState(path) if local_path(location) else ObjectState(location, path.fs, path.path)
    except (ValueError, ImportError) as error:  # no such scheme, or nothing installed for it
        raise SettingError(
            f"Airflow cannot open {location!r} here ({error}): install what reaches it (for s3:// "
            "apache-airflow-providers-amazon[s3fs], for gs:// apache-airflow-providers-google, for abfs:// "
            "apache-airflow-providers-microsoft-azure), or name a folder that all of Airflow shares"
        ) from error
