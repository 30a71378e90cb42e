"""How many headers a record may have: Kafka's client reads none of one that has more."""

import pyarrow as pa
import pytest

from airflow_provider_orderedkafka.kafka.read.columns import HEADERS
from airflow_provider_orderedkafka.kafka.write.faults import Targets, find_faults
from airflow_provider_orderedkafka.kafka.write.rows import MOST_HEADERS, Rows
from airflow_provider_orderedkafka.kafka.write.settings import OutputTopic, WriteSettings
from airflow_provider_orderedkafka.kafka.write.writing import dead_letters

LARGE = 100 * 2**20
OUT, DEAD = (OutputTopic(name, f"id-{name}", 3, max_bytes=LARGE) for name in ("out", "dead"))


def rows_of(*counts: int | None, range_id: str | None = None) -> tuple[Rows, WriteSettings]:
    """A row for each count, with so many headers."""
    lists = [None if count is None else [{"key": "h", "value": b"v"}] * count for count in counts]
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array([b"x"] * len(counts), pa.binary()), "headers": pa.array(lists, HEADERS)}
    )
    settings = WriteSettings({}, topic="out", range_id=range_id, outputs={"out": OUT})
    return Rows.of(batch, settings), settings


@pytest.mark.parametrize(("range_id", "most"), [(None, MOST_HEADERS), ("r1", MOST_HEADERS - 1)])
def test_a_row_with_more_headers_than_can_be_read_again_is_refused(range_id: str | None, most: int) -> None:
    rows, settings = rows_of(most + 1, None, most, 0, range_id=range_id)
    [(place, reason)] = find_faults(rows, Targets(settings)).items()
    assert place == 0
    assert f"{most + 1:,} headers" in reason
    assert ("provenance" in reason) == (range_id is not None)


def test_a_dead_letter_keeps_its_headers_where_those_of_its_own_fit_too() -> None:
    rows, _ = rows_of(MOST_HEADERS, MOST_HEADERS - 2)
    letters = dead_letters(rows, {0: "wrong", 1: "wrong"}, DEAD, LARGE, [b"s", b"s"])
    assert [len(headers) for headers in letters.headers] == [2, MOST_HEADERS]
    assert letters.values == [None, b"x"]
