"""How many rows may be doubled after a batch was tried again, and again."""

import pytest

from airflow_provider_orderedkafka.core.identities import IntervalSet, Landed
from airflow_provider_orderedkafka.kafka.replays import Replay
from airflow_provider_orderedkafka.spark.kafka_output import doubtful

ROWS = 100


def found(rows: int, *, gone: int = 0, settled: bool = True) -> Replay:
    return Replay({0: Landed(IntervalSet([(0, rows)]))}, gone, settled)


@pytest.mark.parametrize(
    ("tries", "doubled"),
    [
        ([], 0),
        ([found(40)], 0),
        ([found(40, gone=3)], 3),
        ([found(40, settled=False)], 60),
        ([found(40, settled=False), found(70)], 60),
        ([found(40, settled=False), found(70, settled=False)], 60),
        ([found(40, gone=3), found(70, gone=5)], 5),
        ([found(40, settled=False), found(70, gone=5)], 65),
        ([found(120, settled=False)], 0),
    ],
)
def test_what_one_try_could_not_know_is_in_doubt_though_the_next_one_could(tries: list[Replay], doubled: int) -> None:
    assert doubtful(tries, ROWS) == doubled
