"""What spark-submit prints, seen in Spark 3.5.8, 4.0.4, 4.1.3, 4.2.0 and 4.3.0. No documentation promises it.

Public would be: the application's ID in a place of its own, and the application's exit code as spark-submit's.
"""

import re
from typing import Final

ON_YARN: Final = re.compile(r"\bapplication_\d+_\d+\b")
"""The ID of an application on YARN."""

ON_KUBERNETES: Final = re.compile(r"\bsubmission ID (\S+:\S+)")
"""The ID of an application on Kubernetes: the namespace and the driver's pod."""

EXIT_CODE: Final = re.compile(r"\bexit code: (\d+)", re.IGNORECASE)
"""The exit code of a driver's container on Kubernetes."""
