"""librdkafka's configuration, from `kafka.*` options or a connection: checked once, printed without secrets.

    KafkaConfig.from_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"})
    KafkaConfig.from_connection({"bootstrap.servers": "broker:9092", "group.id": "for others"})
    client_config(config, "consumer", {"group.id": "..."}) -> what a client is made from

A setting that only Java's clients know, or that is not the user's to set, is a `SettingError` with the way out.
The client itself knows which settings exist. `CONSUMER` and `PRODUCER` are those that it would warn of in a client of
the other kind. In the advice of `JAVA_ONLY` and `FIXED`, `{p}` stands for the prefix of a user's names.

`orderedkafka.resolver` may name a function `package.module:function`; it is called with the settings wherever a
client is made, on driver and executors, and returns settings to add: secrets that should not travel, an `oauth_cb`.
`keep_resolver` registers a function that cannot be imported, for this process alone.
"""

import importlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

from ...core.notation.secrets import MASK, redacted, secrets_of
from ...core.notation.spelling import meant
from ...errors import SettingError
from .oauth import MSK


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


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OFTEN_SET: Final = _names(
    """
    bootstrap.servers broker.address.family client.dns.lookup client.id client.rack connections.max.idle.ms debug
    enable.ssl.certificate.verification message.max.bytes metadata.max.age.ms receive.message.max.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab
    sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.timeout.ms ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.endpoint.identification.algorithm
    ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password statistics.interval.ms
    """
)
"""Candidates for "did you mean", along with the settings of consumers and producers."""

CONSUMER: Final = _names(
    """
    auto.commit.enable auto.commit.interval.ms auto.offset.reset check.crcs consume.callback.max.messages
    coordinator.query.interval.ms enable.auto.commit enable.auto.offset.store enable.partition.eof
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type group.remote.assignor
    heartbeat.interval.ms isolation.level max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    offset.store.method offset.store.path offset.store.sync.interval.ms partition.assignment.strategy
    queued.max.messages.kbytes queued.min.messages session.timeout.ms share.acknowledgement.mode
    """
)

PRODUCER: Final = _names(
    """
    acks batch.num.messages batch.size compression.codec compression.level compression.type
    delivery.report.only.error delivery.timeout.ms enable.gapless.guarantee enable.idempotence linger.ms
    message.send.max.retries message.timeout.ms partitioner produce.offset.report
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queuing.strategy request.required.acks request.timeout.ms retries
    sticky.partitioning.linger.ms transaction.timeout.ms transactional.id
    """
)

_NO_COUNTERPART: Final = _names(
    """
    auto.include.jmx.reporter config.providers exclude.internal.topics interceptor.classes
    internal.leave.group.on.close max.block.ms metadata.max.idle.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.ignore.keys sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.class sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    security.providers socket.connection.setup.timeout.max.ms ssl.engine.factory.class ssl.keymanager.algorithm
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    """
)

_PEM_OF_STORE: Final = (
    "set '{p}ssl.ca.location' to a PEM file or a directory of them (keytool -exportcert -rfc makes one)"
)
_SERIALIZED: Final = "keys and values come and go as bytes; leave it out, and cast or encode the columns"
_OAUTH: Final = (
    "set '{p}sasl.oauthbearer.method' to 'oidc' with '{p}sasl.oauthbearer.token.endpoint.url', "
    "'{p}sasl.oauthbearer.client.id' and '{p}sasl.oauthbearer.client.secret'"
)

JAVA_ONLY: Final[dict[str, str]] = {
    **dict.fromkeys(_NO_COUNTERPART, "it has no counterpart; leave it out"),
    "sasl.jaas.config": (
        "set '{p}sasl.username' and '{p}sasl.password' to what its username= and password= say; for Kerberos, "
        "with a client that was built with it, '{p}sasl.kerberos.principal' and '{p}sasl.kerberos.keytab'"
    ),
    "sasl.login.callback.handler.class": _OAUTH,
    "sasl.client.callback.handler.class": _OAUTH,
    "sasl.oauthbearer.jwks.endpoint.url": "brokers alone need it; leave it out",
    "sasl.oauthbearer.scope.claim.name": "brokers alone need it; the scope to ask for is '{p}sasl.oauthbearer.scope'",
    "ssl.truststore.location": _PEM_OF_STORE,
    "ssl.truststore.password": "a PEM file in '{p}ssl.ca.location' needs no password; leave it out",
    "ssl.truststore.type": "'{p}ssl.ca.location' is always PEM; leave it out",
    "ssl.truststore.certificates": "set '{p}ssl.ca.pem' to the same PEM text",
    "ssl.keystore.type": "'{p}ssl.keystore.location' is always PKCS#12; leave it out (for PEM files set "
    "'{p}ssl.certificate.location' and '{p}ssl.key.location')",
    "ssl.keystore.key": "set '{p}ssl.key.pem' to the same PEM text",
    "ssl.keystore.certificate.chain": "set '{p}ssl.certificate.pem' to the same PEM text",
    "ssl.enabled.protocols": "OpenSSL's own settings decide; leave it out",
    "fetch.max.wait.ms": "set '{p}fetch.wait.max.ms'",
    "max.poll.records": "slices bound what is held in memory; leave it out",
    "default.api.timeout.ms": "set '{p}socket.timeout.ms' for a single request; leave it out for the whole",
    "send.buffer.bytes": "set '{p}socket.send.buffer.bytes'",
    "receive.buffer.bytes": "set '{p}socket.receive.buffer.bytes'",
    "bootstrap.controllers": "set '{p}bootstrap.servers': topics are read from brokers",
    "key.deserializer": _SERIALIZED,
    "value.deserializer": _SERIALIZED,
    "key.serializer": _SERIALIZED,
    "value.serializer": _SERIALIZED,
    "buffer.memory": "set '{p}queue.buffering.max.kbytes' (in kB)",
    "max.request.size": "set '{p}message.max.bytes'",
    "partitioner.class": "set '{p}partitioner' ('murmur2_random', the default here, agrees with Java's)",
    "compression.gzip.level": "set '{p}compression.level'",
    "compression.lz4.level": "set '{p}compression.level'",
    "compression.zstd.level": "set '{p}compression.level'",
}

_NO_GROUP: Final = "no consumer group is joined; leave it out"
_LEDGER: Final = "what was loaded is written down with the range, never by the consumer; leave it out"

FIXED: Final[dict[str, str]] = {
    "auto.commit.enable": _LEDGER,
    "auto.commit.interval.ms": _LEDGER,
    "enable.auto.commit": _LEDGER,
    "enable.auto.offset.store": _LEDGER,
    "offset.store.method": _LEDGER,
    "offset.store.path": _LEDGER,
    "offset.store.sync.interval.ms": _LEDGER,
    "auto.offset.reset": "an offset that is gone is never replaced silently; say where to begin with 'startingOffsets'",
    "enable.partition.eof": "the reader needs it to know where a log ends; leave it out",
    "allow.auto.create.topics": "reading never creates a topic; leave it out",
    "metadata.broker.list": "it is librdkafka's older name of '{p}bootstrap.servers'; set that",
    "group.id": _NO_GROUP + " (to begin where a group stands say startingOffsets='committed:<group>')",
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.protocol.type": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "max.poll.interval.ms": _NO_GROUP,
    "partition.assignment.strategy": _NO_GROUP,
    "session.timeout.ms": _NO_GROUP,
    "coordinator.query.interval.ms": _NO_GROUP,
    "share.acknowledgement.mode": _NO_GROUP,
    "consume.callback.max.messages": "no callbacks are used; leave it out",
    "delivery.report.only.error": "failures are always counted; leave it out",
    "topic.blacklist": "topics are chosen by 'subscribe', 'subscribePattern' or 'assign'; leave it out",
}

HARMLESS: Final[dict[str, str]] = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
    "enable.partition.eof": "true",
}
"""The values of fixed settings that are accepted, because they hold anyway."""

Client = TypeVar("Client")
Role = Literal["admin", "consumer", "producer"]
Resolver = Callable[[dict[str, Any]], Mapping[str, Any]]

PREFIX: Final = "kafka."
RESOLVER: Final = "orderedkafka.resolver"
SERVERS: Final = "bootstrap.servers"
ISOLATION: Final = "isolation.level"

_FOREIGN: Final[dict[Role, frozenset[str]]] = {
    "admin": CONSUMER | PRODUCER,
    "consumer": PRODUCER,
    "producer": CONSUMER,
}
# Defaults of every client; the user's settings win. A broker that comes back is found within a second, not ten.
_DEFAULTS: Final = {"allow.auto.create.topics": "false", "reconnect.backoff.max.ms": "1000"}
_NO_SUCH: Final = "No such configuration property"
_END: Final = "orderedkafka.end"
_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = ("sasl.mechanisms", "sasl.mechanism")
_TOKENS: Final = {"sasl.oauthbearer.method": "oidc", "enable.sasl.oauthbearer.unsecure.jwt": "true"}
_KERBEROS: Final = "sasl_gssapi"  # as librdkafka names what it was built with
_JAVA_STORES: Final = (".jks", ".jceks", ".bcfks")

_kept: dict[str, Resolver] = {}


class KafkaConfig(Mapping[str, str]):
    """librdkafka's settings by name. Immutable and hashable; its text shows no secret."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(sorted(settings.items()))

    def __getitem__(self, name: str) -> str:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __hash__(self) -> int:
        return hash(tuple(self._settings.items()))

    def __repr__(self) -> str:
        return f"KafkaConfig({redacted(self)!r})"

    @property
    def servers(self) -> str:
        return self._settings[SERVERS]

    @classmethod
    def from_options(cls, options: Mapping[str, str], beneath: "KafkaConfig | None" = None) -> "KafkaConfig":
        """The options `kafka.*`, but for a range's `isolation.level`; without servers, over the settings `beneath`."""
        given = {
            name[len(PREFIX) :].lower(): value for name, value in options.items() if name.lower().startswith(PREFIX)
        }
        if beneath is not None and SERVERS not in given:
            given = {**beneath, **given}
        _check_tokens(given, PREFIX, "option")
        return _checked(given, PREFIX, "option")

    @classmethod
    def from_connection(cls, extra: Mapping[str, Any]) -> "KafkaConfig":
        """The settings of an Airflow connection, without those for other uses of it (`group.id`, callbacks)."""
        given = {name: value for name, value in extra.items() if name not in FIXED and not name.endswith("_cb")}
        if "oauth_cb" not in extra:
            _check_tokens(given, "", "the connection's setting")
        return _checked(given, "", "the connection's setting")


def client_config(config: Mapping[str, str], role: Role, ours: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The configuration of a client in this role: its settings, resolved, overridden by `ours`."""
    kept = {name: value for name, value in config.items() if name not in _FOREIGN[role]}
    resolver = kept.pop(RESOLVER, None)
    added = {} if resolver is None else _function(resolver)(dict(kept))
    return {**_DEFAULTS, **kept, **added, "logger": CLIENT_LOG, **(ours or {})}


def keep_resolver(name: str, resolver: Resolver) -> str:
    """Register a resolver for this process, and return the name that stands for it in configurations."""
    _kept[name] = resolver
    return name


def is_kept(resolver: str | None) -> bool:
    """Whether this resolver exists in this process only."""
    return resolver in _kept


def new_client(make: Callable[[dict[str, Any]], Client], settings: dict[str, Any]) -> Client:
    """A client with these settings; `SettingError`, without their secrets, where it refuses them."""
    from confluent_kafka import KafkaException

    try:
        return make(settings)
    except (KafkaException, ValueError, TypeError) as error:
        text = str(error.args[0].str() if error.args and hasattr(error.args[0], "str") else error)
        for secret in secrets_of(settings):
            text = text.replace(secret, MASK)
        raise SettingError(f"Kafka's client refuses its configuration: {text}") from error


def _checked(given: Mapping[str, Any], prefix: str, kind: str) -> KafkaConfig:
    settings = {}
    for name, value in given.items():
        shown = f"{kind} {prefix + name!r}"
        settings[name] = _text(value, shown)
        if name in JAVA_ONLY:
            raise SettingError(f"{shown} is known to Java's clients only: {JAVA_ONLY[name].format(p=prefix)}")
        if name in FIXED and settings[name].lower() != HARMLESS.get(name):
            raise SettingError(f"{shown} is not yours to set: {FIXED[name].format(p=prefix)}")
        if name != RESOLVER and _answer(name, settings[name]).startswith(_NO_SUCH):
            raise SettingError(f"{shown} is unknown to Kafka's client; {_nearest(name, prefix)}")
    _check_values(settings, prefix, kind)
    return KafkaConfig({name: value for name, value in settings.items() if name not in (*FIXED, ISOLATION)})


def _text(value: Any, shown: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise SettingError(f"{shown} must be text, a number, true or false, found {type(value).__name__}")
    return str(value)


def _check_values(settings: Mapping[str, str], prefix: str, kind: str) -> None:
    if not settings.get(SERVERS, "").strip():
        raise SettingError(
            f"{kind} {prefix + SERVERS!r} is missing; set it to the brokers, such as 'broker1:9092,broker2:9092'"
        )
    _check_kerberos(settings, prefix, kind)
    store = settings.get("ssl.keystore.location", "")
    if store.lower().endswith(_JAVA_STORES):
        raise SettingError(
            f"{kind} '{prefix}ssl.keystore.location' must be a PKCS#12 file, found {store!r}; convert it with: keytool "
            "-importkeystore -srckeystore <it> -destkeystore keystore.p12 -deststoretype PKCS12"
        )
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        raise SettingError(
            f"{kind} '{prefix}ssl.endpoint.identification.algorithm' is empty, as Java says 'none'; set 'none'"
        )


def _nearest(name: str, prefix: str) -> str:
    names = [*((OFTEN_SET | CONSUMER | PRODUCER) - set(FIXED)), *JAVA_ONLY]
    return meant(name, names, "its settings are librdkafka's, not Java's", prefix)


def _check_kerberos(settings: Mapping[str, str], prefix: str, kind: str) -> None:
    """With SASL and no mechanism, the client defaults to Kerberos."""
    named = next((name for name in _MECHANISM if name in settings), None)
    if named is None:
        sasl = settings.get(_PROTOCOL, "").lower().startswith("sasl_")
        asked = "" if not sasl or RESOLVER in settings else f"'{prefix}{_PROTOCOL}' without '{prefix}{_MECHANISM[0]}'"
    else:
        asked = f"'{prefix}{named}'" if settings[named].strip().upper() == "GSSAPI" else ""
    if asked and "Unsupported value" in _answer("builtin.features", _KERBEROS):
        from confluent_kafka import libversion, version

        raise SettingError(
            f"{kind} {asked} asks for Kerberos (GSSAPI), which the installed confluent-kafka {version()} (librdkafka "
            f"{libversion()[0]}) was built without, as most of its packages are: install it from its sources, beside a "
            "librdkafka with Cyrus SASL, wherever a client of Kafka runs (pip install --no-binary confluent-kafka "
            f"confluent-kafka), or set '{prefix}{_MECHANISM[0]}' to another mechanism that the brokers offer, such as "
            "'SCRAM-SHA-512'"
        )


def _check_tokens(given: Mapping[str, Any], prefix: str, kind: str) -> None:
    """Without a source of tokens the client would wait for one forever, silently."""
    named = next((name for name in _MECHANISM if name in given), None)
    if named is None or str(given[named]).strip().upper() != "OAUTHBEARER" or RESOLVER in given:
        return
    if all(str(given.get(name, "")).lower() != value for name, value in _TOKENS.items()):
        raise SettingError(
            f"{kind} '{prefix}{named}' is OAUTHBEARER, and nothing says where its tokens come from: set "
            f"'{prefix}sasl.oauthbearer.method' to 'oidc' with the endpoint, client.id and client.secret beside it, or "
            f"name a function with '{prefix}{RESOLVER}' ('package.module:function'; {MSK!r} for Amazon MSK)"
        )


def _answer(name: str, value: str) -> str:
    """The installed client's error for a setting, empty if it accepts it. An unknown one is added, so none is made."""
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({name: value, _END: ""})
    except KafkaException as error:
        text = str(error.args[0].str())
        return "" if _END in text else text
    except (AttributeError, TypeError, ValueError):  # the binding wants a callback, or a dict
        return _NO_SUCH
    raise AssertionError(f"Kafka's client took {_END!r}")


def _function(path: str) -> Any:
    if path in _kept:
        return _kept[path]
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(
            f"{RESOLVER!r} must name a function that can be imported here, as 'package.module:function', found "
            f"{path!r}: {error}"
        ) from error
