"""What brokers have sent to the consumers of this process.

    before = sent()
    ...                             read
    sent() - before                 what came meanwhile

librdkafka's statistics are emitted at intervals alone, none when a consumer is done, and nobody takes those of an idle
one. With `debug=protocol` it says of each answer how many bytes it has, as it comes: seen with librdkafka 2.12 to 2.16.
The log goes with the consumer's other events, so it is heard while reading. Where a release words it otherwise, nothing
is counted although records came: then what came `is_unknown`, and nobody says 0.
"""

import logging
import os
import re
import threading
from dataclasses import dataclass
from typing import Any, Final, Self

from .config import CLIENT_LOG

FRAME: Final = 10
"""About the bytes of a record in a broker's log, besides key, value and headers: lengths, differences to the batch."""

_DEBUG: Final = "debug"
_PROTOCOL: Final = "protocol"
_LOG_LEVEL: Final = "log_level"
_LEVELS: Final = {"3": logging.ERROR, "4": logging.WARNING, "7": logging.DEBUG}
"""Those of syslog that are often set, as Python has them."""

_FETCHED: Final = re.compile(r"Received FetchResponse \(v\d+, (\d+) bytes")


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes of the answers to fetches, compressed as they came, and how many answers these were."""

    fetched_bytes: int = 0
    requests: int = 0

    def __sub__(self, before: Self) -> Self:
        return type(self)(self.fetched_bytes - before.fetched_bytes, self.requests - before.requests)

    def is_unknown(self, records: int) -> bool:
        """Whether so many records came without an answer that was counted."""
        return records > 0 and self.requests == 0


class _Counted:
    """The sum of all consumers. Some may be read in other threads; a fork may come while one of these counts."""

    def __init__(self) -> None:
        self.total = Traffic()
        self.renew()

    def renew(self) -> None:
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self.total = Traffic(self.total.fetched_bytes + size, self.total.requests + 1)


_counted: Final = _Counted()
os.register_at_fork(after_in_child=_counted.renew)


def sent() -> Traffic:
    """What came so far, at least: answers that were on their way when a consumer was last listened to are missing."""
    return _counted.total


class ClientLog:
    """The log of a consumer: counts what it fetched, and passes on what it would have said without that."""

    def __init__(self, level: int) -> None:
        self._level = level

    def log(self, level: int, form: str, *said: Any) -> None:
        if found := _FETCHED.search(str(said[-1])):
            _counted.add(int(found[1]))
        if level >= self._level:
            CLIENT_LOG.log(level, form, *said)


def counted(config: dict[str, Any]) -> dict[str, Any]:
    """A consumer's configuration with which its traffic is counted."""
    asked = config.get(_DEBUG)
    level = _LEVELS.get(config.get(_LOG_LEVEL, ""), logging.INFO)
    if asked:  # who wants the client's details gets these, too
        return {**config, _DEBUG: f"{asked},{_PROTOCOL}", "logger": ClientLog(logging.DEBUG)}
    return {**config, _DEBUG: _PROTOCOL, "logger": ClientLog(level)}
