"""How rows are made of records in Python: they are decoded, then transformed, and some of them are bad.

A bad record cannot be decoded, or the transform makes a row of it whose column `_error` says why it cannot be used. It
gives no row at all, and stays as it is: a dead letter has the bytes that were read.

`Arguments` are what an application is to do: its work, with the functions imported and the settings for Kafka; `code`
tells whether the functions are those of the attempt before.
"""

import ast
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name, spec_from_file_location
from itertools import accumulate
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast
from zipfile import ZipFile

from ...core.documents import Range
from ...core.notation.spelling import counted
from ...core.order.positions import TopicPartition
from ...decoding.registry import Registry
from ...errors import OrderedKafkaError, SettingError, TransformError
from ...job import Job
from ...kafka.clients.config import KafkaConfig
from ...kafka.provenance import ERROR, SOURCE, SOURCE_FIELDS, WHOLE_RECORD
from ..connector.options import SourceOptions
from ..session.failures import failed

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Schema

    from ...decoding.payloads import RecordDecoder

ArrowTransform = Callable[["RecordBatch"], "RecordBatch"]


def with_source(batch: "RecordBatch") -> "RecordBatch":
    """The records with `_source`, which a transform must keep."""
    import pyarrow as pa

    if SOURCE in batch.schema.names:
        return batch
    columns = [batch.column(name) for name in SOURCE_FIELDS]
    return batch.append_column(SOURCE, pa.StructArray.from_arrays(columns, SOURCE_FIELDS))


def applied(transform: ArrowTransform, batch: "RecordBatch") -> "RecordBatch":
    import pyarrow as pa

    try:
        found = transform(with_source(batch))
    except OrderedKafkaError:
        raise
    except Exception as error:
        raise failed(f"the transform {_name(transform)!r}{_given(batch)}", error) from error
    if not isinstance(found, pa.RecordBatch):
        raise SettingError(
            f"the transform {_name(transform)!r} must return a pyarrow.RecordBatch, found {type(found).__name__}"
        )
    return found


def _given(batch: "RecordBatch") -> str:
    """Which records a transform got, as far as they say it."""
    if not batch.num_rows or not set(SOURCE_FIELDS[:3]) <= set(batch.schema.names):
        return ""
    topic, partition, offset = (batch.column(name)[0].as_py() for name in SOURCE_FIELDS[:3])
    return f", given {counted(batch.num_rows, 'record')} from {TopicPartition(topic, partition).at(offset)} on,"


def check_keys(keys: "Array", rows: "RecordBatch") -> None:
    """`SettingError` if rows have other keys than their records, where the transform may not change them."""
    if rekeys(keys, rows):
        raise SettingError(
            "the transform changes keys in some batches only, so several tasks may write rows of one key at once: run "
            "the same range again with --sink-option writers=1"
        )


def rekeys(keys: "Array", found: "RecordBatch") -> bool:
    """Whether rows have keys that no record had, or lost their keys."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "key" not in found.schema.names or pa.types.is_nested(found.schema.field("key").type):
        return True
    known = pc.is_in(found.column("key").cast("binary"), keys)
    return not pc.all(known, min_count=0).as_py()


def _name(transform: ArrowTransform) -> str:
    return getattr(transform, "__qualname__", str(transform))


Place = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class Making:
    """What becomes of a batch of records. More than `most` bad ones are an error; None: there may be any number.

    `columns` are those of the transform's rows, where they are known. `max_bad` is how many records of a run may be
    bad; None where nothing says it.
    """

    decoder: "RecordDecoder | None" = None
    transform: ArrowTransform | None = None
    most: int | None = None
    columns: "Schema | None" = None
    max_bad: int | None = None

    @property
    def idle(self) -> bool:
        """Whether records stay what they are."""
        return self.transform is None and (self.decoder is None or not self.decoder.columns)

    def at_most(self, most: int | None) -> "Making":
        decoder = None if self.decoder is None else replace(self.decoder, max_bad=most)
        return replace(self, decoder=decoder, most=most)

    def schema(self, records: "Schema") -> "Schema":
        if self.transform is not None:
            return self.columns
        return records if self.decoder is None else self.decoder.schema(records)

    def split(self, batch: "RecordBatch") -> "tuple[RecordBatch, RecordBatch]":
        """The rows, and the bad records as they are, with `_error`; raises for more of these than may be."""
        import pyarrow as pa

        from ...decoding.bad_records import too_many, with_errors

        rows, bad = (batch, with_errors(batch, {})) if self.decoder is None else self.decoder.split(batch)
        if self.transform is None:
            return rows, bad
        rows, errors = _split_rows(applied(self.transform, rows), batch)
        if errors:
            bad = pa.concat_batches([bad, with_errors(batch, errors)])
            if self.most is not None and bad.num_rows > self.most:
                raise too_many(bad, self.most)
        return rows, bad


def _split_rows(rows: "RecordBatch", records: "RecordBatch") -> "tuple[RecordBatch, dict[int, str]]":
    """The rows without those of bad records, and the errors of these by their index."""
    import pyarrow as pa

    names = rows.schema.names
    if ERROR not in names or SOURCE not in names:  # without its source a row is bad by itself, once it is written
        return rows, {}
    sound = rows.select([name for name in names if name != ERROR])
    errors_of_rows = rows.column(ERROR)
    if errors_of_rows.null_count == len(errors_of_rows):
        return sound, {}
    index = {place: number for number, place in enumerate(places(records.select(SOURCE_FIELDS)))}
    found = places(pa.RecordBatch.from_struct_array(rows.column(SOURCE)))
    errors: dict[int, str] = {}
    for place, error in zip(found, errors_of_rows.to_pylist(), strict=True):
        if error is not None:
            if place not in index:
                raise TransformError(f"a row whose _error is {error!r} has lost its _source: keep the column as it is")
            errors.setdefault(index[place], str(error))
    bad = [index.get(place) in errors for place in found]
    return sound.filter(pa.array([not each for each in bad])), dict(sorted(errors.items()))


def whole_records(bad: "RecordBatch") -> "RecordBatch":
    """Bad records, with `_source`, as the dead letters that they are as a whole."""
    import numpy as np

    from ...kafka.write.rows import with_ordinals

    return with_ordinals(with_source(bad), np.full(bad.num_rows, WHOLE_RECORD))


def places(records: "RecordBatch") -> list[Place]:
    columns = (records.column(name).to_pylist() for name in SOURCE_FIELDS[:3])
    return list(zip(*columns, strict=True))


Transform = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The work as it is to be done here. `cluster` is the output's, where that is topics."""

    checkpoint: str
    job: Job
    source: SourceOptions
    cluster: KafkaConfig
    attempt: int | None = None
    report: str | None = None
    row_limit: int | None = None
    transform: Transform | None = None
    arrow_transform: Transform | None = None
    registry: Registry | None = None

    @property
    def session(self) -> Mapping[str, str]:
        """The settings that a Spark session needs to write there."""
        letters, table = self.job.rows.dead_letters, self.job.table
        of_letters = {} if isinstance(letters, str | None) else letters.session
        return {**of_letters, **({} if table is None else table.session)}

    @property
    def range(self) -> Range | None:
        return self.source.range

    def with_functions(self, transform: Transform | None, arrow_transform: Transform | None) -> "Arguments":
        """With a program's own functions, unless the job names one."""
        if self.transform or self.arrow_transform:
            return self
        return replace(self, transform=transform, arrow_transform=arrow_transform)

    def making(self, loaded: Range) -> Making:
        """What makes rows of the range's records in Python; none of these may be bad where rows are limited."""
        decoder, bad = self._decoder(loaded), self.job.rows.bad_records
        allowed = bad.most if bad is not None else None if decoder is None else 0
        most = 0 if loaded.rows_left is not None else None if decoder is None else allowed
        return Making(decoder, self.arrow_transform, most, max_bad=allowed)

    def _decoder(self, loaded: Range) -> "RecordDecoder | None":
        """What decodes the records; the registry is asked for their schemas. None if they stay bytes."""
        decode, bad = self.job.rows.decode, self.job.rows.bad_records
        if decode is None:
            return None
        if bad is not None and loaded.rows_left is not None:
            raise SettingError(
                f"{bad.most} bad records and a row limit cannot be used together: which rows are the first ones would "
                "depend on which records are bad; leave one out"
            )
        from ...decoding.payloads import RecordDecoder

        return RecordDecoder.of(decode, sorted(loaded.topics), self.registry, 0 if bad is None else bad.most)

    @property
    def transform_name(self) -> str | None:
        function = self.transform or self.arrow_transform
        if function is None:
            return None
        return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', function)}"

    @property
    def code(self) -> str:
        """A digest of the code of the transform; empty without one. Of code that cannot be read, each has its own."""
        function = self.transform or self.arrow_transform
        if function is None:
            return ""
        whole = isinstance(function, partial)  # what is given to it is of the program
        named = (self.job.rows.function or "__main__" * whole).partition(":")[0]
        while isinstance(function, partial):
            function = function.func
        module = getattr(inspect.unwrap(function), "__module__", None) or named or "?"
        try:
            return sha256(repr(sorted(shipped_code({module, named or module}))).encode()).hexdigest()[:16]
        except OSError:
            return token_hex(8)


_STANDARD: Final = Path(os.__file__).parent
_INSTALLED: Final = {"site-packages", "dist-packages"}
_WITH_SPARK: Final = {"pyspark", "py4j", __name__.partition(".")[0]}


def shipped_code(modules: Collection[str]) -> set[tuple[str, bytes]]:
    """The code of modules and, by the statements in it, of all that they import and that is not installed for Spark.

    What is installed counts if it is of a package of these modules, if that is not this one. Of an archive all counts,
    as it may have data. `OSError` if one of the modules cannot be read.
    """
    found, seen = set[tuple[str, bytes]](), set[str]()
    own = {each.partition(".")[0] for each in modules} - _WITH_SPARK
    left = [part for each in modules for part in _with_parents(each)]
    while left:
        if (name := left.pop()) in seen:
            continue
        seen.add(name)
        spec = _spec(name)
        if name in modules and (spec is None or spec.origin is None):
            raise FileNotFoundError(f"module {name!r} has no file")
        of_these = name in modules or name.partition(".")[0] in own
        if spec is None or not (_ships(name, spec) or (spec.has_location and of_these)):
            continue
        loader, file = cast("Any", spec.loader), str(spec.origin)
        archive = getattr(loader, "archive", None)
        code = Path(file).read_bytes() if archive is None else loader.get_data(file)
        found.add((name, code) if archive is None else ("", _contents(archive)))
        left += _imported(code, spec.parent or "")
    return found


def _ships(name: str, spec: ModuleSpec) -> bool:
    file = Path(spec.origin) if spec.has_location and spec.origin else _STANDARD
    installed = file.is_relative_to(_STANDARD) or not _INSTALLED.isdisjoint(file.parts)
    return not installed and name.partition(".")[0] not in _WITH_SPARK


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is; nothing is imported for that."""
    module = sys.modules.get(name)
    if module is not None:
        file = getattr(module, "__file__", None)
        return module.__spec__ or (None if file is None else spec_from_file_location(name, file))
    parent, _, last = name.rpartition(".")
    within = _spec(parent) if parent else None
    if parent and (within is None or within.submodule_search_locations is None):
        return None
    places = None if within is None else within.submodule_search_locations
    try:
        return PathFinder.find_spec(name, places)
    except KeyError:  # a folder without code, in one that nobody imported
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [f"{each}/{last}" for each in places or ()]
        return found


def _imported(code: bytes, package: str) -> Iterator[str]:
    """What the statements of a module may import, those in its functions, too; nothing where it is no source."""
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                for each in node.names:
                    yield from _with_parents(each.name)
            elif isinstance(node, ast.ImportFrom) and (package or not node.level):
                base = resolve_name("." * node.level + (node.module or ""), package)
                yield from _with_parents(base)
                yield from (f"{base}.{each.name}" for each in node.names)


def _with_parents(name: str) -> Iterator[str]:
    return accumulate(name.split("."), "{}.{}".format)


def _contents(archive: str) -> bytes:
    """What an archive has, whenever it was made."""
    with ZipFile(archive) as opened:
        return repr(sorted((each.filename, each.CRC) for each in opened.infolist())).encode()
