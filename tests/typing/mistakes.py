"""Mistakes that a type checker has to find: each is an error, or its `ignore` would be one."""

import airflow_provider_orderedkafka
from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, Rows, SparkSubmit, ordered_load, ordered_replay
from airflow_provider_orderedkafka.spark import register

orders = OrderedLoad("orders", topics=["orders"])
OrderedLoad("orders", topic=["orders"])  # type: ignore[call-arg]
OrderedLoad("orders", topics=["orders"], isolation="serializable")  # type: ignore[arg-type]
OrderedLoad("orders", topics=["orders"], min_offsets="10_000")  # type: ignore[arg-type]
orders.name = "refunds"  # type: ignore[misc]

to = KafkaOutput("out")
ordered_load(orders, output_topic="out")  # type: ignore[call-arg]
ordered_load(orders, to=to, mode="interval")  # type: ignore[call-arg]
ordered_load(orders, to=to, spark="spark_default")  # type: ignore[arg-type]
ordered_load("orders", to=to)  # type: ignore[arg-type]
ordered_replay(orders, to=to, start="-1h")  # type: ignore[call-arg]
KafkaOutput("out", keep_order="row")  # type: ignore[arg-type]
SparkSubmit(executor_memroy="4g")  # type: ignore[call-arg]
SparkSubmit(executor_cores="four")  # type: ignore[arg-type]
Rows(decode="json")  # type: ignore[arg-type]

airflow_provider_orderedkafka.orderd_load(orders)  # type: ignore[attr-defined]
register("a session")  # type: ignore[arg-type]
