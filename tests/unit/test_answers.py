"""Waiting for answers: what is asked again, what ends it at once, and what is named in the end."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.messages import naming

from airflow_provider_orderedkafka.errors import (
    AccessDeniedError,
    CredentialsError,
    OrderedKafkaError,
    UnknownTopicError,
    UnreachableError,
)
from airflow_provider_orderedkafka.kafka.clients import answers
from airflow_provider_orderedkafka.kafka.clients.answers import RECHECK_AFTER, Patience, gather, refusal

UNANSWERED = object()


class Client:
    """An admin client that only ever tells of troubles."""

    servers = "127.0.0.1:1"
    client = "the first"

    def __init__(self, *troubles, before=()):
        self.config = {"bootstrap.servers": self.servers}
        self._told, self._troubles = [], [list(before), [*before, *troubles]]

    def troubles(self, _since):
        self._told = self._troubles.pop(0) if self._troubles else self._told
        return self._told


class Clock:
    """Stands still but for what is waited: sleeps, and futures without an answer."""

    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Silent(Future):
    """A future that never has a result; to wait for it takes the time of the clock."""

    def result(self, timeout=None):
        answers.time.sleep(timeout)
        raise TimeoutError


class Asked:
    """Gives prepared answers to each question, the next one whenever it is asked again, and keeps its limits."""

    def __init__(self, **scripts):
        self.rounds = []
        self.limits = []
        self._scripts = {question: iter(script) for question, script in scripts.items()}

    def __call__(self, questions, seconds):
        self.rounds.append(list(questions))
        self.limits.append(seconds)
        return [self._future(next(self._scripts[question])) for question in questions]

    def _future(self, answer):
        future = Silent() if answer is UNANSWERED else Future()
        if isinstance(answer, int):
            future.set_exception(KafkaException(KafkaError(answer)))
        elif answer is not UNANSWERED:
            future.set_result(answer)
        return future


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(answers, "time", clock)
    return clock


def ask(asked, seconds=5.0, client=None, **looks):
    questions = list(asked._scripts)
    return gather(client or Client(), asked, questions, Patience(seconds, "the end of"), **looks)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_COORDINATOR,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._DESTROY_BROKER,
        KafkaError._NOENT,
    ],
)
def test_only_what_a_moment_may_mend_is_asked_again(code):
    asked = Asked(a=["one"], b=[code, code, "two"])
    assert ask(asked) == {"a": "one", "b": "two"}
    assert asked.rounds == [["a", "b"], ["b"], ["b"]]


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessDeniedError, "DESCRIBE ... topic"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AccessDeniedError, "DESCRIBE ... group"),
        (KafkaError.UNSUPPORTED_VERSION, OrderedKafkaError, "UNSUPPORTED_VERSION"),
    ],
)
def test_what_waiting_cannot_mend_ends_it_at_once(code, kind, said):
    asked = Asked(a=["one"], b=[code])
    with pytest.raises(kind, match=naming(said)):
        ask(asked)
    assert len(asked.rounds) == 1


def test_a_topic_that_stays_unknown_does_not_exist():
    asked = Asked(a=["one"], b=[KafkaError.UNKNOWN_TOPIC_OR_PART] * 99)
    with pytest.raises(UnknownTopicError):
        ask(asked)
    assert asked.rounds[-1] == ["b"]


def test_what_is_never_answered_ends_with_the_deadline_and_kafka_is_asked_no_longer(clock):
    asked = Asked(a=[UNANSWERED], b=[UNANSWERED])
    with pytest.raises(UnreachableError, match=r"4 s.* a, b"):
        ask(asked, seconds=4.0)
    assert clock.now == 4.0
    assert asked.limits == [4.0 + answers._LOOK]


def test_what_fails_again_and_again_is_asked_for_what_is_left_of_the_deadline(clock):
    asked = Asked(a=[KafkaError._TRANSPORT] * 99)
    with pytest.raises(UnreachableError):
        ask(asked, seconds=4.0)
    assert clock.now == 4.0
    assert asked.limits[0] == 4.0 + answers._LOOK
    assert asked.limits == sorted(asked.limits, reverse=True)
    assert asked.limits[-1] == answers._LOOK


def test_what_is_never_answered_is_named_with_the_last_reason():
    questions = {f"q{number}": [KafkaError._TRANSPORT] * 99 for number in range(7)}
    with pytest.raises(UnreachableError) as caught:
        ask(Asked(a=["one"], **questions), seconds=0.4)
    assert str(caught.value).startswith(
        "Kafka at '127.0.0.1:1' did not answer within 0.4 s, asked for the end of q0, q1, q2, q3, q4 and 2 more ("
    )


def test_what_the_client_told_in_the_background_says_more_than_the_answer():
    down, refused = KafkaError(KafkaError._ALL_BROKERS_DOWN, "down"), KafkaError(KafkaError._TRANSPORT, "no route")
    with pytest.raises(UnreachableError, match=refused.str()):
        ask(Asked(a=[UNANSWERED]), seconds=0.1, client=Client(refused, down))


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError.NOT_COORDINATOR])
def test_where_the_client_told_nothing_in_the_background_its_last_answer_is_the_reason(code):
    with pytest.raises(UnreachableError, match=KafkaError(code).str()):
        ask(Asked(a=[code] * 99), seconds=0.1)


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH])
def test_who_leads_is_looked_up_again_for_what_was_asked_of_an_earlier_leader(code):
    silent = []
    asked = Asked(a=["one"], b=[code, "two"], c=[KafkaError._TRANSPORT, "three"])
    assert ask(asked, whom=lambda _, each: silent.append(each)) == {"a": "one", "b": "two", "c": "three"}
    assert silent == [None]


DOWN = KafkaError(KafkaError._TRANSPORT, "connection refused")


def test_other_brokers_are_asked_well_before_the_deadline_once_they_are_named(clock):
    looks, named = [], ["a leader", None, "a leader", "another leader"]

    def whom(seconds, silent):
        looks.append((clock.now, seconds, silent))
        return named[len(looks) - 1]

    asked = Asked(a=["one"], b=[UNANSWERED, "two"], c=[UNANSWERED, "three"])
    assert ask(asked, seconds=12.0, whom=whom) == {"a": "one", "b": "two", "c": "three"}
    assert asked.rounds == [["a", "b", "c"], ["b", "c"]]
    assert looks == [(1.0, 1.0, None), *((each, each, "a leader") for each in (1.75, 2.75, 4.25))]


def test_who_is_named_first_is_asked_at_once_where_the_client_has_lost_a_broker(clock):
    asked = Asked(a=[UNANSWERED, "one"])
    assert ask(asked, seconds=12.0, client=Client(DOWN), whom=lambda *_: "a leader") == {"a": "one"}
    assert clock.now < 1.5


def test_a_broker_that_takes_long_is_asked_once(clock):
    asked = Asked(a=[UNANSWERED])
    with pytest.raises(UnreachableError):
        ask(asked, seconds=12.0, whom=lambda *_: "a leader")
    assert asked.rounds == [["a"]]


def test_who_was_named_before_is_not_asked_twice_and_brokers_are_asked_until_one_answers(clock):
    named = iter("aabcdef")
    asked = Asked(a=[*[UNANSWERED] * 6, "one"])
    assert ask(asked, seconds=60.0, client=Client(DOWN), whom=lambda *_: next(named)) == {"a": "one"}
    assert list(named) == []


def test_what_a_connection_was_asked_that_is_gone_is_asked_of_the_new_one(clock):
    client = Client()

    def recheck():
        client.client = "another"

    asked = Asked(a=[UNANSWERED, "one"], b=[UNANSWERED, "two"])
    assert ask(asked, seconds=12.0, client=client, recheck=recheck) == {"a": "one", "b": "two"}
    assert clock.now < 4.0


@pytest.mark.parametrize("answer", [UNANSWERED, KafkaError._TRANSPORT])
def test_wrong_credentials_are_told_although_the_question_hears_nothing_of_them(clock, answer):
    with pytest.raises(AccessDeniedError):
        ask(Asked(a=[answer]), client=Client(KafkaError(KafkaError._AUTHENTICATION)))
    assert clock.now <= answers._LOOK


def test_wrong_credentials_of_which_a_client_had_heard_before_may_be_mended():
    client = Client(before=[KafkaError(KafkaError._AUTHENTICATION)])
    assert ask(Asked(a=[KafkaError._TRANSPORT, "one"]), client=client) == {"a": "one"}


def test_wrong_credentials_of_which_a_client_had_heard_before_are_told_where_no_answer_comes(clock):
    with pytest.raises(AccessDeniedError):
        ask(Asked(a=[UNANSWERED]), client=Client(before=[KafkaError(KafkaError._AUTHENTICATION)]))
    assert RECHECK_AFTER < clock.now < 4.0


def test_a_question_without_answer_is_doubted_once():
    doubts = []
    with pytest.raises(UnreachableError):
        ask(Asked(a=[UNANSWERED], b=[UNANSWERED]), recheck=lambda: doubts.append("?"))
    assert doubts == ["?"]


def test_a_doubt_that_is_justified_ends_it():
    def recheck():
        raise UnknownTopicError

    with pytest.raises(UnknownTopicError):
        ask(Asked(a=[KafkaError._NOENT, "one"]), recheck=recheck)


def test_no_questions_need_no_answers():
    assert ask(Asked()) == {}


@pytest.mark.parametrize(
    "alert",
    [
        "ssl/tls alert bad certificate: SSL alert number 42",
        "sslv3 alert certificate expired: SSL alert number 45",
        "tlsv1 alert unknown ca: SSL alert number 48",
        "tlsv13 alert certificate required: SSL alert number 116",
    ],
)
def test_a_broker_that_refuses_the_clients_certificate_is_not_asked_again(alert):
    error = KafkaError(
        KafkaError._TRANSPORT, f"ssl://b:1/bootstrap: Receive failed: error:0A000412:SSL routines::{alert}"
    )
    assert "'ssl.certificate.location'" in str(refusal(error, {}, "it"))


@pytest.mark.parametrize(
    "said",
    [
        "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?",
        "ssl/tls alert internal error: SSL alert number 80",
        "Connect to ipv4#127.0.0.1:1 failed: Connection refused",
    ],
)
def test_what_a_broker_that_comes_back_may_mend_is_no_refusal(said):
    assert refusal(KafkaError(KafkaError._TRANSPORT, f"ssl://b:1/bootstrap: {said}"), {}, "it") is None


@pytest.mark.parametrize(
    ("code", "again"), [(KafkaError.SASL_AUTHENTICATION_FAILED, True), (KafkaError.TOPIC_AUTHORIZATION_FAILED, False)]
)
def test_credentials_may_be_others_at_the_next_attempt_and_permissions_are_for_a_person_to_give(code, again):
    found = refusal(KafkaError(code), {}, "to take records")
    assert (found.retryable, isinstance(found, CredentialsError)) == (again, again)
