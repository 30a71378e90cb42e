"""A load on a Kafka that knows its clients: what its user may not do is told before an attempt is counted."""

import json

import pytest
from confluent_kafka.admin import ResourceType
from support.bench import steps_of
from support.messages import says
from support.secured import let

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.fixture
def bench(bench, topics, kafka, monkeypatch):
    """A load that may read its topic and has two connections: its own, and that of another user."""
    for conn_id, user in (("kafka_default", "loader"), ("of_the_writer", "writer")):
        extra = kafka.secured_config("USERS", user)
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
    let(topics.admin, "loader", {TOPIC: ["READ"]}, bench.topic)
    let(topics.admin, "loader", {GROUP: ["READ"]}, f"orderedkafka.{bench.load}")
    bench.write(1)
    return bench


@pytest.mark.parametrize(
    ("user", "output"),
    [("loader", "to=KafkaOutput({0!r}),"), ("writer", "to=KafkaOutput({0!r}, kafka_conn_id='of_the_writer'),")],
)
def test_an_output_that_may_not_be_written_or_searched_counts_no_attempt_and_the_load_goes_on_once_it_may(
    bench, topics, states, ledger_of, capsys, user, output
):
    for allowed, lacks in (("READ", "WRITE"), ("WRITE", "READ")):
        other = bench.output if allowed == "WRITE" else topics.create("other")
        let(topics.admin, user, {TOPIC: [allowed]}, other)
        run = bench.dag(arguments=output.format(other)).test()
        assert steps_of(bench, states(run))["load"] == "failed"
        assert says(capsys.readouterr().out, f"{lacks} ... {other!r}, ")
        assert (ledger_of(bench.load).open.attempt, bench.diary) == (0, [])
    let(topics.admin, user, {TOPIC: ["READ"]}, bench.output)
    assert bench.dag(arguments=output.format(bench.output)).test().state == "success"


def test_an_output_without_provenance_is_never_searched_and_need_not_be_read(bench, topics):
    let(topics.admin, "loader", {TOPIC: ["WRITE"]}, bench.output)
    assert bench.dag(arguments=f"to=KafkaOutput({bench.output!r}, provenance=False)").test().state == "success"


def test_a_load_that_may_not_write_in_transactions_counts_no_attempt_and_goes_on_once_it_may(
    bench, topics, states, ledger_of, capsys
):
    let(topics.admin, "loader", {TOPIC: ["READ", "WRITE", "DESCRIBE_CONFIGS"]}, bench.output)
    arguments, ids = f"to=KafkaOutput({bench.output!r}, guarantee='exactly_once')", f"orderedkafka-{bench.load}"
    for kind, operation in ((ResourceType.TRANSACTIONAL_ID, "WRITE"), (GROUP, "READ")):
        run = bench.dag(arguments=arguments).test()
        assert steps_of(bench, states(run))["load"] == "failed"
        assert says(capsys.readouterr().out, f"{ids} ... {operation}")
        assert (ledger_of(bench.load).open.attempt, bench.diary) == (0, [])
        let(topics.admin, "loader", {kind: [operation]}, ids, begins=True)
    assert bench.dag(arguments=arguments).test().state == "success"
