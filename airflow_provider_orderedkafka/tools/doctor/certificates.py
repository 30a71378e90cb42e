"""Check the dates of certificates: those that a connection's settings name, and the brokers' own."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.tools.doctor.finding import Finding

_SOON = timedelta(days=14)
_ANSWER_SECONDS = 3.0
_AUTHORITIES = ("ssl.ca.location", "ssl.ca.pem")
_OWN = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")
_RENEW = "Let it be renewed, and name the new one"


def certificates(config: Mapping[str, Any], now: datetime | None = None) -> Iterator[Finding]:
    """A finding for each certificate; none where the connection does without TLS."""
    if "SSL" not in str(config.get("security.protocol", "")).upper():
        return
    now = now or datetime.now(UTC)
    for name in (*_AUTHORITIES, *_OWN):
        value = str(config.get(name) or "")
        if value and not (name.endswith(".location") and Path(value).is_dir()):
            yield _named(name, value, config, now)
    for server in str(config["bootstrap.servers"]).split(","):
        yield from _broker(server.strip().rpartition("//")[2], now)


def _named(name: str, value: str, config: Mapping[str, Any], now: datetime) -> Finding:
    title = f"certificate {name}"
    try:
        found = _loaded(name, value, str(config.get("ssl.keystore.password") or ""))
    except OSError as error:
        return Finding(title, "broken", f"{value} cannot be read here: {error.strerror}", "Correct the path")
    except ValueError as error:
        return Finding(title, "broken", f"holds no certificate that can be read: {error}", "Correct the setting")
    # Of authorities one that lasts is enough; of a chain its first certificate is the client's.
    return _dated(title, max(found, key=_end) if name in _AUTHORITIES else found[0], now)


def _loaded(name: str, value: str, password: str) -> list[Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    data = Path(value).read_bytes() if name.endswith(".location") else value.encode()
    if name != "ssl.keystore.location":
        return x509.load_pem_x509_certificates(data)
    kept = load_pkcs12(data, password.encode() or None).cert
    if kept is None:
        raise ValueError("the store has no certificate with a key")
    return [kept.certificate]


def _broker(server: str, now: datetime) -> Iterator[Finding]:
    """The certificate that a broker shows, trusted or not; none where it shows none."""
    from cryptography import x509

    host, _, port = server.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # only its date is looked at, and nothing is sent
    try:
        plain = socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS)
        with plain, context.wrap_socket(plain, server_hostname=host.strip("[]")) as wrapped:
            shown = wrapped.getpeercert(binary_form=True)
    except (OSError, ValueError):  # what is wrong, the connection's own finding says
        return
    if shown:
        yield _dated(f"certificate of {server}", x509.load_der_x509_certificate(shown), now)


def _end(certificate: Any) -> datetime:
    end: datetime = certificate.not_valid_after_utc
    return end


def _dated(title: str, certificate: Any, now: datetime) -> Finding:
    end, begin = _end(certificate), certificate.not_valid_before_utc
    if now > end:
        return Finding(title, "broken", f"expired on {end:%Y-%m-%d}", _RENEW)
    if now < begin:
        return Finding(title, "broken", f"is only valid from {begin:%Y-%m-%d} on", "Check this machine's clock")
    if end - now < _SOON:
        return Finding(title, "warning", f"expires on {end:%Y-%m-%d}, in {(end - now).days} days", _RENEW)
    return Finding(title, "ok", f"valid until {end:%Y-%m-%d}")
