"""Access to Airflow's metadata database and its connections, for commands."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_orderedkafka.compat.airflow import server_context
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.loads.ledger import AIRFLOW, LedgerStore


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
    """Whether Airflow is not installed."""
    return isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "airflow"


def store_of(load: str, location: str | None = None) -> LedgerStore:
    """The documents of a load, in this location or where its DAG says that they are."""
    from airflow_provider_orderedkafka.ledgers import check_kept, ledger_in
    from airflow_provider_orderedkafka.tools.commands.metadata import MetadataStore

    place = place_of(load, location)
    if place != AIRFLOW:
        return ledger_in(load, place)
    check_kept(load, None)
    return LedgerStore(load, MetadataStore(load))


def place_of(load: str, location: str | None = None) -> str:
    """Where the ledger is: in this location, or where the load's DAG or Airflow's configuration says."""
    from airflow_provider_orderedkafka.ledgers import location_for
    from airflow_provider_orderedkafka.tools.commands.metadata import location_of

    return location or location_for(load, location_of(load)) or AIRFLOW
