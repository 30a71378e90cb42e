"""Make records of the dead letter topic from rows that cannot be written.

A dead letter has the row's key, value, headers and timestamp, its provenance, and the header `orderedkafka.error` with
what was wrong. What its topic would refuse is left out: key, value and headers of a row that is too large, a timestamp
that is out of bounds.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from airflow_provider_orderedkafka.kafka.provenance import ERROR_HEADER, HEADER
from airflow_provider_orderedkafka.kafka.read.payloads import as_list
from airflow_provider_orderedkafka.kafka.write.outputs import OutputTopic
from airflow_provider_orderedkafka.kafka.write.rows import (
    NO_PARTITION,
    NOW,
    Rows,
    header_lists,
    sendable,
    without_provenance,
)
from airflow_provider_orderedkafka.kafka.write.sending import Chunk

_ERROR_BYTES: Final = 2_000


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """The dead letter topic, and the maximum bytes of key, value and headers there."""

    output: OutputTopic
    max_bytes: int


def dead_letters(rows: Rows, faults: dict[int, str], target: DeadLetterTopic, stamps: list[bytes] | None) -> Chunk:
    places = list(faults)
    sizes = rows.record_bytes()[places]
    fits = (sizes <= target.max_bytes - _ERROR_BYTES).tolist()
    own = [[]] * len(rows) if rows.headers is None else header_lists(rows.headers)
    headers = [
        _headers(own[place] if fit else [], faults[place], stamps[place] if stamps else None)
        for place, fit in zip(places, fits, strict=True)
    ]
    return Chunk(
        topics=[target.output.name] * len(places),
        values=_kept(as_list(rows.values), places, fits),
        keys=_kept([None] * len(rows) if rows.keys is None else as_list(rows.keys), places, fits),
        partitions=[NO_PARTITION] * len(places),
        timestamps=_in_bounds(sendable(rows.timestamps[places]), target.output),
        headers=headers,
        describe=lambda key, _value: f"a dead letter with key {key!r}",
    )


def payload_bytes(chunk: Chunk) -> int:
    return sum(len(payload) for column in (chunk.keys, chunk.values) for payload in column if payload is not None)


def _headers(own: list[Any], reason: str, stamp: bytes | None) -> list[Any]:
    named = [(name, value) for name, value in without_provenance(own) if name is not None]
    return [*named, (ERROR_HEADER, reason.encode()[:_ERROR_BYTES]), *([] if stamp is None else [(HEADER, stamp)])]


def _kept(column: list[Any], places: list[int], fits: list[bool]) -> list[Any]:
    return [column[place] if fit else None for place, fit in zip(places, fits, strict=True)]


def _in_bounds(timestamps: Any, output: OutputTopic) -> list[int]:
    off = timestamps - int(time.time() * 1_000)
    kept: list[int] = np.where((off <= output.ahead) & (-off <= output.behind), timestamps, NOW).tolist()
    return kept
