"""`orderedkafka audit` of files and tables: each fault that is planted is found with its place, and nothing else is."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.audited import Row, Written, audited, counted
from support.planted import BASE, PLANTED, again, at, changed, elsewhere, said, some, without
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.commits import TableVersion
from airflow_provider_orderedkafka.core.documents import Ends

FOUND = 65
ROWS = 37


@pytest.fixture(scope="module")
def whole(kafka: Any, records: Records, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A source of 37 records, and one that was aborted; nothing is written to its topics any more."""
    topics = Topics(kafka.bootstrap_servers, "audit of tables")
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, some())
    records.abort(source, [Record(b"never was", BASE + 200, 1, b"key-1-0")])
    records.produce(source, [Record(b"behind it", BASE + 210, 1, b"key-1-0")])
    return Written(kafka.bootstrap_servers, topics, records, tmp_path_factory.mktemp("whole"), (source,), output)


@pytest.fixture
def written(whole: Written, tmp_path: Path) -> Written:
    return replace(whole, folder=tmp_path)


@pytest.fixture
def audit(written: Written, capfd: Any) -> Callable[..., tuple[int, dict[str, Any]]]:
    return lambda *more: audited(written.servers, written.folder / "checkpoint", capfd, *more)


def left_out(*numbers: int) -> Callable[[list[Row]], list[Row]]:
    def plant(rows: list[Row]) -> list[Row]:
        gone = [rows[number] for number in numbers]
        return [row for row in rows if row not in gone]

    return plant


def without_a_partition(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.source.position[1] != 2]


def exchanged(rows: list[Row]) -> list[Row]:
    """Two rows, each with the bytes of the other's record."""
    first, second = at(rows, 1, 5), at(rows, 1, 9)
    rows[first], rows[second] = (
        replace(rows[first], record=rows[second].record),
        replace(rows[second], record=rows[first].record),
    )
    return rows


def thrice(rows: list[Row]) -> list[Row]:
    row = rows[at(rows, 1, 5)]
    return [*rows, row, row]


MORE: dict[str, tuple[Any, dict[str, int], str]] = {
    "the first row is missing": (left_out(0), {"missing": 1}, ""),
    "the last row is missing": (left_out(-1), {"missing": 1}, ""),
    "a partition is missing": (without_a_partition, {"missing": 12}, ""),
    "a row is there three times": (thrice, {"doubled": 2}, "is the same row"),
    "two rows exchanged their bytes": (exchanged, {"altered": 2}, "another value"),
    "an empty key": (changed(key=b""), {"altered": 1}, "another key"),
    "no header": (changed(headers=[]), {"altered": 1}, "another headers"),
    "a later order time": (said(order_time=BASE + 70), {"altered": 1}, "another order time"),
    "everything is missing": (lambda _: [], {"missing": ROWS}, ""),
    "a row behind the range's end": (elsewhere(20), {"stray": 1}, "did not read that offset"),
    "a row of an aborted transaction": (elsewhere(12), {"stray": 1}, "it was aborted, or never was"),
}

OF_TOPICS = {
    "two rows changed places",
    "a row lies apart from its key",
    "a row came late",
    "a row without a header in its place",
}
OF_IDENTITIES = {"a second row of a record", "a row of another range in its place"}
IN_TABLES = {name: each for name, each in {**PLANTED, **MORE}.items() if name not in OF_TOPICS}
IN_FILES = {name: each for name, each in IN_TABLES.items() if name not in OF_IDENTITIES}


def as_lines(rows: pa.Table, path: Path) -> None:
    """Write rows as Spark writes JSON: bytes are base64, times are text, what is null is left out."""

    def shown(value: Any) -> Any:
        if isinstance(value, bytes):
            return b64encode(value).decode()
        if isinstance(value, datetime):
            return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
        if isinstance(value, dict):
            return {name: shown(each) for name, each in value.items() if each is not None}
        return [shown(each) for each in value] if isinstance(value, list) else value

    path.write_text("".join(json.dumps(shown(row)) + "\n" for row in rows.to_pylist()))


def as_avro(rows: pa.Table, path: Path) -> None:
    """Write rows as Spark writes Avro: what may be null is a union, times are microseconds, blocks are compressed."""

    def of(kind: pa.DataType) -> Any:
        if pa.types.is_list(kind):
            return {"type": "array", "items": of(kind.value_type)}
        if pa.types.is_struct(kind):
            return {"type": "record", "name": "pair", "fields": [{"name": f.name, "type": of(f.type)} for f in kind]}
        return ["null", AVRO[kind]]

    fields = [{"name": field.name, "type": of(field.type)} for field in rows.schema]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows.to_pylist(), codec="snappy")


AVRO: dict[pa.DataType, Any] = {
    pa.binary(): "bytes",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
}
FORMATS = {"parquet": parquet.write_table, "json": as_lines, "avro": as_avro}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("plant", "counts", "why"), IN_FILES.values(), ids=IN_FILES)
def test_a_fault_that_is_planted_in_files_is_found_with_its_place(
    written: Written, audit: Any, kind: str, plant: Any, counts: dict[str, int], why: str
) -> None:
    written.load_files(plant, kind=kind, write=FORMATS[kind])
    code, found = audit()
    assert (code, counted(found)) == (FOUND, counts)
    place = found["places"][0]
    assert why in place["why"]
    assert f"part-0.{kind}@" in place["output"] or place["what"] == "missing"


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_are_as_promised_are_clean_and_one_that_is_gone_is_missed(
    written: Written, audit: Any, kind: str
) -> None:
    written.load_files(kind=kind, write=FORMATS[kind])
    code, found = audit()
    assert (code, counted(found), found["ranges"][0]["rows"], found["late"]) == (0, {}, ROWS, 3)
    [gone] = (written.folder / "files").rglob(f"batch=2/**/*.{kind}")
    gone.unlink()
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"missing": 18})


@pytest.mark.parametrize("kind", FORMATS)
def test_files_in_which_rows_changed_places_are_found(written: Written, audit: Any, kind: str) -> None:
    def neighbours(rows: list[Row]) -> list[Row]:
        return [rows[1], rows[0], *rows[2:]]

    written.load_files(neighbours, kind=kind, write=FORMATS[kind])
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"out_of_order": 1})


@pytest.mark.parametrize("kind", FORMATS)
def test_files_follow_each_other_in_the_order_of_the_load(written: Written, audit: Any, kind: str) -> None:
    def at_the_edge(rows: list[Row]) -> list[Row]:
        """The last row of the first file, and the first one of the second, changed places."""
        return [*rows[:18], rows[19], rows[18], *rows[20:]]

    written.load_files(at_the_edge, kind=kind, write=FORMATS[kind])
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"out_of_order": 1})
    assert found["places"][0]["output"].endswith(f"part-0.{kind}@0")


def kept(*columns: str, **casts: pa.DataType) -> Callable[[pa.Table, Path], None]:
    """Writes what a transform has made: these columns of the records, as these types, and one of its own."""

    def write(rows: pa.Table, path: Path) -> None:
        made = {name: rows.column(name).cast(casts.get(name, rows.schema.field(name).type)) for name in columns}
        FORMATS[path.suffix[1:]](pa.table({**made, "paid": pa.array([True] * rows.num_rows)}), path)

    return write


OF_PLACES = ("topic", "partition", "offset")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("plant", "emitted", "counts"),
    [
        (list, ROWS, {}),
        (lambda rows: rows[3:], ROWS - 3, {}),
        (without, ROWS, {"missing": 1}),
        (elsewhere(20), ROWS, {"stray": 1}),
        (again(), ROWS + 1, {"unknown": 1}),
        (again(), ROWS, {"unknown": 1, "stray": 1}),
    ],
    ids=["all", "some were filtered", "one is missing", "one of another range", "two of a record", "one too many"],
)
def test_files_of_a_transform_that_kept_the_places_of_records_are_compared_by_coverage(
    written: Written, audit: Any, kind: str, plant: Any, emitted: int, counts: dict[str, int]
) -> None:
    report = written.load_files(plant, kind=kind, write=kept(*OF_PLACES), rows_emitted=emitted)
    written.report(replace(report, destination=replace(report.destination, copied=False)))
    assert counted(audit()[1]) == counts


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("write", [kept(), kept("topic", "partition"), kept(*OF_PLACES, offset=pa.string())])
def test_of_files_of_a_transform_without_the_places_of_records_only_the_number_of_rows_is_known(
    written: Written, audit: Any, kind: str, write: Any
) -> None:
    report = written.load_files(kind=kind, write=write)
    destination = replace(report.destination, copied=False)
    written.report(replace(report, destination=destination))
    assert counted(audit()[1]) == {"unknown": ROWS}
    written.report(replace(report, destination=destination, rows_emitted=ROWS + 1))
    assert counted(audit()[1]) == {"unknown": ROWS, "missing": 1}


def test_times_that_are_written_in_another_way_and_formats_that_are_not_read_leave_it_unknown(
    written: Written, audit: Any
) -> None:
    def in_seconds(rows: pa.Table, path: Path) -> None:
        as_lines(rows, path)
        path.write_text(path.read_text().replace("T", " at "))

    report = written.load_files(kind="json", write=in_seconds)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"unknown": ROWS})
    assert len(found["ranges"][0]["reasons"]) == 1
    written.report(replace(report, destination=replace(report.destination, output=f"csv:{written.folder}/files")))
    assert counted(audit()[1]) == {"unknown": ROWS}


@pytest.mark.parametrize("name", ["timestamp", "order_time"])
def test_a_microsecond_is_another_time(written: Written, audit: Any, name: str) -> None:
    def write(rows: pa.Table, path: Path) -> None:
        column = rows.schema.get_field_index(name)
        moved = [value + timedelta(microseconds=1) for value in rows.column(name).to_pylist()]
        parquet.write_table(rows.set_column(column, name, pa.array(moved, rows.schema.field(name).type)), path)

    written.load_files(write=write)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"altered": ROWS})
    assert found["places"][0]["why"] == f"another {name.replace('_', ' ')}"


def in_delta(folder: Path) -> Callable[[pa.Table], tuple[str, str, str]]:
    """Adds rows to a table that is named by its path."""

    def write(rows: pa.Table) -> tuple[str, str, str]:
        path = str(folder / "delta")
        deltalake.write_deltalake(path, rows, mode="append")
        return f"delta:{path}", str(deltalake.DeltaTable(path).metadata().id), ""

    return write


def in_a_catalog(folder: Path) -> Callable[[pa.Table], tuple[str, str, str]]:
    """Adds rows to a Delta table that has a name in a catalog, which Spark alone reads."""

    def write(rows: pa.Table) -> tuple[str, str, str]:
        name, table_id, _ = in_delta(folder)(rows)
        return "delta:shop.orders", table_id, f"file:{name.removeprefix('delta:')}"

    return write


def in_iceberg(folder: Path) -> Callable[[pa.Table], tuple[str, str, str]]:
    """Makes a table whose metadata lies as in Hadoop's catalog."""

    def write(rows: pa.Table) -> tuple[str, str, str]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(
            "any", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake"
        )
        catalog.create_namespace_if_not_exists("shop")
        table = catalog.create_table_if_not_exists("shop.orders", rows.schema)
        table.append(rows)
        location = Path(table.location().removeprefix("file://"))
        newest = Path(table.metadata_location.removeprefix("file://"))
        named = [*location.glob("metadata/*-*.metadata.json")]
        (location / "metadata" / "v10.metadata.json").write_bytes(newest.read_bytes())
        (location / "metadata" / "v9.metadata.json").write_text("an older one")
        for file in named:
            file.unlink()
        return "iceberg:lake.shop.orders", str(table.metadata.table_uuid), f"file:{location}"

    return write


LAKES = {"delta": in_delta, "delta in a catalog": in_a_catalog, "iceberg": in_iceberg}


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
@pytest.mark.parametrize(("plant", "counts", "why"), IN_TABLES.values(), ids=IN_TABLES)
def test_a_fault_that_is_planted_in_a_table_is_found_with_its_place(
    written: Written, audit: Any, lake: str, plant: Any, counts: dict[str, int], why: str
) -> None:
    written.load_table(LAKES[lake](written.folder), plant)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, counts)
    place = found["places"][0]
    assert why in place["why"]
    assert place["output"].startswith(f"{lake}:") or place["what"] == "missing"


def with_column(name: str, value: Any, number: int | None = 5) -> Callable[[pa.Table], pa.Table]:
    """Puts a value into a column of one row, or of all of them."""

    def damage(rows: pa.Table) -> pa.Table:
        values = [value if number in (None, at) else was for at, was in enumerate(rows.column(name).to_pylist())]
        field = rows.schema.field(name)
        return rows.set_column(rows.schema.get_field_index(name), name, pa.array(values, field.type))

    return damage


def with_copies(*columns: str) -> Callable[[pa.Table], pa.Table]:
    """Adds a copy of each row in which these columns are null."""

    def damage(rows: pa.Table) -> pa.Table:
        copies = rows
        for name in columns:
            copies = with_column(name, None, None)(copies)
        return pa.concat_tables([rows, copies])

    return damage


OF_COLUMNS: dict[str, tuple[Any, dict[str, int], str]] = {
    "another late": (with_column("late", value=True), {"altered": 1}, "another late"),
    "another type of timestamp": (with_column("timestampType", 1), {"altered": 1}, "another timestampType"),
}
BESIDE_IDENTITIES = {
    **OF_COLUMNS,
    "another topic": (with_column("topic", "b"), {"altered": 1}, "another topic"),
    "another partition": (with_column("partition", 7), {"altered": 1}, "another partition"),
    "another offset": (with_column("offset", 700), {"altered": 1}, "another offset"),
    "no topics": (with_column("topic", None, None), {"altered": ROWS}, "another topic"),
    "no identity": (with_column("_orderedkafka", None), {"altered": 1}, "another identity"),
    "copies without identity": (with_copies("_orderedkafka"), {"doubled": ROWS, "altered": ROWS}, "is the same row"),
    "copies that say nothing": (with_copies("_orderedkafka", "offset"), {"unknown": ROWS}, ""),
}


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
@pytest.mark.parametrize(("damage", "counts", "why"), BESIDE_IDENTITIES.values(), ids=BESIDE_IDENTITIES)
def test_a_column_that_says_other_than_its_identity_and_a_row_without_one_are_told(
    written: Written, audit: Any, lake: str, damage: Any, counts: dict[str, int], why: str
) -> None:
    write = LAKES[lake](written.folder)
    written.load_table(lambda rows: write(damage(rows)))
    code, found = audit()
    assert (code, counted(found)) == (FOUND, counts)
    assert [each["why"] for each in found["places"] if why not in each["why"]] == [] or "doubled" in counts


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("damage", "counts"),
    [
        *((damage, counts) for damage, counts, _ in OF_COLUMNS.values()),
        (with_column("offset", None), {"missing": 1, "stray": 1}),
        (with_column("topic", None), {"missing": 1, "stray": 1}),
    ],
)
def test_a_column_of_a_file_that_is_not_as_its_record_has_it_is_told(
    written: Written, audit: Any, kind: str, damage: Any, counts: dict[str, int]
) -> None:
    written.load_files(kind=kind, write=lambda rows, path: FORMATS[kind](damage(rows), path), batches=1)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, counts)


@pytest.mark.parametrize("lake", LAKES)
def test_a_table_that_is_as_promised_is_clean_and_another_one_in_its_place_is_unknown(
    written: Written, audit: Any, lake: str
) -> None:
    report = written.load_table(LAKES[lake](written.folder))
    code, found = audit()
    assert (code, counted(found), found["ranges"][0]["rows"]) == (0, {}, ROWS)
    written.report(replace(report, before=Ends(table=TableVersion("another", 1))))
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"unknown": ROWS})
    assert len(found["ranges"][0]["reasons"]) == 1


@pytest.mark.parametrize(
    "order_time", [None, pa.array(["2026"] * ROWS), pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * ROWS)]
)
def test_columns_that_a_transform_made_of_those_of_records_are_not_compared(
    written: Written, audit: Any, order_time: pa.Array | None
) -> None:
    def write(rows: pa.Table) -> tuple[str, str, str]:
        made = rows.select(["_orderedkafka"])
        more = {} if order_time is None else {"order_time": order_time, "headers": order_time}
        for name, column in more.items():
            made = made.append_column(name, column)
        return in_delta(written.folder)(made)

    report = written.load_table(write)
    written.report(replace(report, destination=replace(report.destination, copied=False)))
    assert (audit()[0], counted(audit()[1])) == (0, {})


def test_rows_of_other_ranges_in_a_table_are_none_of_this_one(written: Written, audit: Any) -> None:
    write = in_delta(written.folder)
    written.load_table(write)
    written.load_table(write, lambda rows: [replace(row, range_id="r2") for row in rows])
    assert (audit()[0], audit()[1]["ranges"][0]["rows"]) == (0, ROWS)


def test_a_table_that_cannot_be_found_is_unknown_with_the_reason(written: Written, audit: Any) -> None:
    report = written.load_table(in_delta(written.folder))
    for output, location, why in (
        ("delta:shop.orders", "", "does not say where the table lies"),
        ("delta:shop.orders", f"file:{written.folder}/nowhere", "cannot be read here"),
        ("iceberg:lake.shop.orders", "", "cannot be read here"),
        ("iceberg:lake.shop.orders", f"file:{written.folder}/nowhere", "cannot be read here"),
    ):
        written.report(replace(report, destination=replace(report.destination, output=output, location=location)))
        code, found = audit()
        assert (code, counted(found)) == (FOUND, {"unknown": ROWS})
        assert why in found["ranges"][0]["reasons"][0]


@pytest.mark.parametrize("lake", LAKES)
def test_dead_letters_in_a_table_are_not_missing_and_a_row_beside_one_is_doubled(
    written: Written, audit: Any, lake: str
) -> None:
    letters = written.folder / "letters"
    letters.mkdir()
    dead: list[Row] = []

    def plant(rows: list[Row]) -> list[Row]:
        dead.extend([rows[at(rows, 1, 5)], rows[at(rows, 0, 2)]])
        return [row for row in rows if row is not dead[0]]

    report = written.load_table(LAKES[lake](written.folder), plant, dead_letters=2, rows_emitted=ROWS - 1)
    place, _, location = LAKES[lake](letters)(written.identified(dead))
    written.report(
        replace(report, destination=replace(report.destination, dead_letters=place, dead_letters_location=location))
    )
    code, found = audit()
    assert (code, counted(found), found["dead_letters"]) == (FOUND, {"doubled": 1}, 2)
    assert found["places"][0]["record"] == f"{written.sources[0]}[0]@2"


@pytest.mark.parametrize(("plant", "counts"), [(list, {}), (without, {"missing": 1}), (again(), {"doubled": 1})])
def test_an_iceberg_table_is_read_back_by_the_catalog_that_pyiceberg_knows(
    written: Written, tmp_path: Path, plant: Any, counts: dict[str, int]
) -> None:
    at = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}

    def write(rows: pa.Table) -> tuple[str, str, str]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("lake", **at)
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", rows.schema)
        table.append(rows)
        return "iceberg:lake.shop.orders", str(table.metadata.table_uuid), table.location()

    written.load_table(write, plant)
    named = {f"PYICEBERG_CATALOG__LAKE__{name.upper()}": value for name, value in at.items()}
    command = [sys.executable, "-m", "airflow_provider_orderedkafka.tools.cli", "audit", "--json", "--checkpoint"]
    option = ["--option", f"kafka.bootstrap.servers={written.servers}"]
    done = subprocess.run(
        [*command, str(tmp_path / "checkpoint"), *option],
        env={**os.environ, **named},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (FOUND if counts else 0), done.stderr
    assert counted(json.loads(done.stdout)) == counts
