"""The assets of a load: its ledger, which every task reads and none produces, and its output."""

from datetime import timedelta

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from airflow_provider_orderedkafka.load import OrderedLoad

LEDGER_SCHEME = "orderedkafka"


def ledger_asset(load: str) -> Asset:
    """The asset whose state store holds the ledger. An inlet, never an outlet: outlets are emitted at each success."""
    return Asset(name=f"orderedkafka.{load}.ledger", uri=f"{LEDGER_SCHEME}://ledger/{load}", group="orderedkafka")


def watched_ledger_asset(load: OrderedLoad, *, poll_interval: float = 5.0, backoff: timedelta | None = None) -> Asset:
    """An asset with a watcher on the load's ledger: a DAG that is scheduled on it runs when the load is due.

    It is another asset than the ledger: Airflow forgets an asset's watchers when any DAG file names the asset without
    them, as each of a load's tasks does with its ledger.

    :param poll_interval: Seconds between two looks.
    :param backoff: How long to wait before another run is started when one ended without a commit; doubled each time.
    """
    from airflow_provider_orderedkafka.triggers.offsets import OffsetRangeTrigger

    milliseconds = round((backoff or timedelta(minutes=1)).total_seconds() * 1000)
    trigger = OffsetRangeTrigger.watching(load, poll_interval, milliseconds)
    watcher = AssetWatcher(name=f"orderedkafka.{load.name}.watcher", trigger=trigger)
    return Asset(
        name=f"orderedkafka.{load.name}.due",
        uri=f"{LEDGER_SCHEME}://due/{load.name}",
        group="orderedkafka",
        watchers=[watcher],
    )


def output_alias(load: str) -> AssetAlias:
    """The alias under which a commit emits the output, only when the ledger moved."""
    return AssetAlias(name=f"orderedkafka.{load}.output", group="orderedkafka")
