"""Whether anybody is at home: what a plain connection meets where Kafka's client told no reason for its silence."""

import re
import socket
import threading
from typing import Final

_PATIENCE: Final = 0.5
_SERVER: Final = re.compile(r"(?:\w+://)?\[?(?P<host>[^\]]+?)\]?(?::(?P<port>\d+))?")
_KAFKA: Final = "9092"


def knock(servers: str) -> str:
    """What becomes of connections to the servers, in words; no longer than a moment for all, their names included."""
    met: list[str] = []
    knocking = threading.Thread(target=_try_each, args=(servers, met), name="orderedkafka knocks", daemon=True)
    knocking.start()
    knocking.join(2 * _PATIENCE)
    return "; ".join(met) or "no connection came about either"


def _try_each(servers: str, met: list[str]) -> None:
    for server in filter(None, map(str.strip, servers.split(","))):
        found = _SERVER.fullmatch(server)
        if found is None:
            met.append(f"{server}: this is no host and port")
            continue
        try:
            socket.create_connection((found["host"], int(found["port"] or _KAFKA)), _PATIENCE).close()
        except OSError as error:
            met.append(f"{server}: {error.strerror or error}")
        except (ValueError, OverflowError) as error:  # no name that can be looked up, no port that there can be
            met.append(f"{server}: {error}")
        else:
            met.append(f"{server} takes connections, but no answer came")
