"""Paid orders with their customers' countries, every five minutes, from Kafka to Kafka."""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import Allow, Decode, Json, KafkaOutput, OrderedLoad, Rows, ordered_load

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
        to=KafkaOutput("orders-enriched"),
        rows=Rows(
            decode=Decode(value=schema), transform="transforms.orders:enriched", bad_records=Allow(10, to="orders-dead")
        ),
    )
