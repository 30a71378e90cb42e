"""Show, abandon or rewind the ledger of `orders`, from a form.

Run it without the confirmation first: it says what would happen, and changes nothing.
"""

from airflow.sdk import DAG, Param

from airflow_provider_orderedkafka.operators.operations import LedgerOperationsOperator

with DAG(
    "orders_operations",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Show, abandon or rewind the ledger of orders",
    tags=["orderedkafka", "by hand"],
    params={
        "action": Param("show", enum=["show", "abandon", "rewind"], title="What to do"),
        "to": Param(
            None,
            type=["null", "string"],
            title="Rewind to",
            description="'earliest', 'latest', a time (2026-01-31T12:00:00Z), a time ago (-2h), offsets as JSON, or "
            "'current' to stay there and let another DAG take the load over.",
            maxLength=10_000,
            section="Rewind",
        ),
        "topics": Param(
            None,
            type=["null", "string"],
            title="Only these topics",
            description="Separated by commas; empty for all.",
            maxLength=10_000,
            section="Rewind",
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            title="Reason",
            description="Kept with the ledger.",
            maxLength=500,
            section="Confirm",
        ),
        "confirmed": Param(
            default=False, type="boolean", title="Do it", description="Unless set, nothing changes.", section="Confirm"
        ),
    },
):
    LedgerOperationsOperator(
        task_id="operate",
        load="orders",
        action="{{ params.action }}",
        to="{{ params.to or '' }}",
        topics="{{ params.topics or '' }}",
        reason="{{ params.reason or '' }}",
        confirmed="{{ params.confirmed }}",
    )
