"""Rows by customer, of orders that are decoded."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def by_customer(records: "DataFrame") -> "DataFrame":
    """The customer as the key, and the order as JSON again."""
    return records.selectExpr("value.customer AS key", "to_json(value) AS value", "timestamp", "_source")
