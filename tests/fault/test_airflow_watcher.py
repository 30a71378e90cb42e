"""A watcher in a real triggerer: a load that fails and then succeeds, and how many runs that makes."""

import time

import pytest

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1500)]

QUIET_SECONDS = 15


def test_a_watcher_starts_a_run_for_each_revision_and_again_after_failures_and_no_more(load, rest):
    watched = load("watched")
    watched.write(40)
    watched.order(75, 75)  # the first run and the first that takes its range over fail
    rest.unpause("watched")
    rest.until(lambda: states(rest).count("success") == 1, lambda: str(states(rest)))
    assert states(rest) == ["failed", "failed", "success"]
    watched.is_whole(1)
    time.sleep(QUIET_SECONDS)
    assert len(rest.runs("watched")) == 3, "nothing is there to load, and yet a run was started"
    watched.write(30)
    rest.until(lambda: len(states(rest)) == 4 and states(rest)[3] == "success", lambda: str(states(rest)))
    watched.is_whole(2)
    time.sleep(QUIET_SECONDS)
    assert states(rest) == ["failed", "failed", "success", "success"]
    rest.pause("watched")


def states(rest):
    return [run["state"] for run in rest.runs("watched")]
