"""The four operators by themselves, and those that others make of them."""

import pytest

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator


def test_single_operators_take_what_every_task_takes_and_what_a_class_of_one_s_own_adds():
    class Mine(CommitOffsetRangeOperator):
        def __init__(self, *, colour, **kwargs):
            super().__init__(**kwargs)
            self.colour = colour

    load = OrderedLoad("orders", topics=["orders"])
    made = Mine(task_id="one", load=load, colour="red", retries=3, default_args={"pool": "small"})
    assert (made.colour, made.retries, made.pool) == ("red", 3, "small")
    with pytest.raises(SettingError, match="'retries'"):
        Mine(task_id="one", load=load, colour="red", retires=3)
