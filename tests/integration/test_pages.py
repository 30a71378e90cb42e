"""The snippets of the documents that need Spark: they are run, on topics of the test's own, or read by Spark."""

import re
from datetime import datetime
from inspect import unwrap
from types import SimpleNamespace

import pytest
from support.records import Record
from support.snippets import PAGES, ROOT, snippets

from airflow_provider_orderedkafka.reader import read

IN_A_SENTENCE = re.compile(r"`((?:SELECT|ALTER|CREATE|INSERT|DELETE|MERGE) [^`]+)`")


def snippet(page: str, of: str) -> str:
    """The one snippet of a page that has this in it."""
    (found,) = [text for _, text in snippets(ROOT / page, "python") if of in text]
    return found


@pytest.fixture
def shop(kafka, topics, records, spark):
    """Runs a snippet on topics of this test's own, with a few orders and refunds in them."""
    named = {name: topics.create(partitions=2) for name in ("orders", "refunds", "orders-ordered", "orders-dead")}
    for name in ("orders", "refunds"):
        rows = [Record(b'{"price": 2, "count": %d}' % n, 1_000 * n + 1, n % 2, b"k%d" % (n % 3)) for n in range(10)]
        records.produce(named[name], rows)

    def run(code, **known):
        code = code.replace("localhost:9092", kafka.bootstrap_servers).replace("broker:9092", kafka.bootstrap_servers)
        code = code.replace('"orders,refunds"', f'"{named["orders"]},{named["refunds"]}"')
        for name, made in named.items():
            code = code.replace(f'"{name}"', f'"{made}"')
        names = {"__name__": "page", **known}
        exec(compile(code, "page", "exec"), names)
        return names

    run.topics = named
    return run


@pytest.mark.parametrize("page", ["README.md", "docs/reading.md"])
def test_the_first_snippet_of_reading_shows_rows_in_time_order(page, shop, capfd):
    found = shop(snippet(page, 'option("subscribe", "orders,refunds")'))
    times = [row.order_time for row in found["orders"].collect()]
    assert (len(times), times) == (20, sorted(times))
    assert '{"price": 2' in capfd.readouterr().out


def test_the_first_snippet_of_writing_writes_each_row_once_and_a_header_says_where_it_is_from(shop, records):
    shop(snippet("docs/writing.md", ".write.format"))
    written = records.read(shop.topics["orders-ordered"])
    assert len(written) == 10
    message = SimpleNamespace(headers=lambda: written[0].headers)
    found = shop(snippet("docs/writing.md", "read_provenance"), message=message)["found"]
    assert found.source.topic == shop.topics["orders"]


def test_dead_letters_of_a_table_go_back_to_a_topic(shop, spark, records):
    dead = spark.createDataFrame([(b"k", b"v", None)], "key binary, value binary, timestamp timestamp")
    dead.createOrReplaceTempView("dead_letters_of_a_page")
    code = snippet("docs/decoding.md", 'spark.table("lake.shop.orders_dead")')
    shop(code.replace("lake.shop.orders_dead", "dead_letters_of_a_page"))
    assert [(each.key, each.value) for each in records.read(shop.topics["orders-dead"])] == [(b"k", b"v")]


def test_a_session_of_ones_own_takes_what_the_reader_has_decoded(shop):
    orders = shop(snippet("docs/decoding.md", "spark.createDataFrame"))["orders"]
    assert sorted(row.value["count"] for row in orders.collect()) == [*range(10)]


def test_the_transforms_of_the_documents_make_what_they_say(shop, spark):
    paid = shop(snippet("docs/decoding.md", "def paid("))["paid"]
    columns = "cast('k' AS binary) AS key, named_struct('state', state, 'id', 1) AS value, 1 AS timestamp, 1 AS _source"
    rows = spark.sql(f"SELECT {columns} FROM VALUES ('paid'), ('open') AS t(state)")
    assert [row.value for row in paid(rows).collect()] == ['{"state":"paid","id":1}']
    states = spark.sql('SELECT * FROM VALUES (\'{"state": "paid"}\'), (\'{"state": "open"}\') AS t(value)')
    for of in ("beside the DAG file", "run_available_now(only_paid)"):
        assert shop(snippet("docs/transforms.md", of))["only_paid"](states).count() == 1
    with_total = unwrap(shop(snippet("docs/decoding.md", "def with_total("))["with_total"])
    row = with_total({"key": b"k", "value": b'{"price": 5, "count": 2}'})
    assert row == {"key": b"k", "value": '{"price": 5, "count": 2, "total": 10}'}


def test_the_function_for_tokens_gives_what_a_client_takes(shop):
    assert callable(shop(snippet("docs/security.md", "def function("))["function"]({})["oauth_cb"])


def test_late_records_and_those_of_the_future_get_the_order_times_of_the_drawing(kafka, topics, records):
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    rows = re.findall(r"^\| \d+ \| (\S+Z) \| (\S+Z) \| (late)? ?\|$", page, re.MULTILINE)
    topic = topics.create()
    times = [datetime.fromisoformat(timestamp) for timestamp, _, _ in rows]
    records.produce(topic, [Record(b"v", int(each.timestamp() * 1_000), 0, b"k") for each in times])
    with read(kafka.bootstrap_servers, topic, columns=["order_time", "late"]) as batches:
        found = [(each["order_time"], each["late"]) for each in batches.to_reader().read_all().to_pylist()]
    assert found == [(datetime.fromisoformat(order_time), bool(late)) for _, order_time, late in rows]
    assert len(rows) == 5


def statements():
    """All SQL of the pages, in blocks and in sentences."""
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = (re.sub("--.*", "", block) for _, block in snippets(page, "sql"))
        yield from ((page.name, each.strip()) for block in blocks for each in block.split(";") if each.strip())
        yield from ((page.name, " ".join(each.split())) for each in IN_A_SENTENCE.findall(text))


STATEMENTS = list(statements())


@pytest.mark.parametrize(("page", "text"), STATEMENTS)
def test_sql_of_a_page_is_sql(page, text, spark):
    spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
