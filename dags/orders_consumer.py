"""Run something after each load: each commit of `orders` starts this DAG, with the numbers of what was loaded."""

from airflow.sdk import DAG, task

from airflow_provider_orderedkafka.assets import output_alias

orders_output = output_alias("orders")

with DAG(
    "orders_consumer",
    schedule=orders_output,
    catchup=False,
    doc_md=__doc__,
    description="Runs after each load of orders",
    tags=["orderedkafka", "after a load"],
):

    @task
    def report(triggering_asset_events=None):
        for events in triggering_asset_events.values():
            for event in events:
                loaded = event.extra
                print(f"revision {loaded['revision']}: {loaded['rows']:,} rows, {loaded['late']:,} late")

    report()
