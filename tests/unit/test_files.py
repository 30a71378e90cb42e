"""Folders of files: what one write finished, no other one changes, whoever goes on late."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.memory_state import MemoryState

from airflow_provider_orderedkafka.core.commits import name_of
from airflow_provider_orderedkafka.outputs import FilesOutput
from airflow_provider_orderedkafka.spark.tables.table import Write
from airflow_provider_orderedkafka.spark.tables.table_formats import Files

LAKE = "/lake/orders"


@dataclass
class Folder:
    """A folder of files, and those that write to it; `meanwhile` is what happens as rows are written."""

    documents: dict[str, str] = field(default_factory=dict)

    def files(self, range_name: str = "r1", counted: int = 0) -> Files:
        state: Any = MemoryState(self.documents, LAKE)
        files = Files(state, FilesOutput(LAKE), range_name, counted)
        files.prepare(self.rows())
        return files

    def rows(self, meanwhile: Callable[[], object] = lambda: None) -> Any:
        return Rows(self.documents, meanwhile)

    def write(self, files: Files, token: str, batch: int = 1, meanwhile: Callable[[], object] = lambda: None) -> None:
        files.append(
            self.rows(meanwhile), Write(files.range_name, batch, name_of(files.range_name, batch, token), lambda: 1)
        )

    @property
    def listed(self) -> list[str]:
        """The files that manifests list."""
        found = [json.loads(text)["files"] for name, text in self.documents.items() if name.endswith(".json")]
        return sorted(file for files in found for file in files)

    @property
    def there(self) -> list[str]:
        """The files with rows."""
        return sorted(name.removeprefix(f"{LAKE}/") for name in self.documents if not name.endswith(".json"))


@dataclass
class Rows:
    """Rows, as far as they are written."""

    documents: dict[str, str]
    meanwhile: Callable[[], object]
    names: tuple[str, ...] = ("part-0",)
    columns: tuple[str, ...] = ("value",)

    @property
    def write(self) -> "Rows":
        return self

    def format(self, _name: str) -> "Rows":
        return self

    def options(self, **_options: str) -> "Rows":
        return self

    def save(self, path: str) -> None:
        self.meanwhile()
        self.documents |= {f"{path}/{name}": "rows" for name in self.names}


@pytest.fixture
def folder() -> Folder:
    return Folder()


def test_of_two_writes_of_a_batch_the_first_to_finish_counts_and_the_other_leaves_nothing(folder: Folder) -> None:
    late, other = folder.files(), folder.files()
    folder.write(late, "late", meanwhile=lambda: folder.write(other, "other"))
    assert folder.listed == folder.there == ["range_id=r1/batch=1/other/part-0"]
    [commit] = late.history(1, late.version(2)).commits
    assert commit.name == "r1/1/other"


def test_what_killed_attempts_left_of_a_batch_goes_once_it_is_complete(folder: Folder) -> None:
    for left in ("killed/part-0", "part-of-another", "_SUCCESS"):
        folder.documents[f"{LAKE}/range_id=r1/batch=1/{left}"] = "rows"
    folder.documents[f"{LAKE}/range_id=r1/batch=2/running/part-0"] = "rows"
    folder.write(folder.files(), "a")
    kept = ["range_id=r1/batch=1/_SUCCESS", "range_id=r1/batch=1/a/part-0", "range_id=r1/batch=2/running/part-0"]
    assert folder.there == kept


def test_an_attempt_that_was_killed_between_its_manifest_and_what_others_left_is_tidied_after(folder: Folder) -> None:
    folder.write(folder.files(), "a")
    folder.documents[f"{LAKE}/range_id=r1/batch=1/killed/part-0"] = "rows"
    folder.files(counted=0)
    assert folder.listed == folder.there


def test_a_batch_that_another_checkpoint_s_load_wrote_is_not_taken_for_this_one_s(folder: Folder) -> None:
    folder.write(folder.files(), "a")
    files = folder.files()
    noted = files.version(1)
    folder.write(files, "b")
    assert not list(files.history(1, noted).commits)
    assert folder.listed == folder.there == ["range_id=r1/batch=1/a/part-0"]


def test_what_is_loaded_again_replaces_what_was_there_whoever_goes_on_late(folder: Folder) -> None:
    first, again = folder.files(), folder.files("r1-again-1")
    folder.write(first, "a", 1)
    folder.write(first, "late", 2, meanwhile=lambda: again.forget(["r1"]))
    assert folder.listed == []
    folder.write(again, "b")
    again.forget(["r1"])  # by an attempt of its own that was frozen
    folder.write(first, "later", 2)
    assert folder.listed == folder.there == ["range_id=r1-again-1/batch=1/b/part-0"]


def test_a_manifest_lists_files_in_the_order_in_which_they_were_written_however_many_a_task_has(folder: Folder) -> None:
    written = [f"part-{task}-07c1-c{number:03}.orc" for task in ("99999", "100000") for number in (0, 101, 999, 1000)]
    files = folder.files()
    rows: Any = Rows(folder.documents, lambda: None, tuple(written))
    files.append(rows, Write("r1", 1, name_of("r1", 1, "a"), lambda: 1))
    [manifest] = [json.loads(text) for name, text in folder.documents.items() if name.endswith(".json")]
    assert [name.rpartition("/")[2] for name in manifest["files"]] == written
