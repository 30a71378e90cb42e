"""Recognize permanent refusals, and say how to fix them: permissions, credentials, certificates."""

import re
import socket
import ssl
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from airflow_provider_orderedkafka.errors import AccessDeniedError
from airflow_provider_orderedkafka.kafka.clients.config import client_config

_CREDENTIALS: Final = "check user name, password and mechanism, or where its tokens come from, and 'security.protocol'"
DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the principal needs DESCRIBE (and READ) on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the principal needs DESCRIBE (and READ) on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the principal needs DESCRIBE on the cluster",
    KafkaError.SASL_AUTHENTICATION_FAILED: _CREDENTIALS,
    KafkaError._AUTHENTICATION: _CREDENTIALS,
}
DENIED_WRITES: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the principal needs WRITE on the topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the principal needs WRITE on the topic, and before Kafka 2.8 "
    "IDEMPOTENT_WRITE on the cluster",
}
_UNTRUSTED: Final = "certificate verify failed"
_TRUST: Final = (
    "'ssl.ca.location' (or 'ssl.ca.pem') must name who signed the broker's certificate, and that must not have expired "
    "and be for the host that is connected to"
)
# OpenSSL's words for a broker's alert. Its other alerts may be transient, or not about certificates.
_REFUSED: Final = re.compile(r"alert (?:[a-z ]*certificate|unknown ca)")
_IDENTITY: Final = (
    "the broker wants a certificate of this client's ('ssl.certificate.location' and 'ssl.key.location', or "
    "'ssl.keystore.location') that has not expired and is signed by whom it trusts"
)
_BROKER: Final = re.compile(r"\w+://\[?(?P<host>[^/\]]+)\]?:(?P<port>\d+)/")
_LOOK_SECONDS: Final = 2.0


def way_out(error: KafkaError, config: Mapping[str, str]) -> str | None:
    """How to fix a permanent error; None if it may be transient."""
    said = error.str() or ""
    if error.code() in DENIED:
        return DENIED[error.code()]
    if _UNTRUSTED in said:
        return f"{_why_untrusted(said, config)}{_TRUST}"
    return _IDENTITY if _REFUSED.search(said) else None


def check_allowed(topic: str, operations: Collection[str], needed: str, why: str) -> None:
    """Raise `AccessDeniedError` if Kafka lists what the principal may do with a topic, and this is not among it."""
    if operations and needed not in operations:
        raise AccessDeniedError(
            f"the principal needs {needed} on topic {topic!r}, {why}: grant it; `orderedkafka doctor --output-topic "
            f"{topic}` tells what else is missing"
        )


def _why_untrusted(said: str, config: Mapping[str, str]) -> str:
    """Verify the broker's certificate with Python, which gives a reason; Kafka's client gives none."""
    broker = _BROKER.search(said)
    if broker is None:
        return ""
    settings = client_config(config, "admin")
    try:
        plain = socket.create_connection((broker["host"], int(broker["port"])), _LOOK_SECONDS)
        with plain, _context(settings).wrap_socket(plain, server_hostname=broker["host"]):
            return ""
    except ssl.SSLCertVerificationError as error:
        return f"{error.verify_message}; "
    except (OSError, ValueError):
        return ""


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if pem := settings.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=pem)
    elif place := settings.get("ssl.ca.location"):
        context.load_verify_locations(place)
    else:
        context.load_default_certs()
    return context
