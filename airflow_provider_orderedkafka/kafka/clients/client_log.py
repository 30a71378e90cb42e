"""Send the log lines of Kafka's clients to Python's logging instead of stderr."""

import logging
import re
import time


class _Seldom(logging.Filter):
    """Limits the rate of repeated lines: a client that cannot connect logs many of them a second."""

    EVERY_SECONDS = 60.0
    MOST_KNOWN = 500

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line was not logged lately, apart from its numbers."""
        line, now = re.sub(r"\d+", "#", record.getMessage()), time.monotonic()
        if now - self._seen.get(line, -self.EVERY_SECONDS) < self.EVERY_SECONDS:
            return False
        if len(self._seen) >= self.MOST_KNOWN:
            self._seen.clear()
        self._seen[line] = now
        return True


CLIENT_LOG = logging.getLogger("airflow_provider_orderedkafka.kafka.client")
CLIENT_LOG.addFilter(_Seldom())
CLIENT_LOG.addHandler(logging.NullHandler())
