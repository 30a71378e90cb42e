"""A real PostgreSQL that a real Debezium reads, which is killed and loses its slot: the database says what is right."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession
from support.applications import Application
from support.debezium import Connectors, Postgres, avro, postgres, there
from support.debezium import json as with_json
from support.lake import Lake
from support.messages import says
from support.ranges import whole_range
from support.records import Records
from support.registry import registry
from support.table_formats import DELTA, ICEBERG, Format, rows_of
from support.topics import Topics
from support.upserts import Upserts

from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Json

pytestmark = [
    *(pytest.mark.fault, pytest.mark.nightly, pytest.mark.timeout(900)),
    pytest.mark.skipif(not there(), reason="needs PostgreSQL: apt-get install postgresql"),
]

COLUMNS = ("id", "name", "price", "at", "tags", "note")
ROW = "id int, name string, price decimal(8, 2), at timestamp, tags array<string>, note string"
ENDED = 1_000_000
"""The key of the last row of a phase."""

AS_TEXT = {"decimal.handling.mode": "string"}
FLAT = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
MARKED = {"transforms.unwrap.delete.tombstone.handling.mode": "rewrite", "transforms.unwrap.add.fields": "op"}
NAMED = {"heartbeat.interval.ms": "200", "skipped.operations": "none"}

KEY = Json("id int")
FORMS: dict[str, tuple[dict[str, str], Decode]] = {
    "envelopes": ({**AS_TEXT, **NAMED}, Decode(key=KEY, value=Json(f"op string, after struct<{ROW}>"))),
    "payloads": (
        {**AS_TEXT, **with_json("true")},
        Decode(key=Json("payload struct<id int>"), value=Json(f"payload struct<op string, after struct<{ROW}>>")),
    ),
    "marked": ({**AS_TEXT, **FLAT, **MARKED}, Decode(key=KEY, value=Json(f"{ROW}, `__op` string"))),
    "bare": ({**AS_TEXT, **FLAT}, Decode(key=KEY, value=Json(ROW))),
    "framed": ({}, Decode(key=Avro(registry="main"), value=Avro(registry="main"))),
}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as url:
        yield url


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as found:
        found.sql(
            "CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(8, 2), at timestamptz, tags text[], "
            "note text); ALTER TABLE items REPLICA IDENTITY FULL, ALTER note SET STORAGE EXTERNAL;"
            "CREATE TABLE texts (id int PRIMARY KEY, name text, note text);"
            "ALTER TABLE texts ALTER note SET STORAGE EXTERNAL; CREATE TABLE emptied (id int PRIMARY KEY)"
        )
        yield found


@pytest.fixture(scope="module")
def connectors(
    kafka: Any, database: Postgres, schemas: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connectors]:
    settings = {name: own for name, (own, _) in FORMS.items()}
    settings["framed"] = avro(schemas)
    found = Connectors(tmp_path_factory.mktemp("debezium"), kafka.bootstrap_servers, database, settings)
    try:
        yield found
    finally:
        found.kill()


@pytest.fixture
def app(kafka: Any, spark: SparkSession, tmp_path: Path) -> Application:
    return Application(kafka.bootstrap_servers, tmp_path)


def change(chance: random.Random, *, whole: bool = True) -> str:
    """A statement of a random change; not of one that deletes rows, if that would be lost."""
    key, other = chance.randrange(30), chance.randrange(30)
    price = chance.choice(["NULL", f"{chance.randrange(100_000) / 100}"])
    note = chance.choice(
        ["NULL", "''", "'a \"note\"'", f"repeat(md5('{chance.random()}'), {chance.randrange(1, 150)})"]
    )
    values = f"'n{chance.randrange(99)}', {price}, now(), array['{key}', 'x'], {note}"
    insert = f"INSERT INTO items VALUES ({key}, {values}) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name"
    update = f"UPDATE items SET name = 'u{other}', at = now() WHERE id = {key}"
    moved = f"UPDATE items SET id = {other} WHERE id = {key} AND NOT EXISTS (SELECT 1 FROM items WHERE id = {other})"
    return chance.choice([insert, insert, update] + [moved, f"DELETE FROM items WHERE id = {key}"] * whole)


def transactions(chance: random.Random, count: int, **how: bool) -> str:
    found = []
    for _ in range(count):
        inside = "; ".join(change(chance, **how) for _ in range(chance.randrange(1, 5)))
        found.append(f"BEGIN; {inside}; {chance.choice(['COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK'])};")
    return "\n".join(found)


def kept(database: Postgres) -> dict[int, tuple[Any, ...]]:
    """What the database has, in Python's types."""
    rows = map(
        json.loads,
        database.sql(
            "SELECT to_json(t) FROM (SELECT id, name, price::text, at::timestamptz(6) AT "
            "TIME ZONE 'UTC' AS at, tags, note FROM items) t"
        ),
    )
    return {row["id"]: typed(row.values()) for row in rows}


def typed(values: Any) -> tuple[Any, ...]:
    key, name, price, at, tags, note = values
    moment = at if at is None or isinstance(at, str) else at.replace(tzinfo=None).isoformat()
    return key, name, None if price is None else Decimal(price), moment and moment.rstrip("Z").rstrip("0"), tags, note


def folded(folder: Path) -> dict[int, tuple[Any, ...]]:
    """What the rows of a folder come to: the last one of each key, unless that says that it is gone."""
    found: dict[int, tuple[Any, ...]] = {}
    manifests = sorted(folder.glob("_orderedkafka/*/*.json"), key=lambda each: int(each.stem))
    files = [folder / name for each in manifests for name in json.loads(each.read_text())["files"]]
    for *values, gone in (row for file in files for row in rows_of(file, *COLUMNS, "_is_deleted")):
        found.pop(values[0], None) if gone else found.update({values[0]: typed(values)})
    return found


def load(app: Application, name: str, table: str, decode: Decode, *more: str) -> Any:
    topics = [f"{name}.public.{table}"] + [f"__debezium-heartbeat.{name}"] * (name == "envelopes")
    loaded = whole_range(app.servers, *topics, batch_offsets=50)
    output = ("--output", f"parquet:{app.folder / 'table'}")
    return app.load(loaded, *output, "--decode", decode.to_text(), "--arrow-transform", "debezium", *more)


@pytest.fixture(scope="module")
def written(connectors: Connectors, database: Postgres, records: Records) -> None:
    """Random changes, over a snapshot, a worker that is killed twice, and slots that are lost."""
    chance = random.Random(7)
    database.sql(transactions(chance, 20))
    connectors.start()
    database.sql(transactions(chance, 60))
    connectors.kill()  # it had told what its offsets do not have yet
    database.sql(transactions(chance, 20))
    connectors.start()
    database.sql(transactions(chance, 40))
    ended(connectors, database, records, ENDED)
    connectors.kill()
    database.sql(transactions(chance, 20, whole=False))
    for name in FORMS:
        database.sql(f"SELECT pg_drop_replication_slot('{name}')")
    connectors.start()
    database.sql(transactions(chance, 40))
    database.sql(f"INSERT INTO texts VALUES (1, 'a', {'||'.join(4 * ['repeat(md5(random()::text), 99)'])})")
    database.sql("UPDATE texts SET name = 'b'; INSERT INTO emptied VALUES (1); TRUNCATE emptied")
    ended(connectors, database, records, ENDED + 1)


def ended(connectors: Connectors, database: Postgres, records: Records, key: int) -> None:
    database.sql(f"INSERT INTO items (id) VALUES ({key}); INSERT INTO emptied VALUES ({key})")
    for name in FORMS:
        in_key = encoded(key) if name == "framed" else b"%d" % key
        for table in ("items", "emptied"):
            connectors.wait(partial(has_key, records, f"{name}.public.{table}", in_key))


def encoded(number: int) -> bytes:
    """As Avro writes it."""
    out = BytesIO()
    fastavro.schemaless_writer(out, "int", number)
    return out.getvalue()


def has_key(records: Records, topic: str, key: bytes) -> bool:
    with suppress(KafkaException):  # the connector makes the topic with its first event
        return any(key in (each.key or b"") for each in records.read(topic))
    return False


@pytest.mark.parametrize("name", FORMS)
def test_the_rows_come_to_what_the_database_has(
    app: Application, written: None, database: Postgres, records: Records, schemas: str, name: str
) -> None:
    report = load(app, name, "items", FORMS[name][1], "--option", f"registry.url={schemas}")
    assert folded(app.folder / "table") == kept(database)
    events = len(records.read(f"{name}.public.items"))
    assert (report.rows_emitted, report.dead_letters) == (events, 0)
    assert (report.rows_read > events) == (name == "envelopes")  # heartbeats


@pytest.mark.parametrize("format_", [DELTA, ICEBERG], ids=lambda each: each.name)
def test_a_table_of_upserts_is_what_the_database_has_whatever_is_killed(
    kafka: Any, written: None, database: Postgres, tmp_path: Path, format_: Format
) -> None:
    lake = Lake(tmp_path, format_)
    try:
        upserts = Upserts(lake, kafka.bootstrap_servers, tmp_path, "envelopes.public.items", upsert=["id"])
        decode = FORMS["envelopes"][1].to_text()
        upserts.transform = ("--decode", decode, "--arrow-transform", "debezium", "--option", "maxOffsetsPerTrigger=60")
        assert upserts.run(*upserts.transform, die="after")["code"] == "died"
        upserts.done()
        exact = {"price", "at"}  # of which JSON keeps a part
        columns = ", ".join(f"CAST({each} AS STRING) AS {each}" if each in exact else each for each in COLUMNS)
        found = lake.sql(f"SELECT {columns} FROM {upserts.table} WHERE NOT _is_deleted")
    finally:
        lake.close()
    assert {row["id"]: typed(in_python(row)) for row in found} == kept(database)


def in_python(row: dict[str, Any]) -> list[Any]:
    """The columns of a row of JSON, in which what is null is left out."""
    moment = row.get("at")
    values = {**row, "at": moment and datetime.fromisoformat(moment)}
    return [values.get(name) for name in COLUMNS]


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("texts", "id int, name string, note string", "'note' ... REPLICA IDENTITY FULL"),
        ("emptied", "id int", "op 't' ... skipped.operations"),
    ],
)
def test_what_does_not_tell_a_row_ends_the_load_with_its_place_or_is_a_dead_letter(
    app: Application,
    written: None,
    topics: Topics,
    records: Records,
    capsys: pytest.CaptureFixture[str],
    table: str,
    columns: str,
    said: str,
) -> None:
    form = Decode(key=KEY, value=Json(f"op string, after struct<{columns}>"))
    with pytest.raises(SystemExit):
        load(app, "envelopes", table, form)
    assert says(capsys.readouterr().err, f"envelopes.public.{table}[ ... ]@ ... {said}")
    app = Application(app.servers, app.folder / "again")
    report = load(
        app, "envelopes", table, form, "--bad-records", "5", "--dead-letters", (dead := topics.create("dead"))
    )
    assert report.dead_letters == 1
    assert [each.value for each in records.read(dead)]
