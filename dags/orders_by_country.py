"""Several similar loads, made in a loop. Each has its own name, and so its own ledger, tasks and consumer group."""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_load

for country in ("at", "be", "ch"):
    load = OrderedLoad(f"orders_{country}", topics=[f"orders-{country}"], start="earliest", max_delay="1h")
    with DAG(
        f"orders_{country}",
        schedule="@hourly",
        catchup=False,
        max_active_runs=1,
        doc_md=__doc__,
        description="Orders of a country, in time order, each hour",
        tags=["orderedkafka", "load"],
    ):
        ordered_load(load, to=KafkaOutput(f"orders-{country}-ordered"))
