"""The process that a local Spark forks its Python workers from: it has imported what each of them needs.

Spark runs it as `python -m`, by `spark.python.daemon.module`. With its own daemon every worker imports pyspark, numpy,
pyarrow and what this package needs by itself, most of a second each. What is imported before a fork must not start a
thread: Spark tells numpy so by OMP_NUM_THREADS, and Arrow's allocator is told here.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module

from airflow_provider_orderedkafka.spark.own_pyspark import prefer_installed

NEEDED = (
    "pyspark.worker",
    "airflow_provider_orderedkafka.spark.frames",
    "airflow_provider_orderedkafka.spark.direct_writer",
    "airflow_provider_orderedkafka.kafka.reader",
    "airflow_provider_orderedkafka.kafka.writing",
)


def imported() -> None:
    """Import what workers need; what is missing is told by whoever looks for it, with the way out."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for name in NEEDED:
        with suppress(ImportError):
            import_module(name)
    if random := sys.modules.get("numpy.random"):  # older ones come with numpy; workers must not draw the same numbers
        os.register_at_fork(after_in_child=random.seed)


if __name__ == "__main__":
    prefer_installed()
    imported()
    import_module("pyspark.daemon").manager()
