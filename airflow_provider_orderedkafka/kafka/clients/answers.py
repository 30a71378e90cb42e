"""Wait for Kafka's answers: retry until the deadline, then raise an error with all details.

    gather(client, ask, questions, Patience(15, "the end of")) -> {question: answer}

`ask(questions, seconds)` sends some questions and returns a future for each. What waiting cannot fix is raised at once,
with how to fix it: missing permissions, credentials, certificates, a topic that does not exist, an unexpected
answer.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ...core.notation.spelling import listed
from ...core.order.positions import TopicPartition
from ...errors import AccessDeniedError, CredentialsError, OrderedKafkaError, UnknownTopicError, UnreachableError
from .config import client_config

_CREDENTIALS: Final = "check the user name, password and mechanism (or the source of tokens), and 'security.protocol'"
_CHANGED: Final = "if they changed since, the next attempt takes the new ones from its connection"
DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the principal needs DESCRIBE (and READ) on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the principal needs DESCRIBE (and READ) on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the principal needs DESCRIBE on the cluster",
}
_UNKNOWN_CLIENT: Final = {KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION}
DENIED_WRITES: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the principal needs WRITE on the topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the principal needs WRITE on the topic, and before Kafka 2.8 "
    "IDEMPOTENT_WRITE on the cluster",
}
_UNTRUSTED: Final = "certificate verify failed"
_TRUST: Final = (
    "'ssl.ca.location' (or 'ssl.ca.pem') must have the CA that signed the broker's certificate; this certificate must "
    "be for this host, and not expired"
)
# OpenSSL's words for a broker's alert. Its other alerts may be transient, or not about certificates.
_REFUSED: Final = re.compile(r"alert (?:[a-z ]*certificate|unknown ca)")
_IDENTITY: Final = (
    "the broker asks for a client certificate ('ssl.certificate.location' and 'ssl.key.location', or "
    "'ssl.keystore.location'): it must be signed by a CA that the broker trusts, and not expired"
)
_BROKER: Final = re.compile(r"\w+://\[?(?P<host>[^/\]]+)\]?:(?P<port>\d+)/")
_SERVER: Final = re.compile(r"(?:\w+://)?\[?(?P<host>[^,\]]+?)\]?:(?P<port>\d+)")
_LOOK_SECONDS: Final = 2.0


def refusal(error: KafkaError, config: Mapping[str, str], what: str) -> AccessDeniedError | None:
    """The error for a refusal, with the way out: Kafka refuses `what`. None if it may be transient."""
    message = f"Kafka refuses {what}: {error.str()}"
    if error.code() in DENIED:
        return AccessDeniedError(f"{message}; {DENIED[error.code()]}")
    remedy = _credentials(error, config)
    return None if remedy is None else CredentialsError(f"{message}; {remedy}; {_CHANGED}")


def _credentials(error: KafkaError, config: Mapping[str, str]) -> str | None:
    """What is wrong with passwords, tokens or certificates, if it is these."""
    reported = error.str() or ""
    if error.code() in _UNKNOWN_CLIENT:
        return _CREDENTIALS
    if _UNTRUSTED in reported:
        return f"{_why_untrusted(reported, config)}{_TRUST}"
    return _IDENTITY if _REFUSED.search(reported) else None


def check_allowed(
    topic: str, operations: Collection[str], needed: str, why: str, doctor: str = "doctor --output-topic"
) -> None:
    """Raise `AccessDeniedError` if Kafka lists what the principal may do with a topic, and this is not among it."""
    if operations and needed not in operations:
        raise AccessDeniedError(
            f"the principal needs {needed} on topic {topic!r}, {why}: grant it; `orderedkafka {doctor} {topic}` "
            "shows what else is missing"
        )


def _why_untrusted(reported: str, config: Mapping[str, str]) -> str:
    """Verify the broker's certificate with Python, which gives a reason; Kafka's client gives none."""
    broker = _BROKER.search(reported)
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


Question = TypeVar("Question", bound=Hashable)

DEADLINE: Final = 15.0
"""Seconds after which Kafka counts as unreachable, by default."""

SHOWS_AFTER: Final = 2.0
"""Seconds to keep asking for an unknown topic: a new one becomes known broker by broker."""

RECHECK_AFTER: Final = 3.0
"""Seconds without an answer after which to check that the topics and partitions exist."""

_FIRST_LOOK: Final = 1 / 16
"""The share of the deadline after which to look who is to be asked: that broker may be gone."""

_LATER_LOOKS: Final = 1.5
"""When to look again, over what was waited until then. Kafka goes on naming the one that is gone for a while."""

_LOOK: Final = 0.25
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5

UNKNOWN: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_EXCEPTION,
}
TRANSIENT: Final = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
    KafkaError._RESOLVE,
    KafkaError._NODE_UPDATE,
    KafkaError._DESTROY,
    KafkaError._DESTROY_BROKER,
    KafkaError._NOENT,
}
RECHECKED: Final = {KafkaError._NOENT, *UNKNOWN}
"""Errors where the topic or partition may not exist, or may just have no leader."""

OUTDATED: Final = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
"""Errors after which librdkafka 2.16 would keep an outdated leader for minutes, unless it refreshes its metadata."""


class Patience:
    """A deadline, counted from now, and what is waited for, in words: `"the end of"`."""

    def __init__(self, seconds: float, what: str) -> None:
        self.seconds = seconds
        self.what = what
        self.begun = time.monotonic()

    @property
    def left(self) -> float:
        return max(self.begun + self.seconds - time.monotonic(), 0.0)

    @property
    def waited(self) -> float:
        return time.monotonic() - self.begun


class Pending(Protocol):
    """An answer to come, such as a future."""

    def result(self, timeout: float | None = None) -> Any:
        """The answer; TimeoutError if there is none by then, KafkaException if Kafka or its client reports an error."""


class Client(Protocol):
    """Whose questions they are: its configuration and connection, and the errors it reported in the background."""

    config: dict[str, str]

    @property
    def client(self) -> Any:
        """The client, replaced on reconnect, which abandons pending requests."""

    def troubles(self, since: float) -> list[Any]: ...


def gather(
    client: Client,
    ask: Callable[[Sequence[Question], float], Sequence[Pending]],
    questions: Sequence[Question],
    patience: Patience,
    *,
    recheck: Callable[[], None] | None = None,
    whom: Callable[[float, Any], Any] | None = None,
) -> dict[Question, Any]:
    """The answer to each question. `recheck` is called once if they take long, and may raise what it finds out.

    `whom(seconds, silent)` has the client find out which brokers are to be asked, and returns them; None if it cannot
    know. Those that were asked may be gone: while no answer comes, it is called again and again, with those that it
    returned last, and what is left is asked of others. What it returns first is asked only if the client told of
    trouble: a broker may take long. What an outdated leader was asked is repeated after it, too.

    Raises UnreachableError with the questions that were not answered, AccessDeniedError or UnknownTopicError.
    """
    answers: dict[Question, Any] = {}
    left, pause = list(questions), _FIRST_PAUSE
    wait = _Wait(client, patience, recheck, whom)
    while left:
        failed: dict[Question, KafkaError | None] = {}
        wait.begin()
        for question, future in zip(left, ask(left, patience.left + _LOOK), strict=True):
            outcome = wait.outcome(question, future)
            (failed if outcome is None or isinstance(outcome, KafkaError) else answers)[question] = outcome
        if failed and patience.left == 0:
            raise _unanswered(client, list(failed), patience, wait.last)
        if whom is not None and any(error is not None and error.code() in OUTDATED for error in failed.values()):
            whom(patience.left, None)
        left = list(failed)
        if left:
            time.sleep(min(pause, patience.left))
            pause = min(2 * pause, _LONGEST_PAUSE)
    return answers


def at_once(call: Callable[[], Any]) -> Future[Any]:
    """The answer of a call that blocks."""
    future: Future[Any] = Future()
    try:
        future.set_result(call())
    except KafkaException as error:
        future.set_exception(error)
    return future


class _Wait:
    """Waits for futures one after the other, all within one deadline."""

    def __init__(
        self,
        client: Client,
        patience: Patience,
        recheck: Callable[[], None] | None,
        whom: Callable[[float, Any], Any] | None,
    ) -> None:
        self._client = client
        self._patience = patience
        self._recheck = recheck
        self._whom = whom
        self._silent: Any = None
        self._next_look = patience.seconds * _FIRST_LOOK
        self._in_vain = False
        self._asked: Any = None
        self._heard_before = client.troubles(patience.begun)
        self.last: KafkaError | None = None

    def begin(self) -> None:
        self._in_vain = False
        self._asked = self._client.client

    def outcome(self, question: object, future: Pending) -> Any:
        """The answer to a question, a transient `KafkaError`, or None if the deadline passed."""
        outcome = self._result(future)
        if isinstance(outcome, KafkaError):
            _raise_if_final(outcome, question, self._patience, self._client.config)
            if outcome.code() in RECHECKED:
                self._recheck_once()
            self.last = outcome
        return outcome

    def _result(self, future: Pending) -> Any:
        while True:
            try:
                return future.result(0 if self._in_vain else min(_LOOK, self._patience.left))
            except KafkaException as error:
                return self._refusal() or error.args[0]
            except TimeoutError:
                if refusal := self._refusal():
                    return refusal
                if self._patience.waited > RECHECK_AFTER:
                    self._recheck_once()
                if self._patience.left == 0:
                    return None
                self._look()
                if self._in_vain:
                    return KafkaError(KafkaError._TIMED_OUT)

    def _refusal(self) -> KafkaError | None:
        """A refusal that the client reported in the background; the request itself only times out.

        What it had to tell before the question may be over: the question has a while to be answered nevertheless.
        """
        troubles = self._client.troubles(self._patience.begun)
        if self._patience.waited <= RECHECK_AFTER:
            troubles = [each for each in troubles if not any(each is before for before in self._heard_before)]
        return next((trouble for trouble in troubles if refusal(trouble, self._client.config, "")), None)

    def _look(self) -> None:
        """See whether the answers may come no more: their broker or their connection is gone."""
        if self._whom and self._patience.waited > self._next_look:
            named = self._whom(min(self._patience.waited, self._patience.left), self._silent)
            if named not in {None, self._silent}:
                self._in_vain = self._silent is not None or bool(self._client.troubles(self._patience.begun))
                self._silent = named
            self._next_look = _LATER_LOOKS * self._patience.waited
        self._in_vain = self._in_vain or self._client.client is not self._asked

    def _recheck_once(self) -> None:
        if self._recheck is not None:
            recheck, self._recheck = self._recheck, None
            recheck()


def _raise_if_final(error: KafkaError, question: object, patience: Patience, config: Mapping[str, str]) -> None:
    code = error.code()
    if refused := refusal(error, config, f"{patience.what} {question}"):
        raise refused
    if code in UNKNOWN and patience.waited > SHOWS_AFTER:
        place = question._asdict() if isinstance(question, TopicPartition) else {}
        raise UnknownTopicError(f"{question} does not exist: {error.str()}", **place)
    if code not in UNKNOWN and code not in TRANSIENT and not error.retriable():
        raise OrderedKafkaError(f"Kafka refuses {patience.what} {question}: {error.str()} ({error.name()})")


def _unanswered(
    client: Client, questions: Sequence[object], patience: Patience, last: KafkaError | None
) -> UnreachableError:
    """With the best known reason: an error that the client reported in the background, or else its last answer."""
    reported = [
        error.str() for error in client.troubles(patience.begun) if error.code() != KafkaError._ALL_BROKERS_DOWN
    ]
    message = reported[-1] if reported else "no answer came" if last is None else last.str()
    return UnreachableError(
        f"Kafka at {client.config['bootstrap.servers']!r} did not answer within {patience.seconds:g} s, asked for "
        f"{patience.what} {listed(questions)} ({message}); is it up, can it be reached from here, and is "
        f"'security.protocol' right?{_of_tls(client.config, min(_LOOK_SECONDS, patience.seconds / 8))}"
    )


def _of_tls(config: Mapping[str, str], seconds: float) -> str:
    """That TLS is spoken where a client without it got no answer; Kafka's client does not find that out."""
    protocol = client_config(config, "admin").get("security.protocol", "plaintext").lower()
    server = _SERVER.match(config["bootstrap.servers"])
    if not protocol.endswith("plaintext") or server is None:
        return ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent: it is only asked who is there
    try:
        plain = socket.create_connection((server["host"], int(server["port"])), seconds)
        with plain, context.wrap_socket(plain):
            pass
    except (OSError, ValueError):
        return ""
    return f" That port speaks TLS: set {'SASL_SSL' if 'sasl' in protocol else 'SSL or SASL_SSL'}"
