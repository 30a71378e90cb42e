"""What an audit finds in rows that are not those which were promised, and that it finds nothing in those which are."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import says
from support.runs import FIRST, PARTITION, a_range, a_report, place

from airflow_provider_orderedkafka.audit.auditing import OfRange
from airflow_provider_orderedkafka.audit.comparing import Compared, Found, Promised, compare
from airflow_provider_orderedkafka.audit.files import files_of
from airflow_provider_orderedkafka.audit.following import breaks, lost
from airflow_provider_orderedkafka.audit.numbers import Source, hashed, in_order, records, rows
from airflow_provider_orderedkafka.core.documents import Ledger, Report
from airflow_provider_orderedkafka.core.lifecycle import committed, opened, rewound, submitted
from airflow_provider_orderedkafka.core.order.positions import LARGEST, TopicPartition
from airflow_provider_orderedkafka.errors import SettingError

PARTITIONS = (TopicPartition("a", 0), TopicPartition("b", 1))
COPY = Promised("r1", copied=True, headers=True, keep_order="key", emitted=10, placed_by="key")
MADE = replace(COPY, copied=False)
OUTPUTS = (TopicPartition("out", 0), TopicPartition("out", 1))
STAMPS = (10, 30, 20, 40, 50)
"""Of the five records of each partition: the third is late."""


@dataclass(frozen=True)
class Row:
    """A row: of which record it says to be, and what it has."""

    code: int
    offset: int
    ordinal: int = 0
    dead: bool = False
    place: int = 0
    changed: dict[str, int] = field(default_factory=dict)


def source(*, without: Iterable[tuple[int, int]] = (), **facts: Any) -> Source:
    """Five records in each of two partitions, from offset 100 on, but for some."""
    found = records()
    for code in (0, 1):
        for number, stamp in enumerate(STAMPS):
            offset = 100 + number
            if (code, offset) not in set(without):
                found.append(code, offset, stamp, 0, offset % 2 + 1, offset * 10 + code, 7)
    known: dict[str, Any] = {"certain": [100, 100], "read": [5, 5], **facts}
    return Source(
        partitions=PARTITIONS,
        start=np.array([100, 100]),
        stop=np.array([105, 105]),
        certain=np.array(known["certain"]),
        read=np.array(known["read"]),
        columns=in_order(found, np.array([0, 0]), 1_000),
    )


def order_time(offset: int) -> int:
    return max(STAMPS[: offset - 99])


def found(*given: Row, **facts: Any) -> Found:
    """Rows as they lie, one behind the other in each of two places."""
    columns = rows()
    for at, row in enumerate(given):
        stamp = STAMPS[row.offset - 100] if 100 <= row.offset < 105 else 0
        has: dict[str, int] = {
            "time": order_time(row.offset) if 100 <= row.offset < 105 else 0,
            "code": row.code,
            "offset": row.offset,
            "timestamp": stamp,
            "timestampType": 0,
            "key": row.offset % 2 + 1,
            "value": row.offset * 10 + row.code,
            "headers": 7,
            "late": row.offset == 102,
            "other": 0,
            **row.changed,
        }
        columns.append(row.ordinal, row.dead, *has.values(), row.place, at)
    return Found(columns, OUTPUTS, **facts)


def whole() -> list[Row]:
    """A row for each record, in order."""
    every = [Row(code, offset) for code in (0, 1) for offset in range(100, 105)]
    return sorted(every, key=lambda row: (order_time(row.offset), row.code, row.offset))


def counts_of(done: Compared) -> dict[str, int]:
    return {what: count for what, count in done.counts.items() if count}


def places(done: Compared) -> list[tuple[str, str, str]]:
    return [(place.what, place.record, place.output) for place in done.places]


def test_what_was_promised_is_clean_and_late_records_are_counted() -> None:
    done = compare(COPY, source(), found(*whole()))
    assert (counts_of(done), done.rows, done.late, done.dead_letters) == ({}, 10, 2, 0)
    assert OfRange("r1", done).verdict == "clean"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("key", "another key"),
        ("value", "another value"),
        ("headers", "another headers"),
        ("timestamp", "another timestamp"),
        ("time", "another order time"),
        ("timestampType", "another timestampType"),
        ("late", "another late"),
        ("other", "another topic and partition"),
    ],
)
def test_a_row_that_differs_from_its_record_is_found_with_what_differs(name: str, said: str) -> None:
    given = [replace(row, changed={name: 99}) if row == Row(1, 101) else row for row in whole()]
    done = compare(replace(COPY, keep_order="none"), source(), found(*given))
    assert [(place.what, place.record, place.why) for place in done.places] == [("altered", "b[1]@101", said)]
    of = {"time": ["order_time"], "other": ["topic", "partition"], "headers": ["headers.element.value"]}
    named = of.get(name, [name])
    left_out = replace(COPY, keep_order="none", left_out=tuple(named))
    assert counts_of(compare(left_out, source(), found(*given))) == {}


def test_a_row_that_kafka_stamps_has_no_timestamp_to_compare() -> None:
    given = [replace(row, changed={"timestamp": -2}) for row in whole()]
    assert counts_of(compare(COPY, source(), found(*given))) == {}


def test_rows_of_a_key_that_changed_places_are_found_and_those_of_different_keys_may() -> None:
    even = [row for row in whole() if row.offset % 2 == 0]
    odd = [row for row in whole() if row.offset % 2]
    assert counts_of(compare(COPY, source(), found(*even, *odd))) == {}
    swapped = found(odd[1], odd[0], *odd[2:], *even)
    done = compare(COPY, source(), swapped)
    assert places(done) == [("out_of_order", "a[0]@101", "out[0]@1")]
    assert done.places[0].why == "it comes after b[1]@101 at out[0]@0"
    assert counts_of(compare(replace(COPY, keep_order="none"), source(), swapped)) == {}


def test_order_by_partition_is_of_all_rows_in_it_and_each_partition_has_its_own() -> None:
    swapped = whole()
    swapped[0], swapped[2] = swapped[2], swapped[0]
    promised = replace(COPY, keep_order="partition", placed_by="row")
    assert counts_of(compare(promised, source(), found(*swapped)))["out_of_order"] >= 1
    split = [replace(row, place=row.code) for row in sorted(whole(), key=lambda row: row.code)]
    assert counts_of(compare(promised, source(), found(*split))) == {}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (Row(-1, 100), "the range does not read that partition"),
        (Row(0, 99), "the range did not read that offset"),
        (Row(0, 105), "the range did not read that offset"),
        (Row(0, 101, 1), "it claims to be row 1 of its record, but a plain copy has only row 0"),
    ],
)
def test_a_row_that_comes_from_nowhere_is_found(row: Row, why: str) -> None:
    done = compare(COPY, source(), found(*whole(), row))
    assert counts_of(done) == {"stray": 1}
    assert done.places[0].why == why


def test_a_row_of_a_record_that_no_reader_sees_is_found() -> None:
    aborted = source(without=[(0, 103)], read=[4, 5])
    done = compare(COPY, aborted, found(*whole()))
    assert places(done) == [("stray", "a[0]@103", "out[0]@6")]


def test_a_dead_letter_stands_for_its_row_and_one_beside_it_is_one_too_many() -> None:
    letters = [replace(row, dead=row == Row(0, 103)) for row in whole()]
    done = compare(COPY, source(), found(*letters))
    assert (counts_of(done), done.dead_letters, done.rows) == ({}, 1, 9)
    both = compare(COPY, source(), found(*whole(), Row(0, 103, -1, dead=True)))
    assert [(place.what, place.record) for place in both.places] == [("doubled", "a[0]@103")]


def test_records_that_are_gone_leave_their_rows_unknown_and_too_few_or_too_many_are_found() -> None:
    gone = source(without=[(0, 100), (0, 101)], certain=[102, 100])
    assert counts_of(compare(COPY, gone, found(*whole()))) == {"unknown": 2}
    few = found(*(row for row in whole() if row != Row(0, 101)))
    assert counts_of(compare(COPY, gone, few)) == {"unknown": 1, "missing": 1}
    early = [replace(row, changed={"time": 20}) if row == Row(0, 104) else row for row in whole()]
    assert counts_of(compare(COPY, gone, found(*early)))["altered"] == 1
    fewer_read = source(without=[(0, 100), (0, 101)], certain=[102, 100], read=[4, 5])
    assert counts_of(compare(COPY, fewer_read, found(*whole()))) == {"unknown": 1, "stray": 1}


def test_records_that_compaction_took_are_unknown_too_and_without_a_count_nothing_is_claimed() -> None:
    compacted = source(without=[(0, 102)], certain=[LARGEST, 100], read=[-1, 5])
    assert counts_of(compare(COPY, compacted, found(*whole()))) == {"unknown": 1}
    without = found(*(row for row in whole() if row != Row(0, 102)))
    assert counts_of(compare(COPY, compacted, without)) == {"unknown": 1}


def test_of_a_source_that_was_made_anew_only_the_number_of_records_is_known() -> None:
    nothing = [(code, offset) for code in (0, 1) for offset in range(100, 105)]
    other = source(without=nothing, certain=[LARGEST, LARGEST])
    done = compare(COPY, other, found(*whole()))
    assert counts_of(done) == {"unknown": 10}
    assert OfRange("r1", done).verdict == "unknown"
    assert counts_of(compare(COPY, other, found(*whole(), Row(0, 102)))) == {"unknown": 10, "doubled": 1}
    assert counts_of(compare(COPY, other, found(*whole()[1:]))) == {"unknown": 9, "missing": 1}
    uncounted = replace(other, read=np.array([-1, -1]))
    assert counts_of(compare(COPY, uncounted, found(*whole()[1:]))) == {"unknown": 10}


def test_what_may_have_been_taken_from_the_output_is_not_missing_and_what_is_beyond_is() -> None:
    rest = whole()[3:]
    assert counts_of(compare(COPY, source(), found(*rest, taken=3))) == {"unknown": 3}
    assert counts_of(compare(COPY, source(), found(*rest, taken=1))) == {"unknown": 1, "missing": 2}
    assert counts_of(compare(COPY, source(), found(*rest, taken=None))) == {"unknown": 3}


def test_of_what_a_transform_made_each_record_may_have_no_row_or_several_without_a_gap() -> None:
    several = [Row(0, 100), Row(0, 100, 1), Row(0, 100, 2), Row(1, 104)]
    assert counts_of(compare(replace(MADE, emitted=4), source(), found(*several))) == {}
    gap = compare(replace(MADE, emitted=4), source(), found(several[0], several[2], several[3]))
    assert [(place.what, place.record) for place in gap.places] == [("missing", "rows before row 2 of a[0]@100")]
    assert counts_of(gap) == {"missing": 1}
    last = compare(replace(MADE, emitted=4), source(), found(*several[:3]))
    assert counts_of(last) == {"missing": 1}
    assert says(last.places[0].why, "4 rows ... 3")
    more = compare(replace(MADE, emitted=4), source(), found(*several, Row(0, 101)))
    assert counts_of(more) == {"stray": 1}


@pytest.mark.parametrize("rows", [10, 5, 0])
def test_where_the_report_is_not_certain_of_its_rows_nothing_proves_that_all_are_there(rows: int) -> None:
    done = compare(replace(MADE, certain=False), source(), found(*whole()[:rows]))
    assert counts_of(done) == {"unknown": max(10 - rows, 1)}
    assert OfRange("r1", done).verdict == "unknown"


def moved(*rows: Row) -> list[Row]:
    return [replace(row, place=1) if row in rows else row for row in whole()]


@pytest.mark.parametrize(
    ("promised", "facts", "counts"),
    [
        (COPY, {}, {"out_of_order": 1}),
        (replace(COPY, keep_order="partition"), {}, {"out_of_order": 1}),
        (MADE, {}, {"out_of_order": 1}),
        (replace(COPY, keep_order="none"), {}, {}),
        (COPY, {"grown": True}, {"unknown": 1}),
        (replace(COPY, placed_by=""), {}, {"unknown": 1}),
        (replace(MADE, placed_by="row"), {}, {"unknown": 1}),
    ],
)
def test_a_row_apart_from_the_others_of_its_key_is_told_unless_it_may_be_there(
    promised: Promised, facts: dict[str, Any], counts: dict[str, int]
) -> None:
    done = compare(promised, source(), found(*moved(Row(0, 102)), **facts))
    assert counts_of(done) == counts
    assert places(done) == [("out_of_order", "a[0]@102", "out[1]@3")] * counts.get("out_of_order", 0)
    by_key = [replace(row, place=row.offset % 2) for row in whole()]
    assert counts_of(compare(promised, source(), found(*by_key, **facts))) == {}


def test_rows_that_name_their_partition_have_to_lie_in_the_one_that_their_record_has() -> None:
    by_row = replace(COPY, placed_by="row")
    there = [replace(row, place=row.code) for row in whole()]
    assert counts_of(compare(by_row, source(), found(*there))) == {}
    astray = [replace(row, place=0) if row == Row(1, 103, place=1) else row for row in there]
    done = compare(by_row, source(), found(*astray))
    assert [(each.what, each.record, each.why) for each in done.places] == [
        ("altered", "b[1]@103", "another partition")
    ]


def test_an_empty_key_may_lie_anywhere_as_some_partitioners_take_it_for_none() -> None:
    empty = [replace(row, changed={"key": hash(b"")}) for row in moved(Row(0, 102))]
    assert counts_of(compare(MADE, source(), found(*empty))) == {"unknown": 1}


def test_rows_that_name_no_record_or_no_range_leave_it_open() -> None:
    assert counts_of(compare(replace(MADE, emitted=5), source(), found(*whole()[:4], nameless=1))) == {"unknown": 1}
    assert counts_of(compare(COPY, source(), found(*whole(), silent=3))) == {"unknown": 3}


def test_so_many_places_are_kept_of_each_finding_and_all_are_counted() -> None:
    done = compare(COPY, source(), found(), most=3)
    assert (counts_of(done), len(done.places)) == ({"missing": 10}, 3)
    assert any(says(line, "7 ... missing") for line in OfRange("r1", done).lines())


def a_load() -> tuple[Ledger, dict[str, Report | None]]:
    """Three ranges of ten offsets each, committed one after the other."""
    ledger = FIRST
    reports: dict[str, Report | None] = {}
    for revision in range(3):
        loaded = a_range(f"r{revision + 1}", revision=revision, start=10 * revision, end=10 * revision + 10)
        report = a_report(loaded, attempt=1)
        ledger = committed(
            submitted(opened(ledger, loaded.id, "d/a"), "c", "here"), loaded, report, "d/a", now=revision
        )
        reports[loaded.id] = report
    return ledger, reports


def replanned(report: Report | None, **changes: Any) -> Report:
    assert report is not None
    return replace(report, range=replace(report.range, **changes))


def breaks_between(ledger: Ledger, reports: dict[str, Report | None]) -> list[tuple[str, str, int, str]]:
    return [(each.range_id, each.what, each.offsets, each.at) for each in breaks(ledger, reports)]


def test_ranges_that_follow_each_other_are_as_the_ledger_says() -> None:
    ledger, reports = a_load()
    assert (breaks_between(ledger, reports), lost(ledger, reports)) == ([], {})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"r2": {"start": place(13)}}, [("r2", "missing", 3, f"{PARTITION}@10")]),
        ({"r2": {"start": place(8)}}, [("r2", "doubled", 2, f"{PARTITION}@8")]),
        ({"r3": {"start": place(10), "ledger_revision": 1}}, [("r3", "doubled", 10, f"{PARTITION}@10")]),
        ({"r3": {"ledger_revision": 7}}, [("r3", "unknown", 1, "")]),
    ],
    ids=["a hole", "an overlap", "loaded twice", "moved by nobody knows whom"],
)
def test_a_range_that_does_not_begin_where_the_one_before_has_stopped_is_told(
    changes: dict[str, Any], expected: list[tuple[str, str, int, str]]
) -> None:
    ledger, reports = a_load()
    wrong = reports | {name: replanned(reports[name], **how) for name, how in changes.items()}
    assert breaks_between(ledger, wrong) == expected


def test_a_ledger_that_stands_behind_the_last_range_is_told_and_one_that_a_person_has_moved_is_not() -> None:
    ledger, reports = a_load()
    assert breaks_between(replace(ledger, place=place(35)), reports) == [("r3", "missing", 5, f"{PARTITION}@30")]
    moved = rewound(ledger, place(100), "me", "why", 9, topics={})
    later = a_report(a_range("r4", revision=4, start=100, end=110), attempt=1)
    assert breaks_between(moved, {**reports, "r4": later}) == []


@pytest.mark.parametrize("left", [{}, {"r2": None}])
def test_a_range_that_the_ledger_has_and_whose_folder_or_report_is_gone_is_told(left: dict[str, None]) -> None:
    ledger, reports = a_load()
    del reports["r2"]
    here = {**reports, **left}
    assert [(name, rows) for name, (rows, _) in lost(ledger, here).items()] == [("r2", 10)]
    assert breaks_between(ledger, here) == []
    begun = submitted(opened(ledger, "r4", "d/a"), "c", "here")
    assert [*lost(begun, here)] == ["r2", "r4"]


def damaged(file: bytes) -> dict[str, bytes]:
    middle = len(file) // 2
    return {
        "other bytes": b"nonsense that is no file of any format",
        "a head alone": file[:4],
        "cut off within its head": file[:30],
        "cut off": file[:-7],
        "other bytes in its middle": file[:middle] + bytes([file[middle] ^ 0xFF]) + file[middle + 1 :],
    }


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_a_file_of_avro_that_is_damaged_is_named_whatever_its_reader_says_of_it(tmp_path: Path, codec: str) -> None:
    written, schema = BytesIO(), {"type": "record", "name": "row", "fields": [{"name": "key", "type": "bytes"}]}
    rows = [{"key": number.to_bytes(50, "big")} for number in range(2_000)]
    fastavro.writer(written, schema, rows, codec=codec)
    manifest = tmp_path / "_orderedkafka" / "range" / "1.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"files": ["rows.avro"]}')

    def read(content: bytes) -> int:
        (tmp_path / "rows.avro").write_bytes(content)
        return sum(batch.num_rows for _, batch in files_of("avro", str(tmp_path), "range", copied=True))

    assert read(written.getvalue()) == 2_000
    for how, content in damaged(written.getvalue()).items():
        if codec == "null" and how == "other bytes in its middle":  # another value, which the comparison finds
            assert read(content) == 2_000
            continue
        with pytest.raises(SettingError, match=r"rows\.avro'"):
            read(content)


CHANGED = ("time", "timestamp", "timestampType", "key", "value", "headers", "late", "other")
damages = st.lists(
    st.tuples(
        st.sampled_from(["drop", "double", "swap", "move", "rename", *CHANGED]), st.integers(0, 9), st.integers(0, 9)
    ),
    max_size=4,
)


def damage(rows: list[Row], what: str, one: int, other: int) -> list[Row]:
    one, other = one % len(rows), other % len(rows)
    row = rows[one]
    match what:
        case "drop" if len(rows) > 1:
            return rows[:one] + rows[one + 1 :]
        case "double":
            return [*rows[:other], row, *rows[other:]]
        case "swap":
            swapped = list(rows)
            swapped[one], swapped[other] = rows[other], row
            return swapped
        case "move":
            changed = replace(row, place=(row.place + 1) % len(OUTPUTS))
        case "rename":
            changed = replace(row, code=rows[other].code, offset=rows[other].offset, changed=row.changed)
        case _:
            changed = row if what == "drop" else replace(row, changed={**row.changed, what: 9})
    return [*rows[:one], changed, *rows[one + 1 :]]


def as_promised(rows: list[Row]) -> bool:
    """The rows of each key in one place, in their order, as their records have them."""
    kept = True
    for parity in (0, 1):
        mine = [replace(row, place=0) for row in rows if row.offset % 2 == parity]
        kept &= mine == [row for row in whole() if row.offset % 2 == parity]
        kept &= len({row.place for row in rows if row.offset % 2 == parity}) == 1
    return kept


@given(damages)
def test_whatever_is_done_to_rows_they_are_clean_only_where_they_are_as_they_were_promised(done) -> None:
    rows = whole()
    for each in done:
        rows = damage(rows, *each)
    assert (not counts_of(compare(COPY, source(), found(*rows)))) == as_promised(rows)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_counts_as_its_bytes_whatever_they_are(kind: pa.DataType) -> None:
    raw = pa.array([b"", "\u00e9".encode(), b"\xff", None], pa.binary())
    assert hashed(raw.cast(kind, safe=False)) == hashed(raw) == [*map(hash, raw.to_pylist())]
