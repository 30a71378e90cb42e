r"""An example with a transform: parse JSON orders, keep those that are paid, add the customer's country.

    spark-submit enrich_orders.py --range range.json --checkpoint /data/checkpoints/r1 --output topic:orders-enriched \
        --option kafka.bootstrap.servers=broker:9092

Orders are JSON such as {"order": 17, "customer": "customer-4", "state": "paid", "amount": 12.5}. Customers come from a
small table (here a CSV file named by ORDERS_CUSTOMERS, with the columns customer and country), which a broadcast join
adds without a shuffle, so the order stays.
"""

import os
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from airflow_provider_orderedkafka.spark.app import run_available_now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDER = "order long, customer string, state string, amount double"


def enrich(records: "DataFrame") -> "DataFrame":
    """Keep paid orders, and add the customer's country; `_source` says where a row came from."""
    orders = records.withColumn("order", f.from_json(f.col("value").cast("string"), ORDER))
    paid = orders.where("order.state = 'paid'").withColumn("customer", f.col("order.customer"))
    joined = paid.join(f.broadcast(customers(records)), "customer", "left")
    value = f.to_json(f.struct("order.order", "customer", "country", "order.amount"))
    return joined.select("key", value.alias("value"), "timestamp", "_source")


def customers(records: "DataFrame") -> "DataFrame":
    """The customers' countries."""
    path = os.environ.get("ORDERS_CUSTOMERS")
    session = records.sparkSession
    if path is None:
        known = [("customer-1", "DK"), ("customer-2", "SE"), ("customer-3", "NO")]
        return session.createDataFrame(known, "customer string, country string")
    return session.read.csv(path, header=True, schema="customer string, country string")


if __name__ == "__main__":
    run_available_now(enrich)
