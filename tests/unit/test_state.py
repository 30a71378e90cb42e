"""Documents on local disk."""

import contextlib
import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.interleaving import Killed
from support.messages import naming
from support.stores import check_puts_reads_lists_replaces_and_deletes

from airflow_provider_orderedkafka.errors import SettingError, StateError
from airflow_provider_orderedkafka.spark.state.checkpoint import open_state
from airflow_provider_orderedkafka.storage import LocalState


def test_a_document_that_was_put_is_read_listed_replaced_and_deleted(tmp_path: Path) -> None:
    state = LocalState(tmp_path)
    check_puts_reads_lists_replaces_and_deletes(state)


def test_a_document_is_created_once_and_stays_as_it_was_created(tmp_path: Path) -> None:
    state = LocalState(tmp_path)
    assert [state.create("ledger/1.json", text) for text in ("one", "two")] == [True, False]
    assert state.get("ledger/1.json") == "one"
    assert [each.name for each in (tmp_path / "ledger").iterdir()] == ["1.json"]
    state.delete("ledger/1.json")
    assert state.create("ledger/1.json", "three")


def test_of_writers_at_the_same_moment_one_creates_the_document_and_nobody_sees_half_of_it(tmp_path: Path) -> None:
    state, text = LocalState(tmp_path), "x" * 100_000
    with ThreadPoolExecutor(4) as pool:
        for number in range(50):
            created = pool.map(lambda writer, name=f"{number}": state.create(name, text + writer), "abcd")
            seen = pool.submit(lambda name=f"{number}": state.get(name) or "")
            winners = [writer for writer, won in zip("abcd", created, strict=True) if won]
            assert len(winners) == 1
            assert state.get(f"{number}") == text + winners[0]
            assert seen.result() in {"", text + winners[0]}


def test_a_kill_before_a_document_has_its_name_leaves_none_and_the_next_one_creates_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = LocalState(tmp_path)

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
