"""Load Kafka with Spark from Airflow, on a schedule, in time order.

Importing the package imports neither Airflow nor anything heavy: each name below is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.dag import ordered_intervals as ordered_intervals
    from airflow_provider_orderedkafka.dag import ordered_load as ordered_load
    from airflow_provider_orderedkafka.dag import ordered_replay as ordered_replay
    from airflow_provider_orderedkafka.decoding.formats import Avro as Avro
    from airflow_provider_orderedkafka.decoding.formats import Decode as Decode
    from airflow_provider_orderedkafka.decoding.formats import Json as Json
    from airflow_provider_orderedkafka.decoding.formats import JsonSchema as JsonSchema
    from airflow_provider_orderedkafka.decoding.formats import Protobuf as Protobuf
    from airflow_provider_orderedkafka.forms import load_params as load_params
    from airflow_provider_orderedkafka.forms import replay_params as replay_params
    from airflow_provider_orderedkafka.hooks.submission import SparkSubmit as SparkSubmit
    from airflow_provider_orderedkafka.job import Allow as Allow
    from airflow_provider_orderedkafka.job import Application as Application
    from airflow_provider_orderedkafka.job import Rows as Rows
    from airflow_provider_orderedkafka.load import OrderedLoad as OrderedLoad
    from airflow_provider_orderedkafka.outputs import DeltaOutput as DeltaOutput
    from airflow_provider_orderedkafka.outputs import FilesOutput as FilesOutput
    from airflow_provider_orderedkafka.outputs import IcebergOutput as IcebergOutput
    from airflow_provider_orderedkafka.outputs import KafkaOutput as KafkaOutput
    from airflow_provider_orderedkafka.outputs import NewTopics as NewTopics
    from airflow_provider_orderedkafka.services import Databricks as Databricks
    from airflow_provider_orderedkafka.services import Dataproc as Dataproc
    from airflow_provider_orderedkafka.services import EmrServerless as EmrServerless
    from airflow_provider_orderedkafka.services import EmrSteps as EmrSteps
    from airflow_provider_orderedkafka.services import Glue as Glue
    from airflow_provider_orderedkafka.services import Livy as Livy
    from airflow_provider_orderedkafka.services import SparkKubernetes as SparkKubernetes

__version__ = "0.1.0"

_FORMATS = ("Avro", "Decode", "Json", "JsonSchema", "Protobuf")
_OUTPUTS = ("DeltaOutput", "FilesOutput", "IcebergOutput", "KafkaOutput")
_SERVICES = ("Databricks", "Dataproc", "EmrServerless", "EmrSteps", "Glue", "Livy", "SparkKubernetes")
_MODULES = {
    "OrderedLoad": "load",
    "NewTopics": "outputs",
    "SparkSubmit": "hooks.submission",
    **dict.fromkeys(("ordered_intervals", "ordered_load", "ordered_replay"), "dag"),
    **dict.fromkeys(("load_params", "replay_params"), "forms"),
    **dict.fromkeys(("Allow", "Application", "Rows"), "job"),
    **dict.fromkeys(_FORMATS, "decoding.formats"),
    **dict.fromkeys(_OUTPUTS, "outputs"),
    **dict.fromkeys(_SERVICES, "services"),
}

__all__ = [
    "Allow",
    "Application",
    "Avro",
    "Databricks",
    "Dataproc",
    "Decode",
    "DeltaOutput",
    "EmrServerless",
    "EmrSteps",
    "FilesOutput",
    "Glue",
    "IcebergOutput",
    "Json",
    "JsonSchema",
    "KafkaOutput",
    "Livy",
    "NewTopics",
    "OrderedLoad",
    "Protobuf",
    "Rows",
    "SparkKubernetes",
    "SparkSubmit",
    "__version__",
    "load_params",
    "ordered_intervals",
    "ordered_load",
    "ordered_replay",
    "replay_params",
]

if not TYPE_CHECKING:  # a type checker that saw this function would accept every name

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
