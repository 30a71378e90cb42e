"""Passwords, and secrets of tokens, that are changed while a batch runs: the next attempt takes the new ones."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from support.applications import Application, source_and_output
from support.certificates import Authority
from support.messages import says
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

AUTHORITY = Authority.make()
LISTENERS = {
    "MUTUAL": Secured.mutual_tls(AUTHORITY),
    "SCRAM": Secured.sasl("SCRAM-SHA-512", {CLIENT: OLD}),
    "TOKENS": Secured.sasl("OAUTHBEARER", {}),
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    everything = {"allow.everyone.if.no.acl.found": True, "connections.max.reauth.ms": AGAIN_MS}
    with SecuredKafka(tmp_path_factory.mktemp("secured"), LISTENERS, properties=everything) as cluster:
        yield cluster


class Password:
    """A password that the cluster keeps."""

    noticed_after = 2 * AGAIN_MS / 1_000

    def __init__(self, kafka: SecuredKafka, _: ExitStack) -> None:
        self._kafka = kafka
        self.settings = kafka.secured_config("SCRAM", CLIENT)
        self.change(OLD)
        self._wait_until_known(OLD)

    def _wait_until_known(self, secret: str) -> None:
        """The controller answers before the broker has heard of a change."""
        deadline = time.monotonic() + 30
        while True:
            try:
                AdminClient({**self.settings_with(secret), "log_level": 0}).list_topics(timeout=5)
            except KafkaException:
                assert time.monotonic() < deadline
            else:
                return

    def change(self, to: str) -> None:
        remember_users(self._kafka.bootstrap_servers, {"SCRAM": replace(LISTENERS["SCRAM"], users={CLIENT: to})})

    def settings_with(self, secret: str) -> dict[str, str]:
        return {**self.settings, "sasl.password": secret}


class Tokens:
    """A secret for which an endpoint gives tokens, each for some seconds.

    A client asks for a new one when a fifth of that is left; a broker lets nobody say who it is twice in a second.
    """

    noticed_after = 8

    def __init__(self, kafka: SecuredKafka, until: ExitStack) -> None:
        self._given = Given(OLD, life=self.noticed_after)
        self.settings = {
            **kafka.secured_config("TOKENS", CLIENT),
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.token.endpoint.url": until.enter_context(token_endpoint(self._given)),
        }
        del self.settings["enable.sasl.oauthbearer.unsecure.jwt"], self.settings["sasl.oauthbearer.config"]

    def change(self, to: str) -> None:
        self._given.secret = to

    def settings_with(self, secret: str) -> dict[str, str]:
        return {**self.settings, "sasl.oauthbearer.client.secret": secret}


class Attempts:
    """The attempts on one range of three batches, into a topic."""

    def __init__(self, kafka: SecuredKafka, topics: Topics, records: Records, folder: Path, **how: Any) -> None:
        self._records, self._how = records, how
        self._source, self._output = source_and_output(topics, records, 240)
        self._loaded = whole_range(kafka.bootstrap_servers, self._source, batch_offsets=80)
        self._app = Application("", folder)

    def once(self, settings: Mapping[str, str]) -> object:
        """The exit code of an attempt with these settings of a client."""
        argv = ("--output-topic", self._output, "--option", "sliceOffsets=20")
        self._app.servers = settings["bootstrap.servers"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps({f"kafka.{n}": value for n, value in settings.items()}))
            try:
                self._app.load(self._loaded, *argv, **self._how)
            except SystemExit as ended:
                return ended.code
        return 0

    def check(self) -> None:
        """All of it is loaded, once and in order."""
        report = read_report(str(self._app.checkpoint))
        assert report is not None
        assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, 240, 0)
        assert check(expected_of(self._records, self._source), self._records.read(self._output)) == FLAWLESS


def held_once(mark: Path) -> dict[str, Callable[[Any], Any]]:
    """Transforms that change nothing, and wait once, in the second batch, as long as a file is there."""

    def hold(batch: Any) -> None:
        from pyspark import TaskContext

        second = any(b'"number": 100,' in value for value in batch.column("value").to_pylist())
        if second and TaskContext.get() is not None and not mark.with_name("changed").exists():
            mark.touch()
            while mark.exists():
                time.sleep(0.05)

    def held(batch: Any) -> Any:
        hold(batch)
        return batch

    return made_of(held)


def made_of(arrow_transform: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """The function of a batch as a transform of each kind."""

    def passed(batches: Any) -> Any:
        yield from map(arrow_transform, batches)

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
    capsys: pytest.CaptureFixture[str],
    secret: type[Password] | type[Tokens],
    transform: str,
) -> None:
    mark = tmp_path / "held"
    attempts = Attempts(kafka, topics, records, tmp_path, **{transform: held_once(mark)[transform]})
    with ExitStack() as until:
        client = secret(kafka, until)
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(attempts.once, client.settings_with(OLD))
            while not mark.exists():
                assert not first.done(), first.result()
                time.sleep(0.05)
            client.change(NEW)
            time.sleep(client.noticed_after)
            mark.with_name("changed").touch()
            mark.unlink()
            assert first.result() == 75
        said = capsys.readouterr().err
        assert says(said, "SASL ... 'security.protocol'")
        assert OLD not in said
        assert attempts.once(client.settings_with(NEW)) == 0
    attempts.check()


class Files:
    """A client's certificate and key, as files, which are replaced."""

    def __init__(self, kafka: SecuredKafka, folder: Path) -> None:
        self._certificate, self._key, authority = (folder / name for name in ("client.pem", "client.key", "ca.pem"))
        authority.write_text(AUTHORITY.certificate)
        settings = {n: v for n, v in kafka.secured_config("MUTUAL", CLIENT).items() if not n.endswith(".pem")}
        self.settings = settings | {
            "ssl.ca.location": str(authority),
            "ssl.certificate.location": str(self._certificate),
            "ssl.key.location": str(self._key),
        }

    def renew(self, days: int) -> None:
        issued = AUTHORITY.issue(CLIENT, days=days)
        self._certificate.write_text(issued.certificate)
        self._key.write_text(issued.key)


def failing_while(mark: Path) -> Callable[[Any], Any]:
    """A transform that changes nothing, and fails in the second batch as long as a file is there."""

    def failing(batch: Any) -> Any:
        from pyspark import TaskContext

        second = any(b'"number": 100,' in value for value in batch.column("value").to_pylist())
        if second and TaskContext.get() is not None and mark.exists():
            raise ValueError("not today")
        return batch

    return failing


@pytest.mark.parametrize("transform", ["arrow_transform", pytest.param("transform", marks=pytest.mark.nightly)])
def test_a_certificate_that_expired_within_a_range_is_renewed_and_the_next_attempt_goes_on_with_it(
    kafka: SecuredKafka,
    spark: SparkSession,
    topics: Topics,
    records: Records,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    transform: str,
) -> None:
    files, mark = Files(kafka, tmp_path), tmp_path / "failing"
    attempts = Attempts(kafka, topics, records, tmp_path, **{transform: made_of(failing_while(mark))[transform]})
    files.renew(days=1)
    mark.touch()
    assert attempts.once(files.settings) == 65
    mark.unlink()
    files.renew(days=-1)
    capsys.readouterr()
    assert attempts.once(files.settings) == 75
    said = capsys.readouterr().err
    assert "certificate" in said
    files.renew(days=1)
    assert attempts.once(files.settings) == 0
    attempts.check()
