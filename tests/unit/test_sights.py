"""What waits for the next range: what is too young, and what an open transaction may still come before."""

import pytest

from airflow_provider_orderedkafka.core.cuts import Floor, Place
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.kafka.ends import Ends
from airflow_provider_orderedkafka.kafka.topics import Discovery
from airflow_provider_orderedkafka.ranges import Sight

NOW, WAIT = 100, 90


@pytest.mark.parametrize(
    ("grace", "open_since", "cut"),
    [
        (0, None, NOW),
        (30, None, 70),
        (30, 60, 60),
        (30, 80, 70),
        (30, 5, 10),
        (NOW + 1, None, 0),
    ],
    ids=[
        "no grace",
        "a grace",
        "an open transaction",
        "a young transaction",
        "a transaction that is not waited for any longer",
        "a grace longer than time",
    ],
)
def test_a_range_ends_before_what_is_young_and_before_what_open_transactions_began_with(grace, open_since, cut):
    nothing = Offsets()
    sight = Sight(NOW, Discovery("c", (), ()), Place(nothing, Floor()), Ends(nothing, nothing, 0, open_since))
    assert sight.cut_time(grace, WAIT) == cut
