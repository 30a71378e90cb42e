"""Orders, in time order, with a proof: each range that is committed is read again and compared with its source.

Where a row is missing, doubled, altered, out of order or from nowhere, the task `audit` fails and names the place.
"""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_load

orders = OrderedLoad(
    "orders_audited", topics=["orders"], start="earliest", min_offsets=10_000, max_delay="15m", max_offsets=2_000_000
)

with DAG(
    "orders_audited",
    schedule="*/5 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders in time order, each range proved once it is committed",
    tags=["orderedkafka", "load"],
):
    ordered_load(orders, to=KafkaOutput("orders-audited"), audit=True)
