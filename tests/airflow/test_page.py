"""The page in a real Airflow behind a prefix, looked at with a real browser."""

import re
import time
from urllib.parse import quote

import httpx
import pytest
from support import statuses
from support.browser import FAINT, LEAVING
from support.messages import says
from support.page import NOW, STORIES, change, kept, set_state, showing, story_of, with_lag, with_last, with_state

from airflow_provider_orderedkafka.compat.airflow import has_asset_state

without_state = pytest.mark.skipif(
    has_asset_state(), reason="is for Airflow before 3.3, which tells the page by events"
)

PHONE = 320
BESIDE_A_GRID = 200
WIDTHS = (BESIDE_A_GRID, PHONE, 480, 768, 961, 1_024, 1_280, 1_440, 1_920)
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}
FRAMED = "document.querySelector('iframe').contentDocument"
PAGES = ["", *(f"?load={load}" for load in STORIES)]


def test_the_overview_says_where_each_load_stands_writes_to_and_what_is_missing_and_has_what_failed_first(
    served, tab, state_stores
):
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
def test_what_starts_the_next_run_is_said_once_and_as_it_is_now(served, tab, state_stores, fields, said):
    with showing(served, "refunds", with_lag("refunds", **fields)):
        tab.open(f"{served.page}?load=refunds")
        assert " ".join(tab.texts(".tile dd")[1].split()) == said


def test_a_delay_that_runs_out_while_one_looks_is_never_one_that_runs_out_in_the_past(served, tab, state_stores):
    due = time.time_ns() // 1_000_000 + 5_000
    with showing(served, "refunds", with_lag("refunds", due=due)):
        tab.open(f"{served.page}?load=refunds")
        tab.until("document.querySelectorAll('.tile dd')[1].innerText.includes('runs out: in ')")
        tab.until("document.querySelectorAll('.tile dd')[1].innerText.includes('runs out: now')")
        time.sleep(2)
        assert "ago" not in tab.texts(".tile dd")[1]
        tab.until("document.querySelectorAll('.tile dd')[1].innerText.includes('or now: the delay ran out')")


def test_the_last_look_says_when_it_was_and_is_left_out_while_a_range_decides(served, tab, state_stores):
    tab.open(f"{served.page}?load=refunds")
    assert re.match(r"Last look, \d+ .* ago: 31,189 of 50,000 offsets", tab.text("#stands p"))
    for decided in ("orders", "limited"):
        tab.open(f"{served.page}?load={decided}")
        assert tab.texts("#stands p") == []


def test_where_kafka_was_not_asked_nothing_is_said_to_be_loaded_to_its_end(served, tab, state_stores):
    for at_least, words in ((False, "all is loaded"), (True, "loaded up to")):
        with showing(served, "refunds", with_lag("refunds", offsets=0, at_least=at_least)):
            tab.open(f"{served.page}?load=refunds")
            assert tab.texts(".tile dd")[0].startswith(words)


def test_of_intervals_that_are_open_the_one_that_failed_is_shown_in_the_list(served, tab, state_stores):
    one, other = story_of("hourly").found.ranges
    open_ = (
        statuses.replace(one, state="failed", error=statuses.DISK_IS_FULL),
        statuses.replace(other, state="loading"),
    )
    with showing(served, "hourly", statuses.replace(story_of("hourly").found, ranges=open_)):
        tab.open(served.page)
        row = "tbody tr:has(a[href='?load=hourly'])"
        assert tab.text(f"{row} .state") == "failed"
        assert statuses.DISK_IS_FULL in tab.text(row)
        assert "1 more" in tab.text(row)


def test_a_failure_without_a_message_points_at_the_log(served, tab, state_stores):
    with showing(served, "payments", with_last("payments", error="")):
        tab.open(f"{served.page}?load=payments")
        assert "message" not in tab.text("#open .todo")
        assert "log" in tab.text("#open .todo")


def test_a_load_whose_status_is_kept_elsewhere_is_not_said_to_have_never_run(served, tab, state_stores):
    with served.client() as client:
        kept(client, "put", "new", json={"value": {"kept": "elsewhere"}})
        tab.open(f"{served.page}?load=new")
        assert "run" not in tab.text(".empty").split()
        assert "orderedkafka loads" in tab.text(".empty")
        tab.open(served.page)
        assert "orderedkafka loads" in tab.text("tbody tr:has(a[href='?load=new'])")
        kept(client, "delete", "new")


def test_less_than_a_core_second_is_not_none_and_one_column_is_not_many(served, tab, state_stores):
    counts = story_of("refunds").found.ranges[-1].counts
    columns = {"columns_added": ("a", "b"), "columns_left_out": ("c",)}
    with showing(served, "refunds", with_last("refunds", counts=statuses.replace(counts, core_ms=400, **columns))):
        tab.open(f"{served.page}?load=refunds")
        row = tab.texts("#ranges tbody tr")[0]
        assert says(row, "0.4 core")
        assert says(row, "2 columns ... a, b")
        assert re.search(r"\b1 column\b.*: c$", row, re.MULTILINE)


def test_a_load_that_failed_says_what_to_do(served, tab, state_stores):
    tab.open(f"{served.page}?load=payments")
    advice = tab.text("#open .todo")
    assert advice.startswith("What to do: follow the message, then clear the task. The load continues where it stopped")
    assert 'orderedkafka ledger abandon payments --reason "..."' in advice
    assert "/tasks/payments.load" in tab.ask("document.querySelector('.todo a').href")


def test_who_gave_a_range_up_and_who_moved_the_ledger_is_shown_with_the_reason(served, tab, state_stores):
    tab.open(f"{served.page}?load=moved")
    assert says(tab.texts("#ranges tbody tr")[0], "anna: ... dropped")
    (row,) = tab.texts("#moves tbody tr")
    assert row.split("\t")[1:] == ["rewound", "ben", "a bug in the transform"]


def test_what_an_audit_said_stands_at_its_range_and_nothing_where_nobody_looked(served, tab, state_stores):
    tab.open(f"{served.page}?load=proved")
    unknown, found, clean, alone = (" ".join(row.split()) for row in tab.texts("#ranges tbody tr"))
    assert says(unknown, "audited: unknown: ... gone")
    assert says(found, "1,200 missing, 3 ... missing: orders[0]@7")
    assert "audited: clean" in clean
    assert "audit" not in alone


def test_a_load_in_intervals_has_no_tiles_that_have_nothing_to_say(served, tab, state_stores):
    tab.open(f"{served.page}?load=hourly")
    assert len(tab.texts("#ranges tbody tr")) == 2
    assert tab.texts(".tile") == []
    assert tab.texts("#plots figcaption span") == ["Rows a second", "Late rows"]


def test_a_batch_that_runs_says_how_much_is_read_and_how_fast_and_apart_how_many_tasks_are_done(
    served, tab, state_stores
):
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


def test_a_load_has_its_ranges_its_plots_and_the_batches_of_its_open_range(served, tab, state_stores):
    tab.open(f"{served.page}?load=orders")
    assert len(tab.texts("#ranges tbody tr")) == 25
    assert says(tab.texts("#ranges tbody tr")[1], " core ... written")
    assert len(tab.texts("#plots figure")) == 4
    assert len(tab.texts("#partitions tbody tr")) == 6
    assert [row.split("\t")[0] for row in tab.texts("#open tbody tr")] == ["7", "6", "5", "4", "3", "2", "1"]
    run = f"{served.url}/dags/orders/runs/scheduled__2026-01-31T12%3A25%3A00%2B00%3A00"
    links = tab.ask("[...document.querySelectorAll('#open a')].map((a) => a.href)")
    assert links == [run, f"{run}/tasks/orders.load"]


def test_of_many_batches_the_oldest_that_is_kept_is_not_said_to_be_all_before_it(served, tab, state_stores):
    written = story_of("orders").found.ranges[-1].written[3:]
    with showing(served, "orders", with_last("orders", written=written)):
        tab.open(f"{served.page}?load=orders")
        *newer, oldest = [row.split("\t") for row in tab.texts("#open tbody tr")]
    assert (oldest[0], set(oldest[2:])) == ("4", {"\N{EN DASH}"})
    assert "\N{EN DASH}" not in {cell for row in newer for cell in row}


@pytest.mark.versions
def test_a_real_load_shows_what_it_did(bench, served, tab):
    bench.write(30)
    run = bench.dag("min_offsets=10, row_limit=100").test()
    assert run.state == "success"
    tab.open(f"{served.page}?load={bench.load}")
    assert tab.text("h1") == bench.load
    assert "30 rows" in tab.text(".tiles")
    assert "30 of 100 rows" in tab.text(".tiles")
    (row,) = tab.texts("#ranges tbody tr")
    assert "committed" in row
    assert says(row, "30 offsets ... 1 partition")
    there = f"{served.url}/dags/{bench.load}/runs/{quote(run.run_id)}"
    links = tab.ask("[...document.querySelectorAll('#ranges a')].map((a) => a.href)")
    assert links == [there, f"{there}/tasks/{bench.load}.load"]
    assert tab.texts("#partitions tbody tr") == [f"{bench.topic}[0]\t30\t\u2013\t30\t0\t0"]


@with_state
def test_a_load_shows_its_own_tasks_however_many_others_its_dag_has(bench, served, tab):
    bench.write(30)
    bench.order("fail 2")
    others = "for n in range(50):\n        EmptyOperator(task_id=f'a_{n}')"
    other = f"OrderedLoad('a-{bench.load}', topics=['{bench.output}'], start='earliest')"
    more = f"wait='never')\n    {others}\n    ordered_load({other}, rows=Rows(application=quick), wait='never'"
    run = bench.dag(arguments=more, first="from airflow.providers.standard.operators.empty import EmptyOperator").test()
    set_state(run, f"a-{bench.load}.load", "up_for_retry")
    tab.open(f"{served.page}?load={bench.load}")
    assert [row.split()[0] for row in tab.texts("#open .steps li")] == ["resolve", "load", "commit"]
    assert "itself" not in tab.text("#open .todo")


@without_state
def test_without_a_state_store_the_page_says_what_it_cannot_know(served, tab):
    tab.open(served.page)
    rows = {row.split()[0]: " ".join(row.split()) for row in tab.texts("main tbody tr")}
    assert "planned" in rows["orders"]
    assert "least" in rows["orders"]
    assert "known" in rows["refunds"]
    assert "12 dead " in rows["payments"]
    assert "3.3" in tab.text("#footer")


def test_the_words_in_the_filter_s_box_fit_it_on_a_phone(served, tab):
    tab.open(served.page)
    tab.size(PHONE)
    box = "document.querySelector('#filter')"
    tab.ask(f"{box}.value = {box}.placeholder")
    assert tab.ask(f"{box}.scrollWidth <= {box}.clientWidth")


@with_state
def test_a_filter_leaves_the_loads_that_have_its_words_and_stays_when_the_page_is_drawn_again(served, tab):
    tab.open(served.page)
    tab.until("!document.querySelector('#filter').hidden")
    tab.ask(
        "(() => { const box = document.querySelector('#filter'); box.value = 'Disk pay';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    rows = "[...document.querySelectorAll('main tbody tr')].filter((row) => !row.hidden)"
    shown = f"{rows}.map((row) => row.innerText.split(/\\s/)[0])"
    assert tab.ask(shown) == ["payments"]
    with served.client() as client:
        change(client, "refunds", statuses.waiting(NOW - 60_000, "refunds").found)
        time.sleep(4)
        change(client, "refunds", story_of("refunds").found)
    assert tab.ask(shown) == ["payments"]


@pytest.mark.versions
def test_a_run_that_waits_is_shown_with_the_way_to_it(bench, served, tab):
    bench.write(30)
    run = bench.dag("min_offsets=10").test()
    set_state(run, f"{bench.load}.wait", "deferred")
    task = f"{served.url}/dags/{bench.load}/runs/{quote(run.run_id)}/tasks/{bench.load}.wait"
    tab.open(served.page)
    (row,) = [row for row in tab.texts("main tbody tr") if row.startswith(bench.load)]
    assert "waiting" in row
    assert task in tab.ask("[...document.querySelectorAll('main tbody a')].map((a) => a.href)")
    tab.open(f"{served.page}?load={bench.load}")
    assert "waiting" in tab.text("#open .state")
    assert tab.ask("document.querySelector('#open a').href") == task
    if has_asset_state():
        with served.client() as client:
            kept(client, "delete", bench.load)
        tab.open(f"{served.page}?load={bench.load}", until="main .empty")
        assert "first" in tab.text(".empty")
        assert tab.ask("document.querySelector('.empty a').href") == task


@with_state
def test_what_changes_while_one_looks_is_shown_without_a_click(served, tab):
    tab.open(f"{served.page}?load=orders")
    tab.until("document.querySelector('#open').innerText.includes('batch 7 of 12')")
    story = story_of("orders").found
    row = story.ranges[-1]
    further = statuses.replace(
        row, progress=statuses.replace(row.progress, batch=9, offsets_done=row.offsets * 9 // 12)
    )
    with served.client() as client:
        change(client, "orders", statuses.replace(story, ranges=(*story.ranges[:-1], further)))
        tab.until("document.querySelector('#open').innerText.includes('batch 9 of 12')")
        change(client, "orders", story)


@with_state
def test_a_thousand_partitions_are_read_in_one_table(served, tab):
    tab.open(f"{served.page}?load=thousand")
    tab.until("document.querySelectorAll('#partitions tbody tr').length === 1000")
    assert "1,000 partitions." in tab.text("#partitions")
    assert not tab.ask(OVERFLOWS)


@pytest.mark.parametrize("address", PAGES)
def test_nothing_leaves_its_card_or_the_page_on_a_phone_a_laptop_or_a_wide_screen(served, tab, address):
    tab.open(served.page + address)
    for width in WIDTHS:
        tab.size(width)
        assert tab.ask(LEAVING.format(page="document")) == [], width
        cut = "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
        said = tab.ask(f"{cut}.map((each) => each.ariaLabel + ' ' + each.scrollWidth + ' of ' + each.clientWidth)")
        assert width < PHONE or said == []  # beside a grid, a table scrolls within itself


@with_state
def test_nothing_leaves_its_card_inside_airflow_s_frame(served, tab):
    tab.open(f"{served.url}/plugin/orderedkafka", until="iframe")
    tab.until(f"{FRAMED}?.querySelector('tbody tr')")
    for address in ("", "?load=orders", "?load=payments", "?load=proved", "?load=moved"):
        tab.ask(f"{FRAMED}.defaultView.left = true")
        tab.ask(f"{FRAMED}.location = {served.page + address!r}")
        tab.until(f"{FRAMED} && !{FRAMED}.defaultView.left && {FRAMED}.querySelector('tbody tr')")
        for width in WIDTHS[1:]:
            tab.size(width)
            assert tab.ask(LEAVING.format(page=FRAMED)) == [], (address, width)


@pytest.mark.parametrize("address", [each for each in PAGES if each != "?load=thousand"])
def test_all_text_has_contrast_enough_in_light_and_dark(served, tab, address):
    tab.open(served.page + address)
    for scheme, ground in GROUNDS.items():
        tab.prefer(scheme)
        assert tab.ask("getComputedStyle(document.body).backgroundColor") == ground
        assert tab.ask(FAINT) == []


def test_the_keyboard_reaches_a_load_and_its_parts(served, tab):
    tab.open(served.page)
    reached = ""
    while reached != "payments":
        tab.press("Tab")
        reached = tab.ask("document.activeElement.innerText || document.activeElement.ariaLabel")
        assert reached, "the end of the page came first"
        assert tab.ask("getComputedStyle(document.activeElement).outlineStyle") != "none"
    tab.press("Enter")
    tab.until("location.search === '?load=payments' && document.querySelector('main .tiles')")


def test_headings_tables_and_pictures_have_names(served, tab):
    tab.open(f"{served.page}?load=orders")
    assert tab.texts("h1, h2") == ["orders", "Open range", "Over time", "Ranges", "Partitions"]
    assert tab.ask("[...document.querySelectorAll('table')].every((each) => each.caption?.innerText)")
    assert tab.ask("[...document.querySelectorAll('main svg[role=img]')].every((each) => each.ariaLabel)")
    assert tab.ask("document.documentElement.lang") == "en"


def test_whoever_is_not_logged_in_is_told_so_and_sees_nothing(served, anonymous):
    anonymous.open(served.page)
    assert anonymous.text("#notice") == "You are not logged in, or your login has expired. Log in to Airflow"
    assert anonymous.ask("document.querySelector('#notice a').href") == f"{served.url}/"
    assert anonymous.text("main") == ""


def test_whoever_is_logged_out_while_they_look_sees_no_filter_of_nothing(served, anonymous):
    anonymous.log_in(served.url, served.token("anna"))
    anonymous.open(served.page)
    anonymous.until("!document.querySelector('#filter').hidden")
    anonymous.do("Network.clearBrowserCookies")
    anonymous.until("document.querySelector('#notice a')")
    assert anonymous.ask("document.querySelector('#filter').hidden")


def test_whoever_may_not_read_assets_is_told_which_permission_is_missing(served, anonymous):
    anonymous.log_in(served.url, served.token("eve"))
    anonymous.open(served.page)
    assert "assets" in anonymous.text("#notice")
    assert anonymous.text("main") == ""


@pytest.mark.parametrize(
    ("address", "words"), [("?load=new", "run"), ("?load=nobody", "name"), ("?dag=another", "DAG")]
)
def test_where_there_is_nothing_to_show_the_page_says_why(served, tab, address, words):
    tab.open(served.page + address)
    assert words in tab.text(".empty")


def test_the_page_is_a_tab_of_a_dag_and_of_a_run_and_shows_the_load_of_it(bench, served, tab):
    bench.write(5)
    run = bench.dag().test()
    places = {"orderedkafka-dag": "", "orderedkafka-run": f"/runs/{quote(run.run_id)}"}
    for view, place in places.items():
        tab.open(f"{served.url}/dags/{bench.load}{place}/plugin/{view}", until="iframe")
        tab.until(f"{FRAMED}?.querySelector('#ranges tbody tr')")
        assert tab.ask(f"{FRAMED}.querySelector('h1').innerText") == bench.load
        assert tab.ask(f"{FRAMED}.querySelectorAll('#ranges tr.marked').length") == len(place[:1])
        assert any("Kafka loads" in link for link in tab.texts(f"a[href*='/plugin/{view}']"))
    tab.open(f"{served.page}?dag={bench.load}&run={run.run_id}")  # as Airflow 3.1 frames it: with a plus
    assert tab.ask("document.querySelectorAll('#ranges tr.marked').length") == 1
    assert "This" not in tab.text("#ranges")
    tab.open(f"{served.page}?dag={bench.load}&run=manual__another")
    assert "This" in tab.text("#ranges")


def test_airflow_frames_the_page_and_its_links_lead_out_of_the_frame(served, tab):
    tab.open(f"{served.url}/plugin/orderedkafka", until="iframe")
    tab.until(f"{FRAMED}?.querySelector('tbody tr')")
    tab.ask(f"{FRAMED}.querySelector('a[data-leave]').click()")
    tab.until("location.pathname.startsWith('/airflow/dags/')")


def test_in_airflow_s_frame_the_page_is_light_or_dark_as_airflow_is(served, tab):
    tab.prefer("light")
    tab.open(f"{served.url}/plugin/orderedkafka", until="iframe")
    tab.ask("localStorage.setItem('theme', 'dark')")
    tab.open(f"{served.url}/plugin/orderedkafka", until="iframe")
    ground = f"{FRAMED}?.body && {FRAMED}.defaultView.getComputedStyle({FRAMED}.body).backgroundColor"
    tab.until(f"{ground} === {GROUNDS['dark']!r}")
    tab.ask("document.documentElement.style.colorScheme = 'light'")
    tab.until(f"{ground} === {GROUNDS['light']!r}")
    tab.ask("localStorage.removeItem('theme')")


def test_the_page_loads_nothing_from_elsewhere_and_is_framed_by_nobody_else(served):
    for file in ("", "page.js", "page.css", "nothing"):
        answer = httpx.get(served.page + file)
        assert answer.status_code == (404 if file == "nothing" else 200)
        if file != "nothing":
            assert answer.headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'self'"


@with_state
def test_what_a_load_is_called_is_text_and_never_a_program(served, tab):
    evil = "<img src=x onerror=document.title='owned'>"
    story = story_of("refunds").found
    rows = tuple(statuses.replace(row, reason=evil, run=f"{evil}/{evil}", error=evil) for row in story.ranges)
    with served.client() as client:
        change(client, "refunds", statuses.replace(story, topics=(evil,), ranges=rows))
        tab.open(f"{served.page}?load=refunds")
        assert evil in tab.text("#subtitle")
        assert tab.ask("document.querySelectorAll('img').length") == 0
        change(client, "refunds", story)
