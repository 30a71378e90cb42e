"""The packaged application, unless it is told otherwise: `$ORDERS/<load>` holds an exit code for each of its next runs.

A run that is told to fail ends before it starts Spark.
"""

import os
import sys
from pathlib import Path

from airflow_provider_orderedkafka.job import Work
from airflow_provider_orderedkafka.spark.app import run_available_now

if __name__ == "__main__":
    load = Work.from_text(Path(sys.argv[sys.argv.index("--work") + 1]).read_text()).range.load
    orders = Path(os.environ["ORDERS"]) / load
    exit_codes = orders.read_text().split() if orders.exists() else []
    if exit_codes:
        orders.write_text("\n".join(exit_codes[1:]))
        sys.exit(int(exit_codes[0]))
    run_available_now()
