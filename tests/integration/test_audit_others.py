"""`orderedkafka audit --table`: tables that another program wrote, found by what Kafka has, and by nothing else."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.audited import counted
from support.messages import says
from support.planted import BASE, some
from support.records import Record, Records, Seen
from support.topics import Topics

from airflow_provider_orderedkafka.audit import auditing
from airflow_provider_orderedkafka.tools.cli import main

FOUND, SETTING = 65, 2
ROWS = 38
"""36 records, a tombstone, and one behind a record that was aborted."""

AS_KAFKA: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
}
"""The columns of Spark's own source, but for those that are not compared."""

TEXTS = {**AS_KAFKA, "key": pa.string(), "value": pa.string()}
OTHER_NUMBERS = {**TEXTS, "partition": pa.int64(), "offset": pa.int32()}


@pytest.fixture(scope="module")
def source(kafka: Any, records: Records) -> str:
    """Three partitions, with a tombstone; the first offset of the last one that is in no table is an aborted record."""
    name = Topics(kafka.bootstrap_servers, "audit of others").create("orders", 3)
    records.produce(name, [*some(), Record(None, BASE + 190, 2, b"key-2-0")])
    records.abort(name, [Record(b"never was", BASE + 200, 1, b"key-1-0")])
    records.produce(name, [Record(b"behind it", BASE + 210, 1, b"key-1-0")])
    return name


Plant = Callable[[list[dict[str, Any]]], Sequence[dict[str, Any]]]


def rows_of(seen: Sequence[Seen]) -> list[dict[str, Any]]:
    names = ("key", "value", "topic", "partition", "offset")
    return [{name: getattr(each, name) for name in names} | {"paid": True} for each in seen]


def write(folder: Path, rows: Sequence[dict[str, Any]], types: dict[str, pa.DataType]) -> str:
    """Write a table as another program does, without anything of ours."""
    made = pa.Table.from_pylist([*rows], pa.schema({**types, "paid": pa.bool_()}))
    deltalake.write_deltalake(str(folder / "table"), made, mode="append")
    return f"delta:{folder}/table"


@pytest.fixture
def audit(kafka: Any, source: str, capfd: Any) -> Callable[..., tuple[int, str, str]]:
    """The command's exit code, and what it says."""

    def run(*given: str, topics: Sequence[str] = (source,)) -> tuple[int, str, str]:
        named = [text for topic in topics for text in ("--topic", topic)]
        option = ["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}"]
        code = main(["audit", *given, *named, *option])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def audited(audit: Any, records: Records, source: str, tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """The audit of a table that was written from the topic, with something planted."""

    def run(plant: Plant = list, *more: str, types: dict[str, pa.DataType] = AS_KAFKA) -> tuple[int, dict[str, Any]]:
        table = write(tmp_path, plant(rows_of(records.read(source))), types)
        code, out, err = audit("--table", table, "--json", *more)
        assert out, err
        return code, json.loads(out)

    return run


@pytest.mark.parametrize("types", [AS_KAFKA, TEXTS, OTHER_NUMBERS], ids=["as Kafka", "texts", "other numbers"])
def test_a_table_with_each_record_once_is_clean(audited: Any, types: dict[str, pa.DataType]) -> None:
    code, found = audited(types=types)
    assert (code, counted(found), found["ranges"][0]["rows"], found["outside"]) == (0, {}, ROWS, 0)
    assert found["ranges"][0]["verdict"] == "clean"


def at(rows: list[dict[str, Any]], partition: int, offset: int) -> int:
    [found] = [number for number, row in enumerate(rows) if (row["partition"], row["offset"]) == (partition, offset)]
    return found


def changed(partition: int, offset: int, **what: Any) -> Plant:
    def plant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        there = at(rows, partition, offset)
        return [*rows[:there], rows[there] | what, *rows[there + 1 :]]

    return plant


def one_more(**what: Any) -> Plant:
    """The row of a record is there again, or says to be of another."""
    return lambda rows: [*rows, rows[at(rows, 1, 5)] | what]


PLANTED: dict[str, tuple[Plant, str, str, str]] = {
    "missing": (lambda rows: [row for row in rows if row["offset"] != 5 or row["partition"]], "missing", "[0]@5", ""),
    "a tombstone is missing": (lambda rows: [row for row in rows if row["value"] is not None], "missing", "[2]@12", ""),
    "doubled": (one_more(), "doubled", "[1]@5", ""),
    "another value": (changed(1, 5, value=b"another"), "altered", "[1]@5", "value"),
    "an empty value": (changed(2, 12, value=b""), "altered", "[2]@12", "value"),
    "no key": (changed(0, 1, key=None), "altered", "[0]@1", "key"),
    "of an aborted record": (one_more(offset=12), "stray", "[1]@12", ""),
    "of no partition": (one_more(partition=7), "stray", "[7]@5", ""),
}


@pytest.mark.parametrize(("plant", "what", "place", "why"), PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("types", [AS_KAFKA, OTHER_NUMBERS], ids=["as Kafka", "other types"])
def test_what_is_wrong_is_found_with_its_place(
    audited: Any, source: str, plant: Plant, what: str, place: str, why: str, types: dict[str, pa.DataType]
) -> None:
    code, found = audited(plant, types=types)
    assert (code, counted(found)) == (FOUND, {what: 1})
    [only] = found["places"]
    assert (only["what"], only["record"]) == (what, source + place)
    assert why in only["why"]


def test_a_range_without_an_offset_is_not_clean(audited: Any) -> None:
    code, found = audited(list, "--start", "latest")
    assert (code, counted(found), found["outside"]) == (FOUND, {"unknown": 1}, ROWS)


def test_rows_outside_of_the_range_are_left_out_and_counted(audited: Any, source: str) -> None:
    def plant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows of another topic, rows behind the end, and one that says nothing, are there too."""
        return [*rows, *(row | {"topic": "another"} for row in rows[:3]), rows[0] | {"offset": 999}]

    code, found = audited(plant)
    assert (code, counted(found), found["outside"]) == (0, {}, 4)
    start, end = (json.dumps({source: offsets}) for offsets in ([2, 0, 0], [12, 5, 5]))
    code, found = audited(lambda _: [], "--start", start, "--end", end)
    assert (code, counted(found), found["ranges"][0]["rows"], found["outside"]) == (0, {}, 20, 4 + ROWS - 20)


def test_a_row_that_does_not_say_which_record_it_is_of_is_unknown(audited: Any) -> None:
    code, found = audited(one_more(offset=None))
    assert (code, counted(found)) == (FOUND, {"unknown": 1})
    assert len(found["ranges"][0]["reasons"]) == 1


@pytest.mark.parametrize(
    ("types", "named"),
    [
        ({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}, ["key", "value"]),
        ({**AS_KAFKA, "value": pa.struct({"order": pa.int64()})}, ["value", "struct"]),
    ],
    ids=["places alone", "a decoded value"],
)
def test_columns_that_cannot_be_compared_are_named(
    audited: Any, types: dict[str, pa.DataType], named: list[str]
) -> None:
    def plant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row | {"value": {"order": 1} if row["value"] else None} for row in rows]

    code, found = audited(plant, types=types)
    assert (code, counted(found)) == (0, {})
    compared, unproved = found["ranges"][0]["notes"][0].split(";")
    assert all(name in unproved and name not in compared for name in named)
    code, found = audited(lambda rows: plant(rows)[:1], types=types)
    assert (code, counted(found)) == (FOUND, {"doubled": 1})


def test_what_comes_while_the_audit_runs_is_outside(
    audit: Any, topics: Topics, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = topics.create("growing", 2)
    records.produce(growing, some(2, 4))
    read = auditing.read_others

    def later(*given: Any) -> Any:
        """More records come, and into the table, after the end was frozen; and some that the table lacks."""
        records.produce(growing, some(2, 3))
        write(tmp_path, rows_of(records.read(growing)), AS_KAFKA)
        found = read(*given)
        records.produce(growing, some(2, 3))
        return found

    monkeypatch.setattr(auditing, "read_others", later)
    code, out, _ = audit("--table", f"delta:{tmp_path}/table", "--json", topics=[growing])
    found = json.loads(out)
    assert (code, counted(found), found["ranges"][0]["rows"], found["outside"]) == (0, {}, 8, 6)


def test_records_that_retention_took_cannot_be_proved_and_what_is_there_is_compared(
    audit: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source = topics.create("gone", 2)
    records.produce(source, some(2, 6))
    rows = [row for row in rows_of(records.read(source)) if (row["partition"], row["offset"]) != (1, 5)]
    table = write(tmp_path, rows, AS_KAFKA)
    records.delete_before(source, {0: 3})
    asked = ("--table", table, "--json", "--start")
    code, out, _ = audit(*asked, json.dumps({source: [0, 0]}), topics=[source])
    found = json.loads(out)
    assert (code, counted(found), found["outside"]) == (FOUND, {"unknown": 3, "missing": 1}, 0)
    assert f"{source}[0]" in found["ranges"][0]["reasons"][0]
    some_gone = json.dumps({source: [0, 0]}), "--end", json.dumps({source: [2, 3]})
    code, out, _ = audit(*asked, *some_gone, topics=[source])
    found = json.loads(out)
    assert (code, counted(found), found["ranges"][0]["rows"], found["outside"]) == (FOUND, {"unknown": 2}, 5, 6)
    code, out, _ = audit(*asked, "earliest", topics=[source])
    found = json.loads(out)
    assert (code, counted(found), found["outside"]) == (FOUND, {"missing": 1}, 3)
    code, out, _ = audit(*asked, "2020-01-01T00:00:00Z", topics=[source])
    found = json.loads(out)
    assert (code, counted(found)) == (FOUND, {"missing": 1, "unknown": 1})


def test_several_topics_are_compared_together(
    audit: Any, source: str, topics: Topics, records: Records, tmp_path: Path
) -> None:
    other = topics.create("refunds")
    records.produce(other, some(1, 4))
    rows = [row for name in (source, other) for row in rows_of(records.read(name))]
    table = write(tmp_path, rows, TEXTS)
    code, out, _ = audit("--table", table, topics=[source, other])
    assert code == 0
    assert all(name in out.splitlines()[0] for name in (source, other, "clean", f"{ROWS + 4}"))
    records.delete_before(other, {0: 2})
    start = json.dumps({source: "earliest", other: [1]})
    code, out, _ = audit("--table", table, "--json", "--start", start, topics=[source, other])
    found = json.loads(out)
    assert (code, counted(found), found["outside"]) == (FOUND, {"unknown": 1}, 1)


def test_the_offsets_that_are_printed_ask_for_the_same_again(audit: Any, source: str, audited: Any) -> None:
    _, found = audited()
    [said] = [note for note in found["ranges"][0]["notes"] if "--start" in note]
    start, end = said.split(": ", 1)[1].removeprefix("--start '").removesuffix("'").split("' --end '")
    assert json.loads(start) == {source: [0, 0, 0]}
    code, again = audited(lambda _: [], "--start", start, "--end", end)
    assert (code, again["ranges"][0]["rows"]) == (0, ROWS)


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}


def test_an_iceberg_table_is_audited_by_the_catalog_that_pyiceberg_knows(
    kafka: Any, source: str, records: Records, catalog: dict[str, str]
) -> None:
    from pyiceberg.catalog import load_catalog

    lake = load_catalog("lake", **catalog)
    lake.create_namespace("shop")
    made = pa.Table.from_pylist(rows_of(records.read(source)), pa.schema({**AS_KAFKA, "tags": pa.list_(pa.string())}))
    table = lake.create_table("shop.orders", made.schema)
    named = {f"PYICEBERG_CATALOG__LAKE__{name.upper()}": value for name, value in catalog.items()}
    command = [sys.executable, "-m", "airflow_provider_orderedkafka.tools.cli", "audit", "--json", "--topic", source]
    option = ["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}", "--table", "iceberg:lake.shop.orders"]
    for rows, code, counts in ((made[:0], FOUND, {"missing": ROWS}), (made, 0, {}), (made[:1], FOUND, {"doubled": 1})):
        if rows.num_rows:
            table.append(rows)
        done = subprocess.run(
            [*command, *option], env={**os.environ, **named}, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert counted(json.loads(done.stdout)) == counts


def test_a_folder_of_parquet_is_audited_with_the_columns_of_its_paths(
    audit: Any, source: str, records: Records, tmp_path: Path
) -> None:
    rows, by = rows_of(records.read(source)), ["topic", "_day", "partition"]
    made = pa.Table.from_pylist(one_more()(rows), pa.schema(AS_KAFKA)).append_column("_day", pa.array([1] * (ROWS + 1)))
    parquet.write_to_dataset(made, tmp_path / "folder", partition_cols=by)
    for hidden in (".left/a.parquet", "_temporary/0/a.parquet", "_SUCCESS", f"topic={source}/.a.parquet.crc"):
        (tmp_path / "folder" / hidden).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / hidden).touch()
    code, out, _ = audit("--table", f"parquet:{tmp_path}/folder", "--json")
    found = json.loads(out)
    assert (code, counted(found)) == (FOUND, {"doubled": 1})
    assert found["places"][0]["output"].startswith(f"topic={source}/_day=1/partition=1/")
    table = write(tmp_path, rows, AS_KAFKA)
    code, out, err = audit("--table", table.replace("delta:", "parquet:"))
    assert (code, out) == (SETTING, "")
    assert table in err


def test_a_topic_whose_name_is_a_number_is_no_number_in_a_path(
    audit: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    topics.create_named("007")
    records.produce("007", some(1, 4))
    made = pa.Table.from_pylist(rows_of(records.read("007")), pa.schema(AS_KAFKA))
    parquet.write_to_dataset(made, tmp_path / "folder", partition_cols=["topic", "partition"])
    code, out, err = audit("--table", f"parquet:{tmp_path}/folder", "--json", topics=["007"])
    assert (code, counted(json.loads(out))) == (0, {}), err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--table", "delta:/lake", "--topic", "a", "--checkpoint", "/c"], "'delta:/lake' ... --checkpoint"),
        (["dags/orders.py", "--table", "delta:/lake", "--topic", "a"], "'delta:/lake' ... DAG file"),
        (["--table", "delta:/lake", "--topic", "a", "--range", "r1"], "'delta:/lake' ... --range"),
        (["--table", "delta:/lake", "--topic", "a", "--sink-option", "kafka.a=b"], "'delta:/lake' ... --sink-option"),
        (["--table", "delta:/lake"], "'delta:/lake' ... --topic"),
        (["--table", "detla:/lake", "--topic", "a"], "'detla:/lake' ... 'delta'"),
        (["--table", "csv:/lake", "--topic", "a"], "delta:/lake/orders ... parquet:/lake/orders ... 'csv:/lake'"),
        (["--table", "xyzzy:/lake", "--topic", "a"], "'xyzzy:/lake' ... delta, iceberg, parquet"),
        (["--table", "delta:shop.orders", "--topic", "a"], "delta:/lake/orders ... 'delta:shop.orders'"),
        (["--table", "iceberg:/lake", "--topic", "a"], "iceberg:lake.shop.orders ... 'iceberg:/lake'"),
        (["--table", "delta:", "--topic", "a"], "delta:/lake/orders ... 'delta:'"),
        (["--table", "delta:/lake", "--topic", "a"], "'kafka.bootstrap.servers'"),
        (["--checkpoint", "/c", "--topic", "a"], "--topic ... --table ... --range"),
        (["--checkpoint", "/c", "--start", "-2h"], "--start ... --table"),
        ([], "--checkpoint ... --table"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused_at_once(
    capfd: Any, monkeypatch: pytest.MonkeyPatch, given: list[str], said: str
) -> None:
    monkeypatch.delenv("ORDEREDKAFKA_OPTIONS", raising=False)
    assert main(["audit", *given]) == SETTING
    out, err = capfd.readouterr()
    assert out == ""
    assert says(err, said)


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"topic": pa.string(), "value": pa.binary()}, "'partition', 'offset' ... topic (string), value (binary)"),
        ({**AS_KAFKA, "offset": pa.string()}, "'offset' ... offset (string)"),
        ({**AS_KAFKA, "topic": pa.int32()}, "'topic' ... topic (int32)"),
    ],
)
def test_a_table_whose_columns_do_not_say_which_record_a_row_is_of_is_refused(
    audit: Any, tmp_path: Path, types: dict[str, pa.DataType], said: str
) -> None:
    table = write(tmp_path, [], types)
    code, out, err = audit("--table", table)
    assert (code, out) == (SETTING, "")
    assert says(err, f"{table}: ... {said}")


def test_a_table_that_is_not_there_and_an_end_before_the_start_are_refused(audit: Any, tmp_path: Path) -> None:
    code, out, err = audit("--table", f"delta:{tmp_path}/nowhere")
    assert (code, out) == (FOUND, "")
    assert f"delta:{tmp_path}/nowhere" in err
    code, out, err = audit("--table", f"delta:{tmp_path}/nowhere", "--start", "latest", "--end", "earliest")
    assert (code, out) == (SETTING, "")
