"""Explain the next range of a load before it is loaded: where it would start and end, how much that is, and why.

Reads the ledger and Kafka; writes nothing. Needs Airflow's configuration (AIRFLOW_HOME) and the load's DAG file.
"""

import argparse
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.documents import Ledger, Range
from airflow_provider_orderedkafka.core.progress import moment
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.load import OrderedLoad

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.steps import First

SHOWN = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dag_file", type=Path, help="the DAG file that defines the load")
    parser.add_argument("load", nargs="?", help="the load's name, where the file defines several")
    parser.add_argument("--json", action="store_true", help="the range document itself")


def run(arguments: argparse.Namespace) -> int:
    """Plan, and say what came out."""
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
    from airflow_provider_orderedkafka.steps import NothingToLoad

    load = _the_load(arguments.dag_file, arguments.load)
    hook = OrderedKafkaHook(load.kafka_conn_id)
    ledger = _ledger(load) or _imagined(load, hook.first_look(load))
    try:
        planned = hook.plan(load, ledger, "a plan")
    except NothingToLoad as reason:
        print(reason)
        return 0
    verdict = hook.verdict(load, ledger)
    print(planned.to_text() if arguments.json else explained(planned, verdict.reason, waits=not verdict.run))
    return 0


def explained(planned: Range, reason: str, *, waits: bool) -> str:
    """A range, for people."""
    start, end = planned.start.offsets, planned.end.offsets
    lines = [
        f"load      {planned.load}, from revision {planned.ledger_revision}",
        f"now       a run would {'wait' if waits else 'start'}: {reason}",
        f"range     {planned.reason}",
        f"cut       {moment(planned.end.floor.time) if planned.end.floor.time >= 0 else 'none'}",
        *(f"  {p.at(start[p])} to {offset}: {offset - start[p]:,} offsets" for p, offset in list(end.items())[:SHOWN]),
    ]
    more = len(end) - SHOWN
    return "\n".join(lines + ([f"  and {more:,} more partitions"] if more > 0 else []))


def _the_load(path: Path, name: str | None) -> OrderedLoad:
    if not path.is_file():
        raise SettingError(f"there is no DAG file {str(path)!r}: name the file that defines the load")
    found = {value.name: value for value in runpy.run_path(str(path)).values() if isinstance(value, OrderedLoad)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    known = ", ".join(map(repr, sorted(found))) or "none"
    raise SettingError(
        f"{str(path)!r} defines the loads {known}, found {name!r}: name one of them, and keep it in "
        "a variable of the file"
    )


def _ledger(load: OrderedLoad) -> Ledger | None:
    from airflow_provider_orderedkafka.errors import LifecycleError
    from airflow_provider_orderedkafka.ledger import LedgerStore
    from airflow_provider_orderedkafka.metadata import MetadataStore

    try:
        return LedgerStore(load.name, MetadataStore(load.name)).ledger()
    except LifecycleError:  # Airflow has not seen the DAG yet: this would be its first look
        return None


def _imagined(load: OrderedLoad, first: "First") -> Ledger:
    from airflow_provider_orderedkafka.context import now_ms
    from airflow_provider_orderedkafka.core.moves import first_look

    return first_look(
        load.name, instance="imagined", home_dag=None, place=first.place, topics=first.topics, now=now_ms()
    )
