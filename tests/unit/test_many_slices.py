"""A range with very many slices is planned by work that grows with their number alone."""

import time

import pytest
from support.simulated_log import SteadyLog

from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Span
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Offsets


@pytest.mark.parametrize(("slices", "seconds"), [(10_000, 10), pytest.param(100_000, 100, marks=pytest.mark.nightly)])
def test_many_slices_are_planned_in_time_that_grows_with_their_number(slices, seconds):
    each = 10_000
    log = SteadyLog(4, slices * each // 4)
    span = Span(Offsets(dict.fromkeys(log.partitions, 0)), log.ends(), NO_FLOOR, 10**15)
    began = time.process_time()
    found = Planner(log, span).slices(each, "fail")
    assert time.process_time() - began < seconds
    assert len(found) == slices
    assert sum(each.offsets for each in found) == span.offsets
    assert max(slice_.offsets for slice_ in found) < 2 * each
