"""A Kafka with listeners that know their clients, or hide what is said.

    SecuredKafka(directory, {"NAMED": Secured.sasl(...)})       the listener stands beside the plain one
    kafka.secured_config("NAMED", "alice")                      the settings of a client that comes by it

    Secured.tls(ca)                                             every client, over TLS
    Secured.mutual_tls(ca)                                      clients have certificates, too
    Secured.sasl("SCRAM-SHA-512", {"alice": "..."}, tls=ca)     clients have names; without `tls` in plain text

    let(admin, "alice", {ResourceType.TOPIC: ["READ"]}, "orders")

A client with a name may do what ACLs allow it. One without a name, as on the plain listener, may do everything.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from broker import HOST, LocalKafka
from broker.cluster import Property
from support.certificates import Authority, Certificate

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ResourceType

AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_ITERATIONS: Final = 4_096
_ANSWER_SECONDS: Final = 20.0
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule required",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    # Without more, Kafka takes unsigned tokens; and the broker wants one of its own.
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker"',
}


@dataclass(frozen=True, slots=True)
class Secured:
    """One listener: who vouches for its certificates, how clients say who they are, and who there is."""

    authority: Authority | None = None
    certificate: Certificate | None = None
    mutual: bool = False
    mechanism: str | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def tls(cls, authority: Authority, certificate: Certificate | None = None) -> Self:
        """TLS; with another certificate of the broker's than a good one where one is given."""
        return cls(authority, certificate or authority.issue("broker"))

    @classmethod
    def mutual_tls(cls, authority: Authority) -> Self:
        """TLS on both sides: a client has the name that its certificate says."""
        return cls(authority, authority.issue("broker"), mutual=True)

    @classmethod
    def sasl(cls, mechanism: str, users: Mapping[str, str], tls: Authority | None = None) -> Self:
        """SASL: users and their passwords. OAUTHBEARER has none: it takes unsigned tokens of anybody."""
        return cls(tls, tls and tls.issue("broker"), mechanism=mechanism, users=users)

    @property
    def protocol(self) -> str:
        """What clients set as `security.protocol`."""
        if self.mechanism is None:
            return "SSL"
        return "SASL_SSL" if self.authority else "SASL_PLAINTEXT"

    def properties(self, name: str) -> dict[str, str]:
        """Return the server properties of a listener of this name."""
        own = {**self._certificates(), **self._logins()}
        return {f"listener.name.{name.lower()}.{key}": value for key, value in own.items()}

    def client(self, user: str) -> dict[str, str]:
        """Return a client's settings, but for where Kafka is."""
        settings = {"security.protocol": self.protocol, **self._credentials(user)}
        if self.authority:
            settings["ssl.ca.pem"] = self.authority.certificate
        if self.authority and self.mutual:
            issued = self.authority.issue(user)
            settings |= {"ssl.certificate.pem": issued.certificate, "ssl.key.pem": issued.key}
        return settings

    def _certificates(self) -> dict[str, str]:
        if self.authority is None or self.certificate is None:
            return {}
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": self.certificate.certificate,
            "ssl.keystore.key": self.certificate.key,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.certificate,
            "ssl.client.auth": "required" if self.mutual else "none",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        }

    def _logins(self) -> dict[str, str]:
        if self.mechanism is None:
            return {}
        names = self.users if self.mechanism == "PLAIN" else {}  # those of SCRAM are kept in the cluster itself
        users = "".join(f" user_{name}={_quoted(password)}" for name, password in names.items())
        return {
            "sasl.enabled.mechanisms": self.mechanism,
            f"{self.mechanism.lower()}.sasl.jaas.config": f"{_LOGIN[self.mechanism]}{users};",
        }

    def _credentials(self, user: str) -> dict[str, str]:
        if self.mechanism is None:
            return {}
        if self.mechanism == "OAUTHBEARER":
            own = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={user}"}
        else:
            own = {"sasl.username": user, "sasl.password": self.users[user]}
        return {"sasl.mechanism": self.mechanism, **own}


USERS: Final = Secured.sasl("PLAIN", dict.fromkeys(("loader", "writer", "guest"), "sesame"))
"""Those whom the broker of all tests knows, at a listener of this name."""


def _quoted(text: str) -> str:
    """The text as Java's JAAS files want it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def remember_users(bootstrap_servers: str, secured: Mapping[str, Secured]) -> None:
    """Write the users of SCRAM into the cluster, where it keeps them; in place of what it knew of them before."""
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    wanted = [
        UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism[each.mechanism.replace("-", "_")], _ITERATIONS), password.encode()
        )
        for each in secured.values()
        if each.mechanism and each.mechanism.startswith("SCRAM")
        for user, password in each.users.items()
    ]
    if wanted:
        admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        for answer in admin.alter_user_scram_credentials(wanted).values():
            answer.result(_ANSWER_SECONDS)


def let(
    admin: "AdminClient", user: str, needs: "Mapping[ResourceType, Iterable[str]]", *names: str, begins: bool = False
) -> None:
    """Let a user do something with topics or groups of these names, and nothing else, as soon as its broker knows.

    Or with all whose names begin so.
    """
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    pattern = ResourcePatternType.PREFIXED if begins else ResourcePatternType.LITERAL
    rules = [
        AclBinding(kind, name, pattern, f"User:{user}", "*", AclOperation[each], AclPermissionType.ALLOW)
        for kind, operations in needs.items()
        for each in operations
        for name in names
    ]
    for answer in admin.create_acls(rules).values():
        answer.result(_ANSWER_SECONDS)
    of_user = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    deadline = time.monotonic() + _ANSWER_SECONDS
    while not {*rules} <= {*admin.describe_acls(of_user).result(_ANSWER_SECONDS)}:
        assert time.monotonic() < deadline, f"the broker does not know what {user} may do"
        time.sleep(0.02)


class SecuredKafka(LocalKafka):
    """One broker, with secured listeners by name beside the plain one."""

    def __init__(
        self,
        directory: Path,
        listeners: Mapping[str, Secured],
        properties: Mapping[str, Property] | None = None,
        version: str | None = None,
    ) -> None:
        self._secured = listeners
        own = {name: value for listener, each in listeners.items() for name, value in each.properties(listener).items()}
        protocols = {name: each.protocol for name, each in listeners.items()}
        more = {**(properties or {}), **AUTHORIZED, **own}
        super().__init__(directory, properties=more, listeners=protocols, version=version)

    def secured_config(self, listener: str, user: str = "") -> dict[str, str]:
        """The settings of a client that comes as this user by the listener of this name."""
        servers = {"bootstrap.servers": f"{HOST}:{self.brokers[0].ports[listener]}"}
        return servers | self._secured[listener].client(user)

    def start(self) -> Self:
        super().start()
        remember_users(self.bootstrap_servers, self._secured)
        return self
