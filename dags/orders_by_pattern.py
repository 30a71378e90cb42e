"""The orders of all countries in one time order: every topic whose name is `orders-` and two letters.

The next run finds a new country's topic, which joins at its earliest offset; the log of `resolve` says so. A topic that
is gone is an error until the pattern leaves it out.
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
    description="Orders of all countries, also new ones, in one time order",
    tags=["orderedkafka", "load"],
):
    ordered_load(countries, to=KafkaOutput("orders-everywhere"))
