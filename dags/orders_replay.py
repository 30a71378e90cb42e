"""Load a part of the past again, from a form: trigger it, and say from when to when, and where to.

A replay has no ledger: it never changes how far the load `orders` has come.
"""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import OrderedLoad, SparkSubmit, ordered_replay, replay_params

replay = OrderedLoad("orders_replay", topics=["orders", "refunds"])

with DAG(
    "orders_replay",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    description="Orders and refunds of the past, loaded again",
    tags=["orderedkafka", "by hand"],
    params=replay_params("orders-replayed", taken=["orders-ordered"]),
):
    ordered_replay(
        replay,
        to="{{ params.format }}:{{ params.target }}",
        start="{{ params.start }}",
        end="{{ params.end }}",
        row_limit="{{ params.row_limit or '' }}",
        dry_run="{{ params.dry_run }}",
        spark=SparkSubmit(packages="{{ {'delta': 'io.delta:delta-spark_4.2_2.13:4.4.0'}.get(params.format, '') }}"),
    )
