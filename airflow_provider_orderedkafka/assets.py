"""The assets of a load: its ledger, its watcher and its output."""

from datetime import timedelta

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from .context import SCHEME, ledger_asset
from .core.notation.spelling import arguments
from .load import OrderedLoad, check_name
from .parsing import check_load
from .triggers.offsets import OffsetRangeTrigger

__all__ = ["ledger_asset", "output_alias", "watched_ledger_asset"]


@arguments()
def watched_ledger_asset(load: OrderedLoad, *, poll_interval: float = 5.0, backoff: timedelta | None = None) -> Asset:
    """An asset that is updated when the load is due: a DAG scheduled on it runs whenever there is enough to load.

    :param load: The load.
    :param poll_interval: Seconds between two polls of Kafka.
    :param backoff: Delay before another run is started after one that ended without a commit. Doubled each time;
        default: one minute.
    """
    check_load(load)
    # Not the ledger's own asset: Airflow drops an asset's watchers when any DAG file names the asset without them.
    milliseconds = round((backoff or timedelta(minutes=1)).total_seconds() * 1000)
    trigger = OffsetRangeTrigger.watching(load, poll_interval, milliseconds)
    watcher = AssetWatcher(name=f"orderedkafka.{load.name}.watcher", trigger=trigger)
    return Asset(
        name=f"orderedkafka.{load.name}.due",
        uri=f"{SCHEME}://due/{load.name}",
        group="orderedkafka",
        extra={"what": "starts a run when there is enough to load"},
        watchers=[watcher],
    )


@arguments()
def output_alias(load: str) -> AssetAlias:
    """The asset alias of a load's output: schedule a DAG on it to run after each commit.

    :param load: Name of the load.
    """
    check_name(load)
    return AssetAlias(name=f"orderedkafka.{load}.output", group="orderedkafka")
