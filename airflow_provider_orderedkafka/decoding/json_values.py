"""JSON objects, read many at once by Arrow's reader: `JsonWriter(type).read(payloads, start)`.

The reader takes a sequence of objects, whatever is between them. So a payload must begin and end as an object does, and
as many objects must come out as payloads went in: then each payload is one.

It refuses moments with more digits than their unit has. Where it does so they are read as nanoseconds, of which
microseconds are kept; not always, since those end in 2262.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pyarrow as pa
from pyarrow import json

from airflow_provider_orderedkafka.decoding.evolution import converted
from airflow_provider_orderedkafka.decoding.salvage import Errors, sound

SPACE = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class JsonWriter:
    """Reads objects as structs of this type."""

    type: Any

    def read(self, payloads: Sequence[bytes], start: int = 0, _indexes: bytes | None = None) -> tuple[Any, Errors]:
        """The objects that begin at this byte of the payloads."""
        texts = [payload[start:] for payload in payloads] if start else payloads
        return sound(texts, self._read, self.type)

    def _read(self, texts: Sequence[bytes]) -> Any:
        if not all(map(_is_object, texts)):
            raise ValueError(f"it is no JSON object, found {texts[0][:40]!r}")
        try:
            rows = _rows(texts, _readable(self.type))
        except pa.ArrowInvalid:
            finer = _readable(self.type, "ns")
            if finer == _readable(self.type):
                raise
            rows = _rows(texts, finer).cast(_readable(self.type), safe=False)
        return converted(rows, self.type)


def _rows(texts: Sequence[bytes], kind: Any) -> Any:
    data = b"\n".join(texts)
    table = json.read_json(
        BytesIO(data),
        json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        json.ParseOptions(pa.schema(list(kind)), newlines_in_values=True, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(texts):
        raise ValueError(f"it is not one JSON object but {table.num_rows}")
    table.validate(full=True)  # the reader takes any bytes for text
    columns = [table.column(name).combine_chunks() for name in kind.names]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _is_object(text: bytes) -> bool:
    text = text.strip(SPACE)
    return text[:1] == b"{" and text[-1:] == b"}"


def _readable(kind: Any, unit: str = "us") -> Any:
    """The type as the reader reads it: dates are texts there."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _readable(field.type, unit)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_readable(kind.value_type, unit))
    if pa.types.is_timestamp(kind):
        return pa.timestamp(unit, kind.tz)
    return pa.string() if pa.types.is_date(kind) else kind
