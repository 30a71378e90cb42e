"""Names of settings: those that only Java's clients know, and those that users may not set.

The client itself knows which settings exist. `CONSUMER` and `PRODUCER` are those that it would warn of in a client of
the other kind. In the advice of `JAVA_ONLY` and `FIXED`, `{p}` stands for the prefix of a user's names.
"""

from typing import Final


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
