"""Quotas of a Kafka's clients, which librdkafka has no way to set: the one request for it, by hand."""

import socket
import struct
from collections.abc import Mapping

_ALTER_CLIENT_QUOTAS = 49
_WAIT_SECONDS = 30.0


def give_quotas(servers: str, client_id: str, quotas: Mapping[str, float]) -> None:
    """Give all clients of this name so much together: `producer_byte_rate`, `consumer_byte_rate`, ..."""
    host, _, port = servers.partition(",")[0].rpartition(":")
    entity = struct.pack(">i", 1) + _text("client-id") + _text(client_id)
    values = b"".join(_text(name) + struct.pack(">d?", value, False) for name, value in quotas.items())
    body = struct.pack(">i", 1) + entity + struct.pack(">i", len(quotas)) + values + struct.pack(">?", False)
    request = struct.pack(">hhi", _ALTER_CLIENT_QUOTAS, 0, 1) + _text("tests") + body
    with socket.create_connection((host, int(port)), _WAIT_SECONDS) as broker, broker.makefile("rb") as answers:
        broker.sendall(struct.pack(">i", len(request)) + request)
        answer = answers.read(struct.unpack(">i", answers.read(4))[0])
    _, _, entries, error = struct.unpack_from(">iiih", answer)
    assert (entries, error) == (1, 0), answer


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
