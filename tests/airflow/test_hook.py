"""The hook on Airflow's own `kafka` connection: tokens for managed clusters, what can travel to Spark, what is said."""

import json
import sys
import time
from importlib.metadata import version
from types import ModuleType

import pytest
from support.messages import naming
from support.records import Record

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import DataLossError, SettingError, UnreachableError
from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
from airflow_provider_orderedkafka.kafka.clients.config import RESOLVER, client_config
from airflow_provider_orderedkafka.kafka.clients.oauth import msk_iam
from airflow_provider_orderedkafka.kafka.clients.pools import admin

MSK = {
    "bootstrap.servers": "b-1.demo.abcde1.c2.kafka.eu-north-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}
GOOGLE = {**MSK, "bootstrap.servers": "bootstrap.demo.europe-north1.managedkafka.project.cloud.goog:9092"}
NOWHERE = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "oauth_cb": "tokens.for_tests",
}
INTERPRETER_S_CLOCK = 1_000


@pytest.fixture
def hook(airflow_home, monkeypatch):
    def make(extra, conn_id="managed"):
        connection = json.dumps({"conn_type": "kafka", "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", connection)
        return OrderedKafkaHook(conn_id)

    return make


@pytest.fixture
def module(monkeypatch):
    """A module that is not installed here, by hand."""

    def put(name, **content):
        made = ModuleType(name)
        made.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, made)

    return put


NEEDS_CALLBACKS = pytest.mark.skipif(
    int(version("apache-airflow-providers-apache-kafka").split(".")[0]) < 2,
    reason="Airflow's Kafka provider has neither callbacks nor Amazon's tokens in 1.14",
)


SIGNER = "aws_msk_iam_sasl_signer"


class Signer:
    """Amazon's signer: a token for a region, and its end in milliseconds."""

    @staticmethod
    def generate_auth_token(region):
        return f"token for {region}", INTERPRETER_S_CLOCK * 1000


class ManagedKafkaHook:
    """Google's hook."""

    def get_confluent_token(self, _config):
        return "token of google", INTERPRETER_S_CLOCK


def token(config):
    return client_config(config, "consumer")["oauth_cb"]("")


@NEEDS_CALLBACKS
def test_a_cluster_of_amazon_s_gets_its_tokens_here_and_in_spark(hook, module):
    module(SIGNER, MSKAuthTokenProvider=Signer)
    made = hook(MSK)
    expected = ("token for eu-north-1", INTERPRETER_S_CLOCK)
    assert token(made.config) == expected
    portable = made.portable_config()
    assert portable[RESOLVER] == "airflow_provider_orderedkafka.kafka.clients.oauth:msk_iam"
    assert all(isinstance(value, str) for value in portable.values())
    assert token(portable) == expected


def test_a_cluster_of_google_s_gets_its_tokens_here_and_asks_for_a_resolver_in_spark(hook, module):
    module("airflow.providers.google.cloud.hooks.managed_kafka", ManagedKafkaHook=ManagedKafkaHook)
    made = hook(GOOGLE)
    assert token(made.config) == ("token of google", INTERPRETER_S_CLOCK)
    with pytest.raises(SettingError, match=r"'orderedkafka\.resolver'"):
        made.portable_config()
    named = hook({**GOOGLE, RESOLVER: "my.tokens:google"})
    assert named.portable_config()[RESOLVER] == "my.tokens:google"


@pytest.mark.parametrize(
    ("extra", "package"),
    [pytest.param(MSK, "apache-kafka[msk]", marks=NEEDS_CALLBACKS), pytest.param(GOOGLE, "google")],
)
def test_a_package_that_is_missing_is_named(hook, extra, package, monkeypatch):
    monkeypatch.setitem(sys.modules, SIGNER, None)
    with pytest.raises(SettingError) as error:
        _ = hook(extra).config
    assert "connection 'managed': " in str(error.value)
    assert package in str(error.value)


def test_where_spark_runs_a_missing_signer_of_amazon_s_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, SIGNER, None)
    with pytest.raises(SettingError, match=r"aws-msk-iam-sasl-signer-python, .*\[msk\]"):
        msk_iam(MSK)["oauth_cb"]("")


@NEEDS_CALLBACKS
def test_a_callback_of_one_s_own_is_called_by_the_client_and_never_taken_for_amazon_s(hook, module, monkeypatch):
    calls = []

    def for_tests(config):
        calls.append(config)
        return "a token", time.time() + 600

    module("tokens", for_tests=for_tests)
    with pytest.raises(SettingError, match="callback_allowlist"):
        _ = hook(NOWHERE, "refused").config
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "tokens.for_tests")
    client = admin(hook(NOWHERE).config).client
    client.poll(0.5)
    assert calls
    with pytest.raises(SettingError, match="travel"):
        hook({**MSK, "oauth_cb": "tokens.for_tests"}).portable_config()


@NEEDS_CALLBACKS
def test_two_connections_to_one_cluster_keep_their_own_callbacks(hook, module, monkeypatch):
    module("tokens", first=lambda _: ("first", 1), second=lambda _: ("second", 1))
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "tokens.first,tokens.second")
    configs = [hook({**NOWHERE, "oauth_cb": f"tokens.{name}"}, name).config for name in ("first", "second")]
    assert [token(config) for config in configs] == [("first", 1), ("second", 1)]
    assert configs[0] != configs[1]


def test_a_connection_that_is_missing_or_empty_says_what_to_create(hook, airflow_home):
    with pytest.raises(UnreachableError, match="airflow connections add unheard_of"):
        _ = OrderedKafkaHook("unheard_of").config
    with pytest.raises(SettingError, match=r"'managed': .*bootstrap\.servers"):
        _ = hook({}).config


def test_the_hook_knows_ends_and_lag(hook, kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"x")] * 3)
    made = hook({"bootstrap.servers": kafka.bootstrap_servers})
    assert list(made.high_ends([topic]).values()) == [3]
    assert list(made.lag("nobody", [topic]).values()) == [3]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_log_that_ends_below_the_ledger_is_an_error_and_not_waited_out(hook, kafka, topics, records, isolation):
    topic = topics.create()
    records.produce(topic, [Record(b"x", 1_000)] * 3)
    made = hook({"bootstrap.servers": kafka.bootstrap_servers})
    load = OrderedLoad("orders", topics=[topic], start="earliest", isolation=isolation)
    first = made.first_look(load)
    beyond = Place(Offsets(dict.fromkeys(first.place.offsets, 100)), Floor())
    ledger = lifecycle.first_look("orders", instance="i", home_dag="d", place=beyond, topics=first.topics, now=0)
    for ask in (lambda: made.verdict(load, ledger), lambda: made.plan(load, ledger)):
        with pytest.raises(DataLossError, match=naming("ledger rewind orders ... --to latest")) as caught:
            ask()
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 0, 100)
