"""`orderedkafka audit` of files and tables: each fault that is planted is found with its place, and nothing else is."""

import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc, parquet
from support.audited import Row, Written, counted
from support.planted import BASE, FORMATS, again, as_avro, as_lines, at, elsewhere, without, written_from
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
    written = written_from(topics, records, tmp_path_factory.mktemp("whole"))
    [source] = written.sources
    records.abort(source, [Record(b"never was", BASE + 200, 1, b"key-1-0")])
    records.produce(source, [Record(b"behind it", BASE + 210, 1, b"key-1-0")])
    return written


@pytest.fixture
def written(whole: Written, tmp_path: Path) -> Written:
    return replace(whole, folder=tmp_path)


ALTERED: list[dict[str, Any]] = [
    {"value": b"another"},
    {"value": None},
    {"value": b""},
    {"key": b"another"},
    {"key": None},
    {"key": b""},
    {"headers": []},
    {"headers": [("a", b"another"), ("b", None)]},
    {"headers": [("a", None), ("b", None)]},
    {"headers": [("b", None), ("a", b"another")]},
    {"timestamp": BASE + 1},
]
"""What is done to a record, each to one of its own."""


def wrong(rows: list[Row]) -> list[Row]:
    """The first row is gone, the last one is there twice, one is of nowhere, and others are not as their records."""
    altered = [row.but(**what) for row, what in zip(rows[1:], ALTERED, strict=False)]
    late, *rest = rows[1 + len(ALTERED) :]
    return [*altered, replace(late, order_time=late.source.order_time + 1), *rest, rows[-1], *elsewhere(20)(rows)[-1:]]


WRONG = {"missing": 1, "doubled": 1, "stray": 1, "altered": len(ALTERED) + 1}


def not_its_own(rows: list[Row]) -> list[Row]:
    """Besides, one row says that it is of another range, and one that it is the second one of its record."""
    *others, last = wrong(rows)
    there = at(others, 2, 9)
    taken = replace(others[there], range_id="r2")
    return [*others[:there], taken, *others[there + 1 :], last, *again(ordinal=1)(rows)[-1:]]


@pytest.mark.parametrize("kind", FORMATS)
def test_faults_that_are_planted_in_files_are_found_with_their_places(written: Written, audit: Any, kind: str) -> None:
    written.load_files(wrong, kind=kind, write=FORMATS[kind])
    code, found = audit()
    assert (code, counted(found)) == (FOUND, WRONG)
    assert all(f"part-0.{kind}@" in place["output"] for place in found["places"] if place["what"] != "missing")
    written.load_files(lambda _: [], kind=kind, write=FORMATS[kind])
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"missing": ROWS})


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
def test_files_follow_each_other_in_the_order_of_the_load(written: Written, audit: Any, kind: str) -> None:
    def moved(rows: list[Row]) -> list[Row]:
        """The first two rows changed places, and so did the last one of the first file and the first of the second."""
        return [rows[1], rows[0], *rows[2:18], rows[19], rows[18], *rows[20:]]

    written.load_files(moved, kind=kind, write=FORMATS[kind])
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"out_of_order": 2})
    assert [place["output"].rpartition("@")[2] for place in found["places"]] == ["1", "0"]


def kept(*columns: str, **casts: pa.DataType) -> Callable[[pa.Table, Path], None]:
    """Writes what a transform has made: these columns of the records, as these types, and one of its own."""

    def write(rows: pa.Table, path: Path) -> None:
        made = {name: rows.column(name).cast(casts.get(name, rows.schema.field(name).type)) for name in columns}
        FORMATS[path.suffix[1:]](pa.table({**made, "paid": pa.array([True] * rows.num_rows)}), path)

    return write


OF_PLACES = ("topic", "partition", "offset")


@pytest.mark.parametrize(
    ("kind", "plant", "emitted", "counts"),
    [
        ("parquet", list, ROWS, {}),
        ("avro", lambda rows: rows[3:], ROWS - 3, {}),
        ("json", without, ROWS, {"missing": 1}),
        ("parquet", elsewhere(20), ROWS, {"stray": 1}),
        ("json", again(), ROWS + 1, {"unknown": 1}),
        ("avro", again(), ROWS, {"unknown": 1, "stray": 1}),
    ],
    ids=["all", "some were filtered", "one is missing", "one of another range", "two of a record", "one too many"],
)
def test_files_of_a_transform_that_kept_the_places_of_records_are_compared_by_coverage(
    written: Written, audit: Any, kind: str, plant: Any, emitted: int, counts: dict[str, int]
) -> None:
    report = written.load_files(plant, kind=kind, write=kept(*OF_PLACES), rows_emitted=emitted)
    written.report(replace(report, destination=replace(report.destination, copied=False)))
    assert counted(audit()[1]) == counts


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("parquet", kept()),
        ("json", kept("topic", "partition")),
        ("json", kept(*OF_PLACES, offset=pa.string())),
        ("avro", kept(*OF_PLACES, offset=pa.string())),
    ],
)
def test_of_files_of_a_transform_without_the_places_of_records_only_the_number_of_rows_is_known(
    written: Written, audit: Any, kind: str, write: Any
) -> None:
    report = written.load_files(kind=kind, write=write)
    destination = replace(report.destination, copied=False)
    written.report(replace(report, destination=destination))
    assert counted(audit()[1]) == {"unknown": ROWS}
    written.report(replace(report, destination=destination, rows_emitted=ROWS + 1))
    assert counted(audit()[1]) == {"unknown": ROWS, "missing": 1}


@pytest.mark.parametrize(("pattern", "other"), [("T", " at "), (r"\.\d{3}Z", "Z")])
def test_times_that_are_written_in_another_way_and_formats_that_are_not_read_leave_it_unknown(
    written: Written, audit: Any, pattern: str, other: str
) -> None:
    def in_seconds(rows: pa.Table, path: Path) -> None:
        as_lines(rows, path)
        path.write_text(re.sub(pattern, other, path.read_text()))

    report = written.load_files(kind="json", write=in_seconds)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"unknown": ROWS})
    assert len(found["ranges"][0]["reasons"]) == 1
    written.report(replace(report, destination=replace(report.destination, output=f"csv:{written.folder}/files")))
    assert counted(audit()[1]) == {"unknown": ROWS}


def between(space: str) -> Callable[[pa.Table, Path], None]:
    """Writes JSON with this between its tokens, as Spark does with `pretty`, or another `lineSep`."""

    def write(rows: pa.Table, path: Path) -> None:
        as_lines(rows, path)
        path.write_text("".join(json.dumps(json.loads(line), indent=1) for line in path.read_text().splitlines()))
        path.write_text(path.read_text().replace("\n", space).replace("}{", f"}}{space}{{"))

    return write


@pytest.mark.parametrize("space", [" ", "\n"])
def test_objects_of_json_are_read_whatever_white_space_is_between_them(
    written: Written, audit: Any, monkeypatch: pytest.MonkeyPatch, space: str
) -> None:
    monkeypatch.setitem(FORMATS, "json", between(space))
    report = written.load_files(kind="json", write=kept(*OF_PLACES, offset=pa.string()))
    written.report(replace(report, destination=replace(report.destination, copied=False)))
    assert counted(audit()[1]) == {"unknown": ROWS}


def test_a_copy_in_json_has_lines_of_any_length(written: Written, audit: Any) -> None:
    written.load_files(lambda rows: [rows[0].but(value=b"v" * 5_000_000), *rows[1:]], kind="json", write=as_lines)
    assert counted(audit()[1]) == {"altered": 1}


def deflated(rows: pa.Table, path: Path) -> None:
    as_lines(rows, path)
    path.write_bytes(zlib.compress(path.read_bytes()))


def in_zstandard(rows: pa.Table, path: Path) -> None:
    """Writes Avro that says to be compressed by what is not installed."""
    as_avro(rows, path)
    path.write_bytes(path.read_bytes().replace(b"\x0csnappy", b"\x12zstandard", 1))


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(("name", "write"), [("json.deflate", deflated), ("avro", in_zstandard)])
def test_files_that_cannot_be_uncompressed_here_leave_it_unknown(
    written: Written, audit: Any, name: str, write: Any, copied: bool
) -> None:
    report = written.load_files(kind=name, write=write)
    output = f"{name.partition('.')[0]}:{written.folder}/files"
    to = replace(report.destination, output=output, copied=copied)
    written.report(replace(report, destination=to))
    assert counted(audit()[1]) == {"unknown": ROWS}


def test_a_time_that_python_does_not_have_leaves_files_of_avro_unknown(written: Written, audit: Any) -> None:
    written.load_files(lambda rows: [rows[0].but(timestamp=BASE * 1_000), *rows[1:]], kind="avro", write=as_avro)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"unknown": ROWS})


def test_times_of_the_clock_of_a_zone_as_orc_keeps_them_leave_it_unknown(written: Written, audit: Any) -> None:
    def by_the_clock(rows: pa.Table, path: Path) -> None:
        for name in ("timestamp", "order_time"):
            there = rows.column(name).cast(pa.timestamp("us", "America/New_York"))
            rows = rows.set_column(rows.schema.get_field_index(name), name, pc.local_timestamp(there))
        orc.write_table(rows, path)

    written.load_files(lambda rows: [rows[0].but(value=b"other"), *rows[1:]], kind="orc", write=by_the_clock)
    assert counted(audit()[1]) == {"altered": 1, "unknown": ROWS}


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("name", ["timestamp", "order_time"])
def test_a_micro_or_a_nanosecond_is_another_time(written: Written, audit: Any, name: str, unit: str) -> None:
    def write(rows: pa.Table, path: Path) -> None:
        moment = pa.timestamp(unit, "UTC")
        later = pc.add(rows.column(name).cast(moment).cast(pa.int64()), 1).cast(moment)
        parquet.write_table(rows.set_column(rows.schema.get_field_index(name), name, later), path)

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
def test_faults_that_are_planted_in_a_table_are_found_with_their_places(
    written: Written, audit: Any, lake: str
) -> None:
    written.load_table(LAKES[lake](written.folder), not_its_own)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {**WRONG, "missing": 2, "stray": 2})
    assert all(place["output"].startswith(f"{lake}:") for place in found["places"] if place["what"] != "missing")


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


def all_of(*damages: Callable[[pa.Table], pa.Table]) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: reduce(lambda made, damage: damage(made), damages, rows)


OF_COLUMNS = (with_column("late", True, 5), with_column("timestampType", 1, 6))
BESIDE_IDENTITIES = (
    *(with_column("topic", "b", 7), with_column("partition", 7, 8), with_column("offset", 700, 9)),
    with_column("_orderedkafka", None, 10),
)
NAMED = ("late", "timestampType", "topic", "partition", "offset", "identity")


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("damage", "counts", "whys"),
    [
        (all_of(*OF_COLUMNS, *BESIDE_IDENTITIES), {"altered": 6}, {f"another {name}" for name in NAMED}),
        (with_column("topic", None, None), {"altered": ROWS}, {"another topic"}),
        (with_copies("_orderedkafka"), {"doubled": ROWS, "altered": ROWS}, {"another identity"}),
        (with_copies("_orderedkafka", "offset"), {"unknown": ROWS}, set()),
    ],
    ids=["other columns", "no topics", "copies without identity", "copies that say nothing"],
)
def test_a_column_that_says_other_than_its_identity_and_a_row_without_one_are_told(
    written: Written, audit: Any, lake: str, damage: Any, counts: dict[str, int], whys: set[str]
) -> None:
    write = LAKES[lake](written.folder)
    written.load_table(lambda rows: write(damage(rows)))
    code, found = audit()
    assert (code, counted(found)) == (FOUND, counts)
    assert {each["why"] for each in found["places"] if each["what"] == "altered"} == whys


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_columns_of_a_table_have_their_names_in_any_case(written: Written, audit: Any, lake: str) -> None:
    write = LAKES[lake](written.folder)
    written.load_table(lambda rows: write(rows.rename_columns([name.upper() for name in rows.column_names])))
    code, found = audit()
    assert (code, counted(found), found["ranges"][0]["rows"]) == (0, {}, ROWS)


@pytest.mark.parametrize("kind", FORMATS)
def test_columns_of_a_file_that_are_not_as_their_records_have_them_are_told(
    written: Written, audit: Any, kind: str
) -> None:
    damage = all_of(*OF_COLUMNS, with_column("offset", None, 7), with_column("topic", None, 8))
    written.load_files(kind=kind, write=lambda rows, path: FORMATS[kind](damage(rows), path), batches=1)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"altered": 2, "missing": 2, "stray": 2})


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
        ("delta:shop.orders", "", "does not say where the table is"),
        ("delta:shop.orders", f"file:{written.folder}/nowhere", "cannot be read here"),
        ("iceberg:lake.shop.orders", "", "cannot be read here"),
        ("iceberg:lake.shop.orders", f"file:{written.folder}/nowhere", "cannot be read here"),
    ):
        written.report(replace(report, destination=replace(report.destination, output=output, location=location)))
        code, found = audit()
        assert (code, counted(found)) == (FOUND, {"unknown": ROWS})
        assert why in found["ranges"][0]["reasons"][0]


@pytest.mark.parametrize("lake", ["delta in a catalog", "iceberg"])
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


def test_an_iceberg_table_is_read_back_by_the_catalog_that_pyiceberg_knows(written: Written, tmp_path: Path) -> None:
    at = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}

    def write(rows: pa.Table) -> tuple[str, str, str]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("lake", **at)
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", rows.schema)
        table.append(rows)
        return "iceberg:lake.shop.orders", str(table.metadata.table_uuid), table.location()

    written.load_table(write, again())
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
    assert done.returncode == FOUND, done.stderr
    assert counted(json.loads(done.stdout)) == {"doubled": 1}
