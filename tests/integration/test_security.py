"""A secured Kafka: the whole way of a record on each kind of it, and what is said to whoever may not."""

import json
import re
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType
from support import tokens
from support.applications import START, Application, events
from support.certificates import Authority
from support.loads import EXACTLY_ONCE, GUARANTEES
from support.messages import says
from support.ranges import whole_range
from support.secured import Secured, SecuredKafka, let
from support.slices import slice_of, stretch
from support.tokens import CLIENT, PASSWORD, SECRET, token_endpoint
from support.topics import Topics
from support.whole_way import WholeWay

from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import AccessDeniedError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.lookup.topics import committed, discover
from airflow_provider_orderedkafka.kafka.read.slices import read_slice
from airflow_provider_orderedkafka.kafka.write.producer import Chunk, Deliveries, PooledProducer, make_producer
from airflow_provider_orderedkafka.kafka.write.settings import made_ready

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
CA, FOREIGN = Authority.make(), Authority.make("somebody else")
USERS = {"loader": PASSWORD, "guest": "guest-2b9d"}
LISTENERS = {
    "TLS": Secured.tls(CA),
    "MUTUAL": Secured.mutual_tls(CA),
    "SCRAM": Secured.sasl("SCRAM-SHA-512", USERS, tls=CA),
    "PLAIN": Secured.sasl("PLAIN", USERS),
    "PLAIN_TLS": Secured.sasl("PLAIN", USERS, tls=CA),
    "TOKENS": Secured.sasl("OAUTHBEARER", {}, tls=CA),
    "EXPIRED": Secured.tls(CA, CA.issue("broker", days=-1)),
    "ELSEWHERE": Secured.tls(CA, CA.issue("broker", "10.1.2.3")),
}
AT_ONCE = 10.0
"""Seconds; Kafka is called unreachable after 15."""

PERMISSIONS = re.findall(r"^\| (source|output|group) [^|]*\| ([^|]*) \|", PAGE.read_text("utf-8"), re.MULTILINE)
"""What docs/security.md says that a load needs: on what, and which operations."""

SOURCE, OUTPUT, MIRROR = (
    {ResourceType.GROUP if on == "group" else ResourceType.TOPIC: re.findall(r"\w+", operations)}
    for on, operations in PERMISSIONS
)
[_OF_ONCE] = re.findall(
    r"^\| transactional IDs and groups [^|]*\| `(\w+)`, `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE
)
ONCE = dict(zip((ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP), ([each] for each in _OF_ONCE), strict=True))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with SecuredKafka(tmp_path_factory.mktemp("secured"), LISTENERS) as cluster:
        yield cluster


@pytest.fixture
def allow(topics: Topics):
    """Lets a user do something with topics and groups, and nothing else."""

    return partial(let, topics.admin)


@pytest.fixture
def come_as(kafka, monkeypatch):
    """The configuration of a user by one of the listeners, which applications get by their environment."""

    def made(listener: str, user: str = "loader", **changes: str | None) -> KafkaConfig:
        settings = kafka.secured_config(listener, user) | {n.replace("_", "."): v for n, v in changes.items()}
        config = KafkaConfig.from_connection({name: value for name, value in settings.items() if value is not None})
        options = {f"kafka.{name}": value for name, value in config.items()}
        monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps(options))
        return config

    return made


@pytest.fixture
def apps(spark, tmp_path):
    """Makes the packaged application, for a listener."""
    return lambda servers: Application(servers, tmp_path)


def in_files(settings: dict[str, str], folder: Path) -> dict[str, str | None]:
    """The changes by which certificates and keys are in files, and not in the settings."""
    changes: dict[str, str | None] = {}
    for name in [name for name in settings if name.endswith(".pem")]:
        (folder / name).write_text(settings[name])
        changes |= {name: None, f"{name.removesuffix('pem')}location": str(folder / name)}
    return changes


@pytest.mark.parametrize(
    ("listener", "lane"),
    [
        *[(listener, lane) for listener in ("SCRAM", "MUTUAL") for lane in ("direct", "frames")],
        *[(listener, "direct") for listener in ("TLS", "PLAIN", "PLAIN_TLS", "TOKENS")],
    ],
)
def test_a_load_needs_no_more_than_to_read_its_topics_write_and_read_its_outputs_and_its_own_group(
    kafka, topics, records, *, allow, come_as, apps, tmp_path, listener, lane
):
    way = WholeWay.of(topics, records)
    allow("loader", SOURCE, way.source)
    allow("loader", OUTPUT, way.output)
    allow("loader", MIRROR, way.group)
    given = in_files(kafka.secured_config(listener, "loader"), tmp_path) if lane == "frames" else {}
    config = come_as(listener, **given)
    way.check(records, way.go(config, apps(config.servers), lane))


@pytest.mark.parametrize("guarantee", [(), EXACTLY_ONCE], ids=GUARANTEES)
def test_an_output_on_another_cluster_gets_its_password_from_a_function(
    kafka, topics, records, *, allow, apps, spark, guarantee
):
    spark.sparkContext.addPyFile(tokens.__file__)
    source, output = topics.create("in", 3), topics.create("out", 2)
    records.produce(source, events(10, 1))
    allow("loader", OUTPUT, output)
    if guarantee:
        allow("loader", {ResourceType.TOPIC: ["DESCRIBE_CONFIGS"]}, output)
        allow("loader", ONCE, "orderedkafka-other", begins=True)
    settings = kafka.secured_config("SCRAM", "loader") | {"orderedkafka.resolver": "tokens:password"}
    del settings["sasl.password"]
    flags = [part for name, value in settings.items() for part in ("--sink-option", f"kafka.{name}={value}")]
    loaded = whole_range(kafka.bootstrap_servers, source, name="other")
    apps(kafka.bootstrap_servers).load(loaded, "--output-topic", output, *flags, *guarantee)
    assert len(records.read(output)) == 10


def test_exactly_once_needs_to_write_with_its_transactional_ids_and_to_read_its_groups(
    kafka, topics, records, *, allow, come_as, apps, capsys
):
    source, output = topics.create("in", 3), topics.create("out", 2)
    records.produce(source, events(10, 1))
    allow("exact", SOURCE, source)
    allow("exact", {ResourceType.TOPIC: ("READ", "WRITE", "DESCRIBE_CONFIGS")}, output)
    app = apps(come_as("MUTUAL", "exact").servers)
    loaded = whole_range(kafka.bootstrap_servers, source, name=f"test-{source}")
    for (kind, operations), said in zip(ONCE.items(), ("WRITE ... transactional ids", "READ ... group"), strict=True):
        with pytest.raises(SystemExit) as caught:
            app.load(loaded, "--output-topic", output, *EXACTLY_ONCE)
        assert caught.value.code == 65
        assert says(capsys.readouterr().err, f"orderedkafka-test ... {said}")
        allow("exact", {kind: operations}, "orderedkafka-test", begins=True)
    assert app.load(loaded, "--output-topic", output, *EXACTLY_ONCE).rows_emitted == 10
    assert len(records.read(output)) == 10


def certificate_of(authority: Authority, days: int = 1) -> dict[str, str]:
    """The settings of a client with this certificate."""
    issued = authority.issue("loader", days=days)
    return {"ssl_certificate_pem": issued.certificate, "ssl_key_pem": issued.key}


IDENTITY = "asks for a client certificate"
GUEST = {"sasl_mechanism": "PLAIN", "sasl_username": "guest", "sasl_password": USERS["guest"]}
OWN_TOKENS = {"enable_sasl_oauthbearer_unsecure_jwt": None, "sasl_oauthbearer_config": None}
NO_TOKENS = {
    **OWN_TOKENS,
    "sasl_oauthbearer_method": "oidc",
    "sasl_oauthbearer_client_id": CLIENT,
    "sasl_oauthbearer_client_secret": SECRET,
    "sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1:9/token",
}
WRONG = {
    "a wrong password": ("SCRAM", {"sasl_password": "wrong"}, "check the user name, password and mechanism"),
    "a user that nobody knows": ("PLAIN", {"sasl_username": "nobody"}, "check the user name, password and mechanism"),
    "another mechanism": ("SCRAM", {"sasl_mechanism": "PLAIN"}, "supported mechanisms: SCRAM-SHA-512.*and mechanism"),
    "no SASL here": ("TLS", {"security_protocol": "SASL_SSL", **GUEST}, "'security.protocol'"),
    "an authority that did not sign it": ("TLS", {"ssl_ca_pem": FOREIGN.certificate}, "local issuer.*'ssl.ca.loca"),
    "no authority": ("TLS", {"ssl_ca_pem": None}, "local issuer certificate; 'ssl.ca.location'"),
    "a broker whose certificate has expired": ("EXPIRED", {}, "certificate has expired; 'ssl.ca.location'"),
    "another host": ("ELSEWHERE", {}, "IP address mismatch.*for this host"),
    "no certificate": ("MUTUAL", {"ssl_certificate_pem": None, "ssl_key_pem": None}, IDENTITY),
    "a certificate that has expired": ("MUTUAL", certificate_of(CA, days=-1), IDENTITY),
    "a certificate of another authority": ("MUTUAL", certificate_of(FOREIGN), IDENTITY),
    "a token that cannot be had": ("TOKENS", NO_TOKENS, "Failed to acquire SASL OAUTHBEARER token.*source of tokens"),
}


@contextmanager
def refused(said: str):
    """What is done is refused, long before Kafka is called unreachable."""
    begun = time.monotonic()
    with pytest.raises(AccessDeniedError, match=said):
        yield
    assert time.monotonic() - begun < AT_ONCE


def send(producer: PooledProducer, topic: str) -> None:
    """Write one record, and wait for it."""
    chunk = Chunk([topic], [b"value"], [b"key"], [0], [START], [None], lambda _key, _value: "the row")
    deliveries = Deliveries()
    producer.send(chunk, deliveries)
    producer.settle(deliveries)


@pytest.mark.parametrize(("listener", "changes", "said"), WRONG.values(), ids=WRONG)
def test_who_is_not_let_in_is_told_at_once_what_is_wrong(come_as, listener, changes, said):
    config = come_as(listener, **changes)
    with refused(f"Kafka refuses the description of topic orders: .*{said}"):
        discover(config, Named(("orders",)))


def test_tokens_come_from_an_endpoint_for_the_clients_secret(topics, allow, come_as):
    topic = topics.create()
    allow("loader", SOURCE, topic)
    with token_endpoint() as url:
        given = {**NO_TOKENS, "sasl_oauthbearer_token_endpoint_url": url}
        assert list(discover(come_as("TOKENS", **given), Named((topic,))).ids) == [topic]
        with refused("Failed to acquire SASL OAUTHBEARER token: .*invalid_client.*the source of tokens"):
            discover(come_as("TOKENS", **(given | {"sasl_oauthbearer_client_secret": "wrong"})), Named((topic,)))


def test_tokens_come_from_a_function_of_the_users(topics, records, allow, come_as):
    topic = topics.create()
    records.produce(topic, events(1, 1, partitions=1))
    allow("loader", SOURCE, topic)
    config = come_as("TOKENS", **OWN_TOKENS, orderedkafka_resolver="support.tokens:resolver")
    assert list(discover(config, Named((topic,))).ids) == [topic]
    assert sum(batch.num_rows for batch in read_slice(slice_of(stretch(topic, 0, 0, 1)), ReadSettings(config))) == 1


@pytest.mark.parametrize("wrong", ["a wrong password", "a broker whose certificate has expired", "no certificate"])
def test_groups_readers_and_writers_are_told_as_well(come_as, wrong):
    listener, changes, said = WRONG[wrong]
    config, partition = come_as(listener, **changes), TopicPartition("orders", 0)
    with refused(f"Kafka refuses the commits of group 'g': .*{said}"):
        committed(config, "g", [partition])
    with refused(f"Kafka refuses this client: .*{said}"):
        list(read_slice(slice_of(stretch("orders", 0, 0, 1)), ReadSettings(config)))
    producer = make_producer(config)
    with refused(f"Kafka refuses to take records: .*{said}"):
        send(producer, "orders")
    producer.discard()


@pytest.mark.parametrize(("may", "lacks"), [("READ", "WRITE"), ("WRITE", "READ")])
def test_an_output_is_refused_before_anything_is_read(
    kafka, topics, records, *, allow, come_as, apps, capsys, may, lacks
):
    source, output = topics.create("in", 3), topics.create("out", 2)
    records.produce(source, events(10, 1))
    loaded = whole_range(kafka.bootstrap_servers, source)
    allow("guest", SOURCE, source)
    allow("guest", {ResourceType.TOPIC: (may,)}, output)
    app = apps(come_as("SCRAM", "guest").servers)
    with pytest.raises(SystemExit) as caught:
        app.load(loaded, "--output-topic", output)
    assert caught.value.code == 65
    assert says(capsys.readouterr().err, f"{lacks} ... {output!r}")
    assert records.read(output) == []


@pytest.mark.parametrize(("may", "lacks"), [("READ", "WRITE"), ("WRITE", "READ"), ("DESCRIBE", "WRITE and READ")])
def test_what_may_not_be_done_with_an_output_is_known_when_its_range_is_planned(topics, allow, come_as, may, lacks):
    output = topics.create("out")
    allow("guest", {ResourceType.TOPIC: (may,)}, output)
    (remark,) = made_ready(come_as("SCRAM", "guest"), [output], None)
    assert says(remark, f"topic {output!r}: ... {lacks}")


def test_a_topic_that_may_not_be_written_any_more_is_named_with_the_row(topics, allow, come_as):
    output = topics.create("out")
    allow("guest", {ResourceType.TOPIC: ("DESCRIBE",)}, output)
    allow("guest", {ResourceType.BROKER: ("IDEMPOTENT_WRITE",)}, "kafka-cluster")
    producer = make_producer(come_as("SCRAM", "guest"))
    with refused("Kafka refuses to take the row: .*the principal needs WRITE on the topic"):
        send(producer, output)
    producer.discard()


def test_whoever_may_write_nothing_at_all_is_told_as_well(topics, allow, come_as):
    output = topics.create("out")
    allow("nobody", {ResourceType.TOPIC: ("DESCRIBE",)}, output)
    producer = make_producer(come_as("MUTUAL", "nobody"))
    with refused("needs WRITE on the topic"):
        send(producer, output)
    producer.discard()
