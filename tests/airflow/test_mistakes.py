"""The usual mistakes, each made in a real DAG: when it is told, and in which words."""

import json
import os
import re
import socket
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType
from support import mistakes
from support.certificates import Authority
from support.messages import says
from support.mistakes import AT_LOOK, AT_PARSE, AT_START
from support.records import Record, Records
from support.secured import Secured, SecuredKafka, let
from support.topics import Topics

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.job import Job

OURS = "airflow_provider_orderedkafka.errors."


@pytest.fixture(scope="module")
def beside(airflow_home):
    """What lies beside the DAG files."""
    folder = airflow_home / "dags"
    files = {"my_transforms.py": mistakes.MODULE, "broken.py": "def lines(:\n", "app.py": "print('an application')\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    yield folder
    for name in files:
        (folder / name).unlink()


@pytest.fixture
def parse(beside, dag_file, monkeypatch):
    """Parses a DAG file with this in it; the last line of what Airflow says of it."""
    monkeypatch.setenv("AIRFLOW_CONN_BIG", "spark://master:7077")

    def message_of(mistake):
        own = f"mistaken_{AT_PARSE.index(mistake)}.py"  # Python keeps what a file of this name, size and second was
        with pytest.raises(RuntimeError) as refused:
            dag_file(mistake.file, own)
        return str(refused.value).strip().splitlines()[-1]

    return message_of


@pytest.mark.parametrize("mistake", AT_PARSE, ids=lambda mistake: mistake.code)
def test_a_mistake_in_a_dag_file_is_told_when_it_is_parsed(mistake, parse):
    said = parse(mistake)
    assert said.startswith(f"{OURS}SettingError: "), said
    assert says(said, mistake.said), said


@pytest.fixture
def connections(monkeypatch):
    """Connections of which a load needs to know no more than what they say."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}
    spark = {"SPARK_DEFAULT": "local[2]", "DEAD": "spark://127.0.0.1:1", "PORTLESS": "spark://nohost"}
    said = {name: {"conn_type": "spark", "host": host} for name, host in spark.items()}
    for name, each in {**said, "KAFKA_DEFAULT": kafka}.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(each))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


@pytest.mark.usefixtures("beside", "connections")
@pytest.mark.parametrize("mistake", AT_START, ids=lambda mistake: mistake.arguments)
def test_what_spark_would_say_is_told_before_an_attempt_is_counted(mistake, dag_file):
    load = dag_file(mistake.file, f"starting_{AT_START.index(mistake)}.py").get_task("orders.load")
    with pytest.raises(OrderedKafkaError) as refused:
        load._way({}, Job(load.to, load.rows))
    assert says(str(refused.value), mistake.said), refused.value
    assert refused.value.retryable == mistake.again


CA, FOREIGN = Authority.make(), Authority.make("somebody else")
USERS = dict.fromkeys(("loader", "lookout", "groupless", "nobody"), "secret-1f2e")
LISTENERS = {"TLS": Secured.tls(CA), "NAMED": Secured.sasl("PLAIN", USERS)}
EARLY = 1_700_000_000_000


LONG = {"no Kafka", "TLS to plain"}
"""Ways on which it takes 15 seconds to know that nobody answers, like on two others."""


def marked(mistake):
    return pytest.param(mistake, marks=pytest.mark.nightly if mistake.way in LONG else ())


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A broker that knows its clients, with the topics of the mistakes."""
    with SecuredKafka(tmp_path_factory.mktemp("secured"), LISTENERS) as cluster:
        topics, records = Topics(cluster.bootstrap_servers, "mistakes"), Records(cluster.bootstrap_servers)
        topics.create_named("orders", 2)
        for name in ("refunds", "out", "doomed", "renewed", "shortened"):
            topics.create_named(name)
        records.produce("orders", [Record(b"x", EARLY + n) for n in range(3)])
        looks = {ResourceType.TOPIC: ["DESCRIBE", "DESCRIBE_CONFIGS"], ResourceType.GROUP: ["READ"]}
        for user, may in (("lookout", looks), ("groupless", {ResourceType.TOPIC: ["READ", "DESCRIBE_CONFIGS"]})):
            let(topics.admin, user, may, "orders", "refunds", "orderedkafka.orders")
        yield cluster


@pytest.fixture
def way(secured):
    """What a connection says that leads to the broker in this way, or not to it."""
    plain, tls = {"bootstrap.servers": secured.bootstrap_servers}, secured.secured_config("TLS")
    named = {user: secured.secured_config("NAMED", user) for user in USERS}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ways = {
            "plain": plain,
            "nobody": {"bootstrap.servers": "127.0.0.1:1"},
            "no Kafka": {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"},
            "TLS to plain": {**tls, **plain},
            "plain to TLS": {"bootstrap.servers": tls["bootstrap.servers"]},
            "another authority": {**tls, "ssl.ca.pem": FOREIGN.certificate},
            "another password": {**named["loader"], "sasl.password": "wrong"},
            "who may see nothing": named["nobody"],
            "who may only look": named["lookout"],
            "without a group": named["groupless"],
        }
        yield ways.__getitem__


@pytest.fixture
def meanwhile(secured):
    """Has something happen to the topics of a load."""
    topics, records = Topics(secured.bootstrap_servers, "mistakes"), Records(secured.bootstrap_servers)

    def shorten():
        records.produce("shortened", [Record(b"x", EARLY + n) for n in range(3)])
        records.delete_before("shortened", {0: 2})

    happens = {
        "deleted": lambda: topics.delete("doomed"),
        "created again": lambda: topics.recreate("renewed"),
        "retention": shorten,
    }
    return lambda what: happens[what]()


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize(
    "mistake", [*map(marked, AT_LOOK)], ids=lambda each: f"{each.code} {each.way} {each.meanwhile}".strip()
)
def test_what_is_wrong_about_kafka_is_told_by_the_first_task_that_asks(
    mistake, way, meanwhile, dag_file, states, capsys, monkeypatch, tmp_path
):
    connection = {"conn_type": "kafka", "extra": way(mistake.way)}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__ORDEREDKAFKA__LEDGER", str(tmp_path))
    dag = dag_file(mistake.file, f"looking_{AT_LOOK.index(mistake)}.py")
    if mistake.meanwhile:
        assert set(states(dag.test()).values()) == {"success", "skipped"}
        meanwhile(mistake.meanwhile)
        capsys.readouterr()
    found = states(dag.test())
    assert found[f"orders.{mistake.task}"] == "failed", found
    said = capsys.readouterr().out
    *_, why = re.findall(rf"^{re.escape(OURS)}\w+: (.*)$", said, re.MULTILINE)
    assert says(why, mistake.said), why
    assert mistake.again != ("AirflowFailException: " in said)
