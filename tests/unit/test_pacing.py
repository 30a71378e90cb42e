"""When to run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.pacing import Pace, Remarks, Situation, decide

MINUTE = 60_000
NOW = 100 * MINUTE


def situation(offsets, waited=0, held_back=0, young=0):
    return Situation(offsets=offsets, since=NOW - waited, now=NOW, held_back=held_back, young=young)


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
        (Pace(10, 15 * MINUTE), situation(0, MINUTE), False, "nothing to load, the delay runs out in 14m"),
        (Pace(10, 15 * MINUTE), situation(0, 20 * MINUTE), False, "nothing to load, the delay ran out"),
        (Pace(), situation(0, young=1), False, "nothing to load yet, 1 offset too young"),
        (Pace(), situation(0, held_back=7), False, "nothing to load; open transactions hold 7 offsets back"),
    ],
)
def test_a_verdict_says_what_decided_or_what_holds_it(pace, seen, runs, reason):
    verdict = decide(pace, seen)
    assert (verdict.run, verdict.reason) == (runs, reason)


def test_a_verdict_says_how_many_offsets_wait_and_how_many_are_not_loaded_yet():
    verdict = decide(Pace(10), situation(4, held_back=2, young=3))
    assert (verdict.waiting, verdict.lag) == (4, 9)


def test_a_remark_is_made_when_it_is_new_and_once_a_minute_at_most():
    remarks, said = Remarks(), []
    for second in range(0, 301, 5):
        remark = "nothing to load" if second < 90 else f"{second} offsets are there"
        if remarks.new(remark, second * 1_000):
            said.append((second, remark))
    assert said == [
        (0, "nothing to load"),
        *((second, f"{second} offsets are there") for second in (90, 150, 210, 270)),
    ]


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
