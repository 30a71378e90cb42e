"""A DAG author's program, for a type checker: nothing is ignored here."""

from datetime import timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, BaseOperator

from airflow_provider_orderedkafka import (
    Avro,
    Decode,
    DeltaOutput,
    IcebergOutput,
    Json,
    KafkaOutput,
    OrderedLoad,
    ordered_load,
)
from airflow_provider_orderedkafka.assets import ledger_asset, output_alias, watched_ledger_asset
from airflow_provider_orderedkafka.dag import Launch
from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
from airflow_provider_orderedkafka.operators.operations import LedgerOperationsOperator
from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator
from airflow_provider_orderedkafka.sensors.offsets import OffsetRangeSensor

orders = OrderedLoad("orders", topics=["orders", "refunds"], start="earliest", max_delay=timedelta(minutes=15))

with DAG("orders", schedule=[watched_ledger_asset(orders)], catchup=False, max_active_runs=1):
    group = ordered_load(
        orders,
        output_topic="orders-ordered",
        keep_order="partition",
        decode=Decode(value=Avro(registry="main"), key=Json("id long"), max_bad_records=5, dead_letters="dead"),
        transform="json.decoder:scan",
        steps={"load": {"retries": 3}},
        conf={"spark.sql.shuffle.partitions": "8"},
        executor_memory="4g",
        packages="org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    )
    group.steps["load"] >> BaseOperator(task_id="after")


def elsewhere(launch: Launch) -> BaseOperator:
    command = " ".join([launch.application, *launch.arguments])
    return BashOperator(bash_command=f"spark-submit {command} && cat {launch.report}", **launch.task)


with DAG("replay", schedule=None, catchup=False):
    ordered_load(
        OrderedLoad("replay", topics="orders"),
        output_topic="orders-replayed",
        mode="replay",
        start="{{ params.start }}",
        end="{{ params.end }}",
        submit=elsewhere,
        checkpoint="s3://bucket/orderedkafka",
    )

with DAG("tables", schedule="@hourly", catchup=False, max_active_runs=1):
    ordered_load(orders, output=IcebergOutput("lake.shop.orders", partition_by=("days(order_time)",), identity=False))
    ordered_load(OrderedLoad("again", topics="orders"), output=DeltaOutput("s3a://lake/orders", create=False))
    dead = Decode(max_bad_records=5, dead_letters=IcebergOutput("lake.shop.orders_dead"))
    ordered_load(orders, output=IcebergOutput("lake.shop.totals"), decode=dead, arrow_transform="mine:total")
    ordered_load(OrderedLoad("far", topics="orders"), output=KafkaOutput("orders", kafka_conn_id="far"))

with DAG("by_hand", schedule=output_alias("orders"), catchup=False, max_active_runs=1):
    wait = OffsetRangeSensor(task_id="wait", load=orders, poke_interval=10.0, inlets=[ledger_asset("orders")])
    resolve = ResolveOffsetRangeOperator(task_id="resolve", load=orders)
    load = SubmitOrderedLoadOperator(task_id="load", load=orders, range_id=resolve.output, output_topic="out")
    commit = CommitOffsetRangeOperator(task_id="commit", load=orders, range_id=resolve.output, output_topic="out")
    wait >> resolve >> load >> commit
    LedgerOperationsOperator(task_id="show", load="orders")
