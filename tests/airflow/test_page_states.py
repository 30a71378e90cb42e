"""What the page says of a load in each state, looked at with a real browser."""

import re
import time

import pytest
from support import statuses
from support.browser import MISSING, PROGRAM
from support.messages import says
from support.page import NOW, STORIES, change, kept, story_of, told, with_lag, with_last

from airflow_provider_orderedkafka.compat.airflow import has_asset_state

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason=MISSING),
    pytest.mark.skipif(not has_asset_state(), reason="needs the state stores of Airflow 3.3"),
]


def test_the_overview_says_where_each_load_stands_writes_to_and_what_is_missing_and_has_what_failed_first(served, tab):
    tab.open(served.page)
    rows = {row.split()[0]: " ".join(row.split()) for row in tab.texts("main tbody tr")}
    assert set(STORIES) - {"new"} <= rows.keys()
    assert "loading" in rows["orders"]
    assert "batch 7 of 12" in rows["orders"]
    assert "31,189 of 50,000 offsets" in rows["refunds"]
    assert "failed, attempt 2" in rows["payments"]
    for words in ("12 dead ", "3 possibly ", "1 possibly ", "7 lost "):
        assert words in rows["payments"]
    assert "none: " in rows["limited"]
    found = {name: tab.text(f"tbody tr:has(a[href='?load={name}']) .state") for name in rows}
    names = ("orders", "refunds", "payments", "limited", "hourly")
    assert [found[name] for name in names] == ["loading", "behind", "failed", "row limit reached", "idle"]
    assert "new" not in rows
    assert tab.text("summary") == "1 load has not run yet"
    assert tab.ask("document.querySelector('details li').textContent") == "new"
    names = [row.split()[0] for row in tab.texts("main tbody tr")]
    assert names.index("payments") < names.index("orders") < names.index("refunds")
    assert re.search(r"^\d+ loads, \d failed, \d with an open range, 1 not run yet$", tab.text("#subtitle"))
    assert "payments-ordered" in rows["payments"]
    assert statuses.DISK_IS_FULL in rows["payments"]
    assert "min" in rows["refunds"].partition("seen")[0]
    assert "Next run" not in rows["hourly"]
    assert "looked" not in rows["hourly"]
    empty = "document.querySelector(\"tbody tr:has(a[href='?load=hourly']) td:empty\")"
    assert "\N{EN DASH}" in tab.ask(f"getComputedStyle({empty}, '::after').content")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"waiting": 0, "due": None}, "0 of 50,000 offsets"),
        ({"waiting": 0, "enough": 1, "due": None}, "nothing to load yet"),
        ({"waiting": 60_000, "due": NOW + 3_600_000}, "60,000 offsets are there"),
        ({"waiting": 10, "due": NOW - 60_000}, "10 of 50,000 offsets or now: the delay ran out"),
        ({"waiting": 0, "enough": None, "due": NOW - 60_000}, "at the next record: the delay ran out"),
        ({"waiting": 0, "enough": None, "due": None, "reason": "nothing to load"}, "nothing to load"),
    ],
)
def test_what_starts_the_next_run_is_said_once_and_as_it_is_now(served, tab, fields, said):
    with told(served, "refunds", with_lag("refunds", **fields)):
        tab.open(f"{served.page}?load=refunds")
        assert " ".join(tab.texts(".tile dd")[1].split()) == said


def test_a_delay_that_runs_out_while_one_looks_is_never_one_that_runs_out_in_the_past(served, tab):
    due = time.time_ns() // 1_000_000 + 5_000
    with told(served, "refunds", with_lag("refunds", due=due)):
        tab.open(f"{served.page}?load=refunds")
        tab.until("document.querySelectorAll('.tile dd')[1].innerText.includes('runs out: in ')")
        tab.until("document.querySelectorAll('.tile dd')[1].innerText.includes('runs out: now')")
        time.sleep(2)
        assert "ago" not in tab.texts(".tile dd")[1]
        tab.until("document.querySelectorAll('.tile dd')[1].innerText.includes('or now: the delay ran out')")


def test_the_last_look_says_when_it_was_and_is_left_out_while_a_range_decides(served, tab):
    tab.open(f"{served.page}?load=refunds")
    assert re.match(r"Last look, \d+ .* ago: 31,189 of 50,000 offsets", tab.text("#stands p"))
    for decided in ("orders", "limited"):
        tab.open(f"{served.page}?load={decided}")
        assert tab.texts("#stands p") == []


def test_where_kafka_was_not_asked_nothing_is_said_to_be_loaded_to_its_end(served, tab):
    for at_least, words in ((False, "all is loaded"), (True, "loaded up to")):
        with told(served, "refunds", with_lag("refunds", offsets=0, at_least=at_least)):
            tab.open(f"{served.page}?load=refunds")
            assert tab.texts(".tile dd")[0].startswith(words)


def test_of_intervals_that_are_open_the_one_that_failed_is_shown_in_the_list(served, tab):
    one, other = story_of("hourly").found.ranges
    open_ = (
        statuses.replace(one, state="failed", error=statuses.DISK_IS_FULL),
        statuses.replace(other, state="loading"),
    )
    with told(served, "hourly", statuses.replace(story_of("hourly").found, ranges=open_)):
        tab.open(served.page)
        row = "tbody tr:has(a[href='?load=hourly'])"
        assert tab.text(f"{row} .state") == "failed"
        assert statuses.DISK_IS_FULL in tab.text(row)
        assert "1 more" in tab.text(row)


def test_a_failure_without_a_message_points_at_the_log(served, tab):
    with told(served, "payments", with_last("payments", error="")):
        tab.open(f"{served.page}?load=payments")
        assert "message" not in tab.text("#open .todo")
        assert "log" in tab.text("#open .todo")


def test_a_load_whose_status_is_kept_elsewhere_is_not_said_to_have_never_run(served, tab):
    with served.client() as client:
        kept(client, "put", "new", json={"value": {"kept": "elsewhere"}})
        tab.open(f"{served.page}?load=new")
        assert "run" not in tab.text(".empty").split()
        assert "orderedkafka loads" in tab.text(".empty")
        tab.open(served.page)
        assert "orderedkafka loads" in tab.text("tbody tr:has(a[href='?load=new'])")
        kept(client, "delete", "new")


def test_less_than_a_core_second_is_not_none_and_one_column_is_not_many(served, tab):
    counts = story_of("refunds").found.ranges[-1].counts
    columns = {"columns_added": ("a", "b"), "columns_left_out": ("c",)}
    with told(served, "refunds", with_last("refunds", counts=statuses.replace(counts, core_ms=400, **columns))):
        tab.open(f"{served.page}?load=refunds")
        row = tab.texts("#ranges tbody tr")[0]
        assert says(row, "0.4 core")
        assert says(row, "2 columns ... a, b")
        assert re.search(r"\b1 column\b.*: c$", row, re.MULTILINE)


def test_a_load_that_failed_says_what_to_do(served, tab):
    tab.open(f"{served.page}?load=payments")
    told = tab.text("#open .todo")
    assert told.startswith("What to do: follow the message, then clear the task. The load continues where it stopped")
    assert 'orderedkafka ledger abandon payments --reason "..."' in told
    assert "/tasks/payments.load" in tab.ask("document.querySelector('.todo a').href")


def test_who_gave_a_range_up_and_who_moved_the_ledger_is_shown_with_the_reason(served, tab):
    tab.open(f"{served.page}?load=moved")
    assert says(tab.texts("#ranges tbody tr")[0], "anna: ... dropped")
    (row,) = tab.texts("#moves tbody tr")
    assert row.split("\t")[1:] == ["rewound", "ben", "a bug in the transform"]


def test_what_an_audit_said_stands_at_its_range_and_nothing_where_nobody_looked(served, tab):
    tab.open(f"{served.page}?load=proved")
    unknown, found, clean, alone = (" ".join(row.split()) for row in tab.texts("#ranges tbody tr"))
    assert says(unknown, "audited: unknown: ... gone")
    assert says(found, "1,200 missing, 3 ... missing: orders[0]@7")
    assert "audited: clean" in clean
    assert "audit" not in alone


def test_a_load_in_intervals_has_no_tiles_that_have_nothing_to_say(served, tab):
    tab.open(f"{served.page}?load=hourly")
    assert len(tab.texts("#ranges tbody tr")) == 2
    assert tab.texts(".tile") == []
    assert tab.texts("#plots figcaption span") == ["Rows a second", "Late rows"]


def test_a_batch_that_runs_says_how_much_is_read_and_how_fast_and_apart_how_many_tasks_are_done(served, tab):
    story = story_of("orders").found
    row = story.ranges[-1]
    running = statuses.replace(
        row.progress, running=12, rows_read=1_234, rows_per_second=321, offsets_done=row.offsets, tasks=3, tasks_done=1
    )
    with served.client() as client:
        change(
            client,
            "orders",
            statuses.replace(story, ranges=(*story.ranges[:-1], statuses.replace(row, progress=running))),
        )
        tab.open(f"{served.page}?load=orders")
        tab.until("document.querySelector('#open').innerText.includes('1,234 rows read, 1 of 3 tasks done, 321 rows')")
        assert says(tab.text("#open"), f"100 % ... {row.offsets:,} offsets ... read")
        change(client, "orders", story)


def test_a_load_has_its_ranges_its_plots_and_the_batches_of_its_open_range(served, tab):
    tab.open(f"{served.page}?load=orders")
    assert len(tab.texts("#ranges tbody tr")) == 25
    assert says(tab.texts("#ranges tbody tr")[1], " core ... written")
    assert len(tab.texts("#plots figure")) == 4
    assert len(tab.texts("#partitions tbody tr")) == 6
    assert [row.split("\t")[0] for row in tab.texts("#open tbody tr")] == ["7", "6", "5", "4", "3", "2", "1"]
    run = f"{served.url}/dags/orders/runs/scheduled__2026-01-31T12%3A25%3A00%2B00%3A00"
    links = tab.ask("[...document.querySelectorAll('#open a')].map((a) => a.href)")
    assert links == [run, f"{run}/tasks/orders.load"]
