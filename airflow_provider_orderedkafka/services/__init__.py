"""Services that run Spark elsewhere than on Airflow's worker, as values for `spark=`.

A family of services is a module; what all have is in `service`.
"""

from .clouds import Databricks, Dataproc, EmrServerless, EmrSteps, Glue
from .clusters import Livy, SparkKubernetes
from .service import Launch, Launcher, Service

__all__ = [
    "Databricks",
    "Dataproc",
    "EmrServerless",
    "EmrSteps",
    "Glue",
    "Launch",
    "Launcher",
    "Livy",
    "Service",
    "SparkKubernetes",
]
