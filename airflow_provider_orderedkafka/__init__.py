"""Load Kafka with Spark from Airflow, on a schedule, in time order.

Importing this package imports nothing heavy: a DAG file may do it at every parse.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.load import OrderedLoad as OrderedLoad

__version__ = "0.1.0"

__all__ = ["OrderedLoad", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "OrderedLoad":
        from airflow_provider_orderedkafka.load import OrderedLoad

        return OrderedLoad
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
