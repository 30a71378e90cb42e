"""The orders of all countries in one time order: every topic whose name is `orders-` and two letters.

A topic for another country is found by the next run and joins at its earliest offset; the log of `resolve` says so. One
that is gone is an error until the pattern leaves it out.
"""

import re

from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_load

countries = OrderedLoad("orders_by_pattern", topics=re.compile("orders-[a-z]{2}"), start="earliest")

with DAG(
    "orders_by_pattern",
    schedule="*/5 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders of all countries in one time order, also of those to come",
    tags=["orderedkafka", "load"],
):
    ordered_load(countries, to=KafkaOutput("orders-everywhere"))
