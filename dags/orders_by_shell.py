"""Run the application with an operator of your choice; here, a shell that calls spark-submit.

Any operator will do, as long as it passes `launch.task` on: docs/where-spark-runs.md has functions for Kubernetes,
Livy, EMR Serverless, Dataproc Serverless and Databricks. The attempt is recorded before it starts, and the commit
relies on the report that the application writes beside the checkpoint.

Needs spark-submit on the PATH, and the Airflow variable `orders_checkpoints`: a folder that the application and
Airflow's workers can reach.
"""

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_orderedkafka import OrderedLoad, ordered_load


def by_shell(launch):
    return BashOperator(
        bash_command="""
            exec spark-submit --master "local[2]" --conf spark.log.level=WARN "$APPLICATION" \
                --range "$RANGE" --checkpoint "$CHECKPOINT" --output-topic orders-by-shell \
                --option kafka.bootstrap.servers="$SERVERS"
        """,
        env={
            "APPLICATION": launch.application,
            "RANGE": launch.range,
            "CHECKPOINT": launch.checkpoint,
            "SERVERS": "{{ conn.kafka_default.extra_dejson['bootstrap.servers'] }}",
        },
        append_env=True,
        **launch.task,
    )


orders = OrderedLoad("orders_by_shell", topics=["orders"], start="earliest", min_offsets=10_000, max_delay="1h")

with DAG(
    "orders_by_shell",
    schedule="*/15 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders in time order, by an operator of your choice",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        orders, output_topic="orders-by-shell", submit=by_shell, checkpoint="{{ var.value.orders_checkpoints }}"
    )
