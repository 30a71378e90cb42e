"""Orders, whenever there is enough to load: a watcher starts the runs, not a schedule."""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_load
from airflow_provider_orderedkafka.assets import watched_ledger_asset

watched = OrderedLoad("orders_watched", topics=["orders"], start="earliest", min_offsets=10_000, max_delay="15m")

with DAG(
    "orders_watched",
    schedule=[watched_ledger_asset(watched)],
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders in time order, whenever there is enough to load",
    tags=["orderedkafka", "load"],
):
    ordered_load(watched, to=KafkaOutput("orders-watched"), wait="never")
