"""librdkafka's configuration, from `kafka.*` options or a connection: checked once, printed without secrets.

    KafkaConfig.from_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"})
    KafkaConfig.from_connection({"bootstrap.servers": "broker:9092", "group.id": "for others"})
    client_config(config, "consumer", {"group.id": "..."}) -> what a client is made from

A setting that only Java's clients know, or that is not the user's to set, is a `SettingError` with the way out.
The client itself knows which settings exist, and which do not concern it. In the advice of `JAVA_ONLY` and `FIXED`,
`{p}` stands for the prefix of a user's names.

`orderedkafka.resolver` may name a function `package.module:function`; it is called with the settings wherever a
client is made, on driver and executors, and returns settings to add: secrets that should not travel, an `oauth_cb`.
`keep_resolver` registers a function that cannot be imported, for this process alone.
"""

import importlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar

from ...core.notation.secrets import MASK, redacted, secrets_of
from ...core.notation.spelling import meant
from ...errors import SettingError
from .oauth import MSK


class _Seldom(logging.Filter):
    """Limits the rate of repeated lines: a client that cannot connect logs many of them a second.

    Of settings that do not concern a client it says nothing: the same ones are for readers and writers.
    """

    EVERY_SECONDS = 60.0
    MOST_KNOWN = 500
    NOT_CONCERNED = re.compile(r"CONFWARN .* property and will be ignored by this ")

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line was not logged lately, apart from its numbers."""
        if self.NOT_CONCERNED.match(record.getMessage()):
            return False
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

OFTEN_SET: Final = """
    acks batch.size bootstrap.servers broker.address.family check.crcs client.dns.lookup client.id client.rack
    compression.level compression.type connections.max.idle.ms debug delivery.timeout.ms enable.idempotence
    enable.ssl.certificate.verification fetch.max.bytes fetch.min.bytes fetch.wait.max.ms isolation.level linger.ms
    max.partition.fetch.bytes message.max.bytes metadata.max.age.ms partitioner queue.buffering.max.kbytes
    queued.max.messages.kbytes queued.min.messages receive.message.max.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab
    sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanisms sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.receive.buffer.bytes socket.send.buffer.bytes
    socket.timeout.ms ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites
    ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location
    ssl.keystore.password statistics.interval.ms
"""
"""Candidates for "did you mean"."""

_ALL_BUT: Final = 0.93
"""How much of a name is that of a setting where nothing else can be meant: no two settings are so much alike."""

_SERIALIZED: Final = "keys and values are bytes here; leave it out, and cast or encode the columns"
_PEM: Final = "'{p}ssl.ca.location' is a PEM file, which needs neither password nor type; leave it out"
_OAUTH: Final = (
    "set '{p}sasl.oauthbearer.method' to 'oidc' with '{p}sasl.oauthbearer.token.endpoint.url', "
    "'{p}sasl.oauthbearer.client.id' and '{p}sasl.oauthbearer.client.secret'"
)

JAVA_ONLY: Final[dict[str, str]] = {
    "sasl.jaas.config": (
        "set '{p}sasl.username' and '{p}sasl.password' to its username= and password=; for Kerberos, "
        "with a client that was built with it, set '{p}sasl.kerberos.principal' and '{p}sasl.kerberos.keytab'"
    ),
    **dict.fromkeys(("sasl.login.callback.handler.class", "sasl.client.callback.handler.class"), _OAUTH),
    "ssl.truststore.location": (
        "set '{p}ssl.ca.location' to a PEM file or a directory of them (keytool -exportcert -rfc makes one)"
    ),
    **dict.fromkeys(("ssl.truststore.password", "ssl.truststore.type"), _PEM),
    "ssl.truststore.certificates": "set '{p}ssl.ca.pem' to the same PEM text",
    "ssl.keystore.type": "'{p}ssl.keystore.location' is always PKCS#12; leave it out (for PEM files set "
    "'{p}ssl.certificate.location' and '{p}ssl.key.location')",
    "ssl.keystore.key": "set '{p}ssl.key.pem' to the same PEM text",
    "ssl.keystore.certificate.chain": "set '{p}ssl.certificate.pem' to the same PEM text",
    "fetch.max.wait.ms": "set '{p}fetch.wait.max.ms'",
    "max.poll.records": "slices limit the memory already; leave it out",
    **dict.fromkeys(("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"), _SERIALIZED),
    "buffer.memory": "set '{p}queue.buffering.max.kbytes' (in kB)",
    "max.request.size": "set '{p}message.max.bytes'",
    "partitioner.class": "set '{p}partitioner' ('murmur2_random', the default here, agrees with Java's)",
    **dict.fromkeys(("interceptor.classes", "max.block.ms", "metric.reporters"), "it has no counterpart; leave it out"),
}

BLACKLIST: Final = "topic.blacklist"
_NO_GROUP: Final = "no consumer group is joined; leave it out"
_LEDGER: Final = "progress is kept with the range, never by the consumer; leave it out"
_COMMITS: Final = """
    auto.commit.enable auto.commit.interval.ms enable.auto.commit enable.auto.offset.store
    offset.store.method offset.store.path offset.store.sync.interval.ms
"""
_GROUPS: Final = """
    group.instance.id group.protocol group.protocol.type group.remote.assignor heartbeat.interval.ms
    max.poll.interval.ms partition.assignment.strategy session.timeout.ms coordinator.query.interval.ms
"""

FIXED: Final[dict[str, str]] = {
    **dict.fromkeys(_COMMITS.split(), _LEDGER),
    **dict.fromkeys(_GROUPS.split(), _NO_GROUP),
    "group.id": _NO_GROUP + " (to begin at a group's offsets, set startingOffsets='committed:<group>')",
    "auto.offset.reset": "an offset that is gone is never replaced silently; leave it out, and set 'startingOffsets'",
    "enable.partition.eof": "the reader needs it to know where a log ends; leave it out",
    "allow.auto.create.topics": "reading never creates a topic; leave it out",
    "metadata.broker.list": "it is librdkafka's older name of '{p}bootstrap.servers'; set that",
    "delivery.report.only.error": "failures are always counted; leave it out",
    BLACKLIST: "topics are chosen by 'subscribe', 'subscribePattern' or 'assign'; leave it out",
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
TRANSACTIONAL_ID: Final = "transactional.id"
ISOLATION, COMMITTED = "isolation.level", "read_committed"
SHAPING: Final = {ISOLATION, "partitioner"}
"""The settings of clients that shape rows, or say where they are: all others may change between two attempts."""

# To librdkafka an admin client is a producer: with these it would ask brokers for a producer's rights.
_NOT_FOR_ADMINS: Final = ("enable.idempotence", "enable.gapless.guarantee", "transactional.id")
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
        given = {
            name: value
            for name, value in extra.items()
            if (name not in FIXED or name == BLACKLIST) and not name.endswith("_cb")
        }
        if (level := given.get(ISOLATION, COMMITTED)) != COMMITTED:
            raise SettingError(
                f"the connection's setting {ISOLATION!r} is {level!r}, but a load and a reader say themselves which "
                f"records they read: leave it out, and set isolation={level!r} there"
            )
        if "oauth_cb" not in extra:
            _check_tokens(given, "", "the connection's setting")
        return _checked(given, "", "the connection's setting")


def without_transactions(config: Mapping[str, str]) -> KafkaConfig:
    """The same without an id of transactions, which is no one's but the writers'."""
    return KafkaConfig({name: value for name, value in config.items() if name != TRANSACTIONAL_ID})


def client_config(config: Mapping[str, str], role: Role, ours: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The configuration of a client in this role: its settings, resolved, overridden by `ours`."""
    kept = {name: value for name, value in config.items() if role != "admin" or name not in _NOT_FOR_ADMINS}
    resolver = kept.pop(RESOLVER, None)
    added = {} if resolver is None else _function(resolver)(dict(kept))
    for name in sorted(name for name in SHAPING & set(added) if added[name] != kept.get(name)):
        raise SettingError(
            f"{RESOLVER!r}: {resolver!r} sets {name!r} to {added[name]!r}, which decides which records are read or "
            "where rows go, so it must be the same in all attempts. Leave it out of the resolver, and set it where "
            f"attempts compare it: as {PREFIX + name!r}, or beside the topics of a load"
        )
    return {**_DEFAULTS, **kept, **added, "logger": CLIENT_LOG, **(ours or {})}


def misspelled(name: str) -> str | None:
    """The setting that a name is all but equal to; None if it may be another one, which only the client knows."""
    near = get_close_matches(name.lower(), OFTEN_SET.split(), 1, _ALL_BUT)
    return near[0] if near and near[0] != name.lower() else None


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
            near = meant(name, OFTEN_SET.split(), "its settings are librdkafka's, not Java's", prefix)
            raise SettingError(f"{shown} is unknown to Kafka's client; {near}")
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
            f"{kind} '{prefix}ssl.endpoint.identification.algorithm' is empty, Java's way to say 'none'; set 'none'"
        )


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
            f"{libversion()[0]}) was built without: set '{prefix}{_MECHANISM[0]}' to another mechanism that the "
            "brokers offer, such as 'SCRAM-SHA-512'; or, on each machine, install a librdkafka with Cyrus SASL and "
            "build the client with it (pip install --no-binary confluent-kafka confluent-kafka)"
        )


def _check_tokens(given: Mapping[str, Any], prefix: str, kind: str) -> None:
    """Without a source of tokens the client would wait for one forever, silently."""
    named = next((name for name in _MECHANISM if name in given), None)
    if named is None or str(given[named]).strip().upper() != "OAUTHBEARER" or RESOLVER in given:
        return
    if all(str(given.get(name, "")).lower() != value for name, value in _TOKENS.items()):
        raise SettingError(
            f"{kind} '{prefix}{named}' is OAUTHBEARER, but no setting says where tokens come from: set "
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
