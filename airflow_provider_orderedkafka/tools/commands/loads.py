"""Show how each load stands, one a line: its state, how far it is behind, its last success, and why it failed.

As on the page in Airflow, the lag is that of the load's last look at Kafka; SEEN says how long ago that was. --live
asks Kafka now. Needs Airflow 3.3 or newer, and its configuration (AIRFLOW_HOME).
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...compat.airflow import has_asset_state
from ...core.codec import Time, for_programs
from ...core.documents import Changes
from ...core.notation.spelling import counted, shown_duration
from ...core.notation.starts import Moment
from ...core.status import RangeRow, Status
from ...errors import OrderedKafkaError, SettingError
from .. import BLUE, GREEN, RED, YELLOW, painted
from .at_airflow import airflow, statuses, store_of

HEAD: Final = ("LOAD", "STATE", "BEHIND", "OFFSETS", "SEEN", "LAST SUCCESS")

_LOADED: Final = "loaded, not committed"
_ORDER: Final = ("failed", "loading", _LOADED, "planned", "behind", "idle", "row limit reached", "not run yet")
_COLOURS: Final = {"failed": RED, "loading": BLUE, "behind": GREEN, "row limit reached": YELLOW}


@dataclass(frozen=True, slots=True)
class LoadState:
    """How a load stands; None where it is not known, or where a load has none, as one in intervals has no lag.

    One without an open range is `behind` if there is something to load, and `idle` otherwise.
    `behind_ms` is how long ago the time was up to which all is loaded, `seen_at` when Kafka was last looked at,
    `share` how much of the open range is loaded. `error` says why the open range failed, or the newest run that has
    none, `changes` what upserts of the last success changed.
    """

    load: str
    state: str
    behind_ms: int | None = None
    behind_offsets: int | None = None
    seen_at: Time | None = None
    share: float | None = None
    last_success_at: Time | None = None
    error: str = ""
    changes: Changes = Changes()  # noqa: RUF009 - it never changes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--failed", action="store_true", help="only those that failed")
    parser.add_argument("--live", action="store_true", help="ask Kafka now how far each load is behind")
    parser.add_argument("--json", action="store_true", help="print a list of JSON objects")


def run(arguments: argparse.Namespace) -> int:
    with airflow():
        if not has_asset_state():
            raise SettingError(
                "this Airflow does not keep the status of loads (3.3 or newer does): look at the page of Kafka loads, "
                "or ask for one load with `orderedkafka ledger show`"
            )
        found = statuses()
        now = time.time_ns() // 1_000_000
        loads = [state_of(name, status, now) for name, status in found.items()]
        if arguments.live:
            loads = [_live(each, found[each.load], now) for each in loads]
    loads = [each for each in in_order(loads) if each.state == "failed" or not arguments.failed]
    print(json.dumps(for_programs(loads)) if arguments.json else as_table(loads, now))
    return 0


def _live(state: LoadState, status: Status | None, now: int) -> LoadState:
    """The state with what Kafka says now; as it was without a ledger, and with the error where none is said."""
    from ...hooks.ordered_kafka import OrderedKafkaHook

    if status is None or status.revision is None:
        return state
    try:
        if (ledger := store_of(state.load).ledger()) is None:
            return state
        left = sum(OrderedKafkaHook(status.kafka_conn_id).left(ledger.place).values())
    except OrderedKafkaError as error:
        return replace(state, error=state.error or str(error))
    loaded_to = ledger.place.floor.lowest
    return replace(
        state,
        state=_behind_or_idle(left) if state.state in {"behind", "idle"} else state.state,
        behind_ms=0 if not left else max(now - loaded_to, 0) if loaded_to >= 0 else None,
        behind_offsets=left,
        seen_at=now,
    )


def in_order(loads: Iterable[LoadState]) -> list[LoadState]:
    """What failed comes first, and what has not run yet last."""
    return sorted(loads, key=lambda each: (_ORDER.index(each.state), each.load))


def state_of(load: str, status: Status | None, now: int) -> LoadState:
    if status is None:
        return LoadState(load, "not run yet")
    open_ = next((row for row in reversed(status.ranges) if row.open), None)
    committed = [
        (row.ended_at, row.counts.changes) for row in status.ranges if row.state == "committed" and row.ended_at
    ]
    done, changes = max(committed, key=lambda each: each[0], default=(None, Changes()))
    lag = status.lag
    if lag is not None and lag.at_least and not lag.offsets:
        lag = None  # Kafka was not asked: as on the page, nothing is said to be loaded to its end
    waits = lag is not None and lag.offsets > 0
    return LoadState(
        load,
        _state(status, open_),
        behind_ms=(max(now - lag.loaded_to, 0) if waits else 0) if lag and lag.loaded_to is not None else None,
        behind_offsets=None if lag is None else lag.offsets,
        seen_at=None if lag is None else lag.at,
        share=None if open_ is None or open_.progress is None else open_.progress.share,
        last_success_at=done,
        error=open_.error if open_ is not None else status.stop.error if status.stop is not None else "",
        changes=changes,
    )


def _state(status: Status, open_: RangeRow | None) -> str:
    if open_ is not None:
        return _LOADED if open_.state == "loaded" else open_.state
    if status.stop is not None:
        return "failed"
    if status.row_limit is not None and status.rows >= status.row_limit:
        return "row limit reached"
    return _behind_or_idle(0 if status.lag is None else status.lag.offsets)


def _behind_or_idle(offsets: int) -> str:
    return "behind" if offsets else "idle"


def as_table(loads: Sequence[LoadState], now: int) -> str:
    """The loads for people: a line for each, and at its end the error that it has."""
    rows = [_cells(each, now) for each in loads]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    lines = ["  ".join(map(str.ljust, HEAD, widths)).rstrip()]
    for each, row in zip(loads, rows, strict=True):
        name, state, *others = map(str.ljust, row, widths)
        error = painted(" ".join(each.error.split()), RED) if each.error else ""
        lines.append("  ".join([name, painted(state, _COLOURS.get(each.state)), *others, error]).rstrip())
    return "\n".join([*lines, "", _summary(loads)])


def _summary(loads: Sequence[LoadState]) -> str:
    if not loads:
        return "no load: one appears here once Airflow has parsed a DAG with ordered_load()"
    failed = sum(each.state == "failed" for each in loads)
    return f"{counted(len(loads), 'load')}, {failed} failed"


def _cells(each: LoadState, now: int) -> tuple[str, ...]:
    state = each.state if each.share is None else f"{each.state} {each.share:.0%}"
    behind = "-" if each.behind_ms is None else shown_duration(each.behind_ms // 1_000 * 1_000)
    offsets = "-" if each.behind_offsets is None else f"{each.behind_offsets:,}"
    seen = "-" if each.seen_at is None else _ago(each.seen_at, now)
    done = each.last_success_at
    success = "none yet" if done is None else f"{_ago(done, now)} ({str(Moment(done))[:16]}Z){each.changes.words}"
    return each.load, state, behind, offsets, seen, success


def _ago(at: int, now: int) -> str:
    return f"{shown_duration(max(now - at, 0) // 1_000 * 1_000)} ago"
