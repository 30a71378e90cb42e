"""Load Kafka with Spark from Airflow, on a schedule, in time order.

Importing the package imports neither Airflow nor anything heavy: each name below is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dag import ordered_intervals as ordered_intervals
    from .dag import ordered_load as ordered_load
    from .dag import ordered_replay as ordered_replay
    from .decoding.formats import Avro as Avro
    from .decoding.formats import Decode as Decode
    from .decoding.formats import Json as Json
    from .decoding.formats import JsonSchema as JsonSchema
    from .decoding.formats import Protobuf as Protobuf
    from .forms import load_params as load_params
    from .forms import replay_params as replay_params
    from .hooks.submission import SparkSubmit as SparkSubmit
    from .job import Allow as Allow
    from .job import Application as Application
    from .job import Rows as Rows
    from .load import OrderedLoad as OrderedLoad
    from .outputs import DeltaOutput as DeltaOutput
    from .outputs import FilesOutput as FilesOutput
    from .outputs import IcebergOutput as IcebergOutput
    from .outputs import KafkaOutput as KafkaOutput
    from .outputs import NewTopics as NewTopics
    from .services import Databricks as Databricks
    from .services import Dataproc as Dataproc
    from .services import EmrServerless as EmrServerless
    from .services import EmrSteps as EmrSteps
    from .services import Glue as Glue
    from .services import Livy as Livy
    from .services import SparkKubernetes as SparkKubernetes

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

_ON_AIRFLOW = {"dag", "forms"}

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
        if _MODULES[name] in _ON_AIRFLOW:
            import_module(f"{__name__}.operators")  # says what is missing, where Airflow is not installed
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
