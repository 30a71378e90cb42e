"""When to run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.pacing import Pace, Remarks, Since, Situation, decide

MINUTE = 60_000
NOW = 100 * MINUTE


def situation(offsets, waited=0, held_back=0, young=0, oldest=None, *, first=False):
    """What is there, so long after the last run; or after the first look, before the first run."""
    since = Since(NOW - waited, None) if first else Since(0, NOW - waited)
    oldest = None if oldest is None else NOW - oldest
    return Situation(offsets, since, NOW, held_back, young, oldest)


DELAY = Pace(None, 15 * MINUTE)
BOTH = Pace(10_000, 15 * MINUTE)
BY_AGE = Pace(None, 15 * MINUTE, "oldest")
BOTH_BY_AGE = Pace(10_000, 15 * MINUTE, "oldest")


@pytest.mark.parametrize(
    ("pace", "seen", "runs", "reason"),
    [
        (Pace(), situation(1), True, "1 offset is there"),
        (Pace(10_000), situation(9_999), False, "9,999 of 10,000 offsets are there, no delay is set"),
        (Pace(10_000), situation(10_000), True, "10,000 offsets are there, 10,000 are enough"),
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
        (
            DELAY,
            situation(300, first=True),
            True,
            "300 offsets are there, and the first run does not wait for the delay",
        ),
        (DELAY, situation(0, first=True), False, "nothing to load"),
        (BOTH, situation(10_000, first=True), True, "10,000 offsets are there, 10,000 are enough"),
        (
            BOTH,
            situation(300, 5 * MINUTE, first=True),
            False,
            "300 of 10,000 offsets are there, the delay runs out in 10m",
        ),
        (
            BOTH,
            situation(300, 15 * MINUTE, first=True),
            True,
            "300 of 10,000 offsets are there, and the delay of 15m ran out",
        ),
        (BY_AGE, situation(1, 99 * MINUTE, oldest=5 * MINUTE), False, "1 offset is there, the delay runs out in 10m"),
        (BY_AGE, situation(1, oldest=15 * MINUTE), True, "1 offset is there, and the delay of 15m ran out"),
        (BY_AGE, situation(1, first=True, oldest=MINUTE), False, "1 offset is there, the delay runs out in 14m"),
        (BY_AGE, situation(0, 99 * MINUTE), False, "nothing to load"),
        (BY_AGE, situation(3, 99 * MINUTE), False, "3 offsets are there, no record among them"),
        (BOTH_BY_AGE, situation(10_000, oldest=0), True, "10,000 offsets are there, 10,000 are enough"),
        (Pace(), situation(0, young=1), False, "nothing to load yet, 1 offset too young"),
        (Pace(), situation(0, held_back=7), False, "nothing to load; open transactions hold 7 offsets back"),
    ],
)
def test_a_verdict_says_what_decided_or_what_holds_it(pace, seen, runs, reason):
    verdict = decide(pace, seen)
    assert (verdict.run, verdict.reason) == (runs, reason)


@pytest.mark.parametrize("first", [False, True], ids=["the last run", "the first look"])
def test_no_delay_counts_from_what_is_ahead_of_a_clock_that_was_set_back(first):
    assert decide(BOTH, situation(1, -99 * MINUTE, first=first)).run


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


paces = st.builds(
    Pace, st.none() | st.integers(1, 100), st.none() | st.integers(1, NOW), st.sampled_from(["last_run", "oldest"])
)
waits = st.integers(0, 2 * NOW)


@given(paces, waits, st.booleans())
def test_nothing_to_load_never_runs(pace, waited, first):
    assert not decide(pace, situation(0, waited, first=first)).run


@given(paces, st.integers(1, 200), waits, st.booleans())
def test_more_offsets_or_more_time_never_stop_a_run(pace, offsets, waited, first):
    if decide(pace, situation(offsets, waited, oldest=waited, first=first)).run:
        assert decide(pace, situation(offsets + 1, waited, oldest=waited, first=first)).run
        assert decide(pace, situation(offsets, waited + 1, oldest=waited + 1, first=first)).run


@given(paces, st.integers(1, 200), waits, waits, st.booleans())
def test_a_delay_that_ran_out_runs_with_anything(pace, offsets, waited, age, first):
    counted = waited if pace.delay_from == "last_run" else age
    if pace.max_delay is not None and counted >= pace.max_delay:
        assert decide(pace, situation(offsets, waited, oldest=age, first=first)).run


@given(paces, st.integers(1, 200), waits, st.booleans())
def test_a_run_by_the_oldest_record_starts_no_sooner_however_long_the_last_run_is_ago(pace, offsets, waited, first):
    if pace.delay_from == "oldest" and pace.max_delay is not None and offsets < (pace.min_offsets or offsets + 1):
        found = decide(pace, situation(offsets, waited, oldest=0, first=first))
        assert (found.run, found.due) == (False, NOW + pace.max_delay)
