"""Certificates made on the spot, for brokers and clients that speak TLS on this machine."""

import datetime
import ipaddress
from dataclasses import dataclass
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

_ADDRESS = "127.0.0.1"
_DAYS = 30


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, both as PEM text."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Authority(Certificate):
    """Who signs certificates."""

    __slots__ = ()

    @classmethod
    def make(cls, name: str = "orderedkafka") -> Self:
        """A new authority, which signs its own certificate."""
        key, subject = ec.generate_private_key(ec.SECP256R1()), _named(name)
        unsigned = _unsigned(subject, subject, key, _DAYS)
        unsigned = unsigned.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(*_signed(unsigned, key, key))

    def issue(self, name: str, address: str = _ADDRESS, days: int = _DAYS) -> Certificate:
        """A certificate for a client of this name, or a broker at this address; `days` below 0 have passed."""
        return self._issue(name, x509.IPAddress(ipaddress.ip_address(address)), days)

    def issue_for(self, host: str) -> Certificate:
        """A certificate for a server of this name."""
        return self._issue(host, x509.DNSName(host), _DAYS)

    def _issue(self, name: str, place: x509.GeneralName, days: int) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.load_pem_x509_certificate(self.certificate.encode()).subject
        addresses = x509.SubjectAlternativeName([place])
        unsigned = _unsigned(_named(name), issuer, key, days).add_extension(addresses, critical=False)
        return Certificate(*_signed(unsigned, key, load_pem_private_key(self.key.encode(), None)))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _unsigned(subject: x509.Name, issuer: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(days=2 * _DAYS),
        not_valid_after=now + datetime.timedelta(days=days),
    )


def _signed(unsigned: x509.CertificateBuilder, key: Any, signer: Any) -> tuple[str, str]:
    certificate = unsigned.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.decode(), private.decode()
