"""Load a part of the past again, from a form: trigger it, and say what to load and where to.

A replay has no ledger: it never changes how far the load `orders` has come.
"""

from airflow.sdk import DAG, Param, task

from airflow_provider_orderedkafka import OrderedLoad, ordered_load
from airflow_provider_orderedkafka.dag import check_form

replay = OrderedLoad("orders_replay", topics=["orders", "refunds"], max_offsets=50_000_000)

with DAG(
    "orders_replay",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    description="Orders and refunds of the past, loaded again",
    tags=["orderedkafka", "by hand"],
    params={
        "start": Param(
            "-1h",
            type="string",
            title="From",
            description="'earliest', a timestamp with a time zone (2026-01-31T12:00:00Z), a time ago (-2h), or offsets "
            'as JSON ({"orders": [0, 0, 0], "refunds": [0]}).',
            minLength=1,
            maxLength=10_000,
            section="What to load",
        ),
        "end": Param(
            "latest",
            type="string",
            title="To",
            description="The same, or 'latest'. Exclusive.",
            minLength=1,
            maxLength=10_000,
            section="What to load",
        ),
        "format": Param(
            "topic",
            enum=["topic", "parquet", "delta", "iceberg"],
            title="What to write to",
            description="A topic, a folder of Parquet files, or a table. Spark has to know an Iceberg table's catalog.",
            section="Where to",
        ),
        "target": Param(
            "orders-replayed",
            type="string",
            title="Target",
            description="A topic, a location (s3a://lake/replayed), or a table (catalog.schema.table); a new one.",
            minLength=1,
            maxLength=1_000,
            section="Where to",
        ),
        "duplicates_are_fine": Param(
            default=False,
            type="boolean",
            title="Duplicates are fine",
            description="Must be set to load into what `orders` writes to: its rows are written again.",
            section="Where to",
        ),
        "row_limit": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="At most so many rows",
            description="The first ones in order; empty for all.",
            section="How",
        ),
        "dry_run": Param(
            default=False,
            type="boolean",
            title="Dry run",
            description="Only say what would be loaded: see the log of `resolve`.",
            section="How",
        ),
    },
):

    @task
    def check(params=None, dag_run=None):
        """Refuse unknown fields, impossible targets, the load's own topics, and duplicates not agreed to."""
        check_form(params, dag_run.conf, taken={"orders-ordered"}, load=replay)

    loaded = ordered_load(
        replay,
        output="{{ params.format }}:{{ params.target }}",
        packages="{{ {'delta': 'io.delta:delta-spark_4.2_2.13:4.4.0'}.get(params.format, '') }}",
        mode="replay",
        start="{{ params.start }}",
        end="{{ params.end }}",
        row_limit="{{ params.row_limit or '' }}",
        dry_run="{{ params.dry_run }}",
    )
    check() >> loaded
