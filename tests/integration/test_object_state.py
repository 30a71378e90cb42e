"""Documents in an object store: a real server that speaks S3, and s3fs."""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pytest
from fsspec.core import url_to_fs
from support.object_store import ObjectStore
from support.stores import DocumentsCreatedOnce

from airflow_provider_orderedkafka.errors import LedgerChangedError, SettingError, StateError
from airflow_provider_orderedkafka.loads.ledger import REVISIONS_KEPT, Revisions
from airflow_provider_orderedkafka.storage import ObjectState


def opened(location: str) -> ObjectState:
    """The documents there, with the credentials of the environment."""
    return ObjectState(location, *url_to_fs(location))


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectStore]:
    with ObjectStore() as store:
        yield store


@pytest.fixture
def bucket(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket, to which the environment leads."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    name = f"orderedkafka-{secrets.token_hex(4)}"
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir(name)
    return name


@pytest.fixture
def state(bucket: str) -> ObjectState:
    return opened(f"s3://{bucket}/loads")


class TestDocuments(DocumentsCreatedOnce):
    pass


def test_what_another_one_writes_is_seen_at_once(state: ObjectState, bucket: str) -> None:
    other = opened(f"s3://{bucket}/loads")
    assert state.names("ledger") == []
    for number in range(3):
        assert other.create(f"ledger/{number}", "x")
        assert state.names("ledger") == [str(each) for each in range(number + 1)]
    other.delete("ledger/0")
    assert (state.names("ledger"), state.get("ledger/0")) == (["1", "2"], None)


def test_of_writers_of_the_same_revision_one_wins_and_old_revisions_go(state: ObjectState, bucket: str) -> None:
    def write(writer: str) -> bool:
        store = Revisions(opened(f"s3://{bucket}/loads"))
        values = store.get("ledger") or []
        try:
            store.set("ledger", [*values, writer])
        except LedgerChangedError:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        winners = [list(pool.map(write, "abc")).count(True) for _ in range(REVISIONS_KEPT)]
    assert all(winners)
    assert len(Revisions(state).get("ledger")) == sum(winners)
    assert len(state.names("ledger")) <= REVISIONS_KEPT


def test_a_store_that_ignores_preconditions_is_refused_before_anything_is_created(
    state: ObjectState, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: Any = state._files
    pipe = files.pipe_file
    monkeypatch.setattr(files, "pipe_file", lambda path, data, **_: pipe(path, data))
    with pytest.raises(SettingError, match="preconditions"):
        state.create("ledger/1.json", "x")
    assert files.find(state.location) == []


def test_a_file_system_that_looks_before_it_writes_is_refused() -> None:
    for write in (ObjectState.create, ObjectState.put):
        with pytest.raises(SettingError, match="memory"):
            write(opened("memory://loads"), "ledger/1.json", "x")


def test_a_bucket_that_is_not_there_is_named(bucket: str) -> None:
    with pytest.raises(StateError, match="'s3://not-there-at-all/x/"):
        opened("s3://not-there-at-all/x").create("1.json", "x")
