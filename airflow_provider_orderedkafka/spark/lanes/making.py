"""How rows are made of records in Python: they are decoded, then transformed, and some of them are bad.

A bad record cannot be decoded, or the transform makes a row of it whose column `_error` says why it cannot be used. It
gives no row at all, and stays as it is: a dead letter has the bytes that were read.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.errors import TransformError
from airflow_provider_orderedkafka.kafka.provenance import ERROR, SOURCE, SOURCE_FIELDS
from airflow_provider_orderedkafka.spark.lanes.arrow_transforms import ArrowTransform, applied

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

    from airflow_provider_orderedkafka.decoding.records import RecordDecoder

Place = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class Making:
    """What becomes of a batch of records. More than `most` bad ones are an error; None: there may be any number.

    `columns` are those of the transform's rows, where they are known.
    """

    decoder: "RecordDecoder | None" = None
    transform: ArrowTransform | None = None
    most: int | None = None
    columns: "Schema | None" = None

    @property
    def idle(self) -> bool:
        """Whether records stay what they are."""
        return self.transform is None and (self.decoder is None or not self.decoder.columns)

    @property
    def max_bad(self) -> int | None:
        """How many records of a run may be bad; None where nothing says it."""
        return None if self.decoder is None else self.decoder.max_bad

    def at_most(self, most: int | None) -> "Making":
        """The same, with another number of bad records that a batch may have."""
        decoder = None if self.decoder is None else replace(self.decoder, max_bad=most)
        return replace(self, decoder=decoder, most=most)

    def schema(self, records: "Schema") -> "Schema":
        """The columns of rows, from those of records."""
        if self.transform is not None:
            return self.columns
        return records if self.decoder is None else self.decoder.schema(records)

    def split(self, batch: "RecordBatch") -> "tuple[RecordBatch, RecordBatch]":
        """The rows, and the bad records as they are, with `_error`; raises for more of these than may be."""
        import pyarrow as pa

        from airflow_provider_orderedkafka.decoding.salvage import too_many, with_errors

        rows, bad = (batch, with_errors(batch, {})) if self.decoder is None else self.decoder.split(batch)
        if self.transform is None:
            return rows, bad
        rows, errors = _parted(applied(self.transform, rows), batch)
        if errors:
            bad = pa.concat_batches([bad, with_errors(batch, errors)])
            if self.most is not None and bad.num_rows > self.most:
                raise too_many(bad, self.most)
        return rows, bad


def _parted(rows: "RecordBatch", records: "RecordBatch") -> "tuple[RecordBatch, dict[int, str]]":
    """The rows but for those of bad records, which are told by their index, and why."""
    import pyarrow as pa

    names = rows.schema.names
    if ERROR not in names or SOURCE not in names:  # without its source a row is bad by itself, once it is written
        return rows, {}
    sound = rows.select([name for name in names if name != ERROR])
    said = rows.column(ERROR)
    if said.null_count == len(said):
        return sound, {}
    index = {place: number for number, place in enumerate(places(records.select(SOURCE_FIELDS)))}
    found = places(pa.RecordBatch.from_struct_array(rows.column(SOURCE)))
    errors: dict[int, str] = {}
    for place, error in zip(found, said.to_pylist(), strict=True):
        if error is not None:
            if place not in index:
                raise TransformError(f"a row whose _error is {error!r} has lost its _source: keep the column as it is")
            errors.setdefault(index[place], str(error))
    bad = [index.get(place) in errors for place in found]
    return sound.filter(pa.array([not each for each in bad])), dict(sorted(errors.items()))


def places(records: "RecordBatch") -> list[Place]:
    """Where the records stand."""
    columns = (records.column(name).to_pylist() for name in SOURCE_FIELDS[:3])
    return list(zip(*columns, strict=True))
