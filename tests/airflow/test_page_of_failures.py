"""What the page shows of loads that failed in a real Airflow."""

import pytest
from support.messages import says
from support.page import set_state, with_state


@pytest.mark.versions
def test_a_load_that_failed_says_so_with_what_waits_and_the_way_to_its_task(bench, served, tab):
    bench.write(30)
    bench.order("fail 2")
    assert bench.dag("min_offsets=10").test().state == "failed"
    tab.open(f"{served.page}?load={bench.load}")
    assert "failed" in tab.text("#open .state")
    assert says(tab.text("#open"), "30 offsets ... 1 partition")
    assert "30 offsets" in tab.text(".tiles")
    assert f"/tasks/{bench.load}.load" in tab.ask("[...document.querySelectorAll('#open a')].map((a) => a.href).join()")
    tab.open(served.page)
    (row,) = [row for row in tab.texts("main tbody tr") if row.startswith(bench.load)]
    assert "failed" in row


@with_state
def test_a_run_that_fails_before_it_has_a_range_is_shown_with_its_reason_until_one_has(bench, served, tab):
    bench.write(3)
    assert bench.dag(arguments='to="topic:nowhere"').test().state == "failed"
    tab.open(f"{served.page}?load={bench.load}")
    assert tab.text("#open .state") == "failed"
    assert "'nowhere'" in tab.text("#open .error")
    links = tab.ask("[...document.querySelectorAll('#open a')].map((a) => a.href).join()")
    assert f"/tasks/{bench.load}.resolve" in links
    tab.open(served.page)
    (row,) = [row for row in tab.texts("main tbody tr") if row.startswith(bench.load)]
    assert says(row, "failed ... 'nowhere'")
    assert bench.dag().test().state == "success"
    tab.open(f"{served.page}?load={bench.load}")
    assert not tab.texts("#open .error")


@with_state
def test_a_load_that_failed_and_is_tried_again_by_airflow_asks_for_nothing_yet(bench, served, tab):
    bench.write(30)
    bench.order("fail 2")
    run = bench.dag("min_offsets=10").test()
    tab.open(f"{served.page}?load={bench.load}")
    assert "itself" not in tab.text("#open .todo")
    assert tab.text("#open .steps .failed").strip() == "failed"
    set_state(run, f"{bench.load}.load", "up_for_retry")
    tab.open(f"{served.page}?load={bench.load}")
    assert "itself" in tab.text("#open .todo")
    assert says(tab.text("#open .steps"), "load ... retry")
