"""When to run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.pacing import Pace, Situation, decide

MINUTE = 60_000
NOW = 100 * MINUTE


def situation(offsets, waited=0, held_back=0):
    return Situation(offsets=offsets, since=NOW - waited, now=NOW, held_back=held_back)


@pytest.mark.parametrize(
    ("pace", "seen", "runs", "reason"),
    [
        (Pace(), situation(1), True, "1 of 1 offsets are there"),
        (Pace(10_000), situation(9_999), False, "9,999 of 10,000 offsets are there, no delay is set"),
        (Pace(10_000), situation(10_000), True, "10,000 of 10,000 offsets are there"),
        (
            Pace(10_000, 15 * MINUTE),
            situation(300, 5 * MINUTE),
            False,
            "300 of 10,000 offsets are there, the delay runs out in 10m",
        ),
        (
            Pace(10_000, 15 * MINUTE),
            situation(300, 15 * MINUTE),
            True,
            "300 of 10,000 offsets are there, and the delay of 15m ran out",
        ),
        (Pace(None, 15 * MINUTE), situation(300, MINUTE), False, "300 offsets are there, the delay runs out in 14m"),
        (Pace(), situation(0, held_back=7), False, "nothing to load; open transactions hold 7 offsets back"),
    ],
)
def test_a_verdict_says_what_decided_or_what_holds_it(pace, seen, runs, reason):
    verdict = decide(pace, seen)
    assert (verdict.run, verdict.reason) == (runs, reason)


paces = st.builds(Pace, st.none() | st.integers(1, 100), st.none() | st.integers(1, NOW))
waits = st.integers(0, 2 * NOW)


@given(paces, waits)
def test_nothing_to_load_never_runs(pace, waited):
    assert not decide(pace, situation(0, waited)).run


@given(paces, st.integers(1, 200), waits)
def test_more_offsets_or_more_time_never_stop_a_run(pace, offsets, waited):
    if decide(pace, situation(offsets, waited)).run:
        assert decide(pace, situation(offsets + 1, waited)).run
        assert decide(pace, situation(offsets, waited + 1)).run


@given(paces, st.integers(1, 200), waits)
def test_a_delay_that_ran_out_runs_with_anything(pace, offsets, waited):
    if pace.max_delay is not None and waited >= pace.max_delay:
        assert decide(pace, situation(offsets, waited)).run
