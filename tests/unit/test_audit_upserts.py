"""What an audit finds in a table of upserts that is not the fold of its topics, and nothing in one that is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import says
from support.runs import a_range, a_report

from airflow_provider_orderedkafka.audit.comparing import Compared, Found
from airflow_provider_orderedkafka.audit.files import CannotReadError
from airflow_provider_orderedkafka.audit.numbers import Source, in_order, records
from airflow_provider_orderedkafka.audit.upserts import ROW, compare_upserts
from airflow_provider_orderedkafka.core.commits import TableVersion
from airflow_provider_orderedkafka.core.documents import Changes, Destination, Ends, Report, Upsert
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import LARGEST, Offsets, TopicPartition

PARTITIONS = (TopicPartition("a", 0), TopicPartition("b", 1))


def counts_of(done: Compared) -> dict[str, int]:
    return {what: count for what, count in done.counts.items() if count}


Change = tuple[int, int, int, int | None]
"""In which partition, when, of which key, and its value; None deletes it."""

changes = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(1, 4), st.sampled_from([None, 5, 6])), max_size=8
)


class History:
    """Changes that a load has read in some ranges, and the table that it should have made of them."""

    def __init__(self, *ranges: Sequence[Change]) -> None:
        self.reports: list[Report | None] = []
        self.sources: dict[str, Source] = {}
        self.rows: dict[int, dict[str, int]] = {}
        self.older: list[dict[str, int]] = []
        ends, floor = [0, 0], 0
        for turn, each in enumerate(ranges):
            start, found, placed, times = [*ends], records(), [], [floor, floor]
            for code, time, key, value in each:
                times[code] = max(times[code], time)
                found.append(code, ends[code], time, 0, key, hash(value), 7)
                placed.append((times[code], code, ends[code], key, value, time))
                ends[code] += 1
            self.reports.append(upserted(turn, start, ends))
            columns = in_order(found, np.array([floor, floor]), 1_000)
            begin, end = np.array(start), np.array(ends)
            self.sources[f"r{turn}"] = Source(PARTITIONS, begin, end, begin, np.array([-1, -1]), columns)
            floor = max(times) + 1
            for change in sorted(placed, key=lambda change: change[:3]):
                self.take(f"r{turn}", *change)

    def take(self, name: str, time: int, code: int, offset: int, key: int, value: int | None, stamp: int) -> None:
        row = dict.fromkeys(ROW, 0) | {"time": time, "code": code, "offset": offset, "held": hash((key,)), "key": key}
        row |= {"value": hash(value), "live": value is not None, "named": hash((name, "i"))}
        of_value = {"timestamp": stamp, "timestampType": 0, "headers": 7, "late": stamp < time}
        row |= of_value if value else dict.fromkeys(of_value, -2)
        self.older += [self.rows[key]] if key in self.rows else []
        self.rows[key] = row

    def compared(self, rows: Iterable[dict[str, int]] | None = None, *names: str) -> dict[str, Compared]:
        given = [*(self.rows.values() if rows is None else rows)]
        columns = {name: np.array([int(row[name]) for row in given], np.int64) for name in ROW}
        table = Found({**columns, "at": np.arange(len(given))}, ("t",))
        audited = [each for each in self.reports if each is not None and (each.range_id in names or not names)]
        return compare_upserts(audited, self.reports, lambda each: self.sources[each.range_id], rows=lambda _: table)

    def counts(self, rows: Iterable[dict[str, int]] | None = None, *names: str) -> dict[str, int]:
        return dict(sum((Counter(counts_of(each)) for each in self.compared(rows, *names).values()), Counter()))


def upserted(turn: int, start: Sequence[int], stop: Sequence[int], stage: str = "next", **how: Any) -> Report:
    begin, end = (Place(Offsets(dict(zip(PARTITIONS, each, strict=True))), Floor()) for each in (start, stop))
    upsert = Upsert("orders/i", stage if turn else "first")
    planned = replace(a_range(f"r{turn}", turn, 0, 0), start=begin, end=end, upsert=upsert, topics={"a": "i", "b": "i"})
    to, after = Destination("delta:t", copied=True, upsert=("key",)), Ends(table=TableVersion("t", turn))
    return replace(a_report(planned, attempt=1), **{"destination": to, "after": after, **how})


DAMAGES = ("older", "drop", "double", "live", "value", "time", "named", "offset")


def without_deleted(rows: Iterable[dict[str, int]]) -> list[dict[str, int]]:
    return sorted((row for row in rows if row["live"]), key=lambda row: row["held"])


@given(changes, changes, st.sampled_from(DAMAGES), st.data())
def test_a_table_of_upserts_is_clean_only_where_it_is_what_the_changes_make(first, second, what, data) -> None:
    history = History(first, second)
    assert history.counts() == history.counts(None, "r1") == {}
    rows = [dict(row) for row in history.rows.values()]
    if not rows:
        return
    row = data.draw(st.sampled_from(rows))
    if what == "older":
        row |= data.draw(st.sampled_from([each for each in history.older if each["held"] == row["held"]] or [row]))
    elif what in {"drop", "double"}:
        rows = [each for each in rows if each is not row] if what == "drop" else [*rows, row]
    else:
        row[what] = not row[what] if what == "live" else row[what] + 1
    same = without_deleted(rows) == without_deleted(history.rows.values()) and what in {"older", "drop"}
    assert (not history.counts(rows)) == (same and not (what == "older" and rows != [*history.rows.values()]))


LIVE = [(0, 1, 1, 5), (1, 2, 2, 5), (0, 3, 3, None), (1, 4, 4, 5)]


@pytest.mark.parametrize(
    ("then", "row", "found"),
    [
        ([(0, 5, 1, 6)], 1, {"stale": 1}),
        ([(0, 5, 1, None)], 1, {"resurrected": 1}),
        ([(0, 5, 3, 6)], 3, {"undeleted": 1}),
        ([(1, 5, 1, 6)], 1, {"stale": 1}),
    ],
)
def test_a_row_that_is_not_of_the_last_change_of_its_key_is_found_with_that(then, row, found) -> None:
    history = History(LIVE, then)
    was = History(LIVE).rows[row]
    done = history.compared({**history.rows, row: was}.values())["r0"]
    assert counts_of(done) == found
    last = history.rows[row]
    assert says(done.places[0].why, PARTITIONS[last["code"]].at(last["offset"]))
    assert (done.rows, history.compared()["r1"].rows) == (3, int(then[0][3] is not None))


def test_of_records_that_are_gone_a_table_of_upserts_is_unknown_and_what_lies_in_the_same_partition_is_known() -> None:
    history = History(LIVE, [(0, 5, 1, 6)])
    source = history.sources["r0"]
    kept = {name: column[source.columns["code"] == 1] for name, column in source.columns.items()}
    history.sources["r0"] = replace(source, certain=np.array([LARGEST, 0]), columns=kept)
    assert history.counts() == {"unknown": 2}
    stale = {**history.rows, 1: History(LIVE).rows[1]}
    assert history.counts(stale.values()) == {"unknown": 2, "stale": 1}
    lacks = [row for key, row in history.rows.items() if key != 2]
    assert history.counts(lacks) == {"unknown": 3}  # a record that is gone may have deleted it


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({0: None}, "first range"),
        ({1: upserted(1, [3, 2], [3, 2])}, "b[1]@2 ... begins ... stopped"),
        ({1: upserted(1, [2, 2], [3, 2], after=Ends(table=TableVersion("u", 1)))}, "several tables"),
    ],
    ids=["no first one", "a hole", "two tables"],
)
def test_a_table_of_upserts_whose_ranges_are_not_all_known_is_not_compared(changes, said) -> None:
    history = History(LIVE, [(0, 5, 1, 6)], [(0, 6, 1, 6)])
    history.reports = [each for at, was in enumerate(history.reports) if (each := changes.get(at, was)) is not None]
    with pytest.raises(CannotReadError):
        history.compared()


def test_rows_of_ranges_beside_a_replay_are_unknown_and_those_of_none_are_found_otherwise() -> None:
    history = History(LIVE, [(0, 5, 1, 6)])
    ahead = {**history.rows[1], "offset": 7}
    assert history.counts([*history.rows.values(), ahead | {"held": 9}]) == {"ahead": 1}
    replayed = upserted(2, [0, 0], [2, 2], "again", ended_at=2, started_at=2)
    history.reports.append(replace(replayed, range=replace(replayed.range, kind="replay")))
    assert history.counts() == {}
    assert history.counts([*history.rows.values(), ahead | {"held": 9}]) == {"unknown": 1}
    again = [row | {"anew": 1} for row in history.rows.values()]
    assert history.counts(again) == {"unknown": 1}  # the others were replayed


def test_of_rows_that_a_transform_made_keys_and_places_are_compared_and_the_rest_is_unknown() -> None:
    history = History(LIVE, [(0, 5, 1, 6)])
    history.reports = [
        replace(each, destination=replace(each.destination, copied=False), changes=Changes(**of))
        for each, of in zip(history.reports, ({"inserted": 3, "deleted": 1}, {"updated": 1}), strict=True)
    ]
    rows = [*history.rows.values()]
    assert history.counts() == {"unknown": 4}
    assert history.counts([*rows, rows[0]]) == {"unknown": 5, "doubled": 1}
    assert history.counts([*rows, rows[0] | {"held": 9, "offset": 7}]) == {"unknown": 5, "ahead": 2}
    assert history.counts([row for row in rows if not row["live"]]) == {"unknown": 1, "missing": 2}


def made(report: Report, name: str | None = None, *, called: str = "", complete: bool = True, **of: int) -> Report:
    """The report of a range whose rows a transform made."""
    to, name = Destination("delta:t", called=called, upsert=("key",)), name or report.range_id
    loaded = replace(report.range, id=name)
    return replace(report, range_id=name, range=loaded, destination=to, complete=complete, changes=Changes(**of))


@pytest.mark.parametrize(
    "others",
    [
        [made(upserted(0, [0, 0], [2, 1]), "given up", complete=False, inserted=2)],
        [made(upserted(0, [0, 0], [2, 1]), "given up", inserted=2)],
        [made(upserted(1, [0, 0], [2, 2], "again"), inserted=2)],
        [made(upserted(1, [0, 0], [2, 2], "again"), called="r1-again-1", updated=2)],
        [None],
    ],
    ids=["given up in part", "given up as a whole", "rewound", "reloaded", "without a report"],
)
def test_keys_that_a_range_may_have_made_that_was_given_up_or_loaded_again_are_not_ahead(others) -> None:
    history = History(LIVE)
    [loaded] = history.reports
    history.reports = [*others, made(loaded, inserted=1, updated=2)]
    assert history.counts(None, "r0") == {"unknown": 4}
