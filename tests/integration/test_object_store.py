"""Checkpoints in an object store: S3A, as Spark brings it, and an S3 server on loopback."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import hadoop_aws
from support.documents import REPORT
from support.object_store import BUCKET, KEY, REGION, SECRET, ObjectStore
from support.stores import DocumentsCreatedOnce

from airflow_provider_orderedkafka.compat.spark import gateway
from airflow_provider_orderedkafka.errors import FencedError, SettingError
from airflow_provider_orderedkafka.locations import for_spark, has_notes, path_of, read_report, readable
from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState
from airflow_provider_orderedkafka.spark.state.lease import Heartbeat, Lease, Outside, Process, SystemClock


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as started:
        yield started


@pytest.fixture(scope="module")
def opened(store: ObjectStore, spark: SparkSession) -> Any:
    def opened(location: str, **settings: str) -> HadoopState:
        return HadoopState(location, gateway(spark), hadoop_aws.configuration(spark, store.settings | settings))

    return opened


@pytest.fixture
def state(opened: Any, request: pytest.FixtureRequest) -> HadoopState:
    found: HadoopState = opened(f"s3a://{BUCKET}/{request.node.name}")
    return found


class TestDocuments(DocumentsCreatedOnce):
    pass


def test_what_cannot_be_created_on_a_condition_is_refused(store: ObjectStore, opened: Any) -> None:
    store.client.create_bucket(Bucket="unable")
    unable = opened("s3a://unable/loads", **{"fs.s3a.create.conditional.enabled": "false"})
    with pytest.raises(SettingError, match=r"hadoop-aws 3\.4\.2"):
        unable.create("book/7.json", "x")
    assert unable.names() == []


def test_a_store_that_heeds_no_condition_is_found_out(
    store: ObjectStore, state: HadoopState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "heeds_conditions", False)
    with pytest.raises(SettingError, match="If-None-Match"):
        state.create("book/7.json", "x")
    assert state.get("book/7.json") is None


def test_a_document_that_is_replaced_while_it_is_read_is_read_again(
    store: ObjectStore, state: HadoopState, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.put("lease/1.json", "first")
    replaced: list[str] = []

    def replace(method: str, path: str) -> None:
        if method == "GET" and path.endswith("/lease/1.json") and not replaced:
            replaced.append(path)
            store.client.put_object(Bucket=BUCKET, Key=path.removeprefix(f"/{BUCKET}/"), Body=b"second")

    monkeypatch.setattr(store, "before", replace)
    assert state.get("lease/1.json") == "second"
    assert replaced


def test_what_each_question_costs_in_requests(store: ObjectStore, state: HadoopState) -> None:
    def cost(ask: Any, *arguments: str) -> list[str]:
        store.requests.clear()
        ask(*arguments)
        return [request.split()[0] for request in store.requests]

    assert cost(state.put, "notes/1.json", "x") == ["PUT"]
    assert state.create("notes/0.json", "x")  # the first one finds out whether the store heeds the condition
    assert cost(state.create, "notes/2.json", "x") == ["PUT"]
    assert cost(state.create, "notes/2.json", "y") == ["PUT"]
    assert cost(state.names, "notes") == ["LIST"]
    assert cost(state.get, "notes/1.json") == ["HEAD", "GET"]
    assert cost(state.get, "notes/3.json") == ["HEAD"]


def test_a_bucket_that_is_not_there_is_a_wrong_setting(opened: Any) -> None:
    with pytest.raises(SettingError, match=r"'s3a://nowhere/loads'.*bucket"):
        opened("s3a://nowhere/loads")


def test_two_attempts_that_start_together_on_a_slow_store_end_with_one_holder(
    store: ObjectStore, opened: Any, state: HadoopState
) -> None:
    held, fenced, done = [], [], Event()

    def attempt(token: str) -> None:
        lease = Lease(Outside(opened(state.location), SystemClock(), Elsewhere(token), token))
        try:
            lease.acquire()
            lease.beat()
        except FencedError:
            fenced.append(token)
            with suppress(RuntimeError):
                lease.let_go()
            return
        held.append(token)
        done.wait(30)

    with store.slow(0.3), ThreadPoolExecutor(2) as threads:
        working = [threads.submit(attempt, token) for token in ("aaaa", "bbbb")]
        deadline = time.monotonic() + 30
        while len(held) + len(fenced) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        done.set()
        for each in working:
            each.result()
    assert (len(held), len(fenced)) == (1, 1)


def test_a_heart_beats_on_a_slow_store_until_a_newer_attempt_takes_over(
    store: ObjectStore, opened: Any, state: HadoopState
) -> None:
    older = Lease(Outside(state, SystemClock(), Elsewhere("older"), "older"))
    newer = Lease(Outside(opened(state.location), SystemClock(), Elsewhere("newer"), "newer"))
    older.acquire()
    lost = Event()
    heart = Heartbeat(older, lost.set, interval=1)
    with store.slow(0.3):
        store.requests.clear()
        older.beat()
        assert [each.split()[0] for each in store.requests] == ["PUT", "LIST"]
        heart.start()
        assert not lost.wait(4)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(newer.acquire)
            assert lost.wait(10)
            heart.stop()
            older.let_go()
            waiting.result(20)
    assert isinstance(heart.lost, FencedError)
    newer.check()


@dataclass(frozen=True)
class Elsewhere:
    """A machine of its own for each attempt: nobody knows of another's processes."""

    machine: str

    def this(self) -> Process:
        return Process(self.machine, 1, 1)

    def is_dead(self, process: Process) -> bool:
        return False


@pytest.fixture
def connection(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """An Airflow connection that leads to the store."""
    extra = {"endpoint_url": store.endpoint, "region_name": REGION}
    settings = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TESTS_STORE", json.dumps(settings))
    return "tests_store"


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_airflow_reads_a_report_by_a_connection_that_spark_is_not_told_of(
    state: HadoopState, connection: str, scheme: str
) -> None:
    plain = state.location.replace("s3a", scheme)
    place = plain.replace("://", f"://{connection}@")
    assert for_spark(place) == plain
    assert readable(place) == place
    assert read_report(place) is None
    assert not has_notes(place)
    state.put("notes/1.json", "{}")
    state.put("report.json", REPORT.to_text())
    assert read_report(place) == REPORT
    assert has_notes(place)


def test_airflow_tells_of_a_bucket_that_is_not_there_before_an_attempt_begins(connection: str) -> None:
    with pytest.raises(SettingError, match="'nowhere'"):
        readable(f"s3a://{connection}@nowhere/loads")


def test_what_airflow_has_nothing_installed_for_is_told_before_an_attempt_begins() -> None:
    with pytest.raises(SettingError, match=r"'oss://bucket/loads/report\.json'"):
        readable("oss://bucket/loads")


def test_spark_without_the_jar_says_which_package_brings_it(spark: SparkSession) -> None:
    with pytest.raises(SettingError, match=r"--packages org\.apache\.hadoop:hadoop-aws:3\.\d+\.\d+"):
        HadoopState.of("s3a://untouched/loads", spark)
    with pytest.raises(SettingError, match="s3a://"):
        HadoopState.of("s3://untouched/loads", spark)


def test_credentials_that_may_not_come_in_are_a_wrong_setting(
    store: ObjectStore, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"}
    unset = {"fs.s3a.access.key": "", "fs.s3a.secret.key": ""}
    with pytest.raises(SettingError, match="credentials"):
        opened("s3a://closed/loads", **nobody, **unset)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/shared/a@b/loads", "/shared/a@b/loads"),
        ("file:///shared/a@b", "file:///shared/a@b"),
        (
            "abfss://container@account.dfs.core.windows.net/loads",
            "abfss://container@account.dfs.core.windows.net/loads",
        ),
        ("gs://google@bucket/loads", "gs://bucket/loads"),
        ("webhdfs://loader@namenode:9870/loads", "hdfs:///loads"),
    ],
)
def test_spark_is_told_of_no_connection_and_reads_hdfs_by_its_own_protocol(location: str, expected: str) -> None:
    assert for_spark(location) == expected


@pytest.mark.parametrize(
    ("location", "expected", "connection"),
    [
        ("abfss://container@account.dfs.core.windows.net/loads", "abfss://container/loads", None),
        ("abfs://azure_default@container/loads", "abfs://container/loads", "azure_default"),
    ],
)
def test_airflow_tells_an_account_of_azures_from_a_connection(
    location: str, expected: str, connection: str | None
) -> None:
    path = path_of(location)
    assert (str(path).replace("azure_default@", ""), path.conn_id) == (expected, connection)
