"""Records with decoded keys and values: `RecordDecoder.of(decode, topics, registry)`, then batch by batch.

`decoder.split(batch)` gives the records that can be decoded, as a transform gets them, and the others as they are.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import pyarrow as pa

from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.decoding.framing import schema_headers
from airflow_provider_orderedkafka.decoding.payloads import PayloadDecoder
from airflow_provider_orderedkafka.decoding.registry import Registry
from airflow_provider_orderedkafka.decoding.salvage import Errors, too_many, with_errors
from airflow_provider_orderedkafka.errors import SettingError

SCHEMA_HEADERS: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}


@dataclass(frozen=True, slots=True)
class RecordDecoder:
    """Decodes the columns of a batch of records. At most `max_bad` records may be bad; None: any number."""

    columns: tuple[PayloadDecoder, ...]
    max_bad: int | None

    @classmethod
    def of(cls, decode: Decode, topics: Sequence[str], registry: Registry | None = None) -> "RecordDecoder":
        """Settle the columns; asks the registry, which must be given where a format names one."""
        check_installed(decode)
        columns = [PayloadDecoder.of(name, each, topics, registry) for name, each in decode.formats.items()]  # type: ignore[arg-type]
        return cls(tuple(columns), decode.max_bad_records)

    def schema(self, records: Any) -> Any:
        """The columns of decoded records, from those of records."""
        for each in self.columns:
            place = records.get_field_index(each.column)
            records = records.set(place, pa.field(each.column, each.type))
        return records

    def split(self, batch: Any) -> tuple[Any, Any]:
        """The records decoded, and the bad ones as they are, with `_error`; raises for more of these than may be."""
        decoded, errors = self._decoded(batch)
        bad = with_errors(batch, errors)
        if self.max_bad is not None and len(errors) > self.max_bad:
            raise too_many(bad, self.max_bad)
        return (decoded.filter(_without(errors, batch.num_rows)) if errors else decoded), bad

    def _decoded(self, batch: Any) -> tuple[Any, Errors]:
        errors: Errors = {}
        for each in self.columns:
            place = batch.schema.get_field_index(each.column)
            array, wrong = each.decoded(batch.column(place), self._heads(batch, each))
            batch = batch.set_column(place, pa.field(each.column, each.type), array)
            errors = {**wrong, **errors}
        return batch, dict(sorted(errors.items()))

    def _heads(self, batch: Any, each: PayloadDecoder) -> Any:
        if each.registry is None or "headers" not in batch.schema.names:
            return None
        return schema_headers(batch.column("headers"), SCHEMA_HEADERS[each.column])


def check_installed(decode: Decode) -> None:
    """`SettingError` if this Python lacks what the formats need."""
    missing = [name for name in decode.needed if not has(name)]
    if missing:
        raise SettingError(
            f"decoding needs {' and '.join(missing)}, which this Python ({sys.executable}) does not have: pip install "
            "'airflow-provider-orderedkafka[decode]' where Spark runs"
        )


def has(name: str) -> bool:
    """Whether a package is there, without importing more of it than what is around it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _without(errors: Errors, count: int) -> Any:
    mask = np.ones(count, bool)
    mask[list(errors)] = False
    return pa.array(mask)
