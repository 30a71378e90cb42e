"""The assets of a load: its ledger, which every task reads and none produces, and its output."""

from airflow.sdk import Asset, AssetAlias

LEDGER_SCHEME = "orderedkafka"


def ledger_asset(load: str) -> Asset:
    """The asset whose state store holds the ledger. An inlet, never an outlet: outlets are emitted at each success."""
    return Asset(name=f"orderedkafka.{load}.ledger", uri=f"{LEDGER_SCHEME}://ledger/{load}", group="orderedkafka")


def output_alias(load: str) -> AssetAlias:
    """The alias under which a commit emits the output, only when the ledger moved."""
    return AssetAlias(name=f"orderedkafka.{load}.output", group="orderedkafka")
