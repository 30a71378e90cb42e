"""Rows of orders that are decoded. `_source` says which record a row is of."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def by_customer(records: "DataFrame") -> "DataFrame":
    """The customer as the key, and the order as JSON again."""
    return records.selectExpr("value.customer AS key", "to_json(value) AS value", "timestamp", "_source")


def columns(records: "DataFrame") -> "DataFrame":
    """The order's fields as columns of a table."""
    return records.select("value.*", "order_time", "_source")


def enriched(records: "DataFrame") -> "DataFrame":
    """Orders that are paid, with the customer's country. A broadcast join shuffles nothing, so the order stays."""
    paid = records.where("value.state = 'paid'").selectExpr("*", "value.customer AS customer")
    joined = paid.join(customers(records).hint("broadcast"), "customer", "left")
    return joined.selectExpr("key", "to_json(struct(value.*, country)) AS value", "timestamp", "_source")


def customers(records: "DataFrame") -> "DataFrame":
    """The customers' countries; in place of this, read your own table."""
    numbers = records.sparkSession.range(1_000)
    country = "element_at(array('AT', 'BE', 'CH'), CAST(id % 3 AS int) + 1) AS country"
    return numbers.selectExpr("concat('customer-', id) AS customer", country)
