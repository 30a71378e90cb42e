"""Confluent's wire format: which schema a payload was written with, and where its data begins.

In front of the data: a zero byte and the schema's id (4 bytes, big-endian). Or in a header, `__key_schema_id` or
`__value_schema_id`: the same, or a one byte and the schema's GUID (16 bytes); then the payload is data alone.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FRAME: Final = 5
ID_MAGIC, GUID_MAGIC = 0, 1
_ID_BYTES, _GUID_BYTES = 5, 17
_IN_HEADER, _IN_PAYLOAD = b"h", b"p"


@dataclass(frozen=True, slots=True)
class Framed:
    """Payloads that were written with one schema, by their indices; or why they cannot be read.

    `data` is the index of the first byte of data, `indexes` what a header has behind the schema's id.
    """

    rows: list[int]
    schema: int | str | None
    data: int = FRAME
    indexes: bytes | None = None
    error: str | None = None


def split(payloads: Any, heads: Any = None) -> Iterator[Framed]:
    """The payloads that are not null, by their schema; `heads` are the headers with schemas' ids, or null."""
    found = pc.binary_join_element_wise(pa.scalar(_IN_PAYLOAD), pc.binary_slice(payloads, 0, FRAME), b"")
    if heads is not None:
        named = pc.binary_join_element_wise(pa.scalar(_IN_HEADER), heads, b"")
        found = pc.if_else(pc.and_(heads.is_valid(), payloads.is_valid()), named, found)
    encoded = found.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    for code, head in enumerate(encoded.dictionary.to_pylist()):
        yield _framed(np.flatnonzero(codes == code).tolist(), head[:1], head[1:])


def schema_headers(headers: Any, name: str) -> Any:
    """The header of this name of each record, null where there is none."""
    entries, parents = headers.flatten(), pc.list_parent_indices(headers).to_numpy()
    named = np.flatnonzero(pc.equal(entries.field("key"), name).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003
    rows, first = np.unique(parents[named], return_index=True)
    places = np.full(len(headers), -1)
    places[rows] = named[first]
    return entries.field("value").take(pa.array(places, mask=places < 0))


def _framed(rows: list[int], where: bytes, head: bytes) -> Framed:
    if where == _IN_HEADER:
        return _of_header(rows, head)
    if len(head) < FRAME:
        return Framed(rows, None, error=f"it ends after {len(head)} bytes: a schema's id is expected, and data")
    if head[0] != ID_MAGIC:
        return Framed(
            rows,
            None,
            error=f"it begins with byte 0x{head[0]:02x}, and not with 0x00 and a schema's id: it was written without a "
            "registry",
        )
    return Framed(rows, int.from_bytes(head[1:FRAME], "big"))


def _of_header(rows: list[int], head: bytes) -> Framed:
    if len(head) >= _ID_BYTES and head[0] == ID_MAGIC:
        return Framed(rows, int.from_bytes(head[1:_ID_BYTES], "big"), 0, head[_ID_BYTES:])
    if len(head) >= _GUID_BYTES and head[0] == GUID_MAGIC:
        return Framed(rows, str(uuid.UUID(bytes=head[1:_GUID_BYTES])), 0, head[_GUID_BYTES:])
    return Framed(rows, None, error=f"its header for the schema's id is damaged, found {head[:20]!r}")
