"""Orders and refunds, every five minutes, in time order, from Kafka to Kafka.

Needs two connections: `kafka_default` with `bootstrap.servers`, and `spark_default`.
"""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, load_params, ordered_load

orders = OrderedLoad(
    "orders",
    topics=["orders", "refunds"],
    start="earliest",
    kafka_conn_id="kafka_default",
    min_offsets=10_000,
    max_delay="15m",
    max_offsets=5_000_000,
    grace="5s",
)

with DAG(
    "orders_ordered",
    schedule="*/5 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders and refunds in time order, every five minutes",
    tags=["orderedkafka", "load"],
    params=load_params(),
):
    ordered_load(orders, to=KafkaOutput("orders-ordered"))
