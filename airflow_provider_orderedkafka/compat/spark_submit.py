"""What spark-submit prints, by the classes of Spark 3.5.8, 4.0.4, 4.1.3, 4.2.0 and 4.3.0. No documentation promises it.

Public would be: the application's ID in a place of its own, and the application's exit code as spark-submit's.
"""

import re
from typing import Final

ON_YARN: Final = re.compile(r"\bapplication_\d+_\d+\b")
"""The ID of an application on YARN, as Hadoop's client writes it (3.3.4 to 3.5.0)."""

ON_KUBERNETES: Final = re.compile(r"\bsubmission ID (\S+:\S+)")
"""The namespace and the driver's pod, in "Deployed Spark application ... and submission ID ... into Kubernetes"."""

CONTAINER: Final = re.compile(r"\bcontainer name: (\S+)")
EXIT_CODE: Final = re.compile(r"\bexit code: (\d+)")
"""A container of the driver's pod on Kubernetes, and its exit code: lines below "Container final statuses"."""

DRIVER: Final = "spark-kubernetes-driver"
"""The container of the driver, where no template of the pod names it."""
