"""Orders, loaded by another operator: here a shell that calls spark-submit.

Any operator will do (Kubernetes, Databricks, EMR, Livy): it gets the range and the checkpoint as templates, and passes
`launch.task` on. The attempt is written down before it begins, and the commit goes by the report that the application
leaves beside the checkpoint. Needs the Airflow variable `orders_checkpoints`, a folder that the application and
Airflow's workers reach, and spark-submit on the path.
"""

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.dag import ordered_load
from airflow_provider_orderedkafka.launching import packaged_application


def by_shell(launch):
    return BashOperator(
        bash_command="""
            exec spark-submit --master "local[2]" --conf spark.log.level=WARN "$APPLICATION" \
                --range "$RANGE" --checkpoint "$CHECKPOINT" --output-topic orders-by-shell \
                --option kafka.bootstrap.servers="$SERVERS"
        """,
        env={
            "APPLICATION": packaged_application("ordered_replay"),
            "RANGE": launch.range,
            "CHECKPOINT": launch.checkpoint,
            "SERVERS": "{{ conn.kafka_default.extra_dejson['bootstrap.servers'] }}",
        },
        append_env=True,
        **launch.task,
    )


orders = OrderedLoad("orders_by_shell", topics=["orders"], start="earliest", min_offsets=10_000, max_delay="1h")

with DAG("orders_by_shell", schedule="*/15 * * * *", catchup=False, max_active_runs=1, doc_md=__doc__):
    ordered_load(
        orders, output_topic="orders-by-shell", submit=by_shell, checkpoint="{{ var.value.orders_checkpoints }}"
    )
