"""Paid orders with their customers' countries, every five minutes, from Kafka to Kafka."""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import Decode, Json, OrderedLoad, ordered_load

orders = OrderedLoad("orders_enriched", topics=["orders"], start="earliest", max_delay="15m")
schema = Json("order long, customer string, state string, amount double")

with DAG(
    "orders_enriched",
    schedule="*/5 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Paid orders with their customers' countries, from Kafka to Kafka",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        orders,
        output_topic="orders-enriched",
        decode=Decode(value=schema, max_bad_records=10, dead_letters="orders-dead"),
        transform="transforms.orders:enriched",
    )
