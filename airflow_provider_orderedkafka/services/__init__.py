"""Services that run Spark elsewhere than on Airflow's worker, as values for `spark=`.

A family of services is a module; what all have is in `service`.
"""

from .aws import EmrServerless, EmrSteps
from .clusters import Livy, SparkKubernetes
from .databricks import Databricks
from .service import Launch, Launcher, Service

__all__ = ["Databricks", "EmrServerless", "EmrSteps", "Launch", "Launcher", "Livy", "Service", "SparkKubernetes"]
