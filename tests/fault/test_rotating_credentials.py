"""Passwords, and secrets of tokens, that are changed while a batch runs: the next attempt takes the new ones."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.applications import Application, source_and_output
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Records
from support.secured import Secured, SecuredKafka, remember_users
from support.tokens import CLIENT, Given, token_endpoint
from support.topics import Topics

from airflow_provider_orderedkafka.locations import read_report

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

OLD, NEW = "old-4c1d", "new-77ab"
AGAIN_MS = 2_000
"""How long a broker trusts a connection before its client has to say again who it is."""

LISTENERS = {
    "SCRAM": Secured.sasl("SCRAM-SHA-512", {CLIENT: OLD}),
    "TOKENS": Secured.sasl("OAUTHBEARER", {}),
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    everything = {"allow.everyone.if.no.acl.found": True, "connections.max.reauth.ms": AGAIN_MS}
    with SecuredKafka(tmp_path_factory.mktemp("secured"), LISTENERS, properties=everything) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def records(kafka: SecuredKafka) -> Records:
    return Records(kafka.bootstrap_servers)


class Password:
    """A password that the cluster keeps."""

    def __init__(self, kafka: SecuredKafka, _: ExitStack) -> None:
        self._kafka = kafka
        self.settings = kafka.secured_config("SCRAM", CLIENT)
        self.change(OLD)

    def change(self, to: str) -> None:
        remember_users(self._kafka.bootstrap_servers, {"SCRAM": replace(LISTENERS["SCRAM"], users={CLIENT: to})})

    def told(self, secret: str) -> dict[str, str]:
        return {**self.settings, "sasl.password": secret}


class Tokens:
    """A secret for which an endpoint gives tokens, each for some seconds."""

    def __init__(self, kafka: SecuredKafka, until: ExitStack) -> None:
        self._given = Given(OLD, life=4)
        self.settings = {
            **kafka.secured_config("TOKENS", CLIENT),
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.token.endpoint.url": until.enter_context(token_endpoint(self._given)),
        }
        del self.settings["enable.sasl.oauthbearer.unsecure.jwt"], self.settings["sasl.oauthbearer.config"]

    def change(self, to: str) -> None:
        self._given.secret = to

    def told(self, secret: str) -> dict[str, str]:
        return {**self.settings, "sasl.oauthbearer.client.secret": secret}


def held_once(mark: Path) -> dict[str, Callable[[Any], Any]]:
    """Transforms that change nothing, and wait once, in the second batch, as long as a file is there."""

    def hold(batch: Any) -> None:
        from pyspark import TaskContext

        second = any(b'"number": 100,' in value for value in batch.column("value").to_pylist())
        if second and TaskContext.get() is not None and not mark.with_name("changed").exists():
            mark.touch()
            while mark.exists():
                time.sleep(0.05)

    def passed(batches: Any) -> Any:
        for batch in batches:
            hold(batch)
            yield batch

    def arrow_transform(batch: Any) -> Any:
        hold(batch)
        return batch

    return {"transform": lambda frame: frame.mapInArrow(passed, frame.schema), "arrow_transform": arrow_transform}


@pytest.mark.parametrize(
    ("secret", "transform"),
    [
        (Password, "arrow_transform"),
        pytest.param(Password, "transform", marks=pytest.mark.nightly),
        pytest.param(Tokens, "arrow_transform", marks=pytest.mark.nightly),
    ],
)
def test_a_secret_that_is_changed_while_a_batch_runs_ends_the_attempt_and_the_next_one_takes_the_new(
    kafka: SecuredKafka,
    spark: SparkSession,
    topics: Topics,
    records: Records,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    secret: type[Password] | type[Tokens],
    transform: str,
) -> None:
    source, output = source_and_output(topics, records, 240)
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=80)
    mark, argv = tmp_path / "held", ("--output-topic", output, "--option", "sliceOffsets=20")
    how = {transform: held_once(mark)[transform]}
    with ExitStack() as until:
        client = secret(kafka, until)
        app = Application(client.settings["bootstrap.servers"], tmp_path)

        def attempt(known: str) -> object:
            options = {f"kafka.{name}": value for name, value in client.told(known).items()}
            monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps(options))
            try:
                app.load(loaded, *argv, **how)
            except SystemExit as ended:
                return ended.code
            return 0

        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(attempt, OLD)
            while not mark.exists():
                assert not first.done(), first.result()
                time.sleep(0.05)
            client.change(NEW)
            time.sleep(2 * AGAIN_MS / 1_000)
            mark.with_name("changed").touch()
            mark.unlink()
            assert first.result() == 75
        said = capsys.readouterr().err
        assert "check user name, password and mechanism" in said
        assert "the next attempt takes them" in said
        assert OLD not in said
        assert attempt(NEW) == 0
    report = read_report(str(app.checkpoint))
    assert report is not None
    assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, 240, 0)
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
