"""Kafka's settings: what is taken, what is refused with which way out, and what is never shown."""

import logging
import pickle
import re
import sys
import types
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from support.messages import naming, says

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import (
    _NO_SUCH,
    CLIENT_LOG,
    FIXED,
    HARMLESS,
    JAVA_ONLY,
    OFTEN_SET,
    RESOLVER,
    KafkaConfig,
    _answer,
    client_config,
    keep_resolver,
    misspelled,
    new_client,
    redacted,
)

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


def options(**others):
    return KafkaConfig.from_options(SERVERS | {name.replace("_", "."): value for name, value in others.items()})


def refusal(name, value="x"):
    with pytest.raises(SettingError) as caught:
        KafkaConfig.from_options(SERVERS | {f"kafka.{name}": value})
    return str(caught.value)


def test_only_what_begins_with_kafka_is_taken_and_the_prefix_goes():
    config = KafkaConfig.from_options(SERVERS | {"subscribe": "orders", "kafka.client.rack": "a"})
    assert dict(config) == {"bootstrap.servers": "broker:9092", "client.rack": "a"}
    assert config.servers == "broker:9092"


def test_names_may_come_in_any_case():
    assert KafkaConfig.from_options({"KAFKA.Bootstrap.Servers": "b:1"}) == {"bootstrap.servers": "b:1"}


def test_numbers_and_truths_become_text():
    config = KafkaConfig.from_connection({"bootstrap.servers": "b:1", "socket.timeout.ms": 500, "check.crcs": True})
    assert (config["socket.timeout.ms"], config["check.crcs"]) == ("500", "true")


def test_equal_settings_are_one_key_and_survive_a_journey():
    config = options(kafka_client_id="a")
    assert hash(config) == hash(pickle.loads(pickle.dumps(config)))
    assert config == pickle.loads(pickle.dumps(config))


@pytest.mark.parametrize("settings", [{}, {"kafka.bootstrap.servers": " "}])
def test_without_servers_there_is_nothing_to_talk_to(settings):
    with pytest.raises(SettingError, match=r"'kafka\.bootstrap\.servers'"):
        KafkaConfig.from_options(settings)


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("sasl.jaas.config", "'kafka.sasl.username' ... 'kafka.sasl.password'"),
        ("ssl.truststore.location", "'kafka.ssl.ca.location'"),
        ("ssl.keystore.type", "PKCS#12"),
        ("max.poll.records", JAVA_ONLY["max.poll.records"]),
        ("value.deserializer", JAVA_ONLY["value.deserializer"]),
    ],
)
def test_what_only_java_knows_is_refused_with_the_way_out(name, way_out):
    said = refusal(name)
    assert says(said, f"option 'kafka.{name}' ... {way_out}")


@pytest.mark.parametrize("name", ["max.partition.fetch.bytes", "sasl.mechanism", "linger.ms", "ssl.keystore.location"])
def test_java_names_that_librdkafka_shares_are_taken(name):
    assert name in KafkaConfig.from_options(SERVERS | {f"kafka.{name}": "1"})


def test_the_client_knows_what_is_suggested_and_not_what_is_called_javas_own():
    ours = set(FIXED) - {"delivery.report.only.error"}  # which the binding takes for itself
    said = {name: _answer(name, "x") for name in {*JAVA_ONLY, *OFTEN_SET.split(), *ours}}
    # It has `max.poll.records` for share consumers alone, and takes it from the others without a word.
    javas = {name for name, answer in said.items() if _NO_SUCH in answer or "Java" in answer or "JAAS" in answer}
    assert javas | {"max.poll.records"} == set(JAVA_ONLY)
    assert set(HARMLESS) <= set(FIXED)


def test_javas_values_of_shared_names_are_refused_with_the_way_out():
    assert "keytool -importkeystore" in refusal("ssl.keystore.location", "/etc/kafka/client.JKS")
    assert "set 'none'" in refusal("ssl.endpoint.identification.algorithm", "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("enable.auto.commit", FIXED["enable.auto.commit"]),
        ("auto.offset.reset", "'startingOffsets'"),
        ("group.id", "startingOffsets='committed:<group>'"),
        ("enable.partition.eof", FIXED["enable.partition.eof"]),
        ("allow.auto.create.topics", FIXED["allow.auto.create.topics"]),
    ],
)
def test_what_is_not_the_users_to_set_is_refused_with_a_reason(name, reason):
    said = refusal(name, "yes")
    assert says(said, f"option 'kafka.{name}' ... {reason}")


def test_fixed_settings_may_be_given_the_value_that_they_have():
    assert dict(options(kafka_enable_auto_commit="False")) == {"bootstrap.servers": "broker:9092"}


def test_the_isolation_belongs_to_a_range_and_is_left_out():
    assert dict(options(kafka_isolation_level="read_uncommitted")) == {"bootstrap.servers": "broker:9092"}


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [("isolation.level", "read_uncommitted", "isolation='read_uncommitted'"), ("topic.blacklist", "^x", "'subscribe'")],
)
def test_what_a_connection_says_of_which_records_are_read_is_refused_with_the_way_out(name, value, way_out):
    """A connection may have settings for other uses, but whoever sets this expects other records."""
    with pytest.raises(SettingError, match=rf"'{name}'.*{way_out}"):
        KafkaConfig.from_connection({"bootstrap.servers": "b:1", name: value})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sasl.user", "did you mean 'kafka.sasl.username'?"),
        ("error_cb", "its settings"),
        ("zzzz", "its settings are librdkafka's, not Java's"),
    ],
)
def test_an_unknown_setting_is_named_with_the_nearest_one(name, hint):
    assert refusal(name).startswith(f"option 'kafka.{name}' is unknown to Kafka's client; {hint}")


@pytest.mark.parametrize("value", ["false", "neither"])
def test_a_setting_that_librdkafka_knows_is_taken_although_no_list_has_it(value):
    assert options(kafka_log_connection_close=value)["log.connection.close"] == value


KERBEROS = [
    ({"sasl.mechanisms": "GSSAPI", "security.protocol": "SASL_SSL"}, "'sasl.mechanisms'"),
    ({"sasl.mechanism": "gssapi", "sasl.kerberos.keytab": "k.keytab"}, "'sasl.mechanism'"),
    ({"security.protocol": "sasl_plaintext"}, "'security.protocol' without 'sasl.mechanisms'"),
]


@pytest.mark.parametrize(("asked", "named"), KERBEROS)
def test_kerberos_is_refused_where_the_installed_client_was_built_without_it(asked, named):
    if "Unsupported" not in _answer("builtin.features", "sasl_gssapi"):
        pytest.skip("the installed client was built with it")
    with pytest.raises(SettingError) as caught:
        KafkaConfig.from_connection({"bootstrap.servers": "b:1", **asked})
    assert f"{named} " in str(caught.value)
    assert "pip install --no-binary confluent-kafka" in str(caught.value)


@pytest.mark.parametrize(("asked", "_named"), KERBEROS)
def test_kerberos_is_taken_where_the_installed_client_was_built_with_it(asked, _named, monkeypatch):
    monkeypatch.setattr(
        "airflow_provider_orderedkafka.kafka.clients.config._KERBEROS", "sasl_plain"
    )  # this one has that
    assert KafkaConfig.from_connection({"bootstrap.servers": "b:1", **asked}).items() >= asked.items()


@pytest.mark.parametrize(
    "others", [{"sasl.mechanisms": "SCRAM-SHA-512"}, {"orderedkafka.resolver": "of.ours:it"}], ids=["scram", "resolver"]
)
def test_other_mechanisms_and_those_that_a_resolver_gives_are_no_kerberos(others):
    asked = {"bootstrap.servers": "b:1", "security.protocol": "sasl_ssl", **others}
    assert dict(KafkaConfig.from_connection(asked)) == asked


def test_values_must_be_plain():
    with pytest.raises(SettingError, match=r"'client\.rack'"):
        KafkaConfig.from_connection({"bootstrap.servers": "b:1", "client.rack": ["a"]})


def test_what_a_connection_says_for_other_uses_is_left_out():
    extra = {
        "bootstrap.servers": "b:1",
        "group.id": "theirs",
        "isolation.level": "read_committed",  # as it is anyway
        "auto.offset.reset": "earliest",
        "enable.auto.commit": True,
        "error_cb": "their.function",
    }
    assert dict(KafkaConfig.from_connection(extra)) == {"bootstrap.servers": "b:1"}


TOKENS = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}


def test_tokens_that_nobody_gives_are_an_error_with_the_ways_out():
    for more in ({}, {"sasl.oauthbearer.method": "default"}, {"sasl.oauthbearer.config": "principal=x"}):
        with pytest.raises(SettingError, match=r"'sasl\.mechanisms'.*resolver"):
            KafkaConfig.from_connection({**TOKENS, **more})
    with pytest.raises(SettingError, match=r"'kafka\.sasl\.mechanism'"):
        KafkaConfig.from_options({"kafka.bootstrap.servers": "b:1", "kafka.sasl.mechanism": "oauthbearer"})


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.oauthbearer.method": "oidc"},
        {"enable.sasl.oauthbearer.unsecure.jwt": True},
        {"orderedkafka.resolver": "package.module:function"},
        {"oauth_cb": lambda _: ("token", 0)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_whoever_says_where_tokens_come_from_is_believed(more):
    assert KafkaConfig.from_connection({**TOKENS, **more})["sasl.mechanisms"] == "OAUTHBEARER"


def test_a_connections_setting_is_named_without_a_prefix():
    with pytest.raises(SettingError, match=r"'sasl\.jaas\.config'"):
        KafkaConfig.from_connection({"bootstrap.servers": "b:1", "sasl.jaas.config": "PlainLoginModule required;"})


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.pem", "sasl.oauthbearer.assertion.private.key.passphrase"])
def test_secrets_are_never_printed(name):
    config = KafkaConfig({"bootstrap.servers": "b:1", name: "hunter2"})
    assert redacted(config) == {"bootstrap.servers": "b:1", name: "***"}
    for text in (repr(config), str(config), f"{config}"):
        assert "hunter2" not in text


def test_a_refusal_to_make_a_client_does_not_quote_a_secret():
    def refuse(settings):
        raise ValueError(f'ssl.key.pem failed: "{settings["ssl.key.pem"]}" is no key')

    with pytest.raises(SettingError, match=r'"\*{3}"'):
        new_client(refuse, {"bootstrap.servers": "b:1", "ssl.key.pem": "hunter2"})


def test_the_client_itself_refuses_values_that_make_no_sense():
    from airflow_provider_orderedkafka.kafka.clients.pools import admin

    with pytest.raises(SettingError, match=r"security\.protocol"):
        admin(options(kafka_security_protocol="carrier-pigeon"))


@pytest.mark.parametrize(("role", "make"), [("admin", AdminClient), ("consumer", Consumer), ("producer", Producer)])
def test_settings_of_readers_and_writers_are_for_each_client_without_a_warning(role, make, caplog):
    config = options(kafka_fetch_min_bytes="1", kafka_check_crcs="true", kafka_linger_ms="5", kafka_acks="all")
    new_client(make, client_config(config, role, {"group.id": "g"})).poll(0.1)
    assert "CONFWARN" not in caplog.text


def test_an_admin_client_does_not_ask_for_a_producers_rights():
    config = options(kafka_enable_idempotence="true", kafka_client_rack="a")
    assert client_config(config, "producer").items() >= config.items()
    assert client_config(config, "admin").keys() & config.keys() == {"bootstrap.servers", "client.rack"}


def test_a_resolver_adds_secrets_where_a_client_is_made(monkeypatch):
    module = types.ModuleType("secrets_of_this_test")
    module.resolve = lambda settings: {"sasl.password": f"of {settings['sasl.username']}"}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    config = KafkaConfig.from_options(
        SERVERS | {"kafka.sasl.username": "bob", "kafka.orderedkafka.resolver": "secrets_of_this_test:resolve"}
    )
    assert "sasl.password" not in config
    made = client_config(config, "admin")
    assert made["sasl.password"] == "of bob"
    assert "orderedkafka.resolver" not in made


@pytest.mark.parametrize("name", ["isolation.level", "partitioner"])
def test_a_resolver_gives_nothing_that_shapes_rows_or_says_where_they_go(name):
    config = KafkaConfig(
        {"bootstrap.servers": "b:1", RESOLVER: keep_resolver("of this test", lambda given: {**given, name: "x"})}
    )
    with pytest.raises(SettingError, match=naming(f"'of this test' ... '{name}' ... 'x' ... 'kafka.{name}'")):
        client_config(config, "consumer")
    assert client_config({**config, name: "x"}, "consumer")[name] == "x"


@pytest.mark.parametrize("path", ["nowhere_to_be_found:f", "os:nothing", "os", ""])
def test_a_resolver_that_cannot_be_imported_is_named(path):
    config = KafkaConfig({"bootstrap.servers": "b:1", "orderedkafka.resolver": path})
    with pytest.raises(SettingError, match=r"'orderedkafka\.resolver'"):
        client_config(config, "admin")


def test_a_client_that_cannot_connect_says_the_same_line_once(caplog):
    caplog.set_level(logging.INFO, CLIENT_LOG.name)
    for port in range(3):
        CLIENT_LOG.error("%s: connection to port %d refused", "test", port)
    assert [record.getMessage() for record in caplog.records] == ["test: connection to port 0 refused"]


def test_a_name_is_taken_for_a_misspelled_one_only_if_it_is_none_of_the_client_s_own():
    assert misspelled("compresion.type") == "compression.type"
    assert misspelled("Linger.ms") is None
    package = Path(confluent_kafka.__file__).parent
    libraries = [*package.parent.glob("confluent_kafka*/**/librdkafka*"), *package.glob("cimpl*")]
    texts = {text.decode() for each in libraries for text in re.findall(rb"[a-z]+(?:\.[a-z]+)+", each.read_bytes())}
    known = {name for name in texts if not _answer(name, "").startswith(_NO_SUCH)}
    assert {"compression.type", "linger.ms", "queue.buffering.max.ms"} <= known
    assert {name for name in known - {*OFTEN_SET.split()} if misspelled(name)} <= {"sasl.mechanism"}, (
        "belong to a connection"
    )
