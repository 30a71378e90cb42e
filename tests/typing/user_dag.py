"""A DAG author's program, for a type checker: nothing is ignored here."""

import re
from datetime import timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, BaseOperator

from airflow_provider_orderedkafka import (
    Allow,
    Application,
    Avro,
    Decode,
    DeltaOutput,
    IcebergOutput,
    Json,
    KafkaOutput,
    NewTopics,
    OrderedLoad,
    Rows,
    SparkSubmit,
    ordered_intervals,
    ordered_load,
    ordered_replay,
)
from airflow_provider_orderedkafka.assets import ledger_asset, output_alias, watched_ledger_asset
from airflow_provider_orderedkafka.dag import Launch
from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
from airflow_provider_orderedkafka.operators.operations import LedgerOperationsOperator
from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator
from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

orders = OrderedLoad("orders", topics=["orders", "refunds"], start="earliest", max_delay=timedelta(minutes=15))

a_start_each = OrderedLoad("each", topics=["orders", "refunds"], start={"orders": "-1h", "refunds": [3, 0]})
like_these = OrderedLoad("like_these", topics=re.compile("orders-.*"))
some_partitions = OrderedLoad("some", topics={"orders": [0, 3]}, start={"orders": {"0": 5, "3": -2}})

with DAG("orders", schedule=[watched_ledger_asset(orders)], catchup=False, max_active_runs=1):
    group = ordered_load(
        orders,
        to=KafkaOutput("orders-ordered", keep_order="partition", create=NewTopics(partitions=6)),
        rows=Rows(
            decode=Decode(value=Avro(registry="main"), key=Json("id long")),
            transform="json.decoder:scan",
            bad_records=Allow(5, to="dead"),
        ),
        spark=SparkSubmit(
            conf={"spark.sql.shuffle.partitions": "8"},
            executor_memory="4g",
            packages="org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        ),
        tasks={"load": {"retries": 3}},
    )
    group.tasks["load"] >> BaseOperator(task_id="after")


def elsewhere(launch: Launch) -> BaseOperator:
    command = " ".join([launch.application, *launch.arguments])
    return BashOperator(bash_command=f"spark-submit {command} && cat {launch.report}", **launch.task)


with DAG("replay", schedule=None, catchup=False):
    ordered_replay(
        OrderedLoad("replay", topics="orders"),
        to=KafkaOutput("orders-replayed"),
        start="{{ params.start }}",
        end="{{ params.end }}",
        spark=elsewhere,
        checkpoint="s3://bucket/orderedkafka",
    )

with DAG("tables", schedule="@hourly", catchup=False, max_active_runs=1):
    ordered_load(orders, to=IcebergOutput("lake.shop.orders", partition_by=("days(order_time)",)))
    ordered_load(OrderedLoad("again", topics="orders"), to=DeltaOutput("s3a://lake/orders", create=False))
    dead = Allow(5, to=IcebergOutput("lake.shop.orders_dead"))
    ordered_load(
        orders, to=IcebergOutput("lake.shop.totals"), rows=Rows(arrow_transform="mine:total", bad_records=dead)
    )
    ordered_load(OrderedLoad("far", topics="orders"), to=KafkaOutput("orders", kafka_conn_id="far"))
    own = Application("app.py", arguments=("--quick",))
    ordered_intervals(OrderedLoad("own", topics="orders"), rows=Rows(application=own), on_clear="reload")

with DAG("by_hand", schedule=output_alias("orders"), catchup=False, max_active_runs=1):
    to = KafkaOutput("out")
    wait = OffsetRangeSensor(task_id="wait", load=orders, poke_interval=10.0, inlets=[ledger_asset("orders")])
    resolve = ResolveOffsetRangeOperator(task_id="resolve", load=orders, to=to)
    load = SubmitOrderedLoadOperator(task_id="load", load=orders, range_id=resolve.output, to=to)
    commit = CommitOffsetRangeOperator(task_id="commit", load=orders, range_id=resolve.output)
    wait >> resolve >> load >> commit
    LedgerOperationsOperator(task_id="show", load="orders")
