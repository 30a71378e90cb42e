"""Folders of files: each write of a batch has a folder of its own, and a manifest says which one counts.

`range_id=<range>/batch=<number>/<token>/` is a write. `_orderedkafka/<range>/<number>.json`, the manifest, lists the
files of the write that was complete first: it is created, and never replaced while the range counts. So an attempt that
continues after another one took over leaves files that no manifest names, and changes none that a manifest names.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_orderedkafka.core.codec import canonical
from airflow_provider_orderedkafka.core.commits import MARK, Commit, History, TableVersion, name_of
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import FilesOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState

    from .table import Write

RANGE_ID, BATCH = "range_id", "batch"
MANIFESTS: Final = f"_{MARK}"
HIDDEN: Final = ("_", ".")
OF_SPARK: Final = "part-"
"""The prefix of files that Spark writes."""


@dataclass(frozen=True, slots=True)
class Files:
    """A folder of files, to which a range adds batches under `range_name`.

    `state` has its manifests; `counted` is the last batch that was counted before this attempt, or 0.
    """

    state: "HadoopState"
    output: FilesOutput
    range_id: str
    range_name: str
    counted: int = 0
    identity: bool = False
    by_place: bool = True
    location: str = ""

    def prepare(self, rows: "DataFrame") -> None:
        """Check the columns, and that manifests can be created; complete and clean up what earlier attempts left."""
        _check_columns(rows)
        self.state.check_creates()
        self._list_counted()
        self._tidy(self.counted + 1)

    def version(self, batch: int) -> TableVersion:
        """The batch's number if it has a manifest now: then the range was loaded with another checkpoint."""
        return TableVersion("", batch if self._manifest(batch) else None)

    def history(self, batch: int, noted: TableVersion | None) -> History:
        """The commit of this batch, if it has a manifest, and had none when it was noted."""
        found = self._manifest(batch)
        if found is None or (noted is not None and noted.version == batch):
            return History("")
        return History("", [Commit(1, None, found["name"], found["rows"])])

    def append(self, rows: "DataFrame", write: "Write") -> None:
        """Write a folder, and create the manifest; delete the folder if another write has created one."""
        folder = f"{_folder(self.range_name, write.batch)}/{write.name.rpartition('/')[2]}"
        rows.write.format(self.output.format).options(**self.output.options).save(f"{self.output.path}/{folder}")
        files = [f"{folder}/{name}" for name in self.state.names(folder) if not name.startswith(HIDDEN)]
        made = _document(write.name, files, write.count())
        self.state.create(_name(self.range_name, write.batch), made)
        found = self._manifest(write.batch)
        if found is not None and found["name"] != write.name:
            self.state.delete(folder)
        self._tidy(write.batch)

    def rows_of(self, _called: str, _batch: int) -> tuple[int, int]:
        """None: the rows have no identities."""
        return 0, 0

    def owned(self, _names: Sequence[str]) -> tuple[int, int]:
        """None: a range's rows are in its own folders."""
        return 0, 0

    def forget(self, names: Sequence[str]) -> None:
        """Empty the manifests of a range's earlier names, then delete its files.

        An empty manifest stays for each batch, and for the one after the last: so nothing counts that a frozen attempt
        may still write under such a name.
        """
        for name in names:
            numbers = [*self._numbers(f"{MANIFESTS}/{name}"), *self._numbers(f"{RANGE_ID}={name}")]
            for batch in range(1, max(numbers, default=0) + 2):
                self.state.put(_name(name, batch), _document("", [], 0))
            self.state.delete(f"{RANGE_ID}={name}")

    def _manifest(self, batch: int) -> dict[str, Any] | None:
        """The manifest of a batch. An earlier release kept that of a range which was loaded again with the first."""
        for name in dict.fromkeys((self.range_name, self.range_id)):
            text = self.state.get(_name(name, batch))
            found: dict[str, Any] | None = None if text is None else json.loads(text)
            if found is not None and (name == self.range_name or found["name"].startswith(f"{self.range_name}/")):
                return found
        return None

    def _list_counted(self) -> None:
        """Give counted batches the manifests that an earlier release did not write: their folders are complete."""
        there = {number for name in {self.range_name, self.range_id} for number in self._numbers(f"{MANIFESTS}/{name}")}
        for batch in {*range(1, self.counted + 1)} - there:
            folder = _folder(self.range_id, batch)
            files = [f"{folder}/{name}" for name in self.state.names(folder) if name.startswith(OF_SPARK)]
            made = _document(name_of(self.range_name, batch, "listed"), files, None)
            self.state.create(_name(self.range_name, batch), made)

    def _tidy(self, batch: int) -> None:
        """Delete all other writes of a batch that has a manifest."""
        found, folder = self._manifest(batch), _folder(self.range_name, batch)
        if found is None or not found["name"]:
            return
        named = {file.removeprefix(f"{folder}/").partition("/")[0] for file in found["files"]}
        for name in self.state.names(folder):
            if name not in named and not name.startswith(HIDDEN):
                self.state.delete(f"{folder}/{name}")

    def _numbers(self, folder: str) -> list[int]:
        """The batches in a folder of manifests, or of files."""
        found = (name.removeprefix(f"{BATCH}=").removesuffix(".json") for name in self.state.names(folder))
        return [int(each) for each in found if each.isdecimal()]


def _folder(name: str, batch: int) -> str:
    return f"{RANGE_ID}={name}/{BATCH}={batch}"


def _name(name: str, batch: int) -> str:
    return f"{MANIFESTS}/{name}/{batch}.json"


def _document(name: str, files: Sequence[str], rows: int | None) -> str:
    return canonical({"version": 1, "name": name, "rows": rows, "files": list(files)})


def _check_columns(rows: "DataFrame") -> None:
    taken = {RANGE_ID, BATCH} & {name.lower() for name in rows.columns}
    if taken:
        raise SettingError(
            f"the column {sorted(taken)[0]!r} is this output's own: it says which batch a row belongs to. Rename the "
            f"transform's, found {', '.join(map(repr, rows.columns))}"
        )
