"""How loads stand, as `orderedkafka loads` says it."""

import json
import re
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from support import statuses
from support.messages import says

import airflow_provider_orderedkafka
from airflow_provider_orderedkafka.core.status import OPEN, Stop
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.commands import loads
from airflow_provider_orderedkafka.tools.commands.loads import LoadState, as_table, in_order, state_of

NOW = 1_800_000_000_000
PAGE = Path(airflow_provider_orderedkafka.__file__).parent / "page" / "parts.js"
STORIES = {
    "orders": statuses.loading(NOW),
    "refunds": statuses.waiting(NOW, "refunds"),
    "payments": statuses.failing(NOW, "payments"),
    "limited": statuses.spent(NOW, "limited"),
}


def stands(load: str) -> LoadState:
    return state_of(load, STORIES[load].found, NOW)


def test_a_load_says_how_far_it_is_behind_in_time_and_in_offsets_and_when_it_last_succeeded():
    found = stands("refunds")
    assert found.state == "behind"
    assert found.behind_ms is not None
    assert found.behind_ms > 0
    assert found.behind_offsets == STORIES["refunds"].found.lag.offsets
    assert found.last_success_at == max(row.ended_at for row in STORIES["refunds"].found.ranges)


def test_an_open_range_says_how_much_of_it_is_loaded_or_why_it_failed():
    loading, failed = stands("orders"), stands("payments")
    assert (loading.state, round(loading.share, 2)) == ("loading", round(7 / 12, 2))
    assert failed.state == "failed"
    assert says(failed.error, "attempt 2 ... 'payments'")


def test_a_load_whose_newest_run_has_no_range_failed_with_its_reason():
    stopped = replace(STORIES["refunds"].found, stop=Stop(NOW, "d/r", "refunds.resolve", "refunds is gone"))
    found = state_of("refunds", stopped, NOW)
    assert (found.state, found.error) == ("failed", "refunds is gone")
    loading = replace(STORIES["orders"].found, stop=stopped.stop)
    assert (state_of("orders", loading, NOW).state, state_of("orders", loading, NOW).error) == ("loading", "")


@pytest.mark.parametrize("state", sorted(OPEN))
def test_the_state_of_an_open_range_is_called_as_on_the_page(state):
    status = STORIES["orders"].found
    found = state_of("orders", replace(status, ranges=(replace(status.ranges[-1], state=state),)), NOW)
    assert re.search(rf'^  {state}: "(.*)",$', PAGE.read_text("utf-8"), re.MULTILINE)[1] == found.state


def test_a_load_says_how_old_its_look_is_and_is_idle_where_nothing_waits():
    behind = replace(stands("refunds"), seen_at=NOW - 1_146_000)
    assert "  19m6s ago  " in as_table([behind], NOW)
    status = STORIES["refunds"].found
    idle = state_of("refunds", replace(status, lag=replace(status.lag, offsets=0)), NOW)
    assert (idle.state, idle.behind_ms) == ("idle", 0)
    assert state_of("refunds", replace(status, lag=None), NOW).state == "idle"
    unasked = state_of("refunds", replace(status, lag=replace(status.lag, offsets=0, at_least=True)), NOW)
    assert (unasked.behind_ms, unasked.behind_offsets, unasked.seen_at) == (None, None, None), "Kafka was not asked"


def test_what_failed_comes_first_and_what_never_ran_last():
    found = in_order([state_of("new", None, NOW), *map(stands, STORIES)])
    assert [each.load for each in found] == ["payments", "orders", "refunds", "limited", "new"]
    assert asdict(found[-1])["behind_ms"] is None


def test_a_load_is_one_line_however_long_its_error():
    found = [stands("payments"), LoadState("broken", "failed", error="one\n  two"), state_of("new", None, NOW)]
    head, payments, broken, new, _, summary = as_table(found, NOW).splitlines()
    assert head.split()[:5] == ["LOAD", "STATE", "BEHIND", "OFFSETS", "SEEN"]
    assert payments.startswith("payments  failed 22%")
    assert broken.endswith("one two")
    assert new.split() == ["new", "not", "run", "yet", "-", "-", "-", "none", "yet"]
    assert summary == "3 loads, 2 failed"
    assert as_table([], NOW).endswith("once Airflow has parsed a DAG with ordered_load()")


def test_a_ledger_that_cannot_be_read_is_the_error_of_its_load_and_hides_no_other_one(monkeypatch, capsys):
    def unread(load):
        raise LifecycleError(f"the ledger of {load} was moved")

    known = {"refunds": STORIES["refunds"].found, "hourly": replace(STORIES["orders"].found, revision=None)}
    known_to = {"airflow": nullcontext, "has_asset_state": lambda: True, "statuses": lambda: known, "store_of": unread}
    for name, instead in known_to.items():
        monkeypatch.setattr(loads, name, instead)
    assert cli.main(["loads", "--live", "--json"]) == 0
    found = {each["load"]: each["error"] for each in json.loads(capsys.readouterr().out)}
    assert found == {"refunds": "the ledger of refunds was moved", "hourly": ""}
