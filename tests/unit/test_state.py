"""Documents on local disk."""

import contextlib
import errno
import os
import stat
import threading
from pathlib import Path

import pytest
from support.interleaving import Killed
from support.messages import naming
from support.stores import DocumentsCreatedOnce

from airflow_provider_orderedkafka.errors import SettingError, StateError
from airflow_provider_orderedkafka.spark.state.checkpoint import open_state
from airflow_provider_orderedkafka.storage import LocalState


@pytest.fixture
def state(tmp_path: Path) -> LocalState:
    return LocalState(tmp_path)


class TestDocuments(DocumentsCreatedOnce):
    pass


def test_a_kill_before_a_document_has_its_name_leaves_none_and_the_next_one_creates_it(
    state: LocalState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Killed

    for name in ("fsync", "link"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, die)
            with pytest.raises(Killed):
                state.create("1.json", "half")
        assert (state.get("1.json"), state.names()) == (None, [])
    assert state.create("1.json", "whole")


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", unknown)
    with pytest.raises(SettingError, match=naming(str(tmp_path))):
        LocalState(tmp_path).create("1.json", "x")
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_syncs_no_folders_keeps_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def only_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    state = LocalState(tmp_path)
    assert state.create("1.json", "x")
    state.put("1.json", "y")
    assert state.get("1.json") == "y"


def test_what_a_killed_put_leaves_is_never_listed(tmp_path: Path) -> None:
    (tmp_path / "1.json.partial").write_text("hal")
    assert LocalState(tmp_path).names() == []


def test_a_full_disk_keeps_the_old_document_and_says_what_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = LocalState(tmp_path)
    state.put("a.json", "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError, match="full") as caught:
        state.put("a.json", "new")
    assert caught.value.retryable
    monkeypatch.undo()
    assert state.get("a.json") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_file_where_a_folder_should_be_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StateError, match="taken"):
        LocalState(tmp_path / "taken").put("a.json", "x")


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_path_and_a_file_location_are_local(tmp_path: Path, prefix: str) -> None:
    open_state(f"{prefix}{tmp_path}/some where").put("a", "x")
    assert (tmp_path / "some where" / "a").read_text() == "x"


def test_another_file_system_needs_spark() -> None:
    with pytest.raises(SettingError, match="Spark"):
        open_state("s3a://bucket/checkpoints")


def test_a_folder_into_which_another_one_puts_meanwhile_can_be_deleted(tmp_path: Path) -> None:
    state, stop = LocalState(tmp_path), threading.Event()

    def beat() -> None:
        while not stop.is_set():
            with contextlib.suppress(StateError):  # its folder went away under it
                state.put("lease/a.json", "x")

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        for _ in range(300):
            state.delete("lease")
    finally:
        stop.set()
        beating.join()
    state.delete("lease")
    assert state.names() == []
