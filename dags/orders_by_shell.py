"""Run the application with an operator of your choice; here, a shell that calls spark-submit.

Any operator will do that passes `launch.task` on, which records the attempt before it starts. The application needs
`launch.arguments` and Kafka's settings. The commit relies on the report that it writes beside the checkpoint. For EMR,
Glue, Dataproc, Databricks, Kubernetes and Livy docs/where-spark-runs.md has values instead.

Needs spark-submit on the PATH, and the Airflow variable `orders_checkpoints`: a folder that the application and
Airflow's workers can reach.
"""

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_load

SERVERS = "kafka.bootstrap.servers={{ conn.kafka_default.extra_dejson['bootstrap.servers'] }}"


def by_shell(launch):
    return BashOperator(
        bash_command=r"""
            IFS=$'\n'  # each line is an argument
            exec spark-submit --master "local[2]" --conf spark.log.level=WARN "$APPLICATION" $ARGUMENTS
        """,
        env={"APPLICATION": launch.application, "ARGUMENTS": "\n".join([*launch.arguments, "--option", SERVERS])},
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
        orders, to=KafkaOutput("orders-by-shell"), spark=by_shell, checkpoint="{{ var.value.orders_checkpoints }}"
    )
